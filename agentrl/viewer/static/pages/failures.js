// Where episodes fail, as heat maps whose cells are lists of episodes, and with
// which words.

import {api, failure, h, notice, number, replace, visible} from '../lib/dom.js';
import {followEvery} from '../lib/live.js';
import {join, split} from '../lib/names.js';
import {change, href} from '../lib/route.js';
import {keep, seen} from '../lib/seen.js';

export const title = 'Failures';
export const keys = ['runs', 'by', 'origin', 'env', 'failed'];

const MOST = 8;
const CAPPED = 5; // this many and more are one column
const GROUPS = [
  ['stage', 'subtask and horizon'], ['subtask', 'subtask'], ['horizon', 'horizon'], ['step', 'steps'], ['run', 'run'],
  ['env', 'environment'],
];
const KINDS = [
  ['stop', 'Why it stopped', ''],
  ['first_reward', 'First reward in turn', ''],
  ['parse_errors', 'Turns without an action', 'its parse failed'],
  ['repeated', 'Repeated actions', 'in answer to an observation that it had answered so before'],
];
const UNIT = '\u001f'; // between the subtask and the horizon of a stage
const LIVE_MS = 3000; // at least, between two updates of a live run

export async function render(root, params, {signal}) {
  const page = new Page(root, params, signal);
  await page.load();
  followEvery(LIVE_MS, () => page.show(page.params), signal);
  return {update: (next) => page.show(next)};
}

class Page {
  constructor(root, params, signal) {
    Object.assign(this, {params, signal, runs: []});
    this.controls = h('div', {class: 'controls'});
    this.unknown = h('div', {role: 'status'});
    this.maps = h('div', {class: 'maps'});
    this.words = h('div', {class: 'words'});
    root.append(h('h1', {}, 'Why it fails'), this.unknown, this.controls, this.maps, this.words);
  }

  get chosen() {
    const asked = split(this.params.runs);
    if (asked.length) return asked.filter((name) => this.runs.includes(name)).slice(0, MOST);
    const before = seen(this.root, this.runs);
    return before.length ? before.slice(0, MOST) : this.runs.slice(0, 1);
  }

  async load() {
    const {runs, root} = await api('runs', {}, {signal: this.signal});
    this.root = root;
    this.runs = runs.sort((a, b) => b.updated - a.updated).map((each) => each.run);
    await this.show(this.params);
  }

  async show(params) {
    this.params = params;
    const run = this.chosen;
    if (params.runs) keep(this.root, run);
    const unknown = split(params.runs).filter((name) => !this.runs.includes(name));
    replace(this.unknown, unknown.length > 0 && notice('There is no such run here: ',
        visible(unknown.join(', ')), '.'));
    if (!run.length && unknown.length) {
      replace(this.controls);
      replace(this.maps);
      replace(this.words);
      return;
    }
    if (!run.length) {
      replace(this.maps, notice('No run is here yet. ', 'Its episodes are counted as they come.'));
      return;
    }
    const asked = {
      run, by: params.by || 'stage', origin: params.origin || 'train', env: params.env,
      failed: params.failed,
    };
    try {
      const words = api('failures/words', asked, {signal: this.signal});
      words.catch(() => {}); // reported below, where it is awaited
      const found = await api('failures', asked, {signal: this.signal});
      if (params !== this.params) return; // changed meanwhile
      this.showControls(asked, found.found);
      this.showMaps(asked, found);
      const ranked = await words;
      if (params === this.params) this.showWords(ranked);
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.maps, failure(error));
    }
  }

  showControls(asked, {env, origin}) {
    const key = document.activeElement?.dataset.key;
    const select = (name, label, values) => h('label', {}, `${label} `, h('select', {
      dataset: {key: name}, onchange: (event) => change({[name]: event.target.value})},
    values.map(([value, text]) => h('option', {value,
      selected: value === (asked[name] || '')}, text))));
    const same = (names) => names.map((name) => [name, name]);
    replace(this.controls,
        asked.run.map((name) => h('span', {class: 'chip'}, visible(name), asked.run.length > 1 &&
          h('button', {type: 'button', class: 'quiet', 'aria-label': `Leave out ${name}`,
            onclick: () => change({runs: join(asked.run.filter((each) => each !== name))})}, '×'))),
        h('select', {'aria-label': 'Add a run', dataset: {key: 'add'},
          disabled: asked.run.length >= MOST, onchange: (event) =>
            change({runs: join([...asked.run, event.target.value])})},
        h('option', {value: ''}, 'Add a run'),
        this.runs.filter((name) => !asked.run.includes(name)).map((name) =>
          h('option', {value: name}, visible(name)))),
        select('by', 'Rows', GROUPS),
        select('origin', 'Episodes', same([...new Set([asked.origin, ...origin])])),
        env.length > 1 && select('env', 'Environment', [['', 'all'], ...same(env)]),
        h('label', {}, h('input', {type: 'checkbox', checked: asked.failed === '1',
          dataset: {key: 'failed'}, onchange: (event) =>
            change({failed: event.target.checked ? '1' : null})}), ' failed ones only'));
    if (key) this.controls.querySelector(`[data-key="${key}"]`)?.focus();
  }

  showMaps(asked, found) {
    if (!found.episodes) {
      replace(this.maps, notice('There are no such episodes. ',
          'Choose others above; a run writes them after each step.'));
      return;
    }
    const scroll = [...this.maps.querySelectorAll('.scroll')].map((each) => each.scrollLeft);
    replace(this.maps, legend(), KINDS.map(([kind, label, more]) => h('section',
        {class: 'map', dataset: {kind}},
        h('h2', {}, label, h('span', {class: 'soft'}, ` ${more}`)),
        h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label},
            heat(kind, asked, found)))));
    this.maps.querySelectorAll('.scroll').forEach((each, i) => each.scrollLeft = scroll[i] || 0);
  }

  showWords({parse_errors: errors, loops, episodes, read}) {
    const part = read < episodes && h('span', {class: 'soft'},
        ` in the newest ${number(read)} of ${number(episodes)} episodes that have any`);
    replace(this.words,
        ranking('Parse errors', part, ['Why no action was found'], errors),
        ranking('Loops', part, ['Action', 'In answer to, again'], loops));
  }
}

