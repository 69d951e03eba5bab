// Line charts and stacked areas on a canvas.
//
// What can be read off by pointing is also there for the keyboard: a chart takes
// the focus, arrows move along x, Home and End go to its ends, Enter picks.

import {h, replace, visible} from './dom.js';
import {colorsOf, FONT, MARGIN, paint, stack, value} from './paint.js';

const DASHES = [[], [], [], [], [7, 3], [7, 3], [2, 3], [2, 3]];

/** The dashes of the line of a run: colour alone does not tell eight apart. */
export const dashOf = (index) => DASHES[index % DASHES.length];

/**
 * A chart; `{element, show(data), mark(x), png(title, legend, file)}`.
 *
 * Options: `height`; `label`, its name for a screen reader; `onPick(series,
 * index)`; `onHover(x)`, also with null.
 *
 * `data`: `{series, stages, xLabel, xFormat, xRange, yRange, stacked}`. A series
 * is `{name, color, dash, x, y, low, high, raw, points, hollow}`: `color` is a CSS
 * variable, `low` and `high` a band or null, `raw` a fainter line behind or null,
 * `points` true to mark each point. `thin`: true for a line behind the others,
 * which is not read off; `notes`: words for each point. A stage is `{x0, x1, label}`.
 * `levels`: `{y, label}` of each horizontal line.
 */
export function chart({height = 190, label, onPick, onHover, signal}) {
  const canvas = h('canvas', {'aria-hidden': 'true'});
  const cross = h('div', {class: 'cross', hidden: true});
  const dots = h('div', {class: 'dots'});
  const tip = h('div', {class: 'tip', hidden: true, 'aria-live': 'polite'});
  const element = h('div', {
    class: 'chart', tabindex: 0, role: 'group', 'aria-label': label,
    style: {height: `${height}px`},
  }, canvas, cross, dots, tip);
  let data = {series: [], stages: []};
  let frame = null;
  let position = null; // the index along `stops` that is pointed at
  let stops = [];

  function draw() {
    const width = element.clientWidth;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    frame = paint(context, data, {width, height, colors: colorsOf(element)});
    stops = [...new Set(data.series.flatMap((each) => each.thin ? [] : each.x))]
        .filter((x) => x !== null).sort((a, b) => a - b);
    if (position !== null) point(Math.min(position, stops.length - 1), null);
  }

  function point(index, y) {
    if (!frame || !stops.length) return leave();
    position = Math.max(0, Math.min(index, stops.length - 1));
    const x = stops[position];
    mark(x);
    const found = nearest(data, x);
    const colors = colorsOf(element);
    replace(dots, found.map(({series, at, top}) => h('span', {style: {
      left: `${frame.toX(series.x[at])}px`, top: `${frame.toY(top)}px`,
      background: colors(series.color)}})));
    replace(tip, describe(found, x, data));
    tip.hidden = false;
    const left = frame.toX(x);
    const flip = left + 14 + tip.offsetWidth > element.clientWidth;
    tip.style.left = `${Math.max(0, flip ? left - 12 - tip.offsetWidth : left + 12)}px`;
    chosen = y === null ? found[0] : found.reduce((best, each) =>
      Math.abs(frame.toY(each.top) - y) < Math.abs(frame.toY(best.top) - y) ?
        each : best, found[0]);
    onHover?.(x);
  }
  let chosen = null;

  function mark(x) {
    cross.hidden = x === null || !frame || x < frame.x0 || x > frame.x1;
    if (!cross.hidden) cross.style.left = `${frame.toX(x)}px`;
  }

  function leave() {
    position = null;
    cross.hidden = tip.hidden = true;
    replace(dots);
    onHover?.(null);
  }

  element.addEventListener('pointermove', (event) => {
    if (!frame || !stops.length) return;
    const box = element.getBoundingClientRect();
    point(closest(stops, frame.fromX(event.clientX - box.left)),
        event.clientY - box.top);
  });
  element.addEventListener('pointerleave', leave);
  element.addEventListener('blur', leave);
  element.addEventListener('click', () => {
    if (chosen && position !== null) onPick?.(chosen.series, chosen.at);
  });
  element.addEventListener('keydown', (event) => {
    const last = stops.length - 1;
    const to = {
      ArrowRight: position === null ? 0 : position + 1,
      ArrowLeft: position === null ? last : position - 1,
      Home: 0, End: last,
    }[event.key];
    if (to !== undefined) point(to, null);
    else if (event.key === 'Escape') leave();
    else if (event.key === 'Enter' && chosen && position !== null) {
      onPick?.(chosen.series, chosen.at);
    } else return;
    event.preventDefault();
  });
  const resize = new ResizeObserver(draw);
  resize.observe(element);
  const theme = new MutationObserver(draw);
  theme.observe(document.documentElement, {attributeFilter: ['data-theme']});
  matchMedia('(prefers-color-scheme: dark)')
      .addEventListener('change', draw, {signal});
  signal.addEventListener('abort', () => {
    resize.disconnect();
    theme.disconnect();
  });

  return {
    element,
    mark,
    show(next) {
      data = next;
      draw();
    },
    png: (title, legend, file) => png(data, title, legend, file, element),
  };
}

