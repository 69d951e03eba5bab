// Cells of the table of runs, and the table of their configs.

import {h, notice, s, visible} from './dom.js';
import {dashOf, swatch} from './chart.js';
import {join} from './names.js';
import {value} from './paint.js';

/** Runs that are drawn at a time, at most. */
export const MOST = 8;

export const look = (index) => ({color: `--run-${index % MOST + 1}`, dash: dashOf(index)});

/** What the comparison page shows of an evaluation, or of a comparison. */
export const comparedBy = (run) => run.compares.length ?
  {a: run.compares[0], b: run.compares[1],
    runs: run.compares.length > 2 ? join(run.compares) : null} :
  {a: run.mode === 'evaluate' && run.model && `${run.run}:${run.model.split(', ')[0]}`};

export function sortBy(runs, order) {
  const [name, sign] = order.startsWith('-') ? [order.slice(1), -1] : [order, 1];
  const keys = new Map(runs.map((run) => [run, name === 'success' ? last(run)?.mean ?? null :
    name === 'chance' ? Object.values(run.chance)[0]?.mean ?? null : run[name]]));
  runs.sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (x === y) return a.run < b.run ? -1 : 1;
    if (x === null) return 1;
    if (y === null) return -1;
    return (x < y ? -1 : 1) * sign;
  });
}

export function state(run) {
  const kind = {live: 'good', finished: '', stopped: 'warn', failed: 'bad'}[run.status];
  return h('span', {class: `chip ${kind}`, title: run.reason}, run.status);
}

export function steps(run) {
  if (run.steps === null) return '–';
  return run.planned && run.planned !== run.steps ?
    `${value(run.steps)} / ${value(run.planned)}` : value(run.steps);
}

const last = (run) => Object.values(run.success).filter((rate) => rate.mean !== null).at(-1);

/** Success before and now, as numbers and as a picture of the intervals. */
export function success(run) {
  const rates = Object.entries(run.success).filter(([, rate]) => rate.mean !== null);
  if (!rates.length) return '–';
  if (run.mode === 'evaluate') {
    return rates.slice(0, 2).map(([name, rate]) => h('div', {class: 'rate'},
        picture([rate]), visible(`${name} ${rateText(rate)}`)))
        .concat(rates.length > 2 ? h('div', {class: 'soft', title: rates.slice(2)
            .map(([name, rate]) => `${name}: ${rateText(rate)}`).join('\n')},
        `and ${rates.length - 2} more`) : []);
  }
  // The environments of a mixture stand below each other.
  const members = [...new Set(rates.map(([name]) => name.split('/')[1] || ''))];
  return members.map((member) => progress(member, rates.filter(([name]) =>
    (name.split('/')[1] || '') === member)));
}

function progress(member, rates) {
  const trained = rates.filter(([name]) => !name.startsWith('untrained'));
  const [first] = trained.length ? trained : rates;
  const [name, now] = rates.at(-1);
  const after = first[0] === name ? null : now;
  return h('div', {class: 'rate', title: rates.map(([each, rate]) =>
    `${each}: ${rateText(rate)}`).join('\n')},
  picture(after ? [first[1], after] : [first[1]]), member && `${member} `,
  after ? `${rate3(first[1].mean)} → ${rateText(after)}` : rateText(first[1]));
}

/** Success of random actions and of the expert on the panel; of a mixture, of each. */
export function chanceOf(run) {
  const members = [...new Set(Object.keys(run.chance).map((name) => name.split('/')[1] || ''))];
  const of = (kind, member) => {
    const rate = run.chance[member ? `${kind}/${member}` : kind];
    return h('span', {title: rate && `${kind}: ${rateText(rate)}`}, rate ? rate3(rate.mean) : '–');
  };
  return members.length ? members.map((member) => h('div', {}, member && visible(`${member} `),
      of('random', member), ' · ', of('expert', member))) : '–';
}

const rate3 = (number) => number.toFixed(3);
const rateText = (rate) => (rate.low === null ? rate3(rate.mean) :
  `${rate3(rate.mean)} [${rate3(rate.low)}, ${rate3(rate.high)}]`) + ` n=${rate.n}`;

/** Intervals on a line from 0 to 1, the last one strongest. */
function picture(rates) {
  return s('svg', {viewBox: '0 0 84 14', class: 'interval', 'aria-hidden': 'true'},
      s('line', {x1: 2, x2: 82, y1: 7, y2: 7, class: 'track'}),
      rates.map(({mean, low, high}, index) => s('g',
          {class: index === rates.length - 1 ? 'now' : 'then'},
          low !== null && s('line', {x1: 2 + 80 * low, x2: 2 + 80 * high, y1: 7, y2: 7}),
          s('circle', {cx: 2 + 80 * mean, cy: 7, r: 3}))));
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours) return `${hours} h ${String(minutes).padStart(2, '0')} min`;
  return seconds >= 60 ? `${minutes} min` : `${Math.round(seconds)} s`;
}

export function age(time) {
  if (time === null) return '–';
  return h('time', {dataset: {since: time}, title: new Date(1000 * time).toLocaleString()},
      since(time));
}

/** Brings the ages below an element up to date. */
export function tick(element) {
  for (const each of element.querySelectorAll('time')) {
    each.textContent = since(Number(each.dataset.since));
  }
}

function since(time) {
  const seconds = Math.max(0, Date.now() / 1000 - time);
  if (seconds < 5) return 'now';
  return seconds > 2 * 86400 ? `${Math.floor(seconds / 86400)} d ago` :
    `${duration(seconds)} ago`;
}

export function configTable({runs, rows, config, fields, without}) {
  if (without.length) {
    return notice(`No config.json can be read in ${without.join(', ')}.`);
  }
  const shown = config ?
    Object.entries(config).map(([name, each]) => ({name, values: [each], missing: []})) : rows;
  if (!shown.length) return notice(`All ${fields} fields are equal.`);
  return [
    !config && h('p', {class: 'soft'}, `${rows.length} of ${fields} fields differ.`),
    h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, 'Field'),
        runs.map((run, index) => h('th', {}, swatch(look(index)), visible(run))))),
    h('tbody', {}, shown.map(({name, values, missing}) => h('tr', {},
        h('td', {}, h('code', {}, visible(name))), values.map((each, index) =>
          h('td', {class: 'value'}, missing.includes(index) ?
            h('span', {class: 'soft'}, 'no such field') : visible(JSON.stringify(each))))))))];
}
