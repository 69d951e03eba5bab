// What learner, sampler and environments did in a step, and who waited for whom.

import {api, h, notice, number, percent, replace, s, visible} from '../lib/dom.js';
import {change, href} from '../lib/route.js';

export const title = 'Timeline';
export const keys = ['run', 'step'];

const WIDTH = 1000; // of the drawing's own units
const LANE = 12;
const TOP = 34; // the learner's lane, and the seconds above it
const WORDS = {
  between: 'evaluation and checkpoint', collect: 'waits for episodes',
  teach: 'asks the teacher', update: 'updates', push: 'hands the weights over',
  sampler: 'the policy writes', environment: 'the environment answers',
};

export async function render(root, params, {signal}) {
  const step = Number(params.step) || 0;
  const found = await api('timeline', {run: params.run, step}, {signal});
  const go = (to) => () => change({step: to});
  const word = (share) => percent(share, 0);
  replace(root,
      h('header', {class: 'head'},
          h('h1', {}, `Step ${step + 1} of ${found.steps} · `, h('bdi', {}, visible(params.run))),
          h('p', {class: 'soft'}, `${number(found.seconds, 1)} s: `,
              `updates ${word(found.busy.learner)}, the policy writes in `,
              `${word(found.busy.sampler)} of them, environments answer in `,
              word(found.busy.environment)),
          h('p', {class: 'links'},
              h('button', {type: 'button', disabled: step === 0, onclick: go(step - 1)}, 'Earlier'),
              h('button', {type: 'button', disabled: step + 1 >= found.steps, onclick: go(step + 1)}, 'Later'),
              h('a', {href: `/api/trace?${new URLSearchParams({run: params.run})}`, download: ''},
                  'Trace for Perfetto'))),
      found.episodes.length === 0 && notice('Only the learner is shown. ',
          'Episodes of earlier versions do not say when they were played.'),
      drawing(found, params.run),
      legend(),
      found.left_out > 0 && h('p', {class: 'soft'}, `${found.left_out} lanes more are not shown.`),
      table(found, params.run));
}

function drawing(found, run) {
  const height = TOP + LANE * (found.lanes + 1);
  const x = (seconds) => WIDTH * Math.max(0, Math.min(1, seconds / found.seconds));
  const bar = (span, top, label) => s('rect', {class: span.what, x: x(span.start), y: top,
    width: Math.max(x(span.stop) - x(span.start), 0.7), height: LANE - 3},
  s('title', {}, label));
  const spanned = (span) => `${number(span.start, 2)} to ${number(span.stop, 2)} s`;
  return h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Timeline'},
      // By keyboard, the table below leads to the episodes.
      s('svg', {viewBox: `0 0 ${WIDTH} ${height}`},
      ticks(found.seconds).map((tick) => [
        s('line', {class: 'tick', x1: x(tick), x2: x(tick), y1: 14, y2: height}),
        s('text', {x: x(tick), y: 11}, `${number(tick)} s`)]),
      found.learner.map((span) =>
        bar(span, TOP - LANE, `The learner ${WORDS[span.what]}, ${spanned(span)}`)),
      found.episodes.map((episode) => s('a', {
        href: href('replay', {run, file: episode.file, line: episode.line}), tabindex: -1},
      episode.spans.map((span) => bar(span, TOP + LANE * (episode.lane + 0.5),
          `${visible(episode.name)}, turn ${span.number + 1}: ${WORDS[span.what]}, ${spanned(span)}`))))));
}

/** Round numbers of seconds, at most ten. */
function ticks(seconds) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(seconds, 1e-3)));
  const every = [0.1, 0.2, 0.5, 1].map((x) => x * unit)
      .find((x) => seconds / x <= 10) || unit;
  return Array.from({length: Math.floor(seconds / every) + 1}, (_, i) => i * every);
}

function legend() {
  return h('ul', {class: 'legend'}, Object.entries(WORDS).map(([what, words]) =>
    h('li', {}, s('svg', {viewBox: '0 0 10 10', 'aria-hidden': 'true'},
        s('rect', {class: what, width: 10, height: 10})), words)));
}

function table(found, run) {
  if (!found.episodes.length) return null;
  const longest = [...found.episodes].sort((a, b) => last(b) - first(b) - last(a) + first(a));
  return h('details', {}, h('summary', {}, 'Episodes, the longest first'),
      h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Episodes'},
          h('table', {}, h('thead', {}, h('tr', {},
              ['Episode', 'Success', 'Began', 'Ended', 'Trained on in step']
                  .map((name) => h('th', {}, name)))),
          h('tbody', {}, longest.map((episode) => h('tr', {},
              h('td', {}, h('a', {href: href('replay', {run, file: episode.file, line: episode.line})},
                  h('bdi', {}, visible(episode.name)))),
              h('td', {}, episode.success ? 'yes' : 'no'),
              h('td', {class: 'num'}, `${number(first(episode), 1)} s`),
              h('td', {class: 'num'}, `${number(last(episode), 1)} s`),
              h('td', {class: 'num'}, episode.used_in + 1)))))));
}

const first = (episode) => episode.spans[0].start;
const last = (episode) => episode.spans.at(-1).stop;
