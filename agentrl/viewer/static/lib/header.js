// The head of a page about one episode: its outcome, and the other pages about it.

import {h, number, visible} from './dom.js';
import {href} from './route.js';

const ALSO = [['replay', 'Replay'], ['transcript', 'Transcript'], ['tokens', 'Tokens'], ['group', 'Group']];

/**
 * `page`: that has it; `key`: {run, file, line}; `facts`: of /api/episode; `more`:
 * further links.
 */
export function header(page, key, facts, ...more) {
  const file = (as) => `/api/export?${new URLSearchParams({...key, as})}`;
  const beside = (line, words) => line !== null && h('a', {href: href(page, {...key, line})}, words);
  const links = [
    beside(facts.before, 'Previous'), beside(facts.after, 'Next'),
    ALSO.filter(([name]) => name !== page && (name !== 'tokens' || facts.has_tokens))
        .map(([name, words]) => h('a', {href: href(name, key)}, words)),
    more,
    h('a', {href: file('html'), download: ''}, 'HTML'),
    h('a', {href: file('markdown'), download: ''}, 'Markdown'),
  ].flat().filter(Boolean);
  return h('header', {class: 'head'},
      h('h1', {}, h('bdi', {}, visible(facts.episode_id))),
      h('p', {class: 'chips'},
          h('span', {class: `chip ${facts.success ? 'good' : 'bad'}`},
              facts.success ? 'success' : 'no success'),
          h('span', {class: 'chip'}, facts.stop_reason),
          h('span', {class: 'chip'}, `return ${number(facts.return, 3)}`),
          facts.attempt > 0 && h('span', {class: 'chip'}, `attempt ${facts.attempt + 1}`),
          facts.segments > 1 && h('span', {class: 'chip'}, `${facts.segments} segments`),
          h('span', {class: 'soft'}, visible(
              `${facts.env} task ${facts.task} (${facts.split}) · ` +
              `${facts.turns} of ${facts.horizon} turns · ` +
              `policy version ${facts.version}`)),
          h('span', {class: 'links'}, links.flatMap((link) => [link, ' ']))));
}
