// The episodes of one visit to a task, side by side.

import {api, h, notice, number, replace} from '../lib/dom.js';
import {pieces, turns} from '../lib/episode.js';
import {change, href} from '../lib/route.js';
import {renderTurn, visible} from '../lib/turn.js';

export const title = 'Group';

const COLORS = 8; // branches that have a colour of their own

export async function render(root, params, {signal}) {
  const key = {run: params.run, file: params.file, line: params.line};
  const group = await api('group', {...key, from: params.from}, {signal});
  const {members, parted} = group;
  const detail = h('div', {class: 'detail', 'aria-live': 'polite'});
  const rows = new Map();

  const show = async (turn) => {
    rows.forEach((row, at) => row.classList.toggle('chosen', at === turn));
    change({turn}, {silent: true});
    const playing = members.filter((x) => turn < x.turns);
    const found = await Promise.all(playing.map((member) =>
      turns({...key, line: member.line}, turn, 1, {signal})));
    replace(detail, h('h2', {}, `Turn ${turn + 1}`),
        h('div', {class: 'columns', tabindex: 0}, playing.map((member, i) => {
          const where = {...key, line: member.line};
          return h('div', {class: 'column'},
              h('p', {}, h('a', {href: href('replay', {...where, turn: turn + 1})},
                  h('bdi', {}, visible(member.episode_id)))),
              found[i].turns.map((one) => renderTurn(one,
                  {more: (path) => pieces(where, path, {signal})})));
        })));
  };

  const largest = Math.max(1e-9, ...members.map((x) => Math.abs(x.advantage || 0)));
  const head = h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'Turn'),
      members.map((member) => column(key, member, largest))));
  const count = Math.max(0, ...group.cells.map((x) => x.length));
  const body = h('tbody', {}, Array.from({length: count}, (_, i) => {
    const turn = group.from + i;
    const row = h('tr', {class: turn === parted ? 'parted' : ''},
        h('th', {scope: 'row'}, h('button', {type: 'button', class: 'quiet',
          onclick: () => show(turn)}, turn + 1),
        turn === parted && h('span', {class: 'chip warn'}, 'first difference')),
        group.cells.map((cells) => cells[i] ? cell(cells[i], () => show(turn)) :
          h('td', {class: 'ended'})));
    rows.set(turn, row);
    return row;
  }));
  const stop = group.from + count;
  replace(root,
      h('header', {class: 'head'},
          h('h1', {}, `Group of ${members.length} · `, visible(group.env), ` task ${group.task}`),
          h('p', {class: 'soft'}, summary(group)),
          h('p', {class: 'links'},
              ['html', 'markdown'].map((as) => h('a', {download: '',
                href: `/api/export?${new URLSearchParams({...key, what: 'group', as})}`},
              as === 'html' ? 'HTML' : 'Markdown')))),
      members.length < 2 && notice('This task was played once here. ',
          'A group has several episodes of one task under one policy.'),
      members.find((x) => x.problem) &&
          notice('Advantages are missing. ', visible(members.find((x) => x.problem).problem)),
      h('div', {class: 'scroll', tabindex: 0}, h('table', {class: 'aligned'}, head, body)),
      (group.from > 0 || stop < group.turns) && h('p', {},
          group.from > 0 && [h('a', {href: href('group',
              {...key, from: Math.max(group.from - 100, 0)})}, 'Earlier turns'), ' '],
          stop < group.turns &&
              h('a', {href: href('group', {...key, from: stop})}, 'Later turns')),
      detail);
  const first = params.turn === undefined ? parted : Number(params.turn);
  if (rows.has(first)) await show(first);
  else replace(detail, h('p', {class: 'soft'}, 'Choose a turn to read it side by side.'));
}

function summary({members, parted, left_out: leftOut}) {
  const wins = members.filter((x) => x.success).length;
  const words = [`${wins} of ${members.length} succeeded`];
  if (members.length > 1) {
    words.push(parted === null ? 'all did the same' :
      `first difference in turn ${parted + 1}`);
  }
  const values = new Set(members.map((x) => x.return));
  if (members.length > 1 && values.size === 1) {
    words.push('all returns are equal: nothing to learn by comparison');
  }
  if (leftOut) words.push(`${leftOut} more are not shown`);
  return `${words.join(' · ')}.`;
}

function column(key, member, largest) {
  const where = {...key, line: member.line};
  const share = (member.advantage || 0) / largest;
  return h('th', {scope: 'col'},
      h('a', {href: href('replay', where)}, h('bdi', {}, visible(member.episode_id))),
      h('div', {class: 'outcome'},
          h('span', {class: `chip ${member.success ? 'good' : 'bad'}`},
              `return ${number(member.return, 3)}`), ' ',
          h('span', {class: 'soft'}, member.stop_reason)),
      h('div', {class: 'advantage'},
          h('span', {class: 'rail', 'aria-hidden': 'true'}, h('span', {
            class: share < 0 ? 'down' : 'up',
            style: {
              width: `${50 * Math.abs(share)}%`,
              left: `${share < 0 ? 50 + 50 * share : 50}%`,
            }})),
          h('a', {href: href('tokens', where)}, member.advantage === null ?
            'no advantage' : `advantage ${number(member.advantage, 3)}`)));
}

function cell(one, onChoose) {
  const failed = one.parse_error !== null;
  const text = failed ? 'no action' : one.action.text;
  const cut = !failed && one.action.text.length < one.action.chars;
  return h('td', {
    class: `branch${one.branch % COLORS} ${one.parts ? 'parts' : ''}`, onclick: onChoose,
  },
  h('div', {class: failed ? 'bad act' : 'act', dir: 'auto'}, visible(text), cut && '…'),
  h('div', {class: 'small'},
      one.reward !== 0 && h('span', {class: one.reward > 0 ? 'good' : 'bad'},
          `reward ${number(one.reward, 3)} `),
      one.strange && h('span', {class: 'warn'}, 'answered differently '),
      one.advantage !== undefined && one.advantage !== null &&
          h('span', {class: 'soft'}, `A ${number(one.advantage, 2)}`)));
}
