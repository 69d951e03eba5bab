// A page and all of its state are the URL's fragment: #/episodes?run=a&step=3.

import {query} from './dom.js';

/** The page's name and a plain object of its parameters. */
export function current() {
  const [, name = '', text = ''] =
      location.hash.match(/^#\/([a-z]*)\??(.*)$/) || [];
  const {runs, ...params} = Object.fromEntries(new URLSearchParams(text));
  // Addresses of earlier versions have `runs` on two pages.
  return {name, params: runs ? {run: runs, ...params} : params};
}

/** A link to a page. */
export function href(name, params = {}) {
  const text = query(params);
  return `#/${name}${text && `?${text}`}`;
}

/** Goes to a page; `back` comes back from there. */
export function go(name, params = {}) {
  location.hash = href(name, params);
}

/**
 * Changes parameters of this page; null or '' takes one away.
 *
 * With `silent` the page is not told (it has shown the change already), and the
 * change is no step of the history: for what moves often, such as a scrubber.
 */
export function change(changes, {silent = false} = {}) {
  const {name, params} = current();
  const next = href(name, {...params, ...changes});
  if (next === location.hash) return;
  if (silent) history.replaceState(null, '', next);
  else location.hash = next;
}
