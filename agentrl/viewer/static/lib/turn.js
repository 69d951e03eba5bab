// One turn of an episode, as /api/turns has it (agentrl/viewer/episode.py).

import {h, failure, number, visible} from './dom.js';

/** Seconds in a few letters. */
export function seconds(value) {
  if (value === null || value === undefined) return '–';
  if (value < 1) return `${Math.round(1000 * value)} ms`;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
}

/**
 * A long text `{text, chars}` in a box, with a button for the next piece.
 *
 * `more(from)`: a promise of `{text}` (lib/episode.js); null says only that it is
 * cut. `span`: `[start, stop]` of a part that stands out, as the action does.
 */
export function prose(value, {more = null, span = null, kind = ''} = {}) {
  const box = h('pre', {class: `text ${kind}`, dir: 'auto'}, span ? [
    visible(value.text.slice(0, span[0])),
    h('mark', {class: 'action'}, visible(value.text.slice(...span))),
    visible(value.text.slice(span[1])),
  ] : visible(value.text));
  let shown = characters(value.text);
  if (shown >= value.chars) return box;
  const left = () => `${number(value.chars - shown)} more characters`;
  if (!more) return h('div', {}, box, h('p', {class: 'soft cut'}, `… ${left()}`));
  const button = h('button', {type: 'button', class: 'more', onclick: async () => {
    button.disabled = true;
    try {
      const {text} = await more(shown);
      shown += characters(text);
      box.append(visible(text));
      button.textContent = `Show ${left()}`;
      button.disabled = false;
      if (shown >= value.chars || !text) button.remove();
    } catch (error) {
      if (error.name !== 'AbortError') button.replaceWith(failure(error));
    }
  }}, `Show ${left()}`);
  return h('div', {}, box, button);
}

// Python counts characters where JavaScript counts UTF-16 units.
function characters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Where the whole action stands in the completion; null: it does not. */
function actionSpan({completion, action}) {
  if (!action.text || characters(action.text) < action.chars) return null;
  const start = completion.text.lastIndexOf(action.text);
  return start < 0 ? null : [start, start + action.text.length];
}

/** The numbers of a turn as chips. */
export function turnChips(turn) {
  const tokens = turn.completion_tokens === null ? '? tokens' :
      `${turn.completion_tokens} token${turn.completion_tokens === 1 ? '' : 's'}`;
  return [
    turn.kind !== 'act' && h('span', {class: 'chip kind'}, turn.kind),
    !turn.learn && h('span', {class: 'chip'}, 'not trained on'),
    h('span', {class: `chip ${turn.reward > 0 ? 'good' : turn.reward < 0 ? 'bad' : ''}`},
        `reward ${number(turn.reward, 3)}`),
    turn.parse_error !== null && h('span', {class: 'chip bad'}, 'no action'),
    turn.finish_reason !== 'stop' &&
        h('span', {class: 'chip warn'}, `finish ${turn.finish_reason}`),
    turn.progress !== null &&
        h('span', {class: 'chip'}, `progress ${number(100 * turn.progress, 0)}%`),
    h('span', {class: 'soft'},
        `${tokens} · weights ${turn.weight_version} · sampler ` +
        `${seconds(turn.sampler_s)} · environment ${seconds(turn.env_s)}`),
  ];
}

/**
 * A turn of /api/turns: the completion with its action, a parse error, the
 * observation.
 *
 * `more(path)`: gives what `prose` takes as `more` for a text of the episode,
 * such as turns.3.observation; null where there is nobody to ask, as in a file.
 * `heading`: its element. `mark`: a class more, for a turn that stands out.
 */
export function renderTurn(turn, {more = null, heading = 'h3', mark = ''} = {}) {
  const ask = (name) => more && more(`turns.${turn.turn}.${name}`);
  const span = actionSpan(turn);
  const failed = turn.parse_error !== null;
  return h('article', {class: `turn ${mark}`},
      h('header', {}, h(heading, {}, `Turn ${turn.turn + 1}`), turnChips(turn)),
      turn.request.text && h('details', {class: 'heard'},
          h('summary', {class: 'soft'}, 'request'),
          prose(turn.request, {more: ask('request')})),
      h('div', {class: 'said'},
          prose(turn.completion, {more: ask('completion'), span}),
          !span && !failed && turn.action.text && h('div', {class: 'act'},
              h('span', {class: 'label'}, 'action'),
              prose(turn.action, {more: ask('action')}))),
      failed && h('div', {class: 'parse', role: 'note'}, 'No action was found.',
          prose(turn.parse_error, {more: ask('parse_error')})),
      // After a summary or a lesson a new segment begins: nothing answers it.
      (turn.kind === 'act' || turn.observation.text !== '') && h('div', {class: 'heard'},
          h('span', {class: 'label'}, 'observation'),
          prose(turn.observation, {more: ask('observation')})));
}

/** The messages before the first turn; `more` as `renderTurn` has it. */
export function renderPrompt(messages, {more = null, heading = 'h3'} = {}) {
  return h('article', {class: 'turn'},
      h('header', {}, h(heading, {}, 'Prompt')),
      messages.map((message, index) => h('div', {class: 'heard'},
          h('span', {class: 'label'}, message.role),
          prose(message.content, {more: more && more(`prompt.${index}.content`)}))));
}
