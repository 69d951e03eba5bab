// A menu closes when the mouse is pressed elsewhere, or on Escape.
const menus = () => document.querySelectorAll('details[open]');
const hasMenu = (each) => each.querySelector('.menu');

document.addEventListener('click', (event) => {
  for (const each of menus()) {
    if (hasMenu(each) && !each.contains(event.target)) each.open = false;
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  for (const each of menus()) if (hasMenu(each)) each.open = false;
});
