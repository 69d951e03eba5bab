// All runs below the folder, and the curves of up to eight of them.

import {api, failure, h, notice, query, replace, s} from '../lib/dom.js';
import {chart, dashOf, short, swatch, timeAxis, value} from '../lib/chart.js';
import {follow} from '../lib/live.js';
import {join, MEMBER, split, title as words, unit} from '../lib/names.js';
import {change, go, href} from '../lib/route.js';

export const title = 'Runs';

const MOST = 8;
// Shown where a chosen run has them, in this order.
const USUAL = [
  'eval/success', 'eval_small/success', 'rollout/return_mean', 'rollout/turns_mean',
  'rollout/episode_tokens_mean', 'policy/approx_kl', 'policy/kl_ref',
  'policy/clip_fraction', 'policy/entropy', 'sampler/logprob_abs_diff_mean',
  'preference/accuracy', 'preference/margin', 'filter/share',
];
// Where nothing was played, learning is all there is to see.
const LEARNING = ['policy/loss', 'policy/heldout_loss', 'train/grad_norm'];
const WARM = ['warmstart:policy/loss'];
const PARTS = [
  ['time/collect_s', 'rollout', '--run-1'],
  ['time/explore_s', 'rollout', '--run-1'],
  ['time/update_s', 'update', '--run-2'],
  ['time/learn_s', 'update', '--run-2'],
  ['time/push_s', 'push', '--run-3'],
];
const AXES = [['step', 'steps'], ['time', 'wall time'], ['tokens', 'tokens']];
const COLUMNS = [
  ['run', 'Run'], ['status', 'State'], ['mode', 'Mode'], ['env', 'Environment'],
  ['model', 'Model'], ['algorithm', 'Algorithm'], ['seed', 'Seed', 'num'],
  ['steps', 'Steps', 'num'], ['success', 'Success, 95% interval'],
  ['wall_s', 'Time', 'num'], ['updated', 'Written', 'num'],
];
const EVALUATED = /^eval(_small)?\//;
const LIVE_MS = 1500; // at least, between two updates of a live run

export async function render(root, params, {signal}) {
  const page = new Page(root, params, signal);
  await page.load();
  follow(() => page.refresh(), signal);
  return {update: (next) => page.update(next)};
}

class Page {
  constructor(root, params, signal) {
    this.params = params;
    this.signal = signal;
    this.runs = [];
    this.names = [];
    this.charts = new Map(); // key -> {card, chart}
    this.table = h('div', {class: 'scroll list', tabindex: 0, role: 'region',
      'aria-label': 'All runs'});
    this.count = h('span', {class: 'soft'});
    this.search = h('input', {type: 'search', placeholder: 'Filter runs',
      'aria-label': 'Filter runs', value: params.q || '',
      oninput: () => {
        change({q: this.search.value}, {silent: true});
        this.params.q = this.search.value;
        this.showTable();
      }});
    this.controls = h('div', {class: 'controls'});
    this.config = h('details', {class: 'config',
      ontoggle: () => this.config.open && this.showConfig()});
    this.grid = h('div', {class: 'grid'});
    this.problem = h('div');
    root.append(
        h('div', {class: 'head'}, h('h1', {}, 'Runs'), this.count, this.search),
        this.table, this.problem, this.controls, this.config, this.grid);
  }

  get chosen() {
    const known = new Set(this.runs.map((run) => run.run));
    const asked = split(this.params.runs).filter((name) => known.has(name));
    if (asked.length) return asked.slice(0, MOST);
    // Until somebody chooses: the run that was written last.
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
    this.signal.addEventListener('abort', () => clearTimeout(this.waiting));
  }

