// The runs that were looked at last, of each folder that a viewer shows.

import {join, split} from './names.js';

const key = (root) => `runs of ${root}`;

/** Keeps the names of runs that somebody chose. */
export function keep(root, names) {
  if (names.length) localStorage.setItem(key(root), join(names));
}

/** Those that were chosen last and are still there. */
export const seen = (root, known) =>
  split(localStorage.getItem(key(root))).filter((name) => known.includes(name));
