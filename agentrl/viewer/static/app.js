// The frame around the pages: navigation, theme, and which page is shown.
//
// A page is a module pages/NAME.js with
//   export const title = 'Episodes';
//   export async function render(root, params, {signal}) { ... }
// `root` is an empty element, `params` a plain object of the URL's parameters,
// and `signal` is aborted when the page is left. Where it returns
// `{update(params)}`, new parameters of the same page go there, and the page is
// not built anew.

import {h, failure, notice, replace} from './lib/dom.js';
import {split} from './lib/names.js';
import {current, href} from './lib/route.js';

// In the navigation, in this order; others are reached by links.
const NAVIGATION = [
  ['runs', 'Runs'],
  ['episodes', 'Episodes'],
  ['compare', 'Compare'],
  ['failures', 'Failures'],
  ['play', 'Play'],
];
const PAGES = new Set([
  ...NAVIGATION.map(([name]) => name), 'replay', 'tokens', 'group']);
const THEMES = ['auto', 'light', 'dark'];

const main = document.getElementById('main');
let shown = null; // {name, controller, update}

async function route() {
  const {name: asked, params} = current();
  const name = asked || 'runs';
  markNavigation(name, params);
  if (shown?.name === name && shown.update) {
    shown.update(params);
    return;
  }
  shown?.controller.abort();
  const controller = new AbortController();
  const page = {name, controller, update: null};
  shown = page;
  const root = h('div', {class: `page ${PAGES.has(name) ? name : ''}`});
  replace(main, root);
  if (!PAGES.has(name)) {
    root.append(notice('There is no such page. ',
        h('a', {href: href('runs')}, 'Go to the runs.')));
    return;
  }
  try {
    const module = await import(`./pages/${name}.js`);
    document.title = `${module.title} · agentrl`;
    const found = await module.render(root, params, {signal: controller.signal});
    page.update = found?.update || null;
  } catch (error) {
    if (error.name !== 'AbortError') replace(root, failure(error));
  }
}

// Pages that show several runs keep those that are chosen.
const OF_RUNS = ['runs', 'episodes', 'failures'];

function markNavigation(name, {run}) {
  const kept = OF_RUNS.includes(name) && split(run).length ? {run} : {};
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
