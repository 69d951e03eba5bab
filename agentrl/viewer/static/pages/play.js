// Acting in an environment by hand, or letting a policy act.

import {api, failure, h, notice, number, replace, visible} from '../lib/dom.js';
import {change} from '../lib/route.js';
import {prose, renderTurn} from '../lib/turn.js';
import {renderBlocks} from '../lib/views.js';

export const title = 'Play';
export const keys = ['run', 'file', 'line', 'from', 'turn', 'env', 'task', 'session'];

export async function render(root, params, {signal}) {
  const offer = await api('play', {}, {signal});
  const page = new Page(root, offer, signal);
  if (params.session) await page.join(params.session);
  else if (params.from === 'episode') await page.begin({episode: fromEpisode(params)});
  else page.offer(params);
}

function fromEpisode(params) {
  return {run: params.run, file: params.file, line: params.line,
    turns: Number(params.turn) || 0};
}

class Page {
  constructor(root, offer, signal) {
    Object.assign(this, {root, offers: offer, signal});
    this.running = false;
    signal.addEventListener('abort', () => {
      this.running = false;
    });
  }

  /** The form that begins a session. */
  offer(params = {}) {
    const {environments, runs} = this.offers;
    const run = h('select', {id: 'run', onchange: () => {
      const known = runs.find((x) => x.run === run.value)?.env;
      if (environments.includes(known)) env.value = known;
    }}, h('option', {value: ''}, 'default options'),
    runs.map((x) => h('option', {value: x.run, selected: x.run === params.run}, x.run)));
    const env = h('select', {id: 'env'}, environments.map((name) =>
      h('option', {value: name, selected: name === (params.env || 'babyai')}, name)));
    const task = h('input', {id: 'task', type: 'number', min: 0, value: params.task, placeholder: 'one of dev'});
    const form = h('form', {class: 'begin', onsubmit: (event) => {
      event.preventDefault();
      this.begin({env: env.value, task: task.value === '' ? null : Number(task.value), run: run.value || null});
    }},
    h('label', {for: 'run'}, 'Options of'), run,
    h('label', {for: 'env'}, 'Environment'), env,
    h('label', {for: 'task'}, 'Task'), task,
    h('button', {type: 'submit'}, 'Begin'));
    replace(this.root, h('h1', {}, 'Play'),
        h('p', {class: 'soft'}, 'Act by hand in a real environment, or let an expert, a random ',
            'policy or the policy of a run act step by step. From any replay, “Play on” branches ',
            'off at the turn that is shown.'), form);
  }

  async begin(body) {
    replace(this.root, notice('The environment is being started …'));
    try {
      this.show(await api('play/start', {}, {signal: this.signal, body}));
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.offer();
      this.root.append(failure(error));
    }
  }

  async join(session) {
    try {
      this.show(await api('play/session', {session}, {signal: this.signal}));
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.offer();
      this.root.append(failure(error));
    }
  }

  show(state) {
    this.state = state;
    change({session: state.session, from: null, run: null, file: null, line: null,
      turn: null, env: null, task: null}, {silent: true});
    if (!this.turns) this.build();
    this.draw();
  }

  build() {
    const {runs, samplers} = this.offers;
    this.turns = h('div', {class: 'turns', 'aria-live': 'polite'});
    this.world = h('div', {});
    this.said = h('p', {class: 'state', role: 'status'});
    this.problem = h('div', {});
    this.otherwise = h('p', {class: 'soft', role: 'status'});
    this.action = h('input', {
      id: 'action', list: 'available', autocomplete: 'off', spellcheck: 'false',
      placeholder: 'an action', class: 'action',
    });
    this.available = h('datalist', {id: 'available'});
    this.who = h('select', {id: 'who', onchange: () => this.draw()},
        h('option', {value: 'expert'}, 'expert'),
        h('option', {value: 'random'}, 'random'),
        runs.flatMap((x) => [
          h('option', {
            value: JSON.stringify({actor: 'run', run: x.run}),
            selected: x.run === this.state.run,
          }, x.checkpoints.length ? `run ${x.run}` : `policy ${x.run}`),
          x.checkpoints.map((n) => h('option', {
            value: JSON.stringify({actor: 'run', run: x.run, checkpoint: n}),
          }, `run ${x.run} at ${n}`))]),
        samplers.flatMap((url, i) => runs.map((x) => h('option', {
          value: JSON.stringify({actor: 'sampler', sampler: i, run: x.run}),
        }, `sampler ${url} as ${x.run}`))));
    this.actButton = h('button', {type: 'submit'}, 'Act');
    this.stepButton = h('button', {type: 'button', onclick: () => this.policyStep()}, 'Let it act once');
    this.goButton = h('button', {type: 'button', onclick: () => this.go()}, 'Let it go on');
    const form = h('form', {class: 'hand', onsubmit: (event) => {
      event.preventDefault();
      this.step({actor: 'hand', action: this.action.value});
    }}, h('label', {for: 'action'}, 'By hand'), this.action, this.available, this.actButton);
    replace(this.root,
        h('header', {class: 'head'},
            h('h1', {}, 'Play ', visible(this.state.env), ` task ${this.state.task}`),
            h('button', {type: 'button', onclick: () => this.end()}, 'End')),
        this.said,
        h('div', {class: 'halves'},
            h('div', {},
                this.turns, this.problem, form,
                h('div', {class: 'policy'}, h('label', {for: 'who'}, 'Policy'), this.who,
                    this.stepButton, this.goButton),
                this.otherwise),
            h('section', {class: 'panel', 'aria-label': 'Environment'}, this.world)));
  }