function legend() {
  return h('p', {class: 'soft legend'}, 'Colour: share of the row, from none to all; ',
      h('span', {class: 'ramp calm', 'aria-hidden': 'true'}), ' as it should be, ',
      h('span', {class: 'ramp heat', 'aria-hidden': 'true'}), ' to look at.');
}

/** A heat map: colour is the share of the row. */
function heat(kind, asked, {tables, by, width}) {
  const {rows, columns, counts, solved} = tables[kind];
  // No errors at all, an end by the environment and a reward are nothing to look for.
  const calm = (column) => ({stop: column === 'terminated',
    first_reward: column !== null}[kind] ?? column === 0);
  const shares = counts.map((row) => {
    const total = row.reduce((a, b) => a + b, 0);
    return row.map((count) => count / total);
  });
  return h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, rowTitle(by)),
      h('th', {class: 'num'}, 'episodes'),
      asked.failed !== '1' && h('th', {class: 'num'}, 'solved'),
      columns.map((column) => h('th', {class: 'num'}, columnLabel(kind, column))))),
  h('tbody', {}, rows.map((row, r) => {
    const total = counts[r].reduce((a, b) => a + b, 0);
    const good = solved[r].reduce((a, b) => a + b, 0);
    return h('tr', {}, h('th', {scope: 'row'}, rowLabel(by, row, width)),
        h('td', {class: 'num'}, link(number(total), asked, rowFilter(by, row, width))),
        asked.failed !== '1' &&
          h('td', {class: 'num'}, `${(100 * good / total).toFixed(0)}%`),
        columns.map((column, c) => {
          const count = counts[r][c];
          if (!count) return h('td', {class: 'cell empty'}, '·');
          const share = shares[r][c];
          const color = calm(column) ? '--calm' : '--heat';
          const text = `${number(count)} of ${number(total)} episodes ` +
            `(${(100 * share).toFixed(1)}%), ${number(solved[r][c])} solved`;
          return h('td', {class: 'cell', title: text, style: {background:
            `color-mix(in srgb, var(${color}) ${(50 * share).toFixed(1)}%, var(--paper))`}},
          link(number(count), asked, {...rowFilter(by, row, width), ...columnFilter(kind, column)}));
        }));
  })));
}

function link(text, asked, filters) {
  return h('a', {href: href('episodes', {runs: join(asked.run), origin: asked.origin, env: asked.env,
    success: asked.failed === '1' ? '0' : null, ...filters})}, text);
}

const rowTitle = (by) => GROUPS.find(([name]) => name === by)[1];

function rowLabel(by, row, width) {
  if (by === 'stage') {
    const [subtask, horizon] = row.split(UNIT);
    return `${rowLabel('subtask', subtask)}, ${horizon} turns`;
  }
  if (by === 'horizon') return `${row} turns`;
  if (by === 'step') {
    return row === null ? 'no step' : width === 1 ? `${row}` : `${row} to ${row + width - 1}`;
  }
  return row === '' || row === null ? '(none)' : visible(row);
}

function rowFilter(by, row, width) {
  if (by === 'stage') {
    const [subtask, horizon] = row.split(UNIT);
    return {...rowFilter('subtask', subtask), horizon};
  }
  if (by === 'step') return {step: row === null ? 'none' : `${row}..${row + width - 1}`};
  if (by === 'run') return {runs: join([row])};
  return {[by]: row === '' ? 'none' : row};
}

function columnLabel(kind, column) {
  if (kind === 'first_reward') return column === null ? 'never' : `${column}`;
  if (kind === 'stop') return column;
  return column === CAPPED ? `${CAPPED} or more` : `${column}`;
}

function columnFilter(kind, column) {
  if (kind === 'stop') return {stop_reason: column};
  if (column === null) return {[kind]: 'none'};
  const many = column === CAPPED && kind !== 'first_reward';
  return {[kind]: many ? `${CAPPED}..` : `${column}`};
}

function ranking(label, part, heads, found) {
  return h('section', {}, h('h2', {}, label, part),
      found.length ? h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label},
          h('table', {}, h('thead', {}, h('tr', {}, h('th', {class: 'num'}, 'Turns'),
              h('th', {class: 'num'}, 'Episodes'), heads.map((head) => h('th', {}, head)),
              h('th', {}, 'Replay'))),
          h('tbody', {}, found.map((each) => h('tr', {},
              h('td', {class: 'num'}, number(each.turns)),
              h('td', {class: 'num'}, number(each.episodes)),
              each.words.map((text) => h('td', {class: 'text'},
                  h('bdi', {}, visible(text) || '(empty)'))),
              h('td', {class: 'replays'}, each.places.slice(0, 4).map((place) => [replay(place), ' ']))))))) :
        h('p', {class: 'soft'}, 'None.'));
}

function replay({run, file, line, turn}) {
  const step = file.match(/(\d+)\.jsonl$/);
  return h('a', {href: href('replay', {run, file, line, turn: turn + 1}),
    title: `${run} ${file}, line ${line + 1}, turn ${turn + 1}`},
  step ? `step ${Number(step[1])}` : file.replace(/^.*\//, ''));
}
