// The charts of the runs that are chosen: one for each metric.

import {api, h, notice, query, replace} from './dom.js';
import {chart} from './chart.js';
import {fileName, join, MEMBER, split, title as words, unit} from './names.js';
import {short, timeAxis} from './paint.js';
import {change, go} from './route.js';
import {look} from './run_cells.js';

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
const EVALUATED = /^eval(_small)?\//;

/** The charts in `element`; a chart keeps its place while its curves change. */
export class Curves {
  constructor(signal) {
    this.signal = signal;
    this.charts = new Map(); // key -> {card, figure, csv, note, keys}
    this.element = h('div', {class: 'grid'});
  }

  clear(...instead) {
    this.charts.clear();
    replace(this.element, ...instead);
  }

  /** True if a run has played episodes in its steps. */
  get played() {
    return this.names.includes('rollout/return_mean');
  }

  /** Names of the metrics that have charts. */
  shownMetrics() {
    const has = (name) => this.names.includes(name) ||
      (name === 'eval/success' && this.names.includes('eval_before/success'));
    const usual = [...USUAL, ...(this.played ? [] : LEARNING), ...WARM].filter(has);
    // A mixture has no panel of its own, but those of its environments.
    const members = usual[0] === 'eval/success' ? [] :
      this.names.filter((name) => MEMBER.test(name));
    return [...new Set([...members, ...usual, ...split(this.params.m)])];
  }

  /**
   * Draws the curves of the runs `chosen`, which have the metrics `names`.
   *
   * `params`: of the URL. Returns the link to a table of all of them.
   */
  async show(chosen, names, params) {
    Object.assign(this, {chosen, names, params});
    const run = chosen;
    if (!run.length) {
      this.clear(notice('Choose up to eight runs above. ', 'Their curves are drawn here.'));
      return null;
    }
    const metrics = this.shownMetrics();
    const parts = PARTS.map(([name]) => name).filter((name) => this.names.includes(name));
    const asked = {run, x: this.params.x, smooth: this.params.smooth};
    const turn = this.turn = (this.turn || 0) + 1;
    const [found, seconds] = await Promise.all([
      api('curves', {...asked, metric: metrics}, {signal: this.signal}),
      parts.length ? api('curves', {...asked, smooth: null, metric: parts},
          {signal: this.signal}) : {curves: {}},
    ]);
    const table = `/api/curves.csv?${query({...asked, metric: metrics})}`;
    if (turn !== this.turn) return table; // a later one has begun meanwhile
    if (!this.charts.size) replace(this.element);
    const axis = this.axis({...found.curves, ...seconds.curves});
    const cards = [
      ...metrics.map((name) => this.curveCard(name, found, axis, asked)),
      ...run.map((name) => this.timeCard(name, seconds.curves, axis, asked)),
    ].filter(Boolean);
    for (const [key, {card}] of this.charts) {
      if (!cards.includes(card)) {
        card.remove();
        this.charts.delete(key);
      }
    }
    cards.forEach((card, index) => {
      if (this.element.children[index] !== card) {
        this.element.insertBefore(card, this.element.children[index] || null);
      }
    });
    for (const {card} of this.charts.values()) card.draw();
    return table;
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
    const levels = levelsOf(Object.values(found.levels?.[name] || {}));
    const note = [unit(name), levelWords(levels), stages.note,
      decimated && `means of ${short(decimated.total / decimated.x.length)} steps with range`]
        .filter(Boolean).join(' · ');
    return this.card(name, words(name), note, asked, [name], {
      series, stages: stages.bands || [],
      xLabel: other ? 'update' : axis.label, xFormat: other ? null : axis.format,
      xRange: other ? null : axis.range,
      yRange: success ? [0, 1] : null, levels,
    }, {pick: !other && (this.played || EVALUATED.test(name)), removable: split(this.params.m).includes(name)});
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
    const end = (stages) => stages.at(-1).stop;
    const longest = all.reduce((a, b) => end(b) > end(a) ? b : a);
    const same = all.every((stages) => shape(longest).startsWith(shape(stages)));
    if (!same) return {note: 'horizons differ'};
    return {bands: longest.map((stage) => ({
      x0: stage.x0 / axis.scale, x1: stage.x1 / axis.scale,
      label: `${stage.turns} turns`,
    }))};
  }

  timeCard(run, curves, axis, asked) {
    const series = PARTS.flatMap(([name, label, color]) => {
      const curve = curves[name]?.[run];
      return curve ? [{name: label, run, color, step: curve.step, y: curve.y,
        x: curve.x.map((x) => x / axis.scale)}] : [];
    });
    if (!series.length) return null;
    const several = this.chosen.length > 1;
    return this.card(`time ${run}`,
        several ? `Seconds: ${run}` : 'Seconds of a step', '', asked,
        PARTS.map(([name]) => name), {
          series, stages: [], stacked: true, xLabel: axis.label, xFormat: axis.format,
          xRange: axis.range, yRange: [0, longest(curves)],
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
      const csv = h('a', {class: 'quiet'}, 'CSV');
      const note = h('span', {class: 'note'});
      const keys = h('span', {class: 'keys'});
      const card = h('figure', {class: 'card', dataset: {chart: key}},
          h('figcaption', {}, h('strong', {title: key}, name), keys, note,
              h('span', {class: 'tools'}, csv,
                  h('button', {type: 'button', class: 'quiet', 'aria-label': `${name} as PNG`,
                    onclick: () => figure.png(name, legend || this.legend(),
                        fileName(run ? [run, 'seconds'] : [...this.chosen, key], 'png'))}, 'PNG'),
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
    made.csv.download = fileName(run ? [run, 'seconds'] : [...this.chosen, key], 'csv');
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

const KINDS = ['random', 'expert'];

/** The lines of random actions and experts: one for each number of the runs. */
export const levelsOf = (found) => KINDS.flatMap((label) =>
  [...new Set(found.map((each) => each[label]))].filter((y) => y !== undefined)
      .sort((a, b) => a - b).map((y) => ({label, y})));

/** 'random 0.375, 0.441, expert 1.000', or ''. */
export const levelWords = (levels) => levels.map(({label, y}, i) =>
  `${levels[i - 1]?.label === label ? '' : `${label} `}${y.toFixed(3)}`).join(', ');

/** Seconds of the longest step of any run, for one axis in all their charts. */
function longest(curves) {
  const sums = new Map();
  for (const runs of Object.values(curves)) {
    for (const [run, {y}] of Object.entries(runs)) {
      const sum = sums.get(run) || [];
      sums.set(run, y.map((value, i) => (value || 0) + (sum[i] || 0)));
    }
  }
  return Math.max(1e-3, ...[...sums.values()].flat()) * 1.05;
}