  draw() {
    const {state} = this;
    const last = state.turns.length - 1;
    replace(this.turns,
        h('article', {class: 'turn'}, h('header', {}, h('h2', {}, 'Beginning')),
            h('div', {class: 'heard'}, prose(state.opening))),
        state.turns.map((turn, i) => h('div', {class: 'played'},
            renderTurn(turn, {heading: 'h2'}),
            h('div', {class: 'actor'},
                h('span', {class: 'chip'}, `by ${turn.actor}`),
                state.differences.includes(i) &&
                    h('span', {class: 'chip warn'}, 'answered otherwise than in the record'),
                h('button', {type: 'button', class: 'quiet', onclick: () => this.branch(i)},
                    'Branch before this turn')),
            turn.said && i === last && candidates(turn.said),
            turn.said && i !== last && h('details', {}, h('summary', {}, 'Likeliest tokens'),
                candidates(turn.said)))));
    replace(this.available, state.available.map((x) => h('option', {value: x})));
    const {run} = this.chosen();
    const unheeded = this.offers.runs.find((x) => x.run === run)?.unheeded || [];
    this.otherwise.textContent = unheeded.length ?
      `${run} has ${unheeded.join(', ')}. Here it sees the whole conversation, and is ` +
      'asked for actions alone: it may act otherwise than in its episodes.' : '';
    const result = state.over ?
      `${state.over}, ${state.success ? 'success' : 'no success'}` : 'goes on';
    this.said.textContent = `${state.turns.length} turns, return ` +
        `${number(state.return, 3)}; ${result}.`;
    for (const button of [this.actButton, this.stepButton, this.goButton]) {
      button.disabled = Boolean(state.over) || this.busy;
    }
    this.goButton.textContent = this.running ? 'Stop' : 'Let it go on';
    this.goButton.disabled = Boolean(state.over) || (this.busy && !this.running);
    replace(this.world, renderBlocks(state.blocks, {pictureUrl: (done) =>
      `/api/play/picture?${new URLSearchParams({session: state.session, done})}`}));
  }

  chosen() {
    const value = this.who.value;
    return value.startsWith('{') ? JSON.parse(value) : {actor: value};
  }

  policyStep() {
    return this.step(this.chosen());
  }

  async go() {
    this.running = !this.running;
    while (this.running && !this.state.over) {
      if (!await this.policyStep()) break;
    }
    this.running = false;
    if (!this.signal.aborted) this.draw();
  }

  /** One turn; whether it was made. */
  async step(body) {
    if (this.busy) return false;
    this.busy = true;
    replace(this.problem, h('p', {class: 'soft'}, body.actor === 'run' ?
      'The policy answers; the first time it has to be loaded …' : ' '));
    this.draw();
    try {
      this.state = await api('play/step', {},
          {signal: this.signal, body: {...body, session: this.state.session}});
      if (body.actor === 'hand') this.action.value = '';
      replace(this.problem);
      return true;
    } catch (error) {
      if (error.name === 'AbortError') return false;
      this.running = false;
      replace(this.problem, failure(error));
      return false;
    } finally {
      this.busy = false;
      if (!this.signal.aborted) {
        this.draw();
        this.turns.lastElementChild?.scrollIntoView({block: 'nearest'});
      }
    }
  }

  async branch(turn) {
    this.running = false;
    const {session} = this.state;
    replace(this.problem, h('p', {class: 'soft'}, 'Branching …'));
    try {
      const next = await api('play/start', {},
          {signal: this.signal, body: {branch: {session, turns: turn}}});
      const before = this.state.turns[turn];
      replace(this.problem, h('p', {class: 'soft'},
          `A new session with the first ${turn} turns; the old one is kept for a while.`));
      this.show(next);
      this.action.value = before.action.text;
      this.action.focus();
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.problem, failure(error));
    }
  }

  async end() {
    this.running = false;
    await api('play/end', {}, {body: {session: this.state.session}});
    this.turns = null;
    change({session: null}, {silent: true});
    this.offer();
  }
}

/** Each sampled token above the likeliest at its place. */
function candidates(said) {
  const percent = (logprob) => logprob === null ? '–' : `${number(100 * Math.exp(logprob), 1)}%`;
  return h('div', {class: 'candidates', tabindex: 0, 'aria-label': 'Likeliest tokens'},
      said.map((token) => h('table', {},
          h('caption', {}, h('code', {}, glyphs(token.text)), ` ${percent(token.logprob)}`),
          h('tbody', {}, token.tops.map(([text, logprob]) => h('tr',
              {class: text === token.text ? 'taken' : ''},
              h('td', {}, h('code', {}, glyphs(text))),
              h('td', {class: 'num'}, percent(logprob))))))));
}

function glyphs(text) {
  return visible(text).replace(/\n/g, '⏎').replace(/ /g, '␣') || '∅';
}
