// Drawing a chart on a canvas: scales, ticks, bands, lines and areas.

export const MARGIN = {left: 46, right: 10, top: 18, bottom: 32};
export const FONT = '11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

/** Draws a chart; returns its scales. */
export function paint(context, data, {width, height, colors}) {
  const {series, stages = [], stacked} = data;
  const [x0, x1] = data.xRange || extent(series.flatMap((each) => each.x), false);
  const tops = stacked ? stack(series) : [];
  // Where single runs are drawn, they are the range: a band of two or three seeds can be
  // many times as high, and is cut.
  const runs = series.some(({thin}) => thin);
  const around = ({low, high, raw}) => [...runs ? [] : [...low || [], ...high || []], ...raw || []];
  const values = stacked ? [0, ...tops.flat()] :
    [...(data.levels || []).map(({y}) => y), ...series.flatMap((each) => [...each.y, ...around(each)])];
  const [y0, y1] = data.yRange || extent(values, true);
  context.font = FONT;
  const rows = ticks(y0, y1, 4);
  const widest = Math.max(0, ...rows.map((y) => context.measureText(tick(y, rows)).width));
  const inner = {
    left: Math.max(MARGIN.left, Math.ceil(widest) + 9), right: width - MARGIN.right,
    top: MARGIN.top, bottom: height - MARGIN.bottom,
  };
  const toX = (x) => inner.left + (x - x0) / (x1 - x0) * (inner.right - inner.left);
  const toY = (y) => inner.bottom - (y - y0) / (y1 - y0) * (inner.bottom - inner.top);
  const fromX = (at) => x0 + (at - inner.left) / (inner.right - inner.left) * (x1 - x0);
  context.fillStyle = colors('--paper');
  context.fillRect(0, 0, width, height);
  drawStages(context, stages, {toX, inner, x0, x1, colors});
  drawAxes(context, data, {x0, x1, rows, toX, toY, inner, colors});
  context.save();
  context.beginPath();
  context.rect(inner.left - 4, inner.top - 4, inner.right - inner.left + 8,
      inner.bottom - inner.top + 8);
  context.clip();
  if (stacked) drawStack(context, series, tops, {toX, toY, colors});
  else {
    // Bands and raw lines of many runs are fainter, or they would hide the curves.
    const read = series.filter((each) => !each.thin);
    const faint = Math.min(1, 3 / Math.max(1, read.length));
    for (const each of series) drawBand(context, each, {toX, toY, colors, faint});
    for (const each of series.filter(({thin}) => thin)) drawThin(context, each, {toX, toY, colors});
    drawLevels(context, data.levels || [], {toY, inner, colors});
    for (const each of read) drawLine(context, each, {toX, toY, colors, faint});
  }
  context.restore();
  return {toX, toY, fromX, x0, x1};
}

function drawStages(context, stages, {toX, inner, x0, x1, colors}) {
  stages.forEach((stage, index) => {
    const left = toX(Math.max(stage.x0, x0));
    const right = toX(Math.min(stage.x1, x1));
    if (right <= left) return;
    context.fillStyle = colors(index % 2 ? '--stage-odd' : '--stage-even');
    context.fillRect(left, inner.top, right - left, inner.bottom - inner.top);
    // Where the words do not fit, the number alone.
    const label = [stage.label, stage.label.split(' ')[0]].find(
        (text) => context.measureText(text).width < right - left - 4);
    if (!label) return;
    context.fillStyle = colors('--soft');
    context.textAlign = 'left';
    context.textBaseline = 'bottom';
    context.fillText(label, left + 2, inner.top - 3);
  });
}

