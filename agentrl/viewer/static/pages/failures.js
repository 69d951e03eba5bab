import {notice} from '../lib/dom.js';

export const title = 'Failures';

export async function render(root) {
  root.append(notice('Nothing is here yet.'));
}
