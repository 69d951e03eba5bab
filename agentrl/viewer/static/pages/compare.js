// Two evaluations on one panel: who solved what, and one task turn by turn.

import {api, failure, h, notice, number, query, replace, visible} from '../lib/dom.js';
import {head, pieces, turns} from '../lib/episode.js';
import {follow} from '../lib/live.js';
import {join, split} from '../lib/names.js';
import {
  chance, divergence, figures, heads, interval, picture, pSaid, pValue, rate, testName, verdict,
} from '../lib/paired.js';
import {change, href} from '../lib/route.js';
import {renderPrompt, renderTurn} from '../lib/turn.js';

export const title = 'Compare';
export const keys = ['runs', 'a', 'b', 'o', 'env', 'task', 'sample', 'metric'];

const TURNS = 50; // of an episode, before somebody asks for more
const SHOWN = 200; // rows of a list of episodes
const METRICS = [
  ['success', 'Success'], ['success_errors_fail', 'Success, errors as failures'],
  ['return', 'Return'], ['progress', 'Progress'],
];

export async function render(root, params, {signal}) {
  const page = new Page(root, params, signal);
  await page.load();
  follow(() => page.refresh(), signal);
  return {update: (next) => page.show(next)};
}

class Page {
  constructor(root, params, signal) {
    Object.assign(this, {params, signal, found: null, asked: ''});
    this.choice = h('div', {class: 'choice'});
    this.pairs = h('nav', {class: 'among', 'aria-label': 'Pairs of the comparison'});
    this.stages = h('section');
    this.result = h('div', {class: 'result'});
    this.pair = h('section', {'aria-label': 'One task', class: 'pair'});
    root.append(h('h1', {}, 'Compare'), this.choice, this.pairs, this.stages, this.result, this.pair);
  }

  async load() {
    await this.loadEvaluations();
    await this.show(this.params);
  }

  async loadEvaluations() {
    const found = await api('evaluations', {}, {signal: this.signal});
    this.evaluations = found.evaluations;
  }