  showTable() {
    const text = (this.params.q || '').toLowerCase();
    const shown = this.runs.filter((run) =>
      [run.run, run.env, run.model, run.algorithm, run.mode, run.status]
          .join(' ').toLowerCase().includes(text));
    sortBy(shown, this.params.sort || '-updated');
    this.count.textContent = shown.length === this.runs.length ?
      `${shown.length} in ${this.root}` :
      `${shown.length} of ${this.runs.length} in ${this.root}`;
    if (!this.runs.length) {
      replace(this.table, notice('No run is here yet. ',
          'Start one with ', h('code', {},
              'python launch.py --config=configs/quickstart.py --workdir=runs/NAME'),
          ' below the folder that this page shows.'));
      return;
    }
    // Replacing the table would take the focus from what is in it.
    const held = this.table.contains(document.activeElement) &&
      document.activeElement.dataset.key;
    const chosen = this.chosen;
    replace(this.table, h('table', {},
        h('thead', {}, h('tr', {}, h('th', {}, h('span', {class: 'hidden'}, 'Shown')),
            COLUMNS.map((column) => this.heading(...column)))),
        h('tbody', {}, shown.map((run) => this.row(run, chosen)))));
    if (held) {
      [...this.table.querySelectorAll('[data-key]')]
          .find((each) => each.dataset.key === held)?.focus();
    }
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
              href('compare', {a: firstOf(run)}), dataset: {key: `only ${run.run}`}},
            run.run === '.' ? this.root : run.run)),
        h('td', {}, state(run)),
        h('td', {}, run.mode || '–'), h('td', {}, run.env || '–'),
        h('td', {class: 'model', title: run.model}, run.model || '–'),
        h('td', {}, run.mode === 'evaluate' ? '–' : run.algorithm || '–'),
        h('td', {class: 'num'}, run.seed ?? '–'),
        h('td', {class: 'num'}, steps(run)),
        h('td', {class: 'success'}, success(run)),
        h('td', {class: 'num'}, duration(run.wall_s)),
        h('td', {class: 'num'}, age(run.updated)));
  }

  choose(names) {
    change({runs: join(names)});
  }

  async showChosen() {
    this.config.open = false;
    try {
      await this.loadNames();
      this.showControls();
      await this.showCurves();
    } catch (error) {
      if (error.name !== 'AbortError') {
        replace(this.problem, failure(error));
        replace(this.grid);
        this.charts.clear();
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
          h('span', {}, swatch(look(index)), name === '.' ? this.root : name))),
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
            this.csv = h('a', {download: 'curves.csv'}, 'CSV of all'),
            h('a', {href: href('failures', {runs: join(chosen)})}, 'Why it fails'),
            chosen.length === 1 &&
              h('a', {href: href('compare', {run: chosen[0]})}, 'Stages')));
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

  /** Metrics to show, and after which of them the charts of time come. */
  shownMetrics() {
    const has = (name) => this.names.includes(name) ||
      (name === 'eval/success' && this.names.includes('eval_before/success'));
    const played = this.names.includes('rollout/return_mean');
    const usual = [...USUAL, ...(played ? [] : LEARNING), ...WARM].filter(has);
    // A mixture has no panel of its own, but those of its environments.
    const members = usual[0] === 'eval/success' ? [] :
      this.names.filter((name) => MEMBER.test(name));
    return [...new Set([...members, ...usual, ...split(this.params.m)])];
  }

  async showCurves() {
    const run = this.chosen;
    if (!run.length) {
      this.charts.clear();
      if (this.runs.length) {
        replace(this.grid, notice('Choose up to eight runs above. ',
            'Their curves are drawn here.'));
      }
      return;
    }
    const metrics = this.shownMetrics();
    const parts = PARTS.map(([name]) => name).filter((name) => this.names.includes(name));
    const asked = {run, x: this.params.x, smooth: this.params.smooth};
    this.csv.href = `/api/curves.csv?${query({...asked, metric: metrics})}`;
    const turn = this.turn = (this.turn || 0) + 1;
    const [found, split] = await Promise.all([
      api('curves', {...asked, metric: metrics}, {signal: this.signal}),
      parts.length ? api('curves', {...asked, smooth: null, metric: parts},
          {signal: this.signal}) : {curves: {}},
    ]);
    if (turn !== this.turn) return; // a later one has begun meanwhile
    if (!this.charts.size) replace(this.grid);
    const axis = this.axis({...found.curves, ...split.curves});
    const cards = [
      ...metrics.map((name) => this.curveCard(name, found, axis, asked)),
      ...run.map((name, index) => this.timeCard(name, index, split, axis, asked)),
    ].filter(Boolean);
    for (const [key, {card}] of this.charts) {
      if (!cards.includes(card)) {
        card.remove();
        this.charts.delete(key);
      }
    }
    cards.forEach((card, index) => {
      if (this.grid.children[index] !== card) {
        this.grid.insertBefore(card, this.grid.children[index] || null);
      }
    });
    for (const {card} of this.charts.values()) card.draw();
  }

  /** Name, unit and range of the x axis: one for all charts of the runs' steps. */
  axis(curves) {
    const name = this.params.x || 'step';
    const most = Math.max(0, ...Object.entries(curves)
        .filter(([metric]) => !metric.includes(':'))
        .flatMap(([, runs]) => Object.values(runs).map((curve) => curve.x.at(-1) || 0)));
    const time = timeAxis(most);
    const scale = name === 'time' ? time.unit : 1;
    return {
      label: {step: 'step', tokens: 'tokens played', time: time.label}[name],
      format: name === 'tokens' ? short : null,
      range: [0, most / scale || 1],
      scale,
    };
  }

  curveCard(name, found, axis, asked) {
    const runs = found.curves[name] || {};
    const series = this.chosen.flatMap((run, index) => {
      const curve = runs[run];
      if (!curve) return [];
      return [{
        ...look(index), name: run, run, step: curve.step,
        x: curve.x.map((x) => x / axis.scale), y: curve.y,
        low: curve.low, high: curve.high, raw: curve.raw, points: EVALUATED.test(name),
      }];
    });
    if (name === 'eval/success') series.unshift(...this.untrained(found));
    const other = name.includes(':');
    const stages = other ? [] : this.stages(found, axis);
    const success = /^(eval|eval_small|rollout)\/(.*\/)?success$/.test(name);
    const decimated = Object.values(runs).find((curve) =>
      curve.low && !curve.interval);
    const note = [unit(name), stages.note,
      decimated && `means of ${short(decimated.total / decimated.x.length)} steps with range`]
        .filter(Boolean).join(' · ');
    return this.card(name, words(name), note, asked, [name], {
      series, stages: stages.bands || [],
      xLabel: other ? 'update' : axis.label, xFormat: other ? null : axis.format,
      xRange: other ? null : axis.range,
      yRange: success ? [0, 1] : null,
    }, {pick: !other, removable: split(this.params.m).includes(name)});
  }

  untrained(found) {
    return this.chosen.flatMap((run, index) => {
      const rate = found.untrained[run];
      return rate ? [{...look(index), name: `${run}, untrained`, run, step: [-1],
        x: [0], y: [rate[0]], low: [rate[1]], high: [rate[2]],
        points: true, hollow: true}] : [];
    });
  }

  /** The horizon of the chosen runs, where they have one schedule. */
  stages(found, axis) {
    const all = this.chosen.map((run) => found.stages[run] || [])
        .filter((stages) => stages.length);
    if (!all.length) return {};
    const shape = (stages) => stages.slice(0, -1)
        .map((stage) => `${stage.turns} ${stage.stop}`).join();
    const longest = all.reduce((a, b) => a.length >= b.length ? a : b);
    const same = all.every((stages) => shape(longest).startsWith(shape(stages)));
    if (!same) return {note: 'horizons differ'};
    return {bands: longest.map((stage) => ({
      x0: stage.x0 / axis.scale, x1: stage.x1 / axis.scale,
      label: `${stage.turns} turns`,
    }))};
  }

  timeCard(run, index, found, axis, asked) {
    const series = PARTS.flatMap(([name, label, color]) => {
      const curve = found.curves[name]?.[run];
      return curve ? [{name: label, run, color, step: curve.step, y: curve.y,
        x: curve.x.map((x) => x / axis.scale)}] : [];
    });
    if (!series.length) return null;
    const several = this.chosen.length > 1;
    return this.card(`time ${run}`,
        several ? `Seconds: ${run}` : 'Seconds of a step', '', asked,
        PARTS.map(([name]) => name), {
          series, stages: [], stacked: true, xLabel: axis.label, xFormat: axis.format,
          xRange: axis.range,
        }, {pick: true, run, legend: series});
  }

  /** The card of a chart; the one that is there already keeps its place. */
  card(key, name, note, asked, metric, data, {pick, removable, run, legend}) {
    let made = this.charts.get(key);
    if (!made) {
      const figure = chart({
        label: name, signal: this.signal,
        onPick: pick && ((series, at) => this.pick(key, series, at)),
        onHover: (x) => this.hover(key, x),
      });
      const csv = h('a', {class: 'quiet', download: `${key.replace(/\W+/g, '_')}.csv`}, 'CSV');
      const note = h('span', {class: 'note'});
      const keys = h('span', {class: 'keys'});
      const card = h('figure', {class: 'card', dataset: {chart: key}},
          h('figcaption', {}, h('strong', {title: key}, name), keys, note,
              h('span', {class: 'tools'}, csv,
                  h('button', {type: 'button', class: 'quiet', 'aria-label': `${name} as PNG`,
                    onclick: () => figure.png(name, legend || this.legend())}, 'PNG'),
                  removable && h('button', {type: 'button', class: 'quiet',
                    'aria-label': `Remove ${name}`, onclick: () => change({m: join(
                        split(this.params.m).filter((each) => each !== key))})}, '×'))),
          figure.element);
      made = {card, figure, csv, note, keys};
      this.charts.set(key, made);
    }
    made.note.textContent = note;
    made.card.classList.toggle('picks', Boolean(pick));
    if (legend) {
      replace(made.keys, legend.map((each) => h('span', {}, h('span', {class: 'key',
        style: {background: `var(${each.color})`}}), each.name)));
    }
    made.csv.href = `/api/curves.csv?${query({...asked, run: run || asked.run, metric})}`;
    made.card.draw = () => made.figure.show(data);
    return made.card;
  }

  legend() {
    return this.chosen.map((name, index) => ({name, ...look(index)}));
  }

  hover(key, x) {
    for (const [other, {figure}] of this.charts) {
      if (other !== key && !other.includes(':')) figure.mark(x);
    }
  }

  /** The episodes of a step of a run. */
  pick(key, series, at) {
    const step = series.step[at];
    const origin = EVALUATED.test(key) ? key.split('/')[0] : 'train';
    const of = step < 0 ? {file: 'episodes/eval/untrained.jsonl'} : {step};
    go('episodes', {run: series.run, origin, ...of});
  }
}

