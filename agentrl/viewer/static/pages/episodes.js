// The table of all episodes. Every filter, the order and the place are the URL.

import {h, s, api, failure, notice, number, percent, replace, visible} from '../lib/dom.js';
import {change, current, href} from '../lib/route.js';
import {followEvery} from '../lib/live.js';
import {join} from '../lib/names.js';

export const title = 'Episodes';

const PAGE = 100;
const LIVE_MS = 2000; // between looks at what a live run has added

// Filters by choice: parameter, label, and the column of /api/episodes/values.
const CHOICES = [
  ['runs', 'Run'],
  ['origin', 'From'],
  ['policy', 'Policy'],
  ['env', 'Environment'],
  ['subtask', 'Subtask'],
  ['split', 'Split'],
  ['stop_reason', 'Stopped by'],
];
const SUCCESS = [['1', 'solved'], ['0', 'not solved']];
// Filters by number or range.
const RANGES = [
  ['step', 'Step'],
  ['turns', 'Turns'],
  ['return', 'Return'],
  ['version', 'Weights'],
];
const MORE_RANGES = [
  ['task', 'Task'],
  ['seed', 'Seed'],
  ['sample', 'Sample'],
  ['attempt', 'Attempt'],
  ['horizon', 'Horizon'],
  ['tokens', 'Tokens sampled'],
  ['parse_errors', 'Parse errors'],
  ['repeated', 'Repeated actions'],
  ['first_reward', 'Turn of first reward'],
];
const FILTERS = [
  'q', 'success', 'file', 'line', 'weights', 'episode_id',
  ...[...CHOICES, ...RANGES, ...MORE_RANGES].map(([name]) => name)];
export const keys = [...FILTERS, 'sort', 'from'];
const LABELS = Object.fromEntries([
  ...CHOICES, ...RANGES, ...MORE_RANGES,
  ['q', 'Words'], ['success', 'Success'], ['file', 'File'], ['line', 'Line'],
  ['weights', 'Versions of weights'], ['episode_id', 'Id']]);
// The column of the index that a filter is of, where they differ.
const columnOf = (name) => name === 'runs' ? 'run' : name;

// Columns: name, heading, its explanation, and whether it is a number.
const COLUMNS = [
  ['task', 'Task', 'Task and sample: open the episode', false],
  ['success', 'Solved', '', false],
  ['run', 'Run', 'Folder of the run', false],
  ['origin', 'From', 'Training, evaluation or warm start', false],
  ['step', 'Step', 'Step of the run', true],
  ['env', 'Env', 'Environment', false],
  ['subtask', 'Subtask', 'Kind of task', false],
  ['return', 'Return', 'Sum of rewards', true],
  ['stop_reason', 'Stopped by', '', false],
  ['turns', 'Turns', '', true],
  ['horizon', 'of', 'Turns allowed: the horizon', true],
  ['tokens', 'Tokens', 'Tokens sampled', true],
  ['parse_errors', 'Parse err.', 'Turns in which no action was found', true],
  ['repeated', 'Repeated', 'Turns that answer an observation with an action that it had before', true],
  ['first_reward', 'Rewarded', 'Turn of the first reward, from 1', true],
  ['version', 'Weights', 'Version of the weights when it began', true],
];

export async function render(root, params, {signal}) {
  const form = h('form', {class: 'filters', onsubmit: (e) => e.preventDefault()});
  const chips = h('div', {class: 'chips', role: 'group', 'aria-label': 'Filters in use'});
  const figures = h('p', {class: 'figures', 'aria-live': 'polite'});
  const sources = h('ul', {class: 'sources', 'aria-label': 'Solved, by source'});
  const histogram = h('div', {class: 'histogram'});
  const pager = h('nav', {class: 'pager', 'aria-label': 'Pages of the table'});
  const head = h('thead');
  const body = h('tbody');
  const table = h('div', {
    class: 'scroll rows', tabindex: 0, role: 'region', 'aria-label': 'Episodes',
  }, h('table', {}, head, body));
  const message = h('div');
  const wide = matchMedia('(min-width: 641px)').matches;
  root.append(
      h('div', {class: 'overview'},
          h('div', {class: 'words'}, h('h1', {}, 'Episodes'), figures, sources), histogram),
      h('details', {class: 'box', open: wide},
          h('summary', {}, 'Filters'), form), chips,
      message, table, pager);
  body.addEventListener('click', openRow);

  let turn = 0;

  async function show(params, {quiet = false} = {}) {
    const mine = ++turn;
    const chosen = Object.fromEntries(
        FILTERS.map((name) => [name, params[name]]).filter(([, x]) => x));
    if (!quiet) {
      drawChips(chips, chosen);
      drawHead(head, params);
      table.setAttribute('aria-busy', 'true');
    }
    try {
      const from = Number(params.from) || 0;
      const asked = Object.fromEntries(
          Object.entries(chosen).map(([name, value]) => [columnOf(name), value]));
      const [page, summary, values] = await Promise.all([
        api('episodes', {...asked, sort: params.sort, from, count: PAGE}, {signal}),
        api('episodes/summary', asked, {signal}),
        api('episodes/values', {run: params.runs}, {signal}),
      ]);
      if (mine !== turn) return;
      replace(message, summary.problem && notice(summary.problem));
      if (!form.contains(document.activeElement)) drawForm(form, values, params);
      drawFigures(figures, summary);
      drawSources(sources, summary);
      drawHistogram(histogram, summary, params);
      drawRows(body, page.rows);
      drawPager(pager, from, page.rows.length, summary.total);
      if (!summary.total) {
        replace(message, empty(Object.keys(chosen).length, summary.indexed));
      }
    } catch (error) {
      if (error.name === 'AbortError' || mine !== turn) return;
      replace(message, failure(error));
      replace(body);
      replace(pager);
    } finally {
      if (mine === turn) table.removeAttribute('aria-busy');
    }
  }

  // What came since the last look; a place within the table is not disturbed.
  followEvery(LIVE_MS, () => show(current().params, {quiet: true}), signal);
  // The first words come with the page: it is shown complete.
  await show(params);
  return {update: show};
}

