// Tasks by policies, steps or groups of runs: who solves which, hardest first.

import {api, failure, h, notice, number, query, replace, visible} from '../lib/dom.js';
import {asked, columnControls} from '../lib/columns.js';
import {followEvery} from '../lib/live.js';
import {join} from '../lib/names.js';
import {change, href} from '../lib/route.js';

export const title = 'Tasks';
export const keys = ['runs', 'group', 'env', 'by', 'order', 'only', 'since', 'subtask', 'q', 'from'];

const COUNT = 100; // rows of a page
const ORDERS = [['hardest', 'hardest first'], ['easiest', 'easiest first'], ['task', 'by number or name']];
const ONLY = [['', 'all'], ['failed', 'failed by all'], ['lost', 'lost in the last column']];
const since = (step) => step < 0 ? 'untrained' : `step ${step}`;
const LIVE_MS = 5000; // at least, between two updates of live runs

export async function render(root, params, {signal}) {
  const page = new Page(root, params, signal);
  await page.show(params);
  followEvery(LIVE_MS, () => page.show(page.params), signal);
  return {update: (next) => page.show(next)};
}

class Page {
  constructor(root, params, signal) {
    Object.assign(this, {params, signal});
    this.columns = h('div', {class: 'columns'});
    this.controls = h('div', {class: 'fields'});
    this.rows = h('section', {class: 'rows', 'aria-label': 'Tasks'});
    root.append(h('h1', {}, 'Tasks'), this.columns, this.controls, this.rows);
    replace(this.rows, notice('The evaluations are being counted. '));
  }

  async show(params) {
    this.params = params;
    const {signal} = this;
    const {env, by, order, only, subtask, q} = params;
    try {
      // Those to choose from are thousands, perhaps, and not what was asked for.
      const choosing = api('evaluations', {}, {signal})
          .then(({evaluations}) => this.showColumns(params, evaluations));
      choosing.catch(() => {}); // reported below, where it is awaited
      const found = await api('tasks', {...asked(params), env, by, order, only, subtask, q,
        since: params.since, from: params.from, count: COUNT}, {signal}).catch(async (error) => {
        await choosing; // others can be chosen
        throw error;
      });
      if (params !== this.params) return; // changed meanwhile
      const key = document.activeElement?.dataset.key;
      this.showControls(found);
      if (key) this.controls.querySelector(`[data-key="${key}"]`)?.focus();
      this.showRows(found);
      await choosing;
    } catch (error) {
      if (error.name !== 'AbortError' && params === this.params) replace(this.rows, failure(error));
    }
  }