function drawAxes(context, data, {x0, x1, rows, toX, toY, inner, colors}) {
  context.strokeStyle = colors('--line');
  context.fillStyle = colors('--soft');
  context.lineWidth = 1;
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (const y of rows) {
    const at = Math.round(toY(y)) + 0.5;
    context.beginPath();
    context.moveTo(inner.left, at);
    context.lineTo(inner.right, at);
    context.stroke();
    context.fillText(tick(y, rows), inner.left - 5, at);
  }
  context.textBaseline = 'top';
  const across = ticks(x0, x1, Math.max(2, Math.floor((inner.right - inner.left) / 80)));
  const format = data.xFormat || ((x) => tick(x, across));
  for (const x of across) {
    context.textAlign = toX(x) > inner.right - 12 ? 'right' : 'center';
    context.fillText(format(x), toX(x), inner.bottom + 4);
  }
  context.textAlign = 'center';
  context.fillText(data.xLabel || '', (inner.left + inner.right) / 2, inner.bottom + 18);
}

/** Dashed lines across, with their words at the right end where there is room. */
function drawLevels(context, levels, {toY, inner, colors}) {
  context.strokeStyle = context.fillStyle = colors('--soft');
  context.lineWidth = 1;
  context.textAlign = 'right';
  const written = [];
  for (const {y, label} of levels) {
    const at = Math.round(toY(y)) + 0.5;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(inner.left, at);
    context.lineTo(inner.right, at);
    context.stroke();
    if (written.some((other) => Math.abs(other - at) < 14)) continue;
    written.push(at);
    const above = at - inner.top > 16;
    context.textBaseline = above ? 'bottom' : 'top';
    context.fillText(label, inner.right - 2, above ? at - 2 : at + 3);
  }
  context.setLineDash([]);
}

function drawBand(context, {x, low, high, color, points}, {toX, toY, colors, faint}) {
  // Between points nothing was measured: each of them has a bar instead.
  if (!low || points) return;
  const kept = x.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null);
  if (!kept.length) return;
  context.fillStyle = context.strokeStyle = colors(color);
  if (kept.length === 1) { // a band of no width: a bar
    bar(context, toX(x[kept[0]]), toY(low[kept[0]]), toY(high[kept[0]]));
    return;
  }
  context.globalAlpha = 0.16 * faint;
  context.beginPath();
  for (const i of kept) context.lineTo(toX(x[i]), toY(high[i]));
  for (const i of kept.reverse()) context.lineTo(toX(x[i]), toY(low[i]));
  context.fill();
  context.globalAlpha = 1;
}

function bar(context, x, low, high) {
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, low);
  context.lineTo(x, high);
  context.moveTo(x - 3, low);
  context.lineTo(x + 3, low);
  context.moveTo(x - 3, high);
  context.lineTo(x + 3, high);
  context.stroke();
}

function stroke(context, x, values, {toX, toY}) {
  context.beginPath();
  let pen = false;
  values.forEach((value, i) => {
    if (value === null) pen = false; // not a finite number: a gap
    else if (pen) context.lineTo(toX(x[i]), toY(value));
    else {
      context.moveTo(toX(x[i]), toY(value));
      pen = true;
    }
  });
  context.stroke();
}

/** One of many lines behind the others; steps that it lacks are no gaps. */
function drawThin(context, {x, y, color}, scales) {
  const kept = y.map((_, i) => i).filter((i) => y[i] !== null);
  context.strokeStyle = scales.colors(color);
  context.lineWidth = 0.8;
  context.globalAlpha = 0.25;
  stroke(context, kept.map((i) => x[i]), kept.map((i) => y[i]), scales);
  context.globalAlpha = 1;
}

function drawLine(
    context, {x, y, low, high, raw, color, dash, points, hollow},
    {toX, toY, colors, faint}) {
  context.strokeStyle = context.fillStyle = colors(color);
  context.lineJoin = 'round';
  if (raw) {
    context.lineWidth = 1;
    context.globalAlpha = 0.3 * faint;
    stroke(context, x, raw, {toX, toY});
    context.globalAlpha = 1;
  }
  context.lineWidth = 1.6;
  context.setLineDash(dash || []);
  stroke(context, x, y, {toX, toY});
  context.setLineDash([]);
  y.forEach((value, i) => {
    const alone = y[i - 1] == null && y[i + 1] == null;
    if (value === null || !(points || alone)) return;
    if (points && low && low[i] !== null) bar(context, toX(x[i]), toY(low[i]), toY(high[i]));
    context.beginPath();
    context.arc(toX(x[i]), toY(value), points ? 3 : 2, 0, 7);
    if (hollow) context.fillStyle = colors('--paper');
    context.fill();
    if (hollow) context.stroke();
  });
}

