// All pairs of policies or groups of runs, sorted by success.

import {api, failure, h, notice, query, replace, visible} from '../lib/dom.js';
import {asked, columnControls} from '../lib/columns.js';
import {followEvery} from '../lib/live.js';
import {fileName, join, split} from '../lib/names.js';
import {chance, interval, pValue, rate} from '../lib/paired.js';
import {href} from '../lib/route.js';

export const title = 'Matrix';
export const keys = ['runs', 'group'];

const LEVEL = 0.05;
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
    this.controls = h('div');
    this.result = h('section', {'aria-label': 'Matrix'});
    root.append(h('h1', {}, 'All pairs'), this.controls, this.result);
  }

  async show(params) {
    this.params = params;
    const {signal} = this;
    try {
      const {evaluations} = await api('evaluations', {}, {signal});
      if (params !== this.params) return; // changed meanwhile
      const key = document.activeElement?.dataset.key;
      replace(this.controls, columnControls(params, evaluations));
      if (key) this.controls.querySelector(`[data-key="${key}"]`)?.focus();
      this.result.setAttribute('aria-busy', 'true');
      const found = await api('matrix', asked(params), {signal});
      if (params !== this.params) return;
      this.result.removeAttribute('aria-busy');
      this.showResult(found);
    } catch (error) {
      if (error.name === 'AbortError' || params !== this.params) return;
      this.result.removeAttribute('aria-busy');
      replace(this.result, failure(error));
    }
  }

  showResult({matrices, left_out: leftOut, levels, specs}) {
    const {result} = this;
    const [x, y] = [result.querySelector('.scroll')?.scrollLeft, result.querySelector('.scroll')?.scrollTop];
    const drawn = matrices.filter(({standings}) => standings.length > 1);
    replace(result,
        !drawn.length && notice('There are no two policies to compare. ',
            'Runs are evaluated before and after they learn; choose the steps of one, or other evaluations.'),
        drawn.map((each) => this.matrix(each, specs, levels)),
        leftOut.map(({label, why}) => notice(`${visible(label)} is left out. `, visible(why))));
    const box = result.querySelector('.scroll');
    if (box) Object.assign(box, {scrollLeft: x || 0, scrollTop: y || 0});
  }

  matrix({env, standings, rows, seed_rows: seeds, refused}, specs, levels) {
    const key = (a, b) => `${a}\n${b}`;
    const pairs = new Map(rows.flatMap((row) => [[key(row.a, row.b), row], [key(row.b, row.a), turned(row)]]));
    const over = new Map(seeds.flatMap(({a, b, mean_low: low, mean_high: high}) => [[key(a, b), [low, high]],
      [key(b, a), [minus(high), minus(low)]]]));
    const apart = new Map(refused.flatMap((each) => [[key(each.a, each.b), each.why], [key(each.b, each.a), each.why]]));
    const among = standings.every(({label}) => specs[label].length === 1) ?
      join(standings.map(({label}) => specs[label][0])) : null;
    const tests = rows.find((row) => row.holm_tests)?.holm_tests;
    const several = standings.some(({runs}) => runs > 1);
    const cell = (a, b) => {
      if (a === b) return h('td', {class: 'self'});
      const row = pairs.get(key(a, b));
      if (!row || row.difference === null) {
        return h('td', {class: 'soft', title: apart.get(key(a, b))}, 'not compared');
      }
      const p = row.p_holm ?? row.p_value;
      const [first, second] = [specs[a][0], specs[b][0]];
      const ends = over.get(key(a, b));
      // Of groups, the claim is about other runs: both intervals have to show it,
      // and one that is not known (null) shows nothing.
      const real = p < LEVEL && (!ends || ends[0] > 0 || ends[1] < 0);
      const kind = real ? row.difference > 0 ? 'better' : 'worse' : '';
      return h('td', {class: `pair ${kind}`}, h('a', {href: href('compare', {runs: among, a: first, b: second}),
        title: specs[a].length > 1 || specs[b].length > 1 ? `Compare ${first} with ${second}, the first runs` :
          `Compare ${first} with ${second}`},
      interval(row),
      h('small', {}, row.won === null ? '' : `${row.won} won, ${row.lost} lost · `,
          `p ${pValue(row)}`, row.p_holm === null ? '' : ` · Holm ${pValue(row, row.p_holm)}`, ` · n ${row.tasks}`),
      ends && h('small', {}, ends.includes(null) ? 'over seeds not known' :
        `over seeds [${ends.map((end) => end.toFixed(3).replace('-', '−')).join(', ')}]`)));
    };
    return h('section', {'aria-label': env},
        h('h2', {}, visible(env), ' ', h('a', {class: 'soft', download: fileName([...split(this.params.runs), `matrix-${env}`], 'csv'),
          href: `/api/matrix.csv?${query(asked(this.params))}`}, 'CSV')),
        h('p', {class: 'soft'}, 'Row minus column: difference in success with its 95% interval over tasks; ' +
          'p of McNemar’s test, of several samples or runs a permutation over tasks' +
          (tests ? `; Holm adjusts it for all ${tests} pairs` : '') +
          '; n counts the tasks that both have played. Colour: adjusted p below 0.05' +
          (several ? ', and an interval over seeds without 0.' : '.') +
          (several ? ' Intervals over seeds are about other runs of the same experiment (Welch’s t).' : '')),
        h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Pairs in ${env}`}, h('table', {},
            h('thead', {}, h('tr', {}, h('th', {}, 'Policy'), h('th', {}, 'Success, 95% over tasks'),
                standings.map(({label}) => h('th', {scope: 'col'}, '− ', visible(label))))),
            h('tbody', {}, standings.map((each) => h('tr', {},
                h('th', {scope: 'row'}, visible(each.label), each.runs > 1 && h('small', {class: 'soft'}, ` ${each.runs} runs`)),
                h('td', {}, standing(each),
                    h('div', {}, h('small', {class: 'soft'}, chance(levels[each.label]?.[env])))),
                standings.map(({label}) => cell(each.label, label))))))),
        refused.filter(({a, b}) => a === b).map(({a, why}) => notice(`${visible(a)} is left out. `, visible(why))));
  }
}

function standing({mean, low, high, tasks, seed_low: seedLow, seed_high: seedHigh}) {
  if (mean === null) return '–';
  return [h('strong', {}, rate(mean)), ` [${rate(low)}, ${rate(high)}]`, h('br'),
    h('small', {class: 'soft'}, `n ${tasks} tasks`,
        seedLow === null ? '' : ` · over seeds [${rate(seedLow)}, ${rate(seedHigh)}]`)];
}

/** The value with the other sign; null stays null. */
function minus(value) {
  return value === null ? null : -value;
}

/** A row as b against a. */
function turned(row) {
  return {...row, a: row.b, b: row.a, difference: minus(row.difference), low: minus(row.high),
    high: minus(row.low), won: row.lost, lost: row.won};
}
