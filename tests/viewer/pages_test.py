"""Tests of the frame and of the table, in a real Chromium."""

import gzip
import pathlib
import re

import pytest
from playwright.sync_api import expect

from agentrl.viewer import server
from tests.viewer import axe, runs

pytestmark = pytest.mark.browser

# Texts that would act, hide or reorder what is around them.
HOSTILE = (
    '<script>document.title = "hacked"</script>'
    '<img src=x onerror=\'document.title="hacked"\'>'
    '<a href="javascript:alert(1)">click</a>'
    '\x1b[31mred\x1b[0m \u202egnp.exe \u2066 \x00 &lt;b&gt;'
)


def made(root):
  """A run with returns from 0 to 1 and one hostile episode."""
  episodes = []
  for i in range(150):
    turns = tuple(
        runs.turn(
            k, observation=f'Door {i} and a {"lamp" if i == 7 else "key"}.'
        )
        for k in range(1 + i % 3)
    )
    turns += (runs.turn(3, reward=i / 149),)
    episodes.append(
        runs.episode(f'e{i}', made=turns, task_id=i, success=i > 99)
    )
  runs.write(root, episodes=episodes)
  turn = runs.turn(0, observation=HOSTILE, action=HOSTILE)
  bad = runs.episode(
      HOSTILE,
      made=(turn,),
      env='<b>env</b>',
      error=HOSTILE,
      stop_reason='env_error',
  )
  runs.write(root, '<i>run', 'episodes/train/000003.jsonl', [bad])


@pytest.fixture(scope='module')
def shown(tmp_path_factory):
  root = tmp_path_factory.mktemp('shown')
  made(root)
  return root


def rows(page):
  return page.locator('.episodes tbody tr')


def test_every_page_opens(shown, viewer, page):
  page.goto(viewer(shown))
  for name in ('Runs', 'Episodes', 'Compare', 'Failures', 'Play'):
    page.get_by_role('link', name=name, exact=True).click()
    page.locator(f'.page.{name.lower()} > *').first.wait_for()
    expect(page).to_have_title(re.compile('agentrl$'))
  page.goto(f'{page.url.partition("#")[0]}#/nonsense')
  page.get_by_text('There is no such page').wait_for()


def test_the_theme_is_chosen_and_kept(shown, viewer, page):
  url = viewer(shown)
  page.goto(url)
  colour = lambda: page.evaluate(
      'getComputedStyle(document.body).backgroundColor'
  )
  light = colour()
  page.get_by_role('button', name='Theme').click()
  assert colour() == light
  page.get_by_role('button', name='Theme').click()
  dark = colour()
  assert dark != light
  page.reload()
  page.get_by_role('button', name='Theme: dark').wait_for()
  assert colour() == dark


def test_filters_are_the_address(shown, viewer, page, allowed):
  allowed.append('status of 422')  # browsers log each refused request
  page.goto(f'{viewer(shown)}#/episodes')
  expect(rows(page)).to_have_count(100)
  expect(page.locator('.figures')).to_contain_text('151 episodes')
  page.get_by_label('Words in').fill('lamp')
  page.get_by_label('Words in').press('Enter')
  expect(rows(page)).to_have_count(1)
  assert page.url.endswith('#/episodes?q=lamp')
  page.get_by_role('link', name='Take the filter Words away').click()
  expect(rows(page)).to_have_count(100)
  page.get_by_label('Success').select_option('solved')
  expect(rows(page)).to_have_count(50)
  page.get_by_label('Turns', exact=True).fill('3..4')
  page.get_by_label('Turns', exact=True).press('Enter')
  expect(page.locator('.figures')).to_contain_text('34 episodes')
  address = page.url
  page.go_back()
  expect(rows(page)).to_have_count(50)
  page.goto('about:blank')
  page.goto(address)
  expect(rows(page)).to_have_count(34)
  expect(page.get_by_role('combobox', name='Success')).to_have_value('1')
  page.get_by_label('Step', exact=True).fill('x')
  with page.expect_response(lambda r: r.status == 422):
    page.get_by_label('Step', exact=True).press('Enter')
  page.get_by_text('is no number and no range').wait_for()