/** Sums `[series][point]` of each series and those below it. */
export function stack(series) {
  const sums = [];
  series.forEach(({y}, k) => {
    sums.push(y.map((value, i) => (value || 0) + (k ? sums[k - 1][i] : 0)));
  });
  return sums;
}

function drawStack(context, series, tops, {toX, toY, colors}) {
  for (let k = series.length - 1; k >= 0; k--) {
    const {x, color} = series[k];
    context.fillStyle = colors(color);
    context.beginPath();
    x.forEach((at, i) => context.lineTo(toX(at), toY(tops[k][i])));
    for (let i = x.length - 1; i >= 0; i--) {
      context.lineTo(toX(x[i]), toY(k ? tops[k - 1][i] : 0));
    }
    context.fill();
    if (x.length === 1) { // an area of no width: a bar
      const below = toY(k ? tops[k - 1][0] : 0);
      const above = toY(tops[k][0]);
      context.fillRect(toX(x[0]) - 4, above, 8, below - above);
    }
  }
}

export function colorsOf(element) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}

/** The least and the greatest value, with room above and below. */
function extent(values, room) {
  let [low, high] = [Infinity, -Infinity];
  for (const each of values) {
    if (each === null || each === undefined) continue;
    if (each < low) low = each;
    if (each > high) high = each;
  }
  if (low > high) return [0, 1];
  if (low === high) {
    const wide = Math.abs(low) * 0.1 || 1;
    return room ? [low - wide, high + wide] : [low, low + 1];
  }
  if (!room) return [low, high];
  const wide = (high - low) * 0.06;
  // A count, a share or a time begins at 0, not below it.
  return [low >= 0 && low - wide < 0 ? 0 : low - wide, high + wide];
}

function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power)
      .find((each) => each >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    found.push(i * step);
  }
  return found;
}

function tick(number, all) {
  const step = all.length > 1 ? all[1] - all[0] : Math.abs(number) || 1;
  const most = Math.max(...all.map(Math.abs));
  if (most >= 1e5 || (most > 0 && most < 1e-3)) return short(number);
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  // 0.25 has a digit more than its size says.
  const exact = Math.abs(step * 10 ** digits % 1) > 1e-6 ? digits + 1 : digits;
  return number.toFixed(Math.min(exact, 6));
}

/** `1234567` as `1.23M`, `0.000012` as `1.2e-5`. */
export function short(number) {
  const size = Math.abs(number);
  if (size >= 1e9) return `${trim((number / 1e9).toPrecision(3))}G`;
  if (size >= 1e6) return `${trim((number / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${trim((number / 1e3).toPrecision(3))}k`;
  if (size && size < 1e-3) return number.toExponential(1);
  return trim(number.toPrecision(4));
}

const trim = (text) => text.includes('.') && !text.includes('e') ?
  text.replace(/\.?0+$/, '') : text;

/** A value as a person reads it: four digits; a dash for none. */
export function value(number) {
  if (number === null || number === undefined) return '–';
  if (Number.isInteger(number)) return number.toLocaleString('en');
  const size = Math.abs(number);
  if (size < 1e-3 || size >= 1e6) return number.toExponential(3);
  return trim(number.toPrecision(4));
}

/** The unit that suits seconds up to `longest`: `{label, unit}`, unit in seconds. */
export function timeAxis(longest) {
  const [unit, name] = longest > 3 * 3600 ? [3600, 'hours'] :
    longest > 180 ? [60, 'minutes'] : [1, 'seconds'];
  return {label: `${name} since the first step`, unit};
}
