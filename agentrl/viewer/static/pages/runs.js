// All runs below the folder, and the curves of up to eight of them.

import {api, failure, h, notice, number, replace, visible} from '../lib/dom.js';
import {swatch} from '../lib/chart.js';
import {Curves} from '../lib/curves.js';
import {follow} from '../lib/live.js';
import {fileName, join, split} from '../lib/names.js';
import {change, go, href} from '../lib/route.js';
import {Rows} from '../lib/rows.js';
import {keep, seen} from '../lib/seen.js';
import {
  age, chanceOf, comparedBy, configTable, duration, look, MOST, sortBy, state, steps, success, tick,
} from '../lib/run_cells.js';

export const title = 'Runs';
export const keys = ['runs', 'q', 'sort', 'x', 'smooth', 'm'];

const AXES = [['step', 'steps'], ['time', 'wall time'], ['tokens', 'tokens']];
const COLUMNS = [
  ['run', 'Run'], ['success', 'Success, 95% interval'],
  ['chance', 'Random · expert', 'num'], ['status', 'State'],
  ['mode', 'Mode'], ['env', 'Environment'], ['model', 'Model'],
  ['algorithm', 'Algorithm'], ['seed', 'Seed', 'num'], ['steps', 'Steps', 'num'],
  ['wall_s', 'Time', 'num'], ['updated', 'Written', 'num'],
];
const NONE = ';'; // in the URL, where somebody wants to see no curves
const TICK_MS = 5000; // between updates of the ages
const LIVE_MS = 1500; // at least, between two updates of a live run

export async function render(root, params, {signal}) {
  const page = new Page(root, params, signal);
  await page.load();
  follow(() => page.refresh(), signal);
  return {update: (next) => page.update(next)};
}

const text = (value) => visible(value || '–');

class Page {
  constructor(root, params, signal) {
    this.params = params;
    this.signal = signal;
    this.runs = [];
    this.names = [];
    this.table = h('div', {class: 'scroll list', tabindex: 0, role: 'region',
      'aria-label': 'All runs'});
    this.rows = new Rows(this.table, signal);
    this.count = h('span', {class: 'soft'});
    this.search = h('input', {type: 'search', placeholder: 'Filter runs',
      'aria-label': 'Filter runs', value: params.q || '',
      oninput: () => {
        change({q: this.search.value}, {silent: true});
        this.params.q = this.search.value;
        this.showTable();
      }});
    this.controls = h('div', {class: 'controls'});
    this.config = h('details', {class: 'config', hidden: true,
      ontoggle: () => this.config.open && this.showConfig()});
    this.curves = new Curves(signal);
    this.problem = h('div');
    this.unknown = h('div', {role: 'status'});
    window.addEventListener('resize', () => this.fit(), {signal});
    const ticking = setInterval(() => tick(this.table), TICK_MS);
    signal.addEventListener('abort', () => {
      clearTimeout(this.waiting);
      clearInterval(ticking);
    });
    root.append(
        h('div', {class: 'head'}, h('h1', {}, 'Runs'), this.count, this.search),
        this.table, this.unknown, this.problem, this.controls, this.config, this.curves.element);
  }

  get chosen() {
    const known = new Set(this.runs.map((run) => run.run));
    const asked = split(this.params.runs).filter((name) => known.has(name));
    if (this.params.runs) return asked.slice(0, MOST);
    // Until somebody chooses: those of the last visit, else the run that was
    // written last.
    const before = seen(this.root, [...known]);
    if (before.length) return before.slice(0, MOST);
    const learnt = this.runs.filter((run) => run.mode !== 'evaluate' && run.steps)
        .sort((a, b) => b.updated - a.updated);
    return learnt.slice(0, 1).map((run) => run.run);
  }

  get smoothing() {
    return Number(this.params.smooth) || 0;
  }

  async load() {
    await this.loadRuns();
    this.showTable();
    await this.showChosen();
  }

  async loadRuns() {
    const found = await api('runs', {}, {signal: this.signal});
    this.runs = found.runs;
    this.root = found.root;
  }

  async update(params) {
    const before = this.chosen;
    this.params = params;
    this.showTable();
    if (join(before) !== join(this.chosen)) await this.showChosen();
    else await this.showCurves();
  }

