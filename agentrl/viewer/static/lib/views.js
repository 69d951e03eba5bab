// Blocks of agentrl/viewer/views/ as elements.

import {h, s, number, visible} from './dom.js';

const COLORS = {
  red: '#d43b32', green: '#2f9e44', blue: '#2f6fd6', purple: '#8e44ad',
  yellow: '#d9a400', grey: '#8a919c',
};
const CELL = 26;
const DRAW = {facts, items, tree, bar, passages, picture, grid, text};

/**
 * The blocks of an environment's view.
 *
 * `pictureUrl(done)`: where the picture after `done` turns is; null: pictures are
 * left out.
 */
export function renderBlocks(blocks, {pictureUrl = null} = {}) {
  return blocks.map((block) => {
    if (block.kind === 'picture' && !pictureUrl) return null;
    return DRAW[block.kind] ? DRAW[block.kind](block, pictureUrl) : null;
  });
}

function section(title, ...children) {
  return h('section', {class: 'block'}, title && h('h3', {}, title), ...children);
}

function facts({title, items: pairs}) {
  if (!pairs.length) return null;
  return section(title, h('dl', {class: 'facts'}, pairs.map(([name, value]) =>
    [h('dt', {}, name), h('dd', {dir: 'auto'}, visible(value))])));
}

function entry({text: words, mark, note}) {
  return [
    h('span', {class: mark || '', dir: 'auto'}, visible(words)),
    mark === 'done' && h('span', {class: 'good', title: 'done'}, ' ✓'),
    note && h('span', {class: 'soft'}, ` ${note}`),
  ];
}

function items({title, items: entries, more, empty}) {
  return section(title,
      entries.length ?
        h('ul', {class: 'items'}, entries.map((one) => h('li', {}, entry(one)))) :
        h('p', {class: 'soft'}, empty),
      more > 0 && h('p', {class: 'soft'}, `and ${number(more)} more`));
}

function tree({title, root}) {
  return section(title, h('ul', {class: 'tree'}, branch(root)));
}

function branch(node) {
  return h('li', {class: node.mark === 'done' ? 'over' : ''}, entry(node),
      node.children?.length > 0 && h('ul', {}, node.children.map(branch)));
}

function bar({title, share, words}) {
  return section(title, h('div', {class: 'share'},
      h('meter', {min: 0, max: 1, value: share, 'aria-label': title}),
      h('span', {class: 'soft'}, words)));
}

function passages({title, query, items: found}) {
  return section(title,
      h('p', {class: 'soft', dir: 'auto'}, visible(query)),
      found.length ? found.map(passage) : h('p', {class: 'soft'}, 'nothing was found'));
}

function passage({title, text: words, hits}) {
  const parts = [];
  let at = 0;
  for (const [start, stop] of hits) {
    parts.push(visible(words.slice(at, start)),
        h('mark', {}, visible(words.slice(start, stop))));
    at = stop;
  }
  parts.push(visible(words.slice(at)));
  return h('div', {class: 'passage'},
      h('strong', {dir: 'auto'}, visible(title)), h('p', {dir: 'auto'}, parts));
}

function picture({done, box, caption}, pictureUrl) {
  const image = h('img', {
    src: pictureUrl(done), alt: `The environment after ${done} turns`,
  });
  const frame = h('div', {class: 'frame'}, image);
  if (box) {
    const outline = h('div', {class: 'outline', 'aria-hidden': 'true'});
    image.addEventListener('load', () => {
      const percent = (value, whole) => `${100 * value / whole}%`;
      const {naturalWidth: width, naturalHeight: height} = image;
      if (box[0] >= width || box[1] >= height) return; // it was scrolled to
      outline.style.setProperty('left', percent(box[0], width));
      outline.style.setProperty('top', percent(box[1], height));
      outline.style.setProperty('width', percent(box[2], width));
      outline.style.setProperty('height', percent(box[3], height));
      frame.append(outline);
    });
  }
  return h('figure', {class: 'block picture'}, frame,
      caption && h('figcaption', {class: 'soft'}, caption));
}

// The agent stands at the bottom in the middle and looks up.
function grid({title, things}) {
  const side = Math.max(3, ...things.map((x) => Math.abs(x.right)));
  const ahead = Math.max(3, ...things.map((x) => x.ahead));
  const at = (right, front) =>
    [(right + side + 0.5) * CELL, (ahead - front + 0.5) * CELL];
  const width = (2 * side + 1) * CELL;
  const height = (ahead + 1) * CELL;
  const words = things.map((x) =>
    `${x.color} ${x.state} ${x.kind} ${x.ahead} ahead, ${x.right} to the right`);
  const lines = [];
  for (let i = 0; i <= 2 * side + 1; i++) {
    lines.push(s('line', {x1: i * CELL, x2: i * CELL, y1: 0, y2: height, class: 'cell'}));
  }
  for (let i = 0; i <= ahead + 1; i++) {
    lines.push(s('line', {x1: 0, x2: width, y1: i * CELL, y2: i * CELL, class: 'cell'}));
  }
  const [x, y] = at(0, 0);
  return section(title, s('svg', {
    class: 'view', viewBox: `-1 -1 ${width + 2} ${height + 2}`, width, height,
    role: 'img', 'aria-label': words.join('; '),
  }, lines,
  s('path', {class: 'agent', d: `M${x} ${y - 9} L${x + 8} ${y + 8} L${x - 8} ${y + 8} Z`}),
  things.map((thing) => shape(thing, ...at(thing.right, thing.ahead)))));
}

function shape({kind, color, state}, x, y) {
  const fill = COLORS[color] || COLORS.grey;
  const name = s('title', {}, `${color} ${state} ${kind}`);
  if (kind === 'ball') return s('circle', {cx: x, cy: y, r: 8, fill}, name);
  if (kind === 'box') {
    return s('rect', {x: x - 8, y: y - 8, width: 16, height: 16, fill: 'none',
      stroke: fill, 'stroke-width': 3}, name);
  }
  if (kind === 'key') {
    return s('g', {stroke: fill, 'stroke-width': 3, fill: 'none'}, name,
        s('circle', {cx: x, cy: y - 4, r: 4}),
        s('path', {d: `M${x} ${y} V${y + 9} M${x} ${y + 4} H${x + 5}`}));
  }
  return s('rect', {x: x - 10, y: y - 10, width: 20, height: 20,
    fill: state === 'open' ? 'none' : fill, stroke: fill, 'stroke-width': 3}, name);
}

function text({title, text: words, chars}) {
  return section(title, h('pre', {class: 'text', dir: 'auto', tabindex: 0}, visible(words)),
      chars > words.length && h('p', {class: 'soft cut'},
          `… ${number(chars - words.length)} more characters; the turn has them`));
}
