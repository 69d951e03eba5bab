// A whole episode to be read from top to bottom; a failed one from its first fault.

import {api, failure, h, number, replace, visible} from '../lib/dom.js';
import {head, pieces, turns} from '../lib/episode.js';
import {header} from '../lib/header.js';
import {change} from '../lib/route.js';
import {renderPrompt, renderTurn} from '../lib/turn.js';

export const title = 'Transcript';
export const keys = ['run', 'file', 'line', 'turn'];

const WINDOW = 100; // turns of one request
// Kinds of /api/replay -> what went wrong.
const FAULTS = {no_action: 'no action', refused: 'refused action', repeated: 'repeated action'};

export async function render(root, params, {signal}) {
  let shown = new AbortController();
  signal.addEventListener('abort', () => shown.abort());
  const open = async (params) => {
    shown.abort();
    shown = new AbortController();
    try {
      await new Transcript(root, params, shown.signal).show();
    } catch (error) {
      if (error.name !== 'AbortError') replace(root, failure(error));
    }
  };
  await open(params);
  return {update: open};
}

class Transcript {
  constructor(root, {run, file, line, turn}, signal) {
    Object.assign(this, {root, key: {run, file, line}, asked: turn, signal, read: 0});
  }

  async show() {
    const {key, signal} = this;
    const [facts, {faults}] = await Promise.all([head(key, {signal}), api('replay', key, {signal})]);
    Object.assign(this, {facts, faults});
    this.list = h('div', {class: 'turns'}, renderPrompt(facts.prompt, {heading: 'h2', more: this.more}));
    this.rest = h('p', {class: 'rest'});
    replace(this.root, header('transcript', key, facts), this.places(),
        facts.error && h('div', {class: 'notice bad'}, visible(facts.error)), this.list, this.rest);
    const start = this.asked !== undefined ? Number(this.asked) - 1 : facts.success ? -1 : this.firstFault();
    await this.readTo(Math.max(start, 0));
    if (start >= 0) this.go(start, {focus: false});
  }

  more = (path) => pieces(this.key, path, {signal: this.signal});

  /** Of a failed episode; without a fault its last turn. */
  firstFault() {
    const found = Object.values(this.faults).flatMap((turns) => turns.slice(0, 1));
    return found.length ? Math.min(...found) : this.facts.turns - 1;
  }

  places() {
    const found = Object.entries(FAULTS).filter(([kind]) => this.faults[kind].length);
    const to = (turn, words) => h('button', {type: 'button', onclick: () => this.go(turn)}, words);
    return h('nav', {class: 'places', 'aria-label': 'Places in the transcript'},
        to(-1, 'Prompt'),
        found.map(([kind, words]) => to(this.faults[kind][0],
            `First ${words}: turn ${this.faults[kind][0] + 1} (of ${number(this.faults[kind].length)})`)),
        this.facts.turns > 0 && to(Infinity, 'End'));
  }

  /** Reads on until a turn is there, a window at a time. */
  async readTo(turn) {
    while (this.read <= turn && this.read !== this.total) {
      const {key, signal} = this;
      const window = await turns(key, this.read, WINDOW, {signal});
      this.total = window.total;
      this.list.append(...window.turns.map((each) => this.turn(each)));
      this.read += window.turns.length;
      if (!window.turns.length) break; // the file has become shorter
    }
    const left = this.total - this.read;
    replace(this.rest, left > 0 && h('button', {type: 'button', onclick: () => this.readTo(this.read)},
        `Show ${number(Math.min(left, WINDOW))} of ${number(left)} more turns`));
  }

  turn(turn) {
    const of = Object.keys(FAULTS).filter((kind) => this.faults[kind].includes(turn.turn));
    const article = renderTurn(turn, {heading: 'h2', more: this.more, mark: of.length ? 'fault' : ''});
    // "No action" is said by the turn itself.
    article.firstChild.append(...of.filter((kind) => kind !== 'no_action').map((kind) =>
      h('span', {class: 'chip bad'}, FAULTS[kind])));
    article.tabIndex = -1;
    return article;
  }

  /** Scrolls to a turn; -1 is the prompt, beyond the last the last. */
  async go(turn, {focus = true} = {}) {
    try {
      await this.readTo(turn);
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.rest, failure(error));
      return;
    }
    const place = Math.min(turn, this.read - 1);
    const article = this.list.children[place + 1];
    article.scrollIntoView({block: 'start'});
    if (focus) article.focus({preventScroll: true});
    change({turn: place + 1}, {silent: true});
  }
}