  /** What runs have written meanwhile; not more often than a person can see. */
  refresh() {
    if (this.waiting) return;
    const since = Date.now() - (this.refreshed || 0);
    this.waiting = setTimeout(async () => {
      this.waiting = null;
      this.refreshed = Date.now();
      try {
        await this.loadRuns();
        this.showTable();
        await this.loadNames();
        await this.showCurves();
      } catch (error) {
        if (error.name !== 'AbortError') replace(this.problem, failure(error));
      }
    }, Math.max(0, LIVE_MS - since));
  }

  showTable() {
    const text = (this.params.q || '').toLowerCase();
    const shown = this.runs.filter((run) =>
      [run.run, run.env, run.model, run.algorithm, run.mode, run.status]
          .join(' ').toLowerCase().includes(text));
    sortBy(shown, this.params.sort || '-updated');
    const known = new Set(this.runs.map((run) => run.run));
    const unknown = split(this.params.runs).filter((name) => !known.has(name));
    replace(this.unknown, unknown.length > 0 && notice('There is no such run here: ',
        visible(unknown.join(', ')), '.'));
    if (!this.runs.length) {
      this.count.textContent = `0 in ${this.root}`;
      this.rows.clear(notice('No run is here yet. ',
          'Start one with ', h('code', {},
              'python launch.py --config=configs/quickstart.py --workdir=runs/NAME'),
          ' below the folder that this page shows.'));
      return;
    }
    const chosen = this.chosen;
    const order = `${this.params.sort || ''} ${text}`;
    this.rows.show(
        h('tr', {}, h('th', {}, h('span', {class: 'hidden'}, 'Shown')),
            COLUMNS.map((column) => this.heading(...column))),
        shown, (run) => this.row(run, chosen), {top: order !== this.order});
    this.order = order;
    this.fit();
    this.count.textContent = (shown.length === this.runs.length ?
      `${number(shown.length)} in ${this.root}` :
      `${number(shown.length)} of ${number(this.runs.length)} in ${this.root}`) +
      (this.rows.partly ? ' · the filter searches all rows, the browser those in view' : '');
  }

  /** Ends the list below a whole row. */
  fit() {
    const box = this.table;
    box.style.maxHeight = '';
    const limit = parseFloat(getComputedStyle(box).maxHeight);
    const around = box.offsetHeight - box.clientHeight; // borders, scroll bar
    if (box.scrollHeight + around <= limit) return;
    if (!this.rows.items.length) return;
    box.style.maxHeight = `${this.rows.ends(limit - around).at(-1) + around}px`;
  }

  heading(name, label, kind) {
    const now = this.params.sort || '-updated';
    const down = now === `-${name}`;
    const sorted = down ? 'descending' : now === name ? 'ascending' : null;
    return h('th', {'aria-sort': sorted, class: kind}, h('button', {type: 'button', class: 'sort',
      dataset: {key: `sort ${name}`},
      onclick: () => change({sort: down ? name : `-${name}`})},
    label, h('span', {'aria-hidden': 'true'}, {ascending: ' ▲', descending: ' ▼'}[sorted] || '')));
  }

  row(run, chosen) {
    const index = chosen.indexOf(run.run);
    const curves = run.steps !== null;
    return h('tr', {class: index >= 0 && 'chosen'},
        h('td', {}, h('input', {
          type: 'checkbox', checked: index >= 0, dataset: {key: `run ${run.run}`},
          disabled: index < 0 && (!curves || chosen.length >= MOST),
          title: curves ? null : 'It has no curves',
          'aria-label': `Show the curves of ${run.run}`,
          onchange: () => this.choose(index >= 0 ?
            chosen.filter((name) => name !== run.run) : [...chosen, run.run])})),
        h('td', {class: 'name'}, index >= 0 && swatch(look(index)),
            h('a', {href: curves ? href('runs', {...this.params, runs: join([run.run])}) :
              href('compare', comparedBy(run)), dataset: {key: `only ${run.run}`}},
            visible(run.run === '.' ? this.root : run.run))),
        h('td', {class: 'success'}, success(run)),
        h('td', {class: 'num'}, chanceOf(run)),
        h('td', {}, state(run)),
        h('td', {}, text(run.mode)),
        h('td', {class: 'env', title: text(run.env)}, text(run.env)),
        h('td', {class: 'model', title: text(run.model)}, text(run.model)),
        h('td', {}, run.mode === 'evaluate' ? '–' : text(run.algorithm)),
        h('td', {class: 'num'}, run.seed ?? '–'),
        h('td', {class: 'num'}, steps(run)),
        h('td', {class: 'num'}, duration(run.wall_s)),
        h('td', {class: 'num'}, age(run.updated)));
  }