def test_order_and_pages(shown, viewer, page):
  page.goto(f'{viewer(shown)}#/episodes?run=run')
  page.get_by_role('link', name='Return', exact=True).click()
  first = rows(page).first
  expect(first).to_contain_text('1.000')
  expect(page.get_by_role('columnheader', name='Return')).to_have_attribute(
      'aria-sort', 'descending'
  )
  page.get_by_role('link', name='Next').click()
  expect(rows(page)).to_have_count(50)
  expect(page.locator('.pager')).to_contain_text('101–150 of 150')
  page.get_by_role('link', name='Return', exact=True).click()
  expect(first).to_contain_text('0.000')


def test_a_bin_is_a_filter(shown, viewer, page):
  page.goto(f'{viewer(shown)}#/episodes?run=run')
  last = page.locator('.histogram a').last
  words = last.get_attribute('aria-label')
  count = re.search(r': (\d+) episodes', words)[1]
  last.focus()
  page.keyboard.press('Enter')
  expect(page.locator('.figures')).to_contain_text(f'{count} episodes')
  expect(rows(page)).to_have_count(int(count))
  page.locator('.histogram a').last.press('Enter')
  expect(rows(page)).to_have_count(100)


def test_a_live_run_grows(tmp_path, viewer, page):
  page.goto(f'{viewer(tmp_path)}#/episodes')
  page.get_by_text('There are no episodes below this folder yet').wait_for()
  runs.write(tmp_path)
  expect(rows(page)).to_have_count(4)
  runs.write(tmp_path, file='episodes/train/000001.jsonl')
  expect(rows(page)).to_have_count(8)


@pytest.mark.parametrize('name', ['episodes', 'runs', 'replay'])
def test_hostile_texts_are_texts(shown, viewer, page, name):
  where = 'run=%3Ci%3Erun&file=episodes/train/000003.jsonl&line=0'
  page.goto(f'{viewer(shown)}#/{name}?{where if name == "replay" else ""}')
  words = {'runs': '<i>run', 'episodes': '<b>env</b>', 'replay': '\\u202e'}
  page.locator('.page').get_by_text(words[name]).locator(
      'visible=true'
  ).first.wait_for()
  assert 'hacked' not in page.title()
  assert (
      page.locator('main script, main img[src=x], main b:text("env")').count()
      == 0
  )


@pytest.mark.parametrize('scheme', ['light', 'dark'])
@pytest.mark.parametrize(
    'name', ['runs', 'episodes', 'compare', 'failures', 'play', 'replay']
)  # fmt: skip
def test_axe_finds_nothing_serious(shown, viewer, page, name, scheme):
  page.emulate_media(color_scheme=scheme)
  where = 'run=run&file=episodes/train/000000.jsonl&line=3&task=3'
  # A few rows are as good as many, and sooner judged.
  query = 'task=..3' if name == 'episodes' else where
  page.goto(f'{viewer(shown)}#/{name}?{query}')
  page.locator('.page > *').first.wait_for()
  page.wait_for_load_state('networkidle')
  assert axe.findings(page) == []


def test_nothing_moves_while_the_table_loads(shown, viewer, page):
  page.add_init_script(
      'window.shift = 0; new PerformanceObserver((list) => {'
      ' for (const e of list.getEntries()) if (!e.hadRecentInput)'
      ' window.shift += e.value;'
      '}).observe({type: "layout-shift", buffered: true});'
  )
  page.goto(f'{viewer(shown)}#/episodes')
  rows(page).first.wait_for()
  page.wait_for_timeout(300)
  assert page.evaluate('window.shift') < 0.1  # "good" by Web Vitals


def test_400_pixels_are_enough(shown, viewer, page):
  page.set_viewport_size({'width': 400, 'height': 800})
  url = viewer(shown)
  where = 'run=run&file=episodes/train/000000.jsonl&line=3&turn=1'
  for name in ('episodes', 'replay', 'group', 'play'):
    page.goto(f'{url}#/{name}?{"" if name == "episodes" else where}')
    page.locator(f'.{name} > *').first.wait_for()
    page.wait_for_load_state('networkidle')
    wide = 'document.documentElement.scrollWidth - innerWidth'
    assert page.evaluate(wide) <= 0, name


def test_all_of_it_is_small():
  total = 0
  for path in pathlib.Path(server.STATIC).rglob('*'):
    if path.is_file():
      total += len(gzip.compress(path.read_bytes()))
  assert total < 300_000
