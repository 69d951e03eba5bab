// Exactly the arrays that an episode was trained with.

import {api, h, notice, number, replace, visible} from '../lib/dom.js';
import {head} from '../lib/episode.js';
import {change, href} from '../lib/route.js';
import {COLUMNS, columnsOf, figure, showValues, tokenTable, tokenView} from '../lib/tokens.js';

export const title = 'Tokens';
export const keys = ['run', 'file', 'line', 'from', 'color', 'token'];

export async function render(root, params, {signal}) {
  const key = {run: params.run, file: params.file, line: params.line};
  const [facts, found] = await Promise.all([
    head(key, {signal}), api('tokens', {...key, from: params.from}, {signal})]);
  const columns = columnsOf(found);
  const preferred = [params.color, 'advantages', 'sampler_logprobs'];
  let color = preferred.find((name) => columns[name]);

  const values = h('div', {class: 'panel values', 'aria-live': 'polite'},
      h('p', {class: 'soft'}, 'Point at a token, or choose one with the arrow keys.'));
  const legend = h('span', {class: 'legend'});
  const view = tokenView(found, (index) => {
    showValues(values, found, index);
    change({token: index}, {silent: true});
  }, {heading: 'h2'});
  const paint = () => {
    const scale = view.color(color);
    replace(legend, h('span', {class: 'ramp', 'aria-hidden': 'true'}),
        `${scale.low} … ${scale.middle} … ${scale.high}`,
        scale.largest !== undefined &&
          h('span', {}, `largest size ${figure(scale.largest)}`));
  };
  const select = h('select', {id: 'color', onchange: () => {
    color = select.value;
    change({color}, {silent: true});
    paint();
  }}, Object.entries(COLUMNS).map(([name, [label]]) => h('option', {
    value: name, selected: name === color, disabled: !columns[name],
  }, columns[name] ? label : `${label} (not kept)`)));
  const numbers = h('details', {ontoggle: (event) => {
    if (event.target.open && !event.target.querySelector('table')) {
      event.target.append(h('div', {class: 'scroll', tabindex: 0}, tokenTable(found)));
    }
  }}, h('summary', {}, 'All numbers'));

  replace(root,
      h('header', {class: 'head'},
          h('h1', {}, 'Tokens of ', h('bdi', {}, visible(facts.episode_id))),
          h('p', {}, h('a', {href: href('replay', key)}, 'Replay'), ' ',
              h('a', {href: href('group', key)}, 'Group'))),
      found.no_texts && notice('The texts of the ids are not known. ', visible(found.no_texts)),
      h('div', {class: 'tools'},
          h('label', {for: 'color'}, 'Colour'), select, legend,
          h('span', {class: 'soft'},
              `${number(found.total)} tokens, ${number(found.mask.filter(Boolean).length)} ` +
              'sampled here: those are bright' +
              (found.absent.advantage ? '' : ' and were learnt from'))),
      pages(key, found, color),
      h('div', {class: 'sides'}, view.element,
          h('aside', {}, values, placement(key, found), absent(found))),
      numbers);
  paint();
  if (params.token !== undefined) view.choose(Number(params.token));
}

function pages(key, found, color) {
  const size = found.ids.length;
  if (size === found.total) return null;
  const link = (from, label) => h('a', {href: href('tokens', {...key, from, color})}, label);
  const stop = found.from + size;
  return h('p', {class: 'pages'},
      `Tokens ${number(found.from)} to ${number(stop - 1)} of ${number(found.total)}. `,
      found.from > 0 && [link(Math.max(found.from - 4096, 0), 'Earlier'), ' '],
      stop < found.total && link(stop, 'Later'));
}

function absent(found) {
  const missing = Object.entries(found.absent);
  if (!missing.length) return null;
  return h('section', {class: 'panel'}, h('h2', {}, 'Not there'),
      h('dl', {class: 'facts'}, missing.map(([name, why]) => [
        h('dt', {}, COLUMNS[name][0]), h('dd', {}, why)])));
}

/** Which episodes were in the same packed row, or shared the prompt. */
function placement(key, found) {
  const {place, neighbours} = found;
  if (!place) return null;
  const link = (other) => h('a', {href: href('tokens', {...key, line: other.line})},
      h('bdi', {}, visible(other.episode_id)));
  const row = neighbours.filter((x) => x.in_row).sort((a, b) => a.start - b.start);
  const shared = neighbours.filter((x) => x.shares);
  return h('section', {class: 'panel place'}, h('h2', {}, 'In the last update'),
      h('p', {}, `Minibatch ${place.minibatch + 1}, microbatch ${place.microbatch + 1}, ` +
          `row ${place.row + 1}, from column ${place.start} on.`),
      h('p', {}, row.length ? ['Packed into the same row: ', list(row, (x) =>
        [link(x), h('span', {class: 'soft'}, ` at ${x.start}`)])] :
        'Alone in its row.'),
      h('p', {}, place.shared ? [`Its first ${place.shared} tokens were computed once, also for `,
        shared.length ? list(shared, link) : 'no other episode here', '.'] :
        'No prompt was shared.'));
}

function list(entries, draw) {
  const shown = entries.slice(0, 12).map((x, i) => [i > 0 && ', ', draw(x)]);
  return [shown, entries.length > 12 && ` and ${entries.length - 12} more`];
}