  choose(names) {
    change({runs: join(names) || NONE});
  }

  async showChosen() {
    if (this.params.runs) keep(this.root, this.chosen);
    this.config.open = false;
    try {
      await this.loadNames();
      this.showControls();
      await this.showCurves();
    } catch (error) {
      if (error.name !== 'AbortError') {
        replace(this.problem, failure(error));
        this.curves.clear();
      }
    }
  }

  async loadNames() {
    const run = this.chosen;
    if (!run.length) {
      this.names = [];
      return;
    }
    const found = await api('metrics', {run}, {signal: this.signal});
    this.names = found.names;
    replace(this.problem, Object.entries(found.broken).map(([file, count]) =>
      notice(`${file} has ${count} broken lines, which are left out.`)));
  }

  showControls() {
    const chosen = this.chosen;
    if (!chosen.length) {
      replace(this.controls);
      this.config.hidden = true;
      return;
    }
    const smoothing = h('output', {}, this.smoothing.toFixed(2));
    const metric = h('input', {list: 'metrics', placeholder: 'Add a metric',
      'aria-label': 'Add a metric', size: 22, onchange: () => {
        const name = metric.value.trim();
        metric.value = '';
        if (this.names.includes(name)) {
          change({m: join([...new Set([...split(this.params.m), name])])});
        }
      }});
    replace(this.controls,
        h('div', {class: 'legend'}, chosen.map((name, index) =>
          h('span', {}, swatch(look(index)), visible(name === '.' ? this.root : name)))),
        h('label', {}, 'x ', h('select', {'aria-label': 'x axis', onchange: (event) =>
          change({x: event.target.value})},
        AXES.map(([name, label]) => h('option',
            {value: name, selected: (this.params.x || 'step') === name}, label)))),
        h('label', {class: 'smooth'}, 'Smoothing ', h('input', {type: 'range', min: 0,
          max: 0.99, step: 0.01, value: this.smoothing, oninput: (event) => {
            smoothing.textContent = Number(event.target.value).toFixed(2);
            this.params = {...this.params, smooth: event.target.value};
            change({smooth: event.target.value === '0' ? null : event.target.value},
                {silent: true});
            this.showCurves();
          }}), smoothing),
        metric, h('datalist', {id: 'metrics'},
            this.names.map((name) => h('option', {value: name}))),
        h('span', {class: 'links'},
            this.csv = h('a', {download: fileName([...chosen, 'curves'], 'csv')}, 'CSV of all'),
            h('a', {href: href('episodes', {runs: join(chosen)})}, 'Episodes'),
            h('a', {href: href('failures', {runs: join(chosen)})}, 'Why it fails'),
            chosen.length === 1 && [
              h('a', {href: href('compare', {run: chosen[0]})}, 'Stages'),
              this.names.includes('time/update_s') &&
                h('a', {href: href('timeline', {run: chosen[0]})}, 'Timeline')]));
    this.config.hidden = false;
    replace(this.config, h('summary', {},
        chosen.length > 1 ? 'Where the configs differ' : 'Config'));
  }

  async showConfig() {
    const box = h('div', {class: 'scroll', tabindex: 0, role: 'region',
      'aria-label': 'Config'});
    const summary = this.config.querySelector('summary');
    replace(this.config, summary, box);
    try {
      const found = await api('config', {run: this.chosen}, {signal: this.signal});
      replace(box, configTable(found));
    } catch (error) {
      if (error.name !== 'AbortError') replace(box, failure(error));
    }
  }

  async showCurves() {
    const table = await this.curves.show(this.chosen, this.names, this.params);
    if (table) this.csv.href = table;
  }
}