function empty(filtered, indexed) {
  if (indexed < 1) return notice('The episodes are being read: ', percent(indexed));
  if (filtered) {
    return notice('No episode is like that. ',
        h('a', {href: href('episodes')}, 'Take all filters away.'));
  }
  return notice('There are no episodes below this folder yet. ',
      'They appear here while a run writes them; start the viewer with ',
      h('code', {}, '--workdir='), ' of another folder to see others.');
}

function set(name, value) {
  change({[name]: value, from: null});
}

function drawForm(form, values, params) {
  const wasOpen = form.querySelector('details')?.open;
  const select = (name, label, options) => h('label', {}, label,
      h('select', {name, onchange: (e) => set(name, e.target.value)},
          h('option', {value: ''}, 'all'),
          options.map(([value, text]) =>
            h('option', {value, selected: value === params[name]}, text))));
  const field = (name, label, hint) => h('label', {}, label,
      h('input', {
        name, value: params[name] || '', placeholder: hint, autocomplete: 'off',
        spellcheck: 'false', onchange: (e) => set(name, e.target.value.trim()),
      }));
  const choices = CHOICES.map(([name, label]) => {
    const found = values[columnOf(name)].filter(({value}) => value !== '');
    const options = found.map(({value}) => [join([value]), value]);
    const known = options.some(([value]) => value === params[name]);
    if (params[name] && !known) options.push([params[name], params[name]]);
    // Where there is nothing to choose, the field would only take room.
    return options.length > 1 || params[name] ? select(name, label, options) : null;
  });
  replace(form,
      h('label', {class: 'words'}, 'Words in observations and actions',
          h('input', {
            type: 'search', name: 'q', value: params.q || '',
            placeholder: 'red ball', onchange: (e) => set('q', e.target.value),
          })),
      choices,
      select('success', 'Success', SUCCESS),
      RANGES.map(([name, label]) => field(name, label, '3 or 2..5')),
      h('details', {open: wasOpen || MORE_RANGES.some(([name]) => params[name])},
          h('summary', {}, 'More'),
          h('div', {class: 'filters'},
              MORE_RANGES.map(([name, label]) => field(name, label, '1..')))));
}

function drawChips(chips, chosen) {
  replace(chips, Object.entries(chosen).map(([name, value]) =>
    h('a', {
      class: 'chip', href: linkWith({[name]: null, from: null}),
      'aria-label': `Take the filter ${LABELS[name]} away`,
    }, `${LABELS[name]}: `, h('bdi', {}, visible(value)), ' ×')));
}

function linkWith(changes) {
  return href('episodes', {...current().params, ...changes});
}

function drawHead(head, params) {
  const sorted = (params.sort || '').replace('-', '');
  const falls = (params.sort || '').startsWith('-');
  const cells = COLUMNS.map(([name, label, hint, numeric]) => {
    const mine = name === sorted;
    // First the greatest, then the least, then the newest file again.
    const next = !mine ? `-${name}` : falls ? name : null;
    return h('th', {
      scope: 'col', class: numeric && 'num',
      'aria-sort': mine && (falls ? 'descending' : 'ascending'),
    }, h('a', {href: linkWith({sort: next, from: null}), title: hint || null},
        label, h('span', {class: 'arrow', 'aria-hidden': 'true'},
            mine ? (falls ? '▾' : '▴') : '')));
  });
  replace(head, h('tr', {}, cells));
}

function drawFigures(figures, summary) {
  const part = (value, label) =>
    h('span', {}, h('b', {}, value), ` ${label}`);
  replace(figures,
      part(number(summary.total), 'episodes'),
      part(number(summary.return, 3), 'mean return'),
      part(number(summary.turns, 1), 'turns'),
      summary.broken > 0 && h('span', {
        class: 'warn', title: 'Lines of the files that are no episodes',
      }, `${number(summary.broken)} broken lines`),
      summary.indexed < 1 &&
        h('span', {class: 'warn'}, `${percent(summary.indexed)} read`));
}

