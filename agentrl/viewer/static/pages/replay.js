// An episode turn by turn, beside what the environment looked like.

import {api, failure, h, number, replace, s, visible} from '../lib/dom.js';
import {head, pieces, turns} from '../lib/episode.js';
import {header} from '../lib/header.js';
import {change, href} from '../lib/route.js';
import {renderPrompt, renderTurn, seconds} from '../lib/turn.js';
import {renderBlocks} from '../lib/views.js';

export const title = 'Replay';
export const keys = ['run', 'file', 'line', 'turn'];

const WINDOW = 20; // turns of one request
const PLAY_MS = 900;

export async function render(root, params, {signal}) {
  // Another episode is another player: what the last one waits for ends.
  let episode = new AbortController();
  signal.addEventListener('abort', () => episode.abort());
  let player = await open(root, params, episode.signal);
  await player.show(player.asked(params));
  return {update: async (next) => {
    if (player && ['run', 'file', 'line'].every((x) => next[x] === player.key[x])) {
      player.show(player.asked(next));
      return;
    }
    episode.abort();
    episode = new AbortController();
    player = null; // until the next one is there, no address is the last one's
    try {
      player = await open(root, next, episode.signal);
      await player.show(player.asked(next));
    } catch (error) {
      if (error.name !== 'AbortError') replace(root, failure(error));
    }
  }};
}

async function open(root, params, signal) {
  const key = {run: params.run, file: params.file, line: params.line};
  const [facts, replay] = await Promise.all([
    head(key, {signal}), api('replay', key, {signal})]);
  return new Player(root, key, {facts, ...replay}, signal);
}

function clamp(value, most) {
  return Math.min(Math.max(Math.trunc(value), 0), most);
}

class Player {
  constructor(root, key, episode, signal) {
    Object.assign(this, {root, key, episode, signal});
    this.total = episode.lanes.reward.length;
    this.done = 0;
    this.windows = new Map();
    this.timer = null;
    this.build();
    document.addEventListener('keydown', (event) => this.pressed(event), {signal});
    signal.addEventListener('abort', () => clearInterval(this.timer));
    this.askAgain();
  }

  build() {
    const {facts, lanes} = this.episode;
    this.range = h('input', {
      type: 'range', min: 0, max: this.total, value: 0, class: 'scrubber',
      'aria-label': 'Turn', oninput: () => this.show(Number(this.range.value)),
    });
    this.place = h('output', {class: 'place'});
    this.playButton = h('button', {
      type: 'button', onclick: () => this.toggle(), 'aria-keyshortcuts': 'Space',
    }, 'Play');
    const step = (label, title, by) => h('button', {
      type: 'button', title, 'aria-label': title, onclick: () => this.show(by()),
    }, label);
    this.cursor = s('rect', {class: 'cursor', y: 0, height: 64, width: 4});
    this.stage = h('div', {class: 'stage', 'aria-live': 'polite'});
    this.world = h('div', {class: 'world'});
    this.note = h('div', {class: 'again'});
    this.playOn = h('a', {}, 'Play on');
    replace(this.root,
        header('replay', this.key, this.episode.facts, this.playOn),
        h('div', {class: 'controls'},
            step('|◀', 'First (Home)', () => 0),
            step('◀', 'Back (left arrow)', () => this.done - 1),
            this.playButton,
            step('▶', 'On (right arrow)', () => this.done + 1),
            step('▶|', 'Last (End)', () => this.total),
            this.range, this.place),
        laneChart(lanes, this.cursor, (turn) => this.show(turn)),
        facts.error && h('div', {class: 'notice bad'}, visible(facts.error)),
        h('div', {class: 'halves'},
            this.stage,
            h('section', {class: 'panel', 'aria-label': 'Environment'},
                this.world, this.note)));
  }

