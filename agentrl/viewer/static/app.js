// The frame around the pages: navigation, theme, and which page is shown.
//
// A page is a module pages/NAME.js with
//   export const title = 'Episodes';
//   export const keys = ['runs', 'step']; // of its address
//   export async function render(root, params, {signal}) { ... }
// `root` is an empty element, `params` a plain object of the URL's parameters,
// and `signal` is aborted when the page is left. Where it returns
// `{update(params)}`, new parameters of the same page go there, and the page is
// not built anew.

import {h, failure, notice, replace, visible} from './lib/dom.js';
import {split} from './lib/names.js';
import {current, href, inAddress, known} from './lib/route.js';

// In the navigation, in this order; others are reached by links.
const NAVIGATION = [
  ['runs', 'Runs'],
  ['episodes', 'Episodes'],
  ['arms', 'Groups'],
  ['matrix', 'Matrix'],
  ['compare', 'Compare'],
  ['tasks', 'Tasks'],
  ['failures', 'Failures'],
  ['play', 'Play'],
];
const PAGES = new Set([
  ...NAVIGATION.map(([name]) => name), 'replay', 'transcript', 'tokens', 'group', 'timeline']);
const THEMES = ['auto', 'light', 'dark'];

const main = document.getElementById('main');
const wrong = h('div', {class: 'wrong', role: 'status'});
let shown = null; // {name, controller, keys, update}

async function route() {
  const {name: asked, params} = current();
  const name = asked || 'runs';
  markNavigation(name, params);
  if (shown?.name === name && shown.update) {
    shown.update(checked(params, shown.keys));
    return;
  }
  shown?.controller.abort();
  const controller = new AbortController();
  const page = {name, controller, keys: [], update: null};
  shown = page;
  const root = h('div', {class: `page ${PAGES.has(name) ? name : ''}`});
  replace(wrong);
  replace(main, wrong, root);
  if (!PAGES.has(name)) {
    root.append(notice('There is no such page. ',
        h('a', {href: href('runs')}, 'Go to the runs.')));
    return;
  }
  try {
    const module = await import(`./pages/${name}.js`);
    if (page !== shown) return; // left meanwhile
    document.title = `${module.title} · agentrl`;
    page.keys = module.keys;
    const found = await module.render(root, checked(params, page.keys), {signal: controller.signal});
    page.update = found?.update || null;
  } catch (error) {
    if (error.name !== 'AbortError') replace(root, failure(error));
  }
}

/** The parameters for a page; says above it which of them it does not know. */
function checked(params, keys) {
  const found = known(params, keys);
  replace(wrong, found.unknown.length > 0 && notice(
      `This page does not know ${found.unknown.map((key) => `“${visible(key)}”`).join(', ')}, which its address has. `,
      `It knows ${inAddress(keys).join(', ')}.`));
  return found.params;
}

// Pages that show several runs keep those that are chosen.
const OF_RUNS = ['runs', 'episodes', 'failures'];

function markNavigation(name, {runs}) {
  const kept = OF_RUNS.includes(name) && split(runs).length ? {runs} : {};
  replace(document.getElementById('nav'), NAVIGATION.map(([each, label]) =>
    h('a', {href: href(each, OF_RUNS.includes(each) ? kept : {}), 'aria-current': each === name && 'page'}, label)));
}

function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem('theme', theme);
  const button = document.getElementById('theme');
  button.textContent = `Theme: ${theme}`;
  button.onclick = () =>
    setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
}

const kept = localStorage.getItem('theme');
setTheme(THEMES.includes(kept) ? kept : 'auto');
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault(); // the fragment is the page
  main.focus();
});
window.addEventListener('hashchange', route);
route();
