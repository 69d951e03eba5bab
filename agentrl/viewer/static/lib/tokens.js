// The tokens of an episode, coloured by one of the arrays beside them.

import {h, replace, visible} from './dom.js';

// name: [label, scale]. A scale is 'both' (around 0), 'ratio' (around 1), 'down'
// (0 is best, below is worse), 'up' (from 0), or 'group' (numbers that only name).
export const COLUMNS = {
  advantages: ['advantage', 'both'],
  returns: ['return', 'both'],
  values: ['value', 'both'],
  ratio: ['ratio (last / old)', 'ratio'],
  difference: ['old − sampler', 'both'],
  sampler_logprobs: ['sampler log-probability', 'down'],
  old_logprobs: ['old log-probability', 'down'],
  last_logprobs: ['last log-probability', 'down'],
  ref_logprobs: ['reference log-probability', 'down'],
  teacher_logprobs: ['teacher log-probability', 'down'],
  entropy: ['entropy', 'up'],
  reward: ['reward', 'both'],
  shaped_rewards: ['shaped reward', 'both'],
  turn_groups: ['turn group', 'group'],
};

/** The columns of /api/tokens, and the difference of two of them. */
export function columnsOf(found) {
  const {columns} = found;
  const old = columns.old_logprobs;
  if (!old) return columns;
  return {...columns, difference: old.map((x, i) =>
    x === null || columns.sampler_logprobs[i] === null ? null :
      x - columns.sampler_logprobs[i])};
}

/** A number as it reads back: null is none. */
export function exact(value) {
  return value === null || value === undefined ? '–' : String(value);
}

/**
 * The tokens of a window, to be chosen by pointer or arrow keys.
 *
 * `found`: of /api/tokens; `onChoose(index)`: of a token in the window;
 * `heading`: element of a turn's heading, by what is above. Returns
 * `{element, color(name), choose(index)}`.
 */
export function tokenView(found, onChoose, {heading = 'h3'} = {}) {
  const columns = columnsOf(found);
  const first = found.from;
  const cells = found.ids.map((id, i) => {
    const text = found.texts ? found.texts[i] : ` ${id} `;
    return h('span', {
      class: found.mask[i] ? 'on' : 'off', 'data-index': first + i,
    }, shown(text));
  });
  const blocks = found.spans
      .filter((span) => span.stop > first && span.start < first + cells.length)
      .map((span) => h('section', {class: span.turn === null ? 'given' : 'sampled'},
          h(heading, {}, spanTitle(span, found)),
          h('div', {class: 'flow', dir: 'ltr'},
              cells.slice(Math.max(span.start - first, 0), span.stop - first))));
  let chosen = null;
  const choose = (index) => {
    const cell = cells[index - first];
    if (!cell) return;
    chosen?.classList.remove('chosen');
    chosen = cell;
    cell.classList.add('chosen');
    onChoose(index);
  };
  const element = h('div', {
    class: 'tokens-flow', tabindex: 0, role: 'application',
    'aria-label': 'Tokens; arrow keys choose one',
    onpointerover: (event) => {
      const index = event.target.dataset?.index;
      if (index !== undefined) choose(Number(index));
    },
    onclick: (event) => {
      const index = event.target.dataset?.index;
      if (index !== undefined) choose(Number(index));
    },
    onkeydown: (event) => {
      const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10}[event.key];
      if (by === undefined) return;
      event.preventDefault();
      const at = chosen ? Number(chosen.dataset.index) : first - Math.sign(by);
      const next = Math.min(Math.max(at + by, first), first + cells.length - 1);
      choose(next);
      cells[next - first].scrollIntoView({block: 'nearest'});
    },
  }, blocks);
  const color = (name) => {
    const scale = scaleOf(name, columns[name], found.mask);
    cells.forEach((cell, i) => {
      const value = columns[name]?.[i];
      cell.classList.remove('up', 'down', 'none');
      cell.style.removeProperty('--v');
      if (!found.mask[i] || !columns[name]) return;
      if (value === null || value === undefined) {
        cell.classList.add('none');
        return;
      }
      const strength = scale.strength(value);
      cell.classList.add(strength < 0 ? 'down' : 'up');
      cell.style.setProperty('--v', `${Math.round(85 * Math.abs(strength))}%`);
    });
    return scale;
  };
  return {element, color, choose};
}