/** Of each series, the point that is nearest to x, if it is about there. */
function nearest({series, stacked}, x) {
  const tops = stacked ? stack(series) : null;
  const found = [];
  series.forEach((each, k) => {
    if (!each.x.length || each.thin) return;
    const at = closest(each.x, x);
    const step = each.x.length > 1 ?
      (each.x.at(-1) - each.x[0]) / (each.x.length - 1) : 0;
    if (Math.abs(each.x[at] - x) > step / 2 + 1e-9 || each.y[at] === null) return;
    found.push({series: each, at, top: stacked ? tops[k][at] : each.y[at]});
  });
  return found;
}

function describe(found, x, data) {
  const format = data.xFormat || value;
  const rows = found.map(({series, at}) => h('tr', {},
      h('td', {}, swatch(series)), h('td', {class: 'name'}, visible(series.name)),
      h('td', {class: 'num'}, value(series.y[at])),
      series.low && h('td', {class: 'num soft'}, series.low[at] === null ? '' :
        `[${value(series.low[at])}, ${value(series.high[at])}]`),
      series.notes && h('td', {class: 'soft'}, series.notes[at])));
  if (data.stacked && found.length > 1) {
    const total = found.reduce((sum, {series, at}) => sum + series.y[at], 0);
    rows.push(h('tr', {}, h('td'), h('td', {class: 'name'}, 'sum'),
        h('td', {class: 'num'}, value(total))));
  }
  return [h('div', {class: 'at'}, `${data.xLabel || 'x'} ${format(x)}`),
    h('table', {}, h('tbody', {}, rows))];
}

/** A piece of a series' line, for legends. */
export function swatch({color, dash}) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  made.setAttribute('viewBox', '0 0 20 8');
  made.setAttribute('class', 'swatch');
  made.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  Object.entries({x1: 1, x2: 19, y1: 4, y2: 4, 'stroke-width': 3,
    'stroke-dasharray': (dash || []).join(' ')})
      .forEach(([name, each]) => line.setAttribute(name, each));
  line.style.setProperty('stroke', `var(${color})`);
  made.append(line);
  return made;
}

/** A PNG of a chart with its title and legend, as a download of this name. */
function png(data, title, legend, file, element) {
  const [width, height, top] = [900, 420, 52];
  const canvas = document.createElement('canvas');
  canvas.width = 2 * width;
  canvas.height = 2 * (height + top);
  const context = canvas.getContext('2d');
  context.scale(2, 2);
  const colors = colorsOf(element);
  context.fillStyle = colors('--paper');
  context.fillRect(0, 0, width, height + top);
  context.fillStyle = colors('--ink');
  context.font = `600 15px ${FONT.slice(5)}`;
  context.textBaseline = 'top';
  context.fillText(title, MARGIN.left, 10);
  context.font = FONT;
  let left = MARGIN.left;
  for (const {name, color, dash} of legend) {
    context.strokeStyle = colors(color);
    context.lineWidth = 3;
    context.setLineDash(dash || []);
    context.beginPath();
    context.moveTo(left, 40);
    context.lineTo(left + 18, 40);
    context.stroke();
    context.fillText(visible(name), left + 23, 34);
    left += 23 + context.measureText(visible(name)).width + 16;
  }
  context.setLineDash([]);
  context.translate(0, top);
  paint(context, data, {width, height, colors});
  canvas.toBlob((blob) => save(blob, file));
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function closest(sorted, x) {
  let best = 0;
  sorted.forEach((each, i) => {
    if (Math.abs(each - x) < Math.abs(sorted[best] - x)) best = i;
  });
  return best;
}
