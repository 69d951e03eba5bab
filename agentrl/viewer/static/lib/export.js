// A file of episodes: what export.collect has put into it, drawn when it is opened.

import {h, number, replace, visible} from './dom.js';
import {groupTable, summary} from './group.js';
import {COLUMNS, columnsOf, showValues, tokenTable, tokenView} from './tokens.js';
import {renderPrompt, renderTurn} from './turn.js';
import {renderBlocks} from './views.js';

const data = JSON.parse(document.getElementById('data').textContent);
const main = document.getElementById('main');

function draw() {
  const details = data.episodes.map((episode, i) => section(episode, i === 0));
  const link = (name, member) => {
    const at = data.episodes.findIndex((x) => x.line === member.line);
    return name === 'replay' && at >= 0 ? `#episode-${at}` : null;
  };
  const group = data.group && groupTable(data.group, {link, onChoose: (turn) => {
    details.forEach((one) => {
      one.open = true;
      one.querySelector('.turns')?.children[turn + 1]?.scrollIntoView({block: 'nearest'});
    });
  }});
  replace(main, h('h1', {}, visible(data.title)),
      data.group && [h('p', {class: 'soft'}, summary(data.group)), group.element],
      details.map((one, i) => {
        one.id = `episode-${i}`;
        return one;
      }));
}

function section(episode, open) {
  const body = h('div', {});
  const fill = () => {
    if (!body.firstChild) replace(body, content(episode));
  };
  const details = h('details', {class: 'episode', open, ontoggle: () => fill()},
      h('summary', {}, h('bdi', {}, visible(episode.episode_id)), ' ',
          h('span', {class: `chip ${episode.success ? 'good' : 'bad'}`},
              episode.success ? 'success' : 'no success'), ' ',
          h('span', {class: 'chip'}, episode.stop_reason), ' ',
          h('span', {class: 'chip'}, `return ${number(episode.return, 3)}`), ' ',
          episode.attempt > 0 && [h('span', {class: 'chip'}, `attempt ${episode.attempt + 1}`), ' '],
          episode.segments > 1 && [h('span', {class: 'chip'}, `${episode.segments} segments`), ' '],
          h('span', {class: 'soft'}, visible(
              `${episode.env} task ${episode.task} (${episode.split}) · ` +
              `${episode.num_acts} of ${episode.horizon} turns · policy version ` +
              `${episode.version} · seed ${episode.seed}` +
              `${episode.run ? ` · run ${episode.run}` : ''}`))),
      body);
  if (open) fill();
  return details;
}

function content(episode) {
  const left = episode.num_turns - episode.turns.length;
  return [
    episode.error && h('div', {class: 'notice bad'}, visible(episode.error)),
    episode.problems.map((one) => h('div', {class: 'notice bad problem'}, visible(one))),
    h('div', {class: 'turns'},
        h('div', {class: 'moment'}, renderPrompt(episode.prompt), view(episode, 0)),
        episode.turns.map((turn) => h('div', {class: 'moment'},
            renderTurn(turn), view(episode, turn.turn + 1)))),
    left > 0 && h('p', {class: 'soft'}, `… and ${number(left)} more turns`),
    tokens({...episode.tokens, table: episode.texts}),
  ];
}

function view(episode, done) {
  return h('div', {class: 'panel'}, renderBlocks(episode.views[done] || [],
      {pictureUrl: episode.pictures.length ? (at) => episode.pictures[at] : null}));
}

/** Columns are of sampled tokens alone, texts of all ids that occur. */
function expand(packed) {
  const mask = [];
  for (const {start, stop, turn} of packed.spans) {
    mask.push(...Array(stop - start).fill(turn === null ? 0 : 1));
  }
  const columns = {};
  for (const [name, values] of Object.entries(packed.columns)) {
    let at = 0;
    columns[name] = mask.map((on) => on ? values[at++] : null);
  }
  const table = data.texts[packed.table];
  const texts = table && packed.ids.map((id) => table[id]);
  return {...packed, mask, columns, texts, from: 0};
}

function tokens(packed) {
  if (packed.problem) return h('p', {class: 'soft'}, visible(packed.problem));
  const body = h('div', {});
  return h('details', {ontoggle: () => {
    if (body.firstChild) return;
    const found = expand(packed);
    const columns = columnsOf(found);
    const values = h('div', {class: 'panel values'},
        h('p', {class: 'soft'}, 'Point at a token, or choose one with the arrow keys.'));
    const flow = tokenView(found, (index) => showValues(values, found, index));
    const names = Object.keys(COLUMNS).filter((name) => columns[name]);
    const select = h('select', {'aria-label': 'Colour', onchange: () => flow.color(select.value)},
        names.map((name) => h('option', {value: name}, COLUMNS[name][0])));
    flow.color(names[0]);
    const table = h('details', {ontoggle: (event) => {
      if (!event.target.querySelector('table')) event.target.append(tokenTable(found));
    }}, h('summary', {}, 'All numbers'));
    replace(body, h('p', {}, 'Colour ', select), h('div', {class: 'sides'}, flow.element, values),
        h('dl', {class: 'facts'}, Object.entries(found.absent).map(([name, why]) => [
          h('dt', {}, `no ${COLUMNS[name][0]}`), h('dd', {}, why)])), table);
  }}, h('summary', {}, `Tokens: ${number(packed.ids.length)}`), body);
}

draw();
