"""The tasks: a page of MiniWoB++ and the seed of its problem.

Task `1000 * page + seed` is page `PAGES[page]` with one of 1,000 seeds.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agentrl.envs import base
from agentrl.envs.miniwob import experts
from agentrl.errors import ConfigError

SEEDS = 1000
# Of each page; those of a split are its own.
_SEEDS = {
    'train': range(600),
    'dev': range(600, 800),
    'test': range(800, 1000),
}
# In this order for good: ids count on it.
PAGES = (
    'ascending-numbers', 'bisect-angle', 'book-flight', 'book-flight-nodelay',
    'button-delay', 'buy-ticket', 'chase-circle', 'choose-date',
    'choose-date-easy', 'choose-date-medium', 'choose-date-nodelay',
    'choose-list', 'circle-center', 'click-button', 'click-button-sequence',
    'click-checkboxes', 'click-checkboxes-large', 'click-checkboxes-soft',
    'click-checkboxes-transfer', 'click-collapsible', 'click-collapsible-2',
    'click-collapsible-2-nodelay', 'click-collapsible-nodelay', 'click-color',
    'click-dialog', 'click-dialog-2', 'click-link', 'click-menu',
    'click-menu-2', 'click-option', 'click-pie', 'click-pie-nodelay',
    'click-scroll-list', 'click-shades', 'click-shape', 'click-tab',
    'click-tab-2', 'click-tab-2-easy', 'click-tab-2-hard', 'click-tab-2-medium',
    'click-test', 'click-test-2', 'click-test-transfer', 'click-widget',
    'copy-paste', 'copy-paste-2', 'count-shape', 'count-sides',
    'daily-calendar', 'drag-box', 'drag-circle', 'drag-cube', 'drag-items',
    'drag-items-grid', 'drag-shapes', 'drag-shapes-2', 'drag-single-shape',
    'drag-sort-numbers', 'draw-circle', 'draw-line', 'email-inbox',
    'email-inbox-delete', 'email-inbox-forward', 'email-inbox-forward-nl',
    'email-inbox-forward-nl-turk', 'email-inbox-important',
    'email-inbox-nl-turk', 'email-inbox-noscroll', 'email-inbox-reply',
    'email-inbox-star-reply', 'enter-date', 'enter-password', 'enter-text',
    'enter-text-2', 'enter-text-dynamic', 'enter-time', 'find-greatest',
    'find-midpoint', 'find-word', 'focus-text', 'focus-text-2', 'form-sequence',
    'form-sequence-2', 'form-sequence-3', 'generate-number', 'grid-coordinate',
    'guess-number', 'highlight-text', 'highlight-text-2', 'hot-cold',
    'hover-shape', 'identify-shape', 'login-user', 'login-user-popup',
    'moving-items', 'multi-layouts', 'multi-orderings', 'navigate-tree',
    'number-checkboxes', 'odd-or-even', 'order-food', 'phone-book',
    'read-table', 'read-table-2', 'resize-textarea', 'right-angle',
    'scroll-text', 'scroll-text-2', 'search-engine', 'sign-agreement',
    'simon-says', 'simple-algebra', 'simple-arithmetic', 'social-media',
    'social-media-all', 'social-media-some', 'stock-market', 'terminal',
    'text-editor', 'text-transform', 'tic-tac-toe', 'unicode-test',
    'use-autocomplete', 'use-autocomplete-nodelay', 'use-colorwheel',
    'use-colorwheel-2', 'use-slider', 'use-slider-2', 'use-spinner',
    'visual-addition', 'flight.AA', 'flight.Alaska', 'flight.Alaska-auto',
    'flight.Alaska-auto-medium',
)  # fmt: skip
# They cannot be played fairly: page -> reason.
LEFT_OUT = {
    'chase-circle': 'its shape moves between actions, and time stands still',
    'moving-items': 'its shapes move between actions, and time stands still',
    'use-colorwheel-2': 'the colour that it asks for is drawn in its question',
}
NUM_TASKS = SEEDS * len(PAGES)
SPLIT_BY = ('seed', 'page')


def page_of(task_id: int) -> str:
  """The page of a task.

  Raises:
    EnvError: there is no such task.
  """
  base.check_task('MiniWoB', task_id, NUM_TASKS)
  return PAGES[task_id // SEEDS]


def clusters(
    *, split_by: str = 'seed', **options: Any
) -> Callable[[int], str] | None:
  """`page_of` where a split's pages are drawn from all, as are other pages.

  With `split_by='seed'` every split has all pages: they are chosen, and what
  varies are the problems on each.
  """
  del options
  return page_of if split_by == 'page' else None


def seed_of(task_id: int) -> int:
  """The seed of a task's problem."""
  return task_id % SEEDS


def id_of(page: str, seed: int) -> int:
  """The id of a page's problem."""
  return SEEDS * PAGES.index(page) + seed


def is_test(task_id: int) -> bool:
  """True if a task's seed is one of those of the test split."""
  return seed_of(task_id) in _SEEDS['test']


def check(tasks: str | Sequence[str]) -> tuple[str, ...]:
  """The pages that an option means; refuses unknown ones."""
  if tasks == 'expert':
    return tuple(page for page in PAGES if page in experts.EXPERTS)
  if tasks == 'all':
    return tuple(page for page in PAGES if page not in LEFT_OUT)
  if isinstance(tasks, str):
    raise ConfigError(
        f"Unknown MiniWoB tasks {tasks!r}; say 'expert', 'all' or give a list"
        ' of pages.'
    )
  for page in tasks:
    if page not in PAGES:
      raise ConfigError(
          f'MiniWoB has no page {page!r}; pages: {", ".join(PAGES)}.'
      )
    if page in LEFT_OUT:
      raise ConfigError(f'MiniWoB page {page} is left out: {LEFT_OUT[page]}.')
  if not tasks:
    raise ConfigError("tasks is empty; name pages, or say 'expert' or 'all'.")
  return tuple(dict.fromkeys(tasks))


def tasks(
    split: str,
    *,
    tasks: str | Sequence[str] = 'expert',
    split_by: str = 'seed',
) -> tuple[int, ...]:
  """The ids of `split` ('train', 'dev' or 'test') in the chosen pages.

  Page by page, so that an even spread over the list has every page equally
  often: seed by seed, each k-th task could be of half of the pages.

  Args:
    split: its name.
    tasks: pages, 'expert' for all that have an expert, or 'all'.
    split_by: 'seed': other problems of the same pages; 'page': other pages too,
      every fifth of the chosen ones for dev, and the next one for test.
  """
  if split_by not in SPLIT_BY:
    raise ConfigError(
        f'Unknown split_by {split_by!r}; known: {", ".join(SPLIT_BY)}.'
    )
  chosen: Sequence[str] = check(tasks)
  if split_by == 'page':
    if len(chosen) < 5:
      raise ConfigError("split_by='page' needs five pages or more in tasks.")
    part = {'dev': (3,), 'test': (4,), 'train': (0, 1, 2)}[split]
    chosen = [page for k, page in enumerate(chosen) if k % 5 in part]
  return tuple(id_of(page, seed) for page in chosen for seed in _SEEDS[split])
