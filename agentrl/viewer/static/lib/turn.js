// One turn of an episode, as agentrl/viewer/turns.py describes it.

import {h, failure, number} from './dom.js';

// What would command a terminal, hide, or turn text around is spelled out.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** A text whose control and direction characters can be seen. */
export function visible(text) {
  return text.replace(CONTROL, (c) => {
    const code = c.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** Seconds in a few letters. */
export function seconds(value) {
  if (value === null || value === undefined) return '–';
  if (value < 1) return `${Math.round(1000 * value)} ms`;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
}

/**
 * A long text `{text, chars}` in a box, with a button for the rest.
 *
 * `more()`: a promise of the whole text; null says only that it is cut.
 * `span`: `[start, stop]` of a part that stands out, as the action does.
 */
export function prose(value, {more = null, span = null, kind = ''} = {}) {
  const box = h('pre', {class: `text ${kind}`, dir: 'auto', tabindex: null});
  fill(box, value.text, span);
  const left = value.chars - value.text.length;
  if (left <= 0) return box;
  const words = `${number(left)} more characters`;
  if (!more) return h('div', {}, box, h('p', {class: 'soft cut'}, `… ${words}`));
  const button = h('button', {type: 'button', class: 'more', onclick: async () => {
    button.disabled = true;
    try {
      fill(box, await more(), span);
      button.remove();
    } catch (error) {
      button.replaceWith(failure(error));
    }
  }}, `Show ${words}`);
  return h('div', {}, box, button);
}

function fill(box, text, span) {
  if (!span) {
    box.textContent = visible(text);
    return;
  }
  const [start, stop] = span;
  box.replaceChildren(
      visible(text.slice(0, start)),
      h('mark', {class: 'action'}, visible(text.slice(start, stop))),
      visible(text.slice(stop)));
}

/** The numbers of a turn as chips. */
export function turnChips(turn) {
  const tokens = turn.completion_tokens === null ? '? tokens' :
      `${turn.completion_tokens} token${turn.completion_tokens === 1 ? '' : 's'}`;
  return [
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
 * A turn: the completion with its action, a parse error, the observation.
 *
 * `more(field)`: a promise of the whole text of 'completion', 'action' or
 * 'observation'; null where there is nobody to ask, as in an exported file.
 * `heading`: 'h2' or so. `mark`: a class more, for a turn that stands out.
 */
export function renderTurn(turn, {more = null, heading = 'h3', mark = ''} = {}) {
  const ask = (field) => more && (() => more(field));
  const said = turn.action_at !== null;
  return h('article', {class: `turn ${mark}`},
      h('header', {},
          h(heading, {}, `Turn ${turn.index + 1}`), turnChips(turn)),
      h('div', {class: 'said'},
          prose(turn.completion,
              {more: ask('completion'), span: turn.action_at, kind: 'thought'}),
          !said && turn.parse_error === null && turn.action.text &&
              h('p', {class: 'act'}, h('span', {class: 'label'}, 'action '),
                  prose(turn.action, {more: ask('action'), kind: 'inline'}))),
      turn.parse_error !== null &&
          h('p', {class: 'parse', role: 'note'}, 'No action was found: ',
              h('span', {dir: 'auto'}, visible(turn.parse_error))),
      h('div', {class: 'heard'},
          h('span', {class: 'label'}, 'observation'),
          prose(turn.observation, {more: ask('observation')})));
}

/** The messages before the first turn. */
export function renderPrompt(messages, {more = null, heading = 'h3'} = {}) {
  return h('article', {class: 'turn'},
      h('header', {}, h(heading, {}, 'Prompt')),
      messages.map((message, index) => h('div', {class: 'heard'},
          h('span', {class: 'label'}, message.role),
          prose(message.content, {more: more && (() => more(index))}))));
}