const look = (index) => ({color: `--run-${index % MOST + 1}`, dash: dashOf(index)});

const firstOf = (run) => {
  const [name] = Object.keys(run.success);
  return name && `${run.run}:${name}`;
};

function sortBy(runs, order) {
  const [name, sign] = order.startsWith('-') ? [order.slice(1), -1] : [order, 1];
  const key = (run) => name === 'success' ? last(run)?.mean ?? null : run[name];
  runs.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === y) return a.run < b.run ? -1 : 1;
    if (x === null) return 1;
    if (y === null) return -1;
    return (x < y ? -1 : 1) * sign;
  });
}

function state(run) {
  const kind = {live: 'good', finished: '', stopped: 'warn'}[run.status];
  return h('span', {class: `chip ${kind}`}, run.status);
}

function steps(run) {
  if (run.steps === null) return '–';
  return run.planned && run.planned !== run.steps ?
    `${value(run.steps)} / ${value(run.planned)}` : value(run.steps);
}

const last = (run) => Object.values(run.success).filter((rate) => rate.mean !== null).at(-1);

/** Success before and now, as numbers and as a picture of the intervals. */
function success(run) {
  const rates = Object.entries(run.success).filter(([, rate]) => rate.mean !== null);
  if (!rates.length) return '–';
  if (run.mode === 'evaluate') {
    return rates.slice(0, 2).map(([name, rate]) => h('div', {class: 'rate'},
        picture([rate]), `${name} ${rateText(rate)}`))
        .concat(rates.length > 2 ? h('div', {class: 'soft'}, `and ${rates.length - 2} more`) : []);
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
    `${each}: ${rateText(rate)}, ${rate.n} episodes`).join('\n')},
  picture(after ? [first[1], after] : [first[1]]), member && `${member} `,
  after ? `${rate3(first[1].mean)} → ${rateText(after)}` : rateText(first[1]));
}

