// Groups of runs: a table with intervals over training seeds, and curves of means
// with the runs behind them.

import {api, failure, h, notice, query, replace, visible} from '../lib/dom.js';
import {chart, swatch} from '../lib/chart.js';
import {levelsOf, levelWords} from '../lib/curves.js';
import {followEvery} from '../lib/live.js';
import {fileName, join, split, title as words, unit} from '../lib/names.js';
import {short, timeAxis} from '../lib/paint.js';
import {change, go, href} from '../lib/route.js';
import {Rows} from '../lib/rows.js';
import {look, MOST} from '../lib/run_cells.js';

export const title = 'Groups';
export const keys = ['group', 'arm', 'stat', 'x', 'smooth', 'm'];

const USUAL = ['eval/success', 'rollout/success', 'rollout/return_mean', 'policy/entropy'];
const EVALUATED = /^eval(_small)?\//;
// Success of these on the same tasks, where they were evaluated.
const LEVELS = [['random', 'Random'], ['expert', 'Expert']];
const AXES = [['step', 'steps'], ['time', 'wall time'], ['tokens', 'tokens']];
const NONE = ';'; // in the URL, where somebody wants to see no curves
const LIVE_MS = 3000; // at least, between two updates of a live run

export async function render(root, params, {signal}) {
  root.classList.add('runs'); // its cards, controls and lists
  const page = new Page(root, params, signal);
  await page.show(params);
  followEvery(LIVE_MS, () => page.show(page.params), signal);
  return {update: (next) => page.show(next)};
}

const share = (value) => value === null ? '–' : value.toFixed(3);
const ends = (low, high) => low === null ? '' : ` [${share(low)}, ${share(high)}]`;

class Page {
  constructor(root, params, signal) {
    Object.assign(this, {params, signal, cards: new Map()});
    this.count = h('span', {class: 'soft'});
    this.fields = h('div', {class: 'fields'});
    this.table = h('div', {class: 'scroll list', tabindex: 0, role: 'region', 'aria-label': 'All groups'});
    this.list = new Rows(this.table, signal);
    this.problem = h('div', {role: 'status'});
    this.controls = h('div', {class: 'controls'});
    this.grid = h('div', {class: 'grid'});
    root.append(h('div', {class: 'head'}, h('h1', {}, 'Groups of runs'), this.count),
        this.fields, this.table, this.problem, this.controls, this.grid);
  }

  get group() {
    return (this.params.group || '').split(',').filter(Boolean);
  }

  get names() {
    return [...new Set(this.rows.map((row) => row.group))];
  }

  get chosen() {
    const {names} = this;
    if (this.params.arm) return split(this.params.arm).filter((name) => names.includes(name)).slice(0, MOST);
    return names.slice(0, MOST);
  }