  /** New evaluations of a live run; what is chosen stays. */
  async refresh() {
    const before = JSON.stringify(this.evaluations);
    try {
      await this.loadEvaluations();
      if (JSON.stringify(this.evaluations) === before) return;
      this.stageRun = null;
      await this.show(this.params);
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.result, failure(error));
    }
  }

  async show(params) {
    this.params = params;
    if (!this.evaluations.length) {
      replace(this.choice, notice('Nothing can be compared yet. ',
          'A run is evaluated before and after it learns; others are made by ',
          h('code', {}, "python launch.py --config='configs/evaluate.py:model=runs/NAME' --workdir=runs/eval"),
          '.'));
      return;
    }
    this.showChoice();
    await this.showResult(this.showStages());
  }

  get specs() {
    return [this.params.a, this.params.b];
  }

  /** The evaluations of a comparison of several. */
  get among() {
    return split(this.params.runs).filter((spec) => this.evaluations.some((each) => each.spec === spec));
  }

  /** The run whose stages are shown: the one asked for, or that of a or b. */
  get run() {
    const named = split(this.params.runs).find((name) => this.evaluations.some(({run}) => run === name));
    if (named) return named;
    const learnt = (spec) => this.evaluations.find(
        (each) => each.spec === spec && each.step !== null)?.run;
    if (this.params.a || this.params.b) {
      return learnt(this.params.a) || learnt(this.params.b);
    }
    return this.evaluations.find((each) => each.step !== null)?.run;
  }

  showChoice() {
    const byRun = Map.groupBy ? Map.groupBy(this.evaluations, (each) => each.run) :
      group(this.evaluations);
    const select = (side) => h('select', {'aria-label': `Evaluation ${side}`,
      onchange: (event) => change({[side]: event.target.value, o: null, env: null,
        task: null, sample: null})},
    h('option', {value: ''}, 'Choose an evaluation'),
    [...byRun].map(([run, all]) => h('optgroup', {label: visible(run)}, all.map((each) =>
      h('option', {value: each.spec, selected: this.params[side] === each.spec},
          visible(`${run === '.' ? '' : `${run} · `}${each.label}`))))));
    const [a, b] = this.specs;
    replace(this.choice,
        h('label', {}, 'A ', select('a')), h('label', {}, 'B ', select('b')),
        h('button', {type: 'button', disabled: !a && !b,
          onclick: () => change({a: b, b: a, o: swap(this.params.o)})}, 'Swap'),
        this.among.length > 0 && h('a', {href: href('matrix', {runs: join(this.among)})}, 'All pairs'));
    this.showAmong();
  }

  /** Links to all pairs of a comparison of three or more policies. */
  showAmong() {
    const specs = this.among;
    const pairs = specs.flatMap((a, i) => specs.slice(i + 1).map((b) => [a, b]));
    const [a, b] = this.specs;
    replace(this.pairs, pairs.length > 1 && [
      h('span', {class: 'soft'}, `${pairs.length} pairs of ${specs.length}: `),
      pairs.map(([one, other]) => h('a', {
        href: href('compare', {runs: this.params.runs, a: one, b: other}),
        'aria-current': one === a && other === b && 'true',
      }, visible(`${one} – ${other}`)))]);
  }

  async showStages() {
    const {run} = this;
    if (!run) {
      replace(this.stages);
      return;
    }
    try {
      if (this.stageRun !== run) {
        this.stageRun = run;
        this.steps = await api('stages', {run}, {signal: this.signal});
      }
      if (this.steps?.run === this.run) {
        replace(this.stages, this.steps.rows.length > 0 && this.stageTable(this.steps));
      }
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.stageRun = null;
      replace(this.stages, failure(error));
    }
  }

  stageTable({run, rows}) {
    return [h('h2', {}, `From evaluation to evaluation: ${run}`),
      h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Stages'},
          h('table', {}, h('thead', {}, h('tr', {},
              heads(['From', 'To', 'Horizon between'],
                  ['Success', 'Difference, 95% interval', '', 'Gained', 'Lost', 'p', '']))),
          h('tbody', {}, rows.map((step) => h('tr',
              {class: this.params.a === step.a && this.params.b === step.b && 'chosen'},
              h('td', {}, step.before), h('td', {}, step.after),
              h('td', {}, step.horizons.length ? `${step.horizons.join(' → ')} turns` : '–'),
              step.row ? stageCells(step) :
                h('td', {class: 'soft refused', colspan: 7}, visible(step.refused)))))))];
  }

  /** The pair's figures, once the stages above them cannot push them down. */
  async showResult(above) {
    const [a, b] = this.specs;
    if (!a || !b) {
      this.asked = '';
      await above;
      if (this.asked) return;
      this.result.removeAttribute('aria-busy'); // what was asked for is dropped
      replace(this.result, notice('Choose two evaluations. ',
          'They compare in pairs where they have played one panel: the same tasks under',
          ' the same seeds.'));
      replace(this.pair);
      return;
    }
    const asked = `${a}\n${b}`;
    try {
      if (this.asked !== asked) {
        this.asked = asked;
        this.found = null;
        replace(this.pair);
        this.result.setAttribute('aria-busy', 'true');
        const found = await api('compare', {a, b}, {signal: this.signal});
        if (this.asked !== asked) return; // others were chosen meanwhile
        this.found = found;
        this.result.removeAttribute('aria-busy');
      }
      await above;
      if (this.asked !== asked || !this.found) return;
      if (this.found.refused) {
        replace(this.result, notice('These do not compare. ', this.found.refused));
        return;
      }
      replace(this.result, this.found.outcomes.map((each) => this.outcome(each)),
          this.settings());
      await this.showPair();
    } catch (error) {
      if (error.name === 'AbortError' || this.asked !== asked) return;
      this.asked = '';
      this.result.removeAttribute('aria-busy');
      replace(this.result, failure(error));
      replace(this.pair);
    }
  }

  /** One environment: the figures, the four cells, and the episodes of one. */
  outcome(outcome) {
    const {env, a, b} = outcome;
    const panel = this.found.panels.find((each) => each.env === env);
    const rows = this.found.rows.filter((row) => row.env === env);
    const levels = chance(this.found.levels[env]);
    const all = rows.find((row) => row.metric === 'success' && row.subtask === 'all');
    const chosen = this.params.o && (this.params.env || env) === env ? this.params.o : null;
    const metric = this.params.metric || 'success';
    const shown = rows.filter((row) => row.metric === metric);
    return h('section', {'aria-label': env},
        h('h2', {}, env, h('span', {class: 'soft'},
            ` ${panel.tasks} tasks of ${panel.split}` +
            (panel.samples > 1 ? `, ${panel.samples} episodes each` : '') +
            `, at most ${panel.horizon} turns. ${panel.success}`)),
        h('div', {class: 'summary'},
            this.cells(outcome, chosen),
            h('div', {class: 'verdict'},
                h('p', {class: 'big'}, `A ${rate(all.mean_a)} · B ${rate(all.mean_b)}`),
                levels && h('p', {class: 'soft'}, `On the same tasks: ${levels}`),
                h('p', {}, h('strong', {}, 'A '), visible(a), h('br'),
                    h('strong', {}, 'B '), visible(b)),
                h('p', {}, 'A minus B: ', h('strong', {}, interval(all)), ' ', picture(all)),
                h('p', {}, `${pSaid(all)}, ${testName(all)}`),
                h('p', {class: 'soft'}, verdict(all)))),
        h('label', {class: 'metric'}, 'By subtask: ', h('select', {
          'aria-label': 'Metric of the table',
          onchange: (event) => change({metric: event.target.value})},
        METRICS.filter(([name]) => rows.some((row) => row.metric === name)).map(
            ([name, label]) => h('option', {value: name, selected: name === metric}, label)))),
        h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Figures'},
            figures(shown)),
        chosen && this.list(outcome, chosen));
  }

  cells(outcome, chosen) {
    const cell = (name, kind) => {
      const count = outcome[name].length;
      return h('td', {class: kind}, h('button', {type: 'button',
        'aria-pressed': String(chosen === name), disabled: !count,
        onclick: () => change({o: chosen === name ? null : name, env: outcome.env,
          task: null, sample: null})},
      h('span', {class: 'count'}, number(count)), h('span', {}, name)));
    };
    return h('div', {class: 'cells'}, h('table', {},
        h('thead', {}, h('tr', {}, h('td'), h('th', {scope: 'col'}, 'B solves'),
            h('th', {scope: 'col'}, 'B fails'))),
        h('tbody', {},
            h('tr', {}, h('th', {scope: 'row'}, 'A solves'), cell('both', ''), cell('won', 'good')),
            h('tr', {}, h('th', {scope: 'row'}, 'A fails'), cell('lost', 'bad'),
                cell('neither', '')))),
    outcome.missing.length > 0 && h('button', {type: 'button', class: 'quiet',
      'aria-pressed': String(chosen === 'missing'),
      onclick: () => change({o: chosen === 'missing' ? null : 'missing', env: outcome.env,
        task: null, sample: null})},
    `${outcome.missing.length} pairs without two valid episodes`));
  }

  place(side, env, id) {
    return this.found.places[side][env]?.[id] || null;
  }

  list(outcome, chosen) {
    const pairs = outcome[chosen];
    const {env} = outcome;
    const row = (pair) => {
      const [a, b] = ['a', 'b'].map((side) => this.place(side, env, pair[side]));
      const here = String(pair.task_id) === this.params.task &&
        String(pair.sample) === (this.params.sample || '0');
      const link = (place, label) => place ? h('a', {href: href('replay',
          {run: place.run, file: place.file, line: place.line})}, label) :
        h('span', {class: 'soft'}, 'not indexed yet');
      return h('tr', {class: here && 'chosen'},
          h('td', {}, h('a', {href: href('compare', {...this.params, o: chosen, env,
            task: pair.task_id, sample: pair.sample || null})}, `task ${pair.task_id}`)),
          h('td', {}, visible(pair.subtask)), h('td', {class: 'num'}, pair.sample),
          h('td', {class: 'num'}, number(a?.return, 3)), h('td', {class: 'num'}, number(a?.turns)),
          h('td', {}, link(a, 'replay A')),
          h('td', {class: 'num'}, number(b?.return, 3)), h('td', {class: 'num'}, number(b?.turns)),
          h('td', {}, link(b, 'replay B')));
    };
    return [h('h3', {}, `${LABELS[chosen]}: ${number(pairs.length)}`),
      h('div', {class: 'scroll list', tabindex: 0, role: 'region', 'aria-label': 'Episodes'},
          h('table', {}, h('thead', {}, h('tr', {},
              heads(['Side by side', 'Subtask'], ['Sample', 'Return A', 'Turns A', '',
                'Return B', 'Turns B', '']))),
          h('tbody', {}, pairs.slice(0, SHOWN).map(row)))),
      pairs.length > SHOWN && h('p', {class: 'soft'},
          `The first ${SHOWN}; mode 'compare' writes all of them to comparison.json.`)];
  }

  settings() {
    const {settings} = this.found;
    const skipped = this.found.skipped.map(({env, only}) =>
      h('p', {class: 'soft'}, `${env} is left out: only ${only} has it.`));
    if (!settings.length) return skipped;
    return [h('details', {}, h('summary', {},
        `${settings.length} settings differ`),
    h('div', {class: 'scroll'}, h('table', {}, h('thead', {}, h('tr', {},
        ['Setting', 'A', 'B'].map((label) => h('th', {}, label)))),
    h('tbody', {}, settings.map((each) => h('tr', {}, h('td', {}, h('code', {}, each.name)),
        h('td', {}, JSON.stringify(each.value_a)), h('td', {}, JSON.stringify(each.value_b)))))))),
    skipped];
  }

  /** The chosen task under both policies, turn beside turn. */
  async showPair() {
    const {task, sample = '0', o: chosen} = this.params;
    const outcome = this.found.outcomes.find(
        (each) => each.env === (this.params.env || this.found.outcomes[0].env));
    const pair = task && outcome?.[chosen]?.find((each) =>
      String(each.task_id) === task && String(each.sample) === sample);
    const asked = pair ? JSON.stringify([this.specs, pair]) : '';
    if (asked === this.pairAsked && this.pair.childElementCount) return;
    this.pairAsked = asked;
    if (!pair) {
      replace(this.pair);
      return;
    }
    const places = ['a', 'b'].map((side) => this.place(side, outcome.env, pair[side]));
    if (places.includes(null)) {
      replace(this.pair, notice('An episode is not indexed yet. ', 'Choose the task again.'));
      return;
    }
    const keys = places.map(({run, file, line}) => ({run, file, line}));
    const signal = this.signal;
    const [heads, windows] = await Promise.all([
      Promise.all(keys.map((key) => head(key, {signal}))),
      Promise.all(keys.map((key) => turns(key, 0, TURNS, {signal}))),
    ]);
    replace(this.pair, this.columns(outcome, pair, {keys, heads, windows}));
    this.pair.scrollIntoView({block: 'nearest'});
  }

  columns(outcome, pair, {keys, heads, windows}) {
    const apart = divergence(...windows.map((each) => each.turns));
    const total = Math.max(...windows.map((each) => each.turns.length));
    const ask = keys.map((key) => (path) => pieces(key, path, {signal: this.signal}));
    const cell = (side, number) => {
      const turn = windows[side].turns[number];
      return turn ? renderTurn(turn, {more: ask[side], heading: 'h3',
        mark: number === apart ? 'diverges' : ''}) :
        h('p', {class: 'soft ended'}, number === windows[side].turns.length ?
          `ended: ${heads[side].stop_reason}` : '');
    };
    const title = (side) => h('div', {class: 'side'},
        h('strong', {}, `${'AB'[side]} · ${outcome[side ? 'b' : 'a']}`), ' ',
        h('span', {class: `chip ${heads[side].success ? 'good' : 'bad'}`},
            heads[side].success ? 'solved' : 'failed'),
        h('span', {class: 'soft'},
            ` return ${number(heads[side].return, 3)} · ${heads[side].stop_reason} · `),
        h('a', {href: href('replay', keys[side])}, 'replay'));
    const second = [keys[1].run, keys[1].file, keys[1].line].join('|');
    const save = (as, label) => h('a', {download: '', href: `/api/export?${query({
      ...keys[0], episode: [second], as,
      title: `Task ${pair.task_id}: ${outcome.a} and ${outcome.b}`})}`}, label);
    return [h('h2', {}, `Task ${pair.task_id}, sample ${pair.sample}`,
        h('span', {class: 'soft'}, apart === null ? ' Equal actions throughout.' :
          ` First different action in turn ${apart + 1}.`),
    h('span', {class: 'save'}, 'Export: ', save('html', 'HTML'), ' ', save('markdown', 'Markdown'))),
    h('div', {class: 'columns'}, [0, 1].map(title),
        [0, 1].map((side) => renderPrompt(heads[side].prompt,
            {more: ask[side], heading: 'h3'})),
        Array.from({length: total}, (_, number) => [cell(0, number), cell(1, number)])),
    windows.some((each) => each.total > TURNS) && h('p', {class: 'soft'},
        `The first ${TURNS} turns; the replay has all of them.`)];
  }
}

function stageCells({a, b, before, after, row}) {
  return [
    h('td', {class: 'num'}, `${rate(row.mean_b)} → ${rate(row.mean_a)}`),
    h('td', {class: 'num'}, interval(row)), h('td', {}, picture(row)),
    h('td', {class: 'num'}, row.won ?? '–'), h('td', {class: 'num'}, row.lost ?? '–'),
    h('td', {class: 'num'}, pValue(row)),
    h('td', {}, h('a', {href: href('compare', {a, b}),
      'aria-label': `Compare ${after} with ${before}`}, 'compare'))];
}

const LABELS = {
  won: 'Only A solves', lost: 'Only B solves', both: 'Both solve', neither: 'Neither solves',
  missing: 'Without two valid episodes',
};

const swap = (outcome) => ({won: 'lost', lost: 'won'}[outcome] || outcome);

function group(all) {
  const found = new Map();
  for (const each of all) found.set(each.run, [...found.get(each.run) || [], each]);
  return found;
}
