// The episodes of one visit to a task, side by side.

import {api, h, notice, replace, visible} from '../lib/dom.js';
import {pieces, turns} from '../lib/episode.js';
import {groupTable, summary} from '../lib/group.js';
import {change, href} from '../lib/route.js';
import {renderTurn} from '../lib/turn.js';

export const title = 'Group';
export const keys = ['run', 'file', 'line', 'from', 'turn'];

export async function render(root, params, {signal}) {
  const key = {run: params.run, file: params.file, line: params.line};
  const group = await api('group', {...key, from: params.from}, {signal});
  const {members, parted} = group;
  const detail = h('div', {class: 'detail', 'aria-live': 'polite'});

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

  const link = (name, member) => href(name, {...key, line: member.line});
  const {element, rows} = groupTable(group, {link, onChoose: (turn) => show(turn)});
  const stop = group.from + rows.size;
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
      element,
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
