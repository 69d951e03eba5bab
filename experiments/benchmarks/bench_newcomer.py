r"""Asks a study's questions in the viewer by clicks alone, and times the answers.

    python -m experiments.sweeps.kept --page=experiments/2026-12-asynchrony --unpack=runs/study
    python -m experiments.benchmarks.bench_newcomer --root=runs/study --pictures=pictures

begins at the address that the viewer prints, with every run indexed, and prints a JSON
line for each question: clicks, seconds from the first click until the answer is on the
page, and the answer as it stands there. With --pictures each page is kept as PNG files
of 1440, 1024 and 390 pixels, light and dark.
"""

import json
import pathlib
import time

from absl import app, flags
from playwright import sync_api
from playwright.sync_api import Page

from agentrl.envs.web import chromium
from experiments.benchmarks.viewers import ask, say, server

_ROOT = flags.DEFINE_string('root', None, 'Folder of runs.', required=True)
_PICTURES = flags.DEFINE_string('pictures', None, 'Folder for pictures.')

WIDTHS = (1440, 1024, 390)


class Newcomer:
  """Clicks, counted, from the page that the viewer opens with."""

  def __init__(self, page: Page, url: str):
    self.page = page
    self._clicks = 0
    self._began = 0.0
    page.goto(url)
    page.get_by_role('link', name='Groups', exact=True).wait_for()

  def begin(self) -> None:
    """Starts a question."""
    self._clicks, self._began = 0, time.perf_counter()

  def open(self, name: str) -> None:
    """A page of the navigation."""
    self._clicks += 1
    self.page.get_by_role('link', name=name, exact=True).first.click()

  def choose(self, field: str, value: str) -> None:
    """An option of a list: a click to open it and one to choose."""
    self._clicks += 2
    self.page.locator(f'select[data-key="{field}"]').select_option(value)

  def say(self, question: str, selector: str) -> None:
    """The answer: the text of the first element that is found."""
    found = self.page.locator(selector).first
    found.wait_for()
    seconds = time.perf_counter() - self._began
    text = ' '.join(found.inner_text().split())
    say(question, clicks=self._clicks, seconds=seconds, answer=text[:300])


def walk(page: Page, url: str) -> None:
  """Four questions, and a look at an episode."""
  someone = Newcomer(page, url)
  someone.begin()
  someone.open('Groups')
  someone.say('Which group is best?', '[aria-label="All groups"] tbody tr')
  someone.begin()
  someone.say(
      'What do random actions and the expert reach?',
      '[aria-label="All groups"] tbody tr',
  )
  someone.begin()
  someone.open('Matrix')
  someone.say('Is that real?', '[aria-label^="Pairs in"] tbody tr')
  someone.begin()
  someone.open('Tasks')
  with page.expect_response('**/api/tasks?*only=failed*'):
    someone.choose('only', 'failed')
  page.locator('.tasks .paging', has_text='in all').wait_for()
  someone.say('Which tasks do all fail?', '.tasks .paging')
  someone.say('The first of them', '[aria-label="Table of tasks"] tbody tr')


def pictures(page: Page, url: str, folder: pathlib.Path) -> None:
  """Groups, Matrix and Tasks in each width and scheme."""
  folder.mkdir(parents=True, exist_ok=True)
  for name in ('arms', 'matrix', 'tasks'):
    for width in WIDTHS:
      for scheme in ('light', 'dark'):
        page.set_viewport_size({'width': width, 'height': 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(f'{url}#/{name}')
        page.reload()
        page.locator('.page table tbody tr').first.wait_for()
        page.wait_for_load_state('networkidle')
        page.screenshot(path=folder / f'{name}-{width}-{scheme}.png')


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unexpected arguments {argv[1:]}.')
  with (
      server(pathlib.Path(_ROOT.value)) as (_, url),
      sync_api.sync_playwright() as playwright,
  ):
    while json.loads(ask(f'{url}api/episodes/summary'))['indexed'] < 1:
      time.sleep(0.2)
    browser = playwright.chromium.launch(executable_path=chromium.find())
    page = browser.new_page(viewport={'width': 1440, 'height': 900})
    walk(page, url)
    if _PICTURES.value is not None:
      pictures(page, url, pathlib.Path(_PICTURES.value))
    browser.close()


if __name__ == '__main__':
  app.run(main)
