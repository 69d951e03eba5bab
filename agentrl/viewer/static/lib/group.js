// A group of episodes as a table: a column each, aligned by turn.

import {h, number, visible} from './dom.js';

const COLORS = 8; // branches that have a colour of their own

/**
 * The table of a group.
 *
 * `group`: of /api/group; `link(page, member)`: where a page about a member is, null
 * for none; `onChoose(turn)`: a turn is to be read. Returns `{element, rows}`, rows
 * by turn.
 */
export function groupTable(group, {link, onChoose}) {
  const {members, parted} = group;
  const rows = new Map();
  const largest = Math.max(1e-9, ...members.map((x) => Math.abs(x.advantage || 0)));
  const count = Math.max(0, ...group.cells.map((x) => x.length));
  const body = Array.from({length: count}, (_, i) => {
    const turn = group.from + i;
    const row = h('tr', {class: turn === parted ? 'parted' : ''},
        h('th', {scope: 'row'},
            h('button', {type: 'button', class: 'quiet', 'aria-label': `Turn ${turn + 1}`,
              onclick: () => onChoose(turn)}, turn + 1),
            turn === parted && h('span', {class: 'chip warn'}, 'first difference')),
        group.cells.map((cells) => cells[i] ? cell(cells[i], () => onChoose(turn)) :
          h('td', {class: 'ended'})));
    rows.set(turn, row);
    return row;
  });
  const element = h('div', {class: 'scroll', tabindex: 0}, h('table', {class: 'aligned'},
      h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'Turn'),
          members.map((member) => column(member, link, largest)))),
      h('tbody', {}, body)));
  return {element, rows};
}

/** A group in a sentence. */
export function summary({members, parted, left_out: leftOut}) {
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

function anchor(url, ...children) {
  return url ? h('a', {href: url}, children) : h('span', {}, children);
}

function column(member, link, largest) {
  const share = (member.advantage || 0) / largest;
  return h('th', {scope: 'col'},
      anchor(link('replay', member), h('bdi', {}, visible(member.episode_id))),
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
          anchor(link('tokens', member), member.advantage === null ?
            'no advantage' : `advantage ${number(member.advantage, 3)}`)));
}

function cell(one, onChoose) {
  const {failed} = one;
  const text = failed ? 'no action' : one.action.text;
  const cut = !failed && one.action.text.length < one.action.chars;
  return h('td', {
    class: `branch${one.branch % COLORS} ${one.parts ? 'parts' : ''}`, onclick: onChoose,
  },
  h('div', {class: failed ? 'bad act' : 'act', dir: 'auto'},
      one.kind !== 'act' && [h('span', {class: 'chip kind'}, one.kind), ' '],
      visible(text), cut && '…'),
  h('div', {class: 'small'},
      one.reward !== 0 && h('span', {class: one.reward > 0 ? 'good' : 'bad'},
          `reward ${number(one.reward, 3)} `),
      one.strange && h('span', {class: 'warn'}, 'answered differently '),
      one.advantage !== undefined && one.advantage !== null &&
          h('span', {class: 'soft'}, `A ${number(one.advantage, 2)}`)));
}
