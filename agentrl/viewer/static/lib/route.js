// A page and all of its state are the URL's fragment: #/episodes?runs=a&step=3.
//
// Runs have one key on all pages, `runs`: names of runs, and of evaluations as
// RUN:NAME, with `;` between them.

import {query} from './dom.js';
import {join, split} from './names.js';

// Keys of addresses of earlier versions for what is `runs` now.
const EARLIER = ['run', 'of', 'among'];

/** The page's name and a plain object of its parameters. */
export function current() {
  const [, name = '', text = ''] =
      location.hash.match(/^#\/([a-z]*)\??(.*)$/) || [];
  const params = Object.fromEntries(new URLSearchParams(text));
  for (const key of EARLIER) {
    const {[key]: runs, ...others} = params;
    if (runs === undefined) continue;
    delete params[key];
    Object.assign(params, {runs, ...others});
  }
  return {name, params};
}

/**
 * The parameters that a page is given, and the keys that it does not know.
 *
 * A page of one run has `run` among its `keys`, and gets its name as that.
 */
export function known({runs, ...params}, keys) {
  const one = keys.includes('run');
  const found = runs === undefined ? params :
    one ? {run: split(runs)[0], ...params} : {runs, ...params};
  return {params: found, unknown: Object.keys(found).filter((key) => !keys.includes(key))};
}

/** The keys of a page as they stand in an address. */
export const inAddress = (keys) => keys.map((key) => key === 'run' ? 'runs' : key);

/** A link to a page; `run` is the name of one, `runs` names of `join`. */
export function href(name, {run, ...params} = {}) {
  const runs = run === undefined ? {} : {runs: run && join([run])};
  const text = query({...runs, ...params});
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
export function change({run, ...changes}, {silent = false} = {}) {
  const {name, params} = current();
  const runs = run === undefined ? {} : {runs: run && join([run])};
  const next = href(name, {...params, ...runs, ...changes});
  if (next === location.hash) return;
  if (silent) history.replaceState(null, '', next);
  else location.hash = next;
}