const rate3 = (number) => number.toFixed(3);
const rateText = (rate) => rate.low === null ? rate3(rate.mean) :
  `${rate3(rate.mean)} [${rate3(rate.low)}, ${rate3(rate.high)}]`;

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

function age(time) {
  if (time === null) return '–';
  const seconds = Math.max(0, Date.now() / 1000 - time);
  const text = seconds < 5 ? 'now' : seconds > 2 * 86400 ?
    `${Math.floor(seconds / 86400)} d ago` : `${duration(seconds)} ago`;
  return h('time', {title: new Date(1000 * time).toLocaleString()}, text);
}

function configTable({runs, rows, config, fields, without}) {
  if (without.length) {
    return notice(`No config.json can be read in ${without.join(', ')}.`);
  }
  const shown = config ?
    Object.entries(config).map(([name, each]) => ({name, values: [each], missing: []})) : rows;
  if (!shown.length) return notice(`All ${fields} fields are equal.`);
  return [
    !config && h('p', {class: 'soft'}, `${rows.length} of ${fields} fields differ.`),
    h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, 'Field'),
        runs.map((run, index) => h('th', {}, swatch(look(index)), run)))),
    h('tbody', {}, shown.map(({name, values, missing}) => h('tr', {},
        h('td', {}, h('code', {}, name)), values.map((each, index) =>
          h('td', {class: 'value'}, missing.includes(index) ?
            h('span', {class: 'soft'}, 'no such field') : JSON.stringify(each)))))))];
}