  pressed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const tag = event.target.tagName;
    if (tag === 'TEXTAREA' || tag === 'SELECT') return;
    if (tag === 'INPUT' && event.target !== this.range) return;
    const to = {
      ArrowLeft: this.done - 1, ArrowRight: this.done + 1,
      Home: 0, End: this.total,
    }[event.key];
    if (to !== undefined) this.show(to);
    else if (event.key === ' ' && tag !== 'BUTTON' && tag !== 'A') this.toggle();
    else return;
    event.preventDefault();
  }

  toggle() {
    if (this.timer) {
      this.pause();
      return;
    }
    if (this.done === this.total) this.show(0);
    this.playButton.textContent = 'Pause';
    this.timer = setInterval(() => {
      if (this.done === this.total) this.pause();
      else this.show(this.done + 1);
    }, PLAY_MS);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.playButton.textContent = 'Play';
  }

  /** The turn of an address; without one a failed episode begins at its end. */
  asked({turn}) {
    if (turn === undefined) return this.episode.facts.success ? 0 : this.total;
    return Number(turn) || 0;
  }

  /** Shows the episode after `done` turns: the last of them, and the world. */
  async show(done) {
    this.done = clamp(done, this.total);
    const asked = this.done;
    this.range.value = asked;
    this.place.textContent = `${asked} of ${this.total}`;
    this.cursor.setAttribute('x', asked === 0 ? -6 : laneX(asked - 1, this.total));
    change({turn: asked}, {silent: true});
    this.playOn.href = href('play', {...this.key, from: 'episode', turn: asked});
    const more = (path) => pieces(this.key, path, {signal: this.signal});
    try {
      const [turn, view] = await Promise.all([
        asked === 0 ? null : this.turn(asked - 1),
        api('replay/view', {...this.key, done: asked}, {signal: this.signal}),
      ]);
      if (asked !== this.done) return; // it has moved on
      replace(this.stage, turn === null ?
        renderPrompt(this.episode.facts.prompt, {heading: 'h2', more}) :
        renderTurn(turn, {heading: 'h2', more}));
      replace(this.world, renderBlocks(view.blocks, {
        pictureUrl: (at) => `/api/replay/picture?${new URLSearchParams(
            {...this.key, done: at})}`,
      }));
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.stage, failure(error));
    }
  }

  async turn(index) {
    const first = index - index % WINDOW;
    if (!this.windows.has(first)) {
      this.windows.set(first,
          turns(this.key, first, WINDOW, {signal: this.signal}));
    }
    const found = await this.windows.get(first);
    return found.turns[index - first];
  }

  /** Offers to play the episode again, or says what came of it. */
  askAgain() {
    const {again, why_not_again: whyNot, pictures, renders} = this.episode;
    if (again) {
      replace(this.note, outcome(again));
      return;
    }
    if (whyNot !== null) {
      replace(this.note, h('p', {class: 'soft'}, `Not to be played again: ${whyNot}`));
      return;
    }
    const why = renders && !pictures ?
      'draws the pictures that were not saved, and checks the observations' :
      'checks that the environment still gives these observations';
    const button = h('button', {type: 'button', onclick: async () => {
      button.disabled = true;
      button.textContent = 'Playing …';
      try {
        this.episode.again = await api('replay/again', this.key,
            {signal: this.signal, body: {}});
        this.askAgain();
        await this.show(this.done);
      } catch (error) {
        if (error.name !== 'AbortError') replace(this.note, failure(error));
      }
    }}, 'Play it again');
    replace(this.note, button, h('span', {class: 'soft'}, ` ${why}.`));
  }
}

function outcome(again) {
  const count = again.num_differences;
  return [
    h('p', {class: count ? 'warn' : 'good'}, count ?
      `Played again: ${count} of ${again.done + 1} observations differ from the record.` :
      `Played again: all ${again.done + 1} observations are those of the record.`),
    again.ended && h('p', {class: 'warn'}, again.ended),
    again.differences.map((one) => h('details', {},
        h('summary', {}, one.done ? `after turn ${one.done}` : 'at the reset'),
        h('p', {class: 'soft'}, 'recorded'),
        h('pre', {class: 'text', dir: 'auto'}, visible(one.recorded)),
        h('p', {class: 'soft'}, 'played again'),
        h('pre', {class: 'text', dir: 'auto'}, visible(one.found)))),
  ];
}

const WIDTH = 1000;

function laneX(turn, total) {
  return (turn + 0.5) * WIDTH / Math.max(total, 1) - 2;
}

/** Reward, latencies and versions of all turns, a column each. */
function laneChart(lanes, cursor, onPick) {
  const total = lanes.reward.length;
  if (!total) return h('p', {class: 'soft'}, 'No turn was played.');
  const column = WIDTH / total;
  const width = Math.max(Math.min(column - 1, 24), 1);
  const slowest = Math.max(1e-9, ...lanes.sampler_s.map((x, i) => x + lanes.env_s[i]));
  const highest = Math.max(1e-9, ...lanes.reward.map(Math.abs));
  const bars = [];
  let version = lanes.weight_version[0];
  for (let i = 0; i < total; i++) {
    const x = (i + 0.5) * column - width / 2;
    const sampler = 30 * lanes.sampler_s[i] / slowest;
    const env = 30 * lanes.env_s[i] / slowest;
    const reward = 20 * Math.abs(lanes.reward[i]) / highest;
    bars.push(
        s('rect', {x, y: 62 - sampler, width, height: sampler, class: 'sampler'}),
        s('rect', {x, y: 62 - sampler - env, width, height: env, class: 'env'}));
    if (reward) {
      bars.push(s('rect', {x, y: 22 - reward, width, height: reward,
        class: lanes.reward[i] > 0 ? 'up' : 'down'}));
    }
    if (lanes.parse_error[i]) {
      bars.push(s('rect', {x, y: 24, width, height: 5, class: 'error'}));
    }
    if (lanes.weight_version[i] !== version) {
      version = lanes.weight_version[i];
      bars.push(s('line', {x1: i * column, x2: i * column, y1: 0, y2: 64, class: 'version'}));
    }
  }
  const sum = (values) => seconds(values.reduce((a, b) => a + b, 0));
  const versions = [...new Set(lanes.weight_version)];
  return h('figure', {class: 'lanes'},
      s('svg', {viewBox: `0 0 ${WIDTH} 64`, preserveAspectRatio: 'none',
        'aria-hidden': 'true', onclick: (event) => {
          const box = event.currentTarget.getBoundingClientRect();
          onPick(1 + Math.floor(total * (event.clientX - box.left) / box.width));
        }}, s('line', {x1: 0, x2: WIDTH, y1: 22.5, y2: 22.5, class: 'axis'}), cursor, bars),
      h('figcaption', {class: 'soft'},
          h('span', {class: 'key up'}), 'reward ',
          h('span', {class: 'key error'}), 'no action ',
          h('span', {class: 'key sampler'}), `sampler ${sum(lanes.sampler_s)} `,
          h('span', {class: 'key env'}), `environment ${sum(lanes.env_s)} `,
          `· weights ${versions.slice(0, 6).join(', ')}${versions.length > 6 ? ', …' : ''}`));
}