  async show(params) {
    this.params = params;
    try {
      const found = await api('arms', {group: params.group}, {signal: this.signal});
      if (params !== this.params) return; // changed meanwhile
      this.rows = found.rows;
      this.showFields(found);
      this.showTable(found);
      await this.showCurves();
      replace(this.problem);
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.problem, failure(error));
    }
  }

  showFields({fields}) {
    const {group} = this;
    const key = document.activeElement?.dataset.key;
    const choose = (names) => change({group: names.join(',') || null, arm: null});
    replace(this.fields, h('span', {class: 'soft'}, group.length ? 'Equal in' : 'Equal in all but the seed'),
        group.map((name) => h('span', {class: 'chip'}, visible(name), h('button', {type: 'button',
          class: 'quiet', 'aria-label': `Do not group by ${name}`,
          onclick: () => choose(group.filter((each) => each !== name))}, '×'))),
        h('select', {'aria-label': 'Group by a field', dataset: {key: 'field'},
          onchange: (event) => choose([...group, event.target.value])},
        h('option', {value: ''}, 'Group by a field'),
        Object.entries(fields).filter(([name]) => !group.includes(name)).map(([name, values]) =>
          h('option', {value: name}, visible(`${name} (${values} values)`)))));
    if (key) this.fields.querySelector(`[data-key="${key}"]`)?.focus();
  }

  showTable({root}) {
    this.root = root;
    const {chosen, rows} = this;
    const runs = new Set(rows.flatMap((row) => row.members)).size;
    this.count.textContent = `${runs} runs in ${this.names.length} groups in ${root}`;
    if (!rows.length) {
      this.list.clear(notice('No run that learns is here yet. ', 'Runs that differ in the seed alone are a group.'));
      return;
    }
    const several = rows.some((row) => row.member);
    const levels = LEVELS.filter(([name]) => rows.some((row) => row[name] !== null));
    this.list.show(h('tr', {},
        h('th', {}, h('span', {class: 'hidden'}, 'Shown')), h('th', {}, 'Group'),
        several && h('th', {}, 'Member'),
        ['Success, 95% t interval over seeds', 'Runs', 'Before', 'Interquartile mean, 95% bootstrap over seeds',
          'Least and greatest', 'Evaluated', ...levels.map(([, label]) => label)].map((label) => h('th', {class: 'num'}, label))),
    rows, (row) => this.row(row, chosen, several, levels), {top: this.sorted !== this.params.group});
    this.sorted = this.params.group;
  }

  row(row, chosen, several, levels) {
    const index = chosen.indexOf(row.group);
    const name = visible(row.group);
    return h('tr', {class: index >= 0 && 'chosen'},
        h('td', {}, h('input', {type: 'checkbox', checked: index >= 0, dataset: {key: row.group},
          disabled: index < 0 && chosen.length >= MOST, 'aria-label': `Show the curves of ${name}`,
          onchange: () => change({arm: join(index >= 0 ? chosen.filter((each) => each !== row.group) :
            [...chosen, row.group]) || NONE})})),
        h('td', {class: 'name'}, index >= 0 && swatch(look(index)), name),
        several && h('td', {}, visible(row.member)),
        h('td', {class: 'num mean'}, h('strong', {}, share(row.mean)), ends(row.low, row.high)),
        h('td', {class: 'num'}, h('a', {href: href('runs', {runs: join(row.members.slice(0, MOST))}),
          'aria-label': `The runs of ${name}`}, row.runs)),
        h('td', {class: 'num'}, share(row.before)),
        h('td', {class: 'num'}, share(row.iqm), ends(row.iqm_low, row.iqm_high)),
        h('td', {class: 'num'}, row.least === null ? '–' : `${share(row.least)} to ${share(row.greatest)}`),
        h('td', {class: 'num'}, row.seeds),
        levels.map(([name]) => h('td', {class: 'num'}, share(row[name]))));
  }

  async showCurves() {
    const {chosen, params} = this;
    const stat = params.stat || 'mean';
    if (!chosen.length) {
      this.cards.clear();
      replace(this.controls);
      replace(this.grid, this.rows.length > 0 && notice('Choose up to eight groups above. ', 'Their curves are drawn here.'));
      return;
    }
    const asked = {group: params.group, arm: chosen, stat, x: params.x, smooth: params.smooth};
    const metrics = [...new Set([...USUAL, ...split(params.m)])];
    const found = await api('arms/curves', {...asked, metric: metrics}, {signal: this.signal});
    if (params !== this.params) return;
    this.showControls(found, stat);
    const shown = metrics.filter((name) => Object.keys(found.curves[name]).length);
    if (!this.cards.size) replace(this.grid);
    for (const [name, {card}] of this.cards) {
      if (shown.includes(name)) continue;
      card.remove();
      this.cards.delete(name);
    }
    const axis = this.axis(shown.map((name) => found.curves[name]));
    for (const name of shown) this.showCard(name, found, axis);
    if (!shown.length) replace(this.grid, notice('These runs have no curves yet. ', 'They are drawn as steps end.'));
  }

  showControls({names, unit: statistic}, stat) {
    const key = document.activeElement?.dataset.key;
    const metric = h('input', {placeholder: 'Add a metric', list: 'metrics', 'aria-label': 'Add a metric',
      dataset: {key: 'metric'}, onchange: (event) => {
        if (!names.includes(event.target.value)) return;
        change({m: join([...new Set([...split(this.params.m), event.target.value])])});
      }});
    replace(this.controls,
        h('span', {class: 'legend'}, this.chosen.map((name, index) =>
          h('span', {}, swatch(look(index)), visible(name)))),
        h('label', {}, 'Statistic ', h('select', {dataset: {key: 'stat'},
          onchange: (event) => change({stat: event.target.value})},
        [['mean', 'mean'], ['iqm', 'interquartile mean']].map(([value, label]) =>
          h('option', {value, selected: value === stat}, label)))),
        h('label', {}, 'x ', h('select', {'aria-label': 'x axis', dataset: {key: 'x'},
          onchange: (event) => change({x: event.target.value})},
        AXES.map(([value, label]) => h('option', {value, selected: value === (this.params.x || 'step')}, label)))),
        metric, h('datalist', {id: 'metrics'}, names.map((name) => h('option', {value: name}))),
        h('span', {class: 'soft'}, `Band: ${statistic}. Thin: single runs.` +
          ((this.params.x || 'step') === 'step' ? '' : ' A point is of one step, at the mean of where its runs were then.')),
        h('span', {class: 'links'}, h('a', {download: fileName([this.root, this.params.group || 'seed', 'groups'], 'csv'),
          href: `/api/arms.csv?${query({group: this.params.group})}`}, 'CSV of the table'), ' ',
        h('a', {download: fileName([this.root, this.params.group || 'seed', 'study'], 'html'),
          href: `/api/study?${query({group: this.params.group})}`}, 'Study as a page')));
    if (key) this.controls.querySelector(`[data-key="${key}"]`)?.focus();
  }

  /** Label, format and scale of the x axis: one for all charts. */
  axis(curves) {
    const name = this.params.x || 'step';
    const time = timeAxis(Math.max(0, ...curves.flatMap((arms) =>
      Object.values(arms).map(({x}) => x.at(-1) || 0))));
    return {
      label: {step: 'step', tokens: 'tokens played', time: time.label}[name],
      format: name === 'tokens' ? short : null,
      scale: name === 'time' ? time.unit : 1,
    };
  }

  showCard(name, found, axis) {
    let made = this.cards.get(name);
    if (!made) {
      const figure = chart({label: words(name), signal: this.signal,
        onPick: (series, at) => this.pick(name, series, at)});
      const note = h('span', {class: 'note'});
      const card = h('figure', {class: 'card picks', dataset: {chart: name}},
          h('figcaption', {}, h('strong', {title: name}, words(name)),
              note,
              h('span', {class: 'tools'}, h('button', {type: 'button', class: 'quiet',
                'aria-label': `${words(name)} as PNG`, onclick: () => figure.png(words(name),
                    this.chosen.map((each, index) => ({name: each, ...look(index)})),
                    fileName([...this.chosen, name], 'png'))}, 'PNG'))),
          figure.element);
      made = {card, figure, note};
      this.cards.set(name, made);
      this.grid.append(card);
    }
    const series = [];
    this.chosen.forEach((arm, index) => {
      const curve = found.curves[name][arm];
      if (!curve) return;
      const {y, low, high, seeds, step} = curve;
      const [x, runsX] = [curve.x, curve.runs_x].map((each) => each.map((at) => at / axis.scale));
      for (const values of Object.values(curve.runs)) {
        series.push({...look(index), name: arm, thin: true, x: runsX, y: values});
      }
      series.push({...look(index), name: arm, x, step, y, low, high, points: EVALUATED.test(name),
        notes: seeds.map((count) => `${count} ${count === 1 ? 'seed' : 'seeds'}`)});
    });
    const levels = levelsOf(Object.values(found.levels[name] || {}));
    made.note.textContent = [unit(name).replace(/, 95% interval$/, ''),
      levelWords(levels)].filter(Boolean).join(' · ');
    made.figure.show({series, stages: [], levels, xLabel: axis.label, xFormat: axis.format,
      yRange: /^(eval|eval_small|rollout)\/(.*\/)?success$/.test(name) ? [0, 1] : null});
  }

  /** The episodes of a step of all runs of a group. */
  pick(name, series, at) {
    const row = this.rows.find((each) => each.group === series.name);
    go('episodes', {runs: join(row.members), step: series.step[at],
      origin: EVALUATED.test(name) ? name.split('/')[0] : 'train'});
  }
}