  showColumns(params, evaluations) {
    if (params !== this.params) return; // changed meanwhile
    const drawn = JSON.stringify([params.runs, params.group, evaluations]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const key = document.activeElement?.dataset.key;
    replace(this.columns, columnControls(params, evaluations,
        {env: null, subtask: null, since: null, from: null}));
    if (key) this.columns.querySelector(`[data-key="${key}"]`)?.focus();
  }

  showControls({env, envs, subtasks, failed, lost, steps}) {
    const {params} = this;
    const choose = (changes) => change({from: null, ...changes});
    const select = (name, label, values, now) => h('label', {}, `${label} `, h('select', {dataset: {key: name},
      onchange: ({target: {value}}) => choose({[name]: value || null})},
    values.map(([value, text]) => h('option', {value, selected: value === now}, text))));
    const counts = {failed: ` (${number(failed)})`, lost: ` (${number(lost)})`};
    const same = (names) => names.map((name) => [name, visible(name || '(none)')]);
    replace(this.controls,
        envs.length > 1 && select('env', 'Environment', same(envs), env),
        select('by', 'Rows', [['task', 'tasks'], ['subtask', 'kinds of task']], params.by || 'task'),
        select('order', 'Order', ORDERS, params.order || 'hardest'),
        select('only', 'Show', ONLY.map(([value, text]) => [value, text + (counts[value] || '')]), params.only || ''),
        params.only === 'lost' && steps.length > 1 && select('since', 'Solved by', [['', 'any other column'],
          ...steps.slice(0, -1).map((step) => [String(step), since(step)])], params.since || ''),
        (subtasks.length > 1 || params.subtask) && params.by !== 'subtask' && select('subtask', 'Kind',
            [['', 'all'], ...same([...new Set([...subtasks, ...params.subtask ? [params.subtask] : []])])], params.subtask || ''),
        params.by !== 'subtask' && h('input', {type: 'search', placeholder: 'Words of the goal', value: params.q || '',
          'aria-label': 'Words of the goal', dataset: {key: 'q'}, onchange: ({target: {value}}) => choose({q: value || null})}));
  }

  showRows(found) {
    const {rows, columns, total, of, left_out: leftOut} = found;
    const box = this.rows.querySelector('.scroll');
    const [x, y] = [box?.scrollLeft || 0, box?.scrollTop || 0];
    if (!columns.length) {
      replace(this.rows, notice('Nothing was evaluated here yet. ', 'Runs are evaluated before and after they learn.'));
      return;
    }
    const start = found.from;
    const kinds = this.params.by === 'subtask';
    // Once a column: it may name hundreds of runs.
    const links = columns.map((column) => href('episodes', {...where(column), env: found.env}));
    replace(this.rows,
        h('div', {class: 'paging'},
            h('span', {class: 'soft'}, rows.length ? `${number(start + 1)} to ${number(start + rows.length)} of ${number(total)}` +
              (total < of ? ` (${number(of)} in all)` : '') : `none of ${number(of)}`),
            h('button', {type: 'button', disabled: start === 0, dataset: {key: 'earlier'},
              onclick: () => change({from: Math.max(0, start - COUNT) || null})}, 'Earlier'),
            h('button', {type: 'button', disabled: start + rows.length >= total, dataset: {key: 'later'},
              onclick: () => change({from: start + COUNT})}, 'Later'),
            h('span', {class: 'soft'}, 'Share of valid episodes solved, (number of them); a cell opens them.')),
        leftOut.length > 0 && notice('Other tasks under the same numbers, left out: ', visible(leftOut.join(', '))),
        rows.length > 0 && h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of tasks'},
            h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, kinds ? 'Kind' : 'Task'),
                !kinds && [h('th', {}, 'Goal'), h('th', {}, 'Kind')], h('th', {class: 'num'}, 'All'),
                columns.map(({label}) => h('th', {class: 'num', scope: 'col'}, visible(label))))),
            h('tbody', {}, rows.map((row) => this.row(row, found, kinds, links))))));
    const scroll = this.rows.querySelector('.scroll');
    if (scroll) Object.assign(scroll, {scrollLeft: x, scrollTop: y});
  }

  row({key, subtask, goal, all, cells}, {columns}, kinds, links) {
    const of = query(kinds ? {subtask: join([key]) || 'none'} : {task: key});
    return h('tr', {}, h('th', {scope: 'row'}, kinds ? visible(key || '(none)') : key),
        !kinds && [h('td', {class: 'goal', title: visible(goal)}, h('bdi', {}, visible(goal))),
          h('td', {}, visible(subtask))],
        h('td', {class: `num ${all[1] ? '' : 'none'}`}, all[1] ? share(all) : `none (${number(all[0])})`),
        cells.map((cell, i) => cell ? heat(cell, `${links[i]}&${of}`) :
          h('td', {class: 'empty', title: 'not played'}, '·')));
  }
}

const share = ([n, solved]) => `${(solved / n).toFixed(2)} (${number(n)})`;

/** The filters of a column's episodes. */
const where = ({runs, policy, files}) => ({runs: join(runs), origin: policy === null ? null : 'eval',
  policy, file: join(files)});

function heat(cell, link) {
  const [n, solved] = cell;
  return h('td', {class: 'cell', title: `${number(solved)} of ${number(n)} episodes solved`,
    style: {background: `color-mix(in srgb, var(--calm) ${(50 * solved / n).toFixed(1)}%, var(--paper))`}},
  h('a', {href: link}, share(cell)));
}
