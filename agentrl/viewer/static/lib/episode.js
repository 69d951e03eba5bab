// Reading one episode, named by `where`: {run, file, line}.

import {api} from './dom.js';

/** Its row of the index, prompt and neighbours. */
export function head(where, options) {
  return api('episode', where, options);
}

/** A window of its turns: `{from, total, turns}`. */
export function turns(where, from, count, options) {
  return api('turns', {...where, from, count}, options);
}

/** For `prose` (lib/turn.js): pieces of the text at `path`, such as turns.3.observation. */
export function pieces(where, path, options) {
  return (from) => api('text', {...where, path, from}, options);
}
