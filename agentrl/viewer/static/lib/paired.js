// Figures of a paired comparison, as agentrl/evaluation/compare/pairing.py has them.

import {h, number, s, visible} from './dom.js';

/** The first turn whose actions differ; null: none. */
export function divergence(first, second) {
  const most = Math.max(first.length, second.length);
  for (let i = 0; i < most; i++) {
    if (first[i]?.action.text !== second[i]?.action.text) return i;
  }
  return null;
}

/** Head cells of columns of words and of numbers. */
export const heads = (words, numbers) => [
  words.map((label) => h('th', {}, label)),
  numbers.map((label) => label ? h('th', {class: 'num'}, label) : h('td'))];

export function figures(rows) {
  return h('table', {}, h('thead', {}, h('tr', {}, heads(['Subtask'], [
    'A', 'B', 'A − B, 95% interval', '', 'p', 'p (Holm)', 'Won', 'Lost', 'Pairs',
    'Detectable']))),
  h('tbody', {}, rows.map((row) => h('tr', {},
      h('td', {}, visible(row.subtask)), h('td', {class: 'num'}, rate(row.mean_a)),
      h('td', {class: 'num'}, rate(row.mean_b)),
      h('td', {class: 'num'}, interval(row)), h('td', {}, picture(row)),
      h('td', {class: 'num'}, pValue(row)), h('td', {class: 'num'}, pValue(row, row.p_holm)),
      h('td', {class: 'num'}, row.won ?? '–'), h('td', {class: 'num'}, row.lost ?? '–'),
      h('td', {class: 'num'}, number(row.pairs)),
      h('td', {class: 'num'}, rate(row.detectable))))));
}

export const rate = (value) => value === null ? '–' : value.toFixed(3);
const signed = (value) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`;

export function interval(row) {
  if (row.difference === null) return '–';
  return row.low === null ? signed(row.difference) :
    `${signed(row.difference)} [${signed(row.low)}, ${signed(row.high)}]`;
}

/** A p-value as `comparison.p_words` says it: never rounded to 0. */
export function pValue(row, value = row.p_value) {
  if (value === null) return '–';
  if (row.test === 'permutation' && row.p_value <= 1e-6) return `≤ ${value.toFixed(6)}`;
  if (value === 0) return '< 1e-300';
  if (value >= 0.001) return value.toFixed(4);
  return value >= 0.0001 ? String(Number(value.toPrecision(2))) : value.toExponential(1);
}

/** A sentence's part: 'p = 0.0312', 'p ≤ 0.000001'. */
export function pSaid(row) {
  const words = pValue(row);
  return /^[≤<]/.test(words) ? `p ${words}` : `p = ${words}`;
}

export function testName(row) {
  return row.test === 'mcnemar' ? 'exact McNemar test' :
    row.test === 'permutation' ? 'permutation test over tasks' : 'no test';
}

export function verdict(row) {
  if (row.low === null) return '';
  if (row.low > 0) return 'The interval lies above 0: A is better on tasks like these.';
  if (row.high < 0) return 'The interval lies below 0: B is better on tasks like these.';
  return row.detectable === null ? 'The interval has 0 in it.' :
    `The interval has 0 in it; such a panel shows differences from ${rate(row.detectable)} on.`;
}

/** Random actions and the expert on the same tasks, in words; '' where not evaluated. */
export const chance = (levels) => Object.entries(levels || {})
    .map(([kind, mean]) => `${kind} ${rate(mean)}`).join(' · ');

/** A difference with its interval on a line from -1 to 1. */
export function picture({difference, low, high}) {
  if (difference === null || low === null) return null;
  const x = (value) => 42 + 40 * Math.max(-1, Math.min(1, value));
  return s('svg', {viewBox: '0 0 84 14', class: 'interval', 'aria-hidden': 'true'},
      s('line', {x1: 2, x2: 82, y1: 7, y2: 7, class: 'track'}),
      s('line', {x1: 42, x2: 42, y1: 1, y2: 13, class: 'zero'}),
      s('line', {x1: x(low), x2: x(high), y1: 7, y2: 7,
        class: low > 0 ? 'up' : high < 0 ? 'down' : 'even'}),
      s('circle', {cx: x(difference), cy: 7, r: 3,
        class: low > 0 ? 'up' : high < 0 ? 'down' : 'even'}));
}
