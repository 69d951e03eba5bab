import {notice} from '../lib/dom.js';

export const title = 'Compare';

export async function render(root) {
  root.append(notice('Nothing is here yet.'));
}