function spanTitle(span, found) {
  const count = `${span.stop - span.start} tokens`;
  if (span.turn === null) {
    return [span.start === 0 ? 'Prompt' : 'Observation',
      h('span', {class: 'soft'}, ` ${count}, mask 0`)];
  }
  const version = found.weight_versions[span.turn];
  return [`Turn ${span.turn + 1}`, h('span', {class: 'soft'},
      ` ${count} sampled${version === undefined ? '' : ` by weights ${version}`}`)];
}

// Blanks that would vanish at the end of a line are marked.
function shown(text) {
  return visible(text).replace(/\n/g, '⏎\n').replace(/\t/g, '⇥').replace(/^ $/, '␣');
}

/** Four digits of a number, however small it is. */
export const figure = (x) => String(Number(x.toPrecision(4)));

/** How strong a value's colour is, in [-1, 1], the ends and the largest in words. */
export function scaleOf(name, values, mask) {
  const kind = COLUMNS[name]?.[1] || 'both';
  const seen = (values || []).filter((x, i) => mask[i] && x !== null);
  const largest = Math.max(0, ...seen.map(Math.abs));
  const clip = (x) => Math.min(Math.max(x, -1), 1);
  if (kind === 'ratio') {
    // Full colour where a ratio leaves [0.8, 1.2].
    return {strength: (x) => clip((x - 1) / 0.2), low: '0.8', middle: '1', high: '1.2', largest};
  }
  if (name === 'difference') {
    // Full colour where it would move a ratio by a tenth.
    return {strength: (x) => clip(x / 0.1), low: '−0.1', middle: '0', high: '0.1', largest};
  }
  if (kind === 'group') {
    return {strength: (x) => 0.15 + 0.7 * ((x * 0.618) % 1), low: '', middle: '', high: ''};
  }
  const top = largest || 1;
  return {
    strength: (x) => clip(x / top), middle: '0', largest,
    low: kind === 'up' ? '' : figure(-top), high: kind === 'down' ? '' : figure(top),
  };
}

/** A row of names and values of one token. */
export function valuesOf(found, index) {
  const columns = columnsOf(found);
  const i = index - found.from;
  const rows = [
    ['token', found.texts ? JSON.stringify(found.texts[i]) : '–'],
    ['id', String(found.ids[i])],
    ['index', String(index)],
    ['mask', String(found.mask[i])],
  ];
  for (const [name, [label]] of Object.entries(COLUMNS)) {
    if (columns[name]) rows.push([label, exact(columns[name][i]), name]);
  }
  return rows;
}

/** A table of all numbers of a window. */
export function tokenTable(found) {
  const columns = columnsOf(found);
  const names = Object.keys(COLUMNS).filter((name) => columns[name] && name !== 'difference');
  return h('table', {class: 'numbers'},
      h('thead', {}, h('tr', {}, ['index', 'id', 'token', 'mask', ...names].map(
          (name) => h('th', {scope: 'col'}, COLUMNS[name]?.[0] || name)))),
      h('tbody', {}, found.ids.map((id, i) => h('tr', {class: found.mask[i] ? '' : 'soft'},
          h('td', {class: 'num'}, found.from + i), h('td', {class: 'num'}, id),
          h('td', {}, found.texts ? shown(found.texts[i]) : ''),
          h('td', {class: 'num'}, found.mask[i]),
          names.map((name) => h('td', {class: 'num', 'data-column': name},
              exact(columns[name][i])))))));
}

/** Fills `box` with the values of a token. */
export function showValues(box, found, index) {
  replace(box, h('dl', {class: 'facts'}, valuesOf(found, index).map(
      ([label, value, name]) => [
        h('dt', {}, label), h('dd', {'data-column': name}, visible(value))])));
}