/** Success of training, evaluations and policies, which are not one share. */
function drawSources(list, {sources, more_sources: more}) {
  replace(list, sources.map(({run, origin, policy, step, env, n, tasks, success}) => {
    const of = [run, env, origin, step !== null && `step ${step}`, policy]
        .filter(Boolean).join(' · ');
    return h('li', {title: `${number(n)} episodes of ${number(tasks)} tasks; the mean ` +
      'over tasks, with its 95% interval'},
    h('b', {}, success ? percent(success.mean) : '–'), ' solved ',
    success && `[${percent(success.low)}, ${percent(success.high)}] n=${number(n)} `,
    h('span', {class: 'soft'}, h('bdi', {}, visible(of))));
  }), more > 0 && h('li', {class: 'soft'}, `and ${number(more)} more; filter to see them`));
}

const WIDTH = 480, HEIGHT = 66;

/** Returns, solved ones in green; each bar is a link that filters by it. */
function drawHistogram(box, summary, params) {
  const {low, high, bins} = summary;
  const most = Math.max(...bins.map(({n}) => n), 1);
  const width = WIDTH / bins.length;
  const step = (high - low) / bins.length;
  const bars = bins.map(({n, successes}, i) => {
    const from = short(low + i * step);
    const to = short(low + (i + 1) * step);
    const last = i === bins.length - 1;
    const range = step ? `${from}..${last ? short(high) : `<${to}`}` : `${low}`;
    const height = n ? Math.max((n / most) * HEIGHT, 2) : 0;
    const good = n ? (height * successes) / n : 0;
    const words = `Return ${from} to ${to}: ${number(n)} episodes, ` +
        `${number(successes)} solved`;
    const mine = params.return === range;
    const x = i * width;
    const shapes = [
      s('title', {}, words),
      s('rect', {class: 'back', x, y: 0, width, height: HEIGHT}),
      s('rect', {class: 'fail', x: x + 0.5, y: HEIGHT - height, width: width - 1, height: Math.max(height - good, 0)}),
      s('rect', {class: 'won', x: x + 0.5, y: HEIGHT - good, width: width - 1, height: good}),
    ];
    if (!n && !mine) return s('g', {}, shapes);
    return s('a', {
      href: linkWith({return: mine ? null : range, from: null}),
      class: mine && 'mine', 'aria-label': words,
    }, shapes);
  });
  replace(box,
      s('svg', {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none',
        role: 'group', 'aria-label': 'Histogram of returns',
      }, bars),
      h('div', {class: 'axis'}, h('span', {}, number(low)),
          h('span', {}, `return; highest bar ${number(most)}; `, h('i', {class: 'swatch won'}), ' solved ',
              h('i', {class: 'swatch fail'}), ' not'),
          h('span', {}, number(high))));
}

// Enough digits for a filter, and not 0.30000000000000004.
function short(value) {
  return Number(value.toPrecision(6));
}

function where({run, file, line}) {
  return {run, file, line};
}

function drawRows(body, rows) {
  replace(body, rows.map((row) => {
    const link = href('replay', where(row));
    const cell = {
      task: h('a', {href: link, title: row.episode_id},
          `${row.task}`, row.sample ? h('span', {class: 'soft'}, ` #${row.sample}`) : null,
          row.attempt ? h('span', {class: 'soft'}, ` attempt ${row.attempt + 1}`) : null),
      run: h('bdi', {}, visible(row.policy ? `${row.run} · ${row.policy}` : row.run)),
      return: row.return.toFixed(3),
      success: row.success ?
        h('span', {class: 'good', title: 'solved'}, '✓') :
        h('span', {class: 'soft', title: 'not solved'}, '✗'),
      stop_reason: h('span', {
        class: `chip ${TONES[row.stop_reason] || ''}`, title: row.error,
      }, visible(row.stop_reason)),
      parse_errors: zero(row.parse_errors),
      repeated: zero(row.repeated),
    };
    return h('tr', {dataset: {link}}, COLUMNS.map(([name, , , numeric]) =>
      h('td', {class: numeric && 'num'}, cell[name] ?? (
        numeric ? number(row[name]) : h('bdi', {}, visible(row[name] || '–'))))));
  }));
}

const TONES = {
  timeout: 'bad', env_error: 'bad', engine_error: 'bad',
  horizon: 'warn', context: 'warn',
};

function zero(value) {
  return value ? number(value) : h('span', {class: 'soft'}, '0');
}

function openRow(event) {
  if (event.target.closest('a') || getSelection().toString()) return;
  const link = event.target.closest('tr')?.dataset.link;
  if (link) location.hash = link;
}

function drawPager(pager, from, count, total) {
  const link = (label, to, there) => there ?
    h('a', {href: linkWith({from: to || null})}, label) :
    h('span', {class: 'soft', 'aria-hidden': 'true'}, label);
  const last = Math.max(Math.floor((total - 1) / PAGE) * PAGE, 0);
  replace(pager, total ? [
    link('First', 0, from > 0),
    link('Previous', Math.max(from - PAGE, 0), from > 0),
    h('span', {}, `${number(from + 1)}–${number(from + count)} of ${number(total)}`),
    link('Next', from + PAGE, from + count < total),
    link('Last', last, from < last),
  ] : null);
}
