"""The pages of runs, comparisons and failures in a real Chromium."""

import csv
import json
import re
import shutil

import numpy as np
import pytest
from playwright.sync_api import expect

from agentrl import metrics
from agentrl.errors import EnvError
from agentrl.runtime import lock, summary
from tests.evaluation.workdirs.panels_test import write as write_evaluation
from tests.viewer import axe, runs
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
STEPS = 12


@pytest.fixture
def root(tmp_path):
  """Two runs of two stages with episodes and evaluations."""
  rng = np.random.default_rng(0)
  for run, level in (('grpo', 0.2), ('ppo', 0.5)):
    for step in range(STEPS):
      horizon = 3 if step < 6 else 6
      found = [
          runs.episode(f'{step}-{i}', horizon=horizon, task_id=40 * i)
          for i in range(3)
      ]
      runs.write(tmp_path, run, f'episodes/train/{step:06d}.jsonl', found)
    for stem in ('000000', '000006', '000012'):
      outcomes = rng.integers(0, 2, (8, 1)).tolist()
      write_evaluation(tmp_path, run, stem, outcomes)
    lines = [
        {
            'step': step,
            'time': 100.0 * step,
            'rollout/horizon': 3.0 if step < 6 else 6.0,
            'rollout/return_mean': level + step / 100,
            'policy/entropy': 2 - step / 10,
            'time/collect_s': 2.0,
            'time/update_s': 1.0,
            'time/push_s': 0.5,
        }
        for step in range(STEPS)
    ]
    for line, prefix in ((0, 'eval_before'), (5, 'eval'), (11, 'eval')):
      lines[line] |= {
          f'{prefix}/success': level,
          f'{prefix}/success_low': level - 0.1,
          f'{prefix}/success_high': level + 0.1,
          f'{prefix}/episodes': 8.0,
      }
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    (tmp_path / run / 'metrics.jsonl').write_text(text)
  return tmp_path


def chart(page, metric):
  return page.locator(f'[data-chart="{metric}"] .chart')


def test_curves_are_overlaid_read_off_and_followed_to_episodes(
    root, viewer, page
):
  page.goto(viewer(root))
  for run in ('grpo', 'ppo'):
    box = page.get_by_label(f'Show the curves of {run}')
    if not box.is_checked():
      box.click()
    expect(box).to_be_checked()
  expect(page.locator('.legend')).to_have_text(
      re.compile('grpo.*ppo|ppo.*grpo')
  )
  # The keyboard reads what the files have; both runs at one step.
  returns = chart(page, 'rollout/return_mean')
  returns.focus()
  for _ in range(8):
    returns.press('ArrowRight')
  tip = returns.locator('.tip')
  expect(tip).to_contain_text('step 7')
  assert set(tip.locator('.num').all_text_contents()) == {'0.27', '0.57'}
  # So does the pointer, at the last step.
  area = returns.bounding_box()
  page.mouse.move(area['x'] + area['width'] - 12, area['y'] + 60)
  expect(tip).to_contain_text('step 11')
  # An evaluation has its interval.
  held_out = chart(page, 'eval/success')
  held_out.focus()
  held_out.press('End')
  expect(held_out.locator('.tip')).to_contain_text('[0.1, 0.3]')
  # Smoothing and axes are in the URL, and survive a reload.
  page.get_by_label('x axis').select_option('time')
  expect(page).to_have_url(re.compile('x=time'))
  page.reload()
  expect(page.get_by_label('x axis')).to_have_value('time')
  returns.focus()
  returns.press('End')
  expect(returns.locator('.tip')).to_contain_text(
      'minutes since the first step'
  )
  # From a step to its episodes.
  returns.press('Home')
  returns.press('ArrowRight')
  returns.press('Enter')
  expect(page).to_have_url(
      re.compile(r'#/episodes\?runs=(grpo|ppo)&origin=train&step=1$')
  )


def test_downloads_have_the_values(root, viewer, page):
  page.goto(viewer(root) + '#/runs?runs=grpo')
  card = page.locator('[data-chart="policy/entropy"]')
  with page.expect_download() as found:
    card.get_by_role('link', name='CSV').click()
  with open(found.value.path()) as file:
    rows = list(csv.DictReader(file))
  assert [float(row['value']) for row in rows] == [
      2 - step / 10 for step in range(STEPS)
  ]
  with page.expect_download() as found:
    card.get_by_role('button', name='PNG').click()
  assert open(found.value.path(), 'rb').read(8) == b'\x89PNG\r\n\x1a\n'
  assert found.value.suggested_filename == 'grpo-policy_entropy.png'


def test_a_metric_is_added_and_configs_are_shown(root, viewer, page):
  page.goto(viewer(root) + '#/runs?runs=grpo;ppo')
  chart(page, 'policy/entropy').wait_for()
  added = page.get_by_label('Add a metric')
  added.fill('time/step_s')  # no run has it
  added.press('Enter')
  added.fill('rollout/horizon')
  added.press('Enter')
  chart(page, 'rollout/horizon').wait_for()
  expect(page.locator('[data-chart="time/step_s"]')).to_have_count(0)
  page.get_by_text('Where the configs differ').click()
  expect(page.locator('.config')).to_contain_text('fields are equal')


def test_a_live_run_is_drawn_on(root, viewer, page):
  with lock.hold(root / 'ppo'):
    page.goto(viewer(root) + '#/runs?runs=ppo')
    row = page.locator('tr', has_text='ppo')
    expect(row.locator('.chip')).to_have_text('live')
    expect(row).to_contain_text('12')
    writer = metrics.Writer(root / 'ppo', total=99, start=STEPS)
    writer.write(STEPS, {'rollout/return_mean': 0.875})
    writer.close()
    expect(row).to_contain_text('13')
    returns = chart(page, 'rollout/return_mean')

    def drawn():  # the table may be redrawn before the chart is
      returns.press('End')
      return '0.875' in returns.locator('.tip').text_content()

    assert wait_until(drawn, 30)
  expect(row.locator('.chip')).to_have_text('stopped')
  # Once more, to end by an error.
  error = EnvError('the <b>server</b> is down')
  values = {'mode': 'train', 'steps': STEPS + 1}
  summary.leave(root / 'ppo', error, values)
  expect(row.locator('.chip')).to_have_text('failed')
  reason = 'EnvError: the <b>server</b> is down'
  expect(row.locator('.chip')).to_have_attribute('title', reason)


def test_a_comparison_leads_to_the_turns(root, viewer, page):
  page.goto(viewer(root) + '#/compare')
  page.get_by_label('Evaluation a', exact=True).select_option(
      'grpo:eval/000012'
  )
  page.get_by_label('Evaluation b', exact=True).select_option(
      'grpo:eval/000000'
  )
  cells = page.locator('.cells')
  expect(cells).to_contain_text('won')
  counts = [int(x) for x in cells.locator('.count').all_text_contents()]
  assert sum(counts) == 8
  # Both ways round there is a pair, as no cell of four holds all eight.
  cell = cells.get_by_role('button').filter(has_not_text=re.compile('^0')).first
  cell.click()
  page.locator('.list a').first.click()
  columns = page.locator('.columns')
  expect(columns.locator('article')).to_have_count(8)  # prompts, three turns
  expect(columns).to_contain_text('You see door 2.')
  expect(page).to_have_url(re.compile('task='))
  with page.expect_download() as found:
    page.get_by_role('link', name='HTML').click()
  assert found.value.path().stat().st_size > 1000
  # Neighbouring evaluations of the run, and what lies between.
  stages = page.get_by_label('Stages', exact=True).first
  expect(stages).to_contain_text('3 → 6 turns')


def test_different_panels_are_refused_on_the_page(root, viewer, page):
  write_evaluation(root, 'other', '000000', [[1]], data_version=2)
  page.goto(viewer(root) + '#/compare?a=grpo:eval/000000&b=other:eval/000000')
  expect(page.locator('.result')).to_contain_text('babyai has version 2')


def test_a_failure_leads_to_its_episodes(root, viewer, page):
  page.goto(viewer(root) + '#/failures?runs=grpo;ppo&by=horizon')
  stops = page.locator('[data-kind="stop"]')
  row = stops.locator('tbody tr', has_text='6 turns')
  expect(row).to_contain_text('36')
  row.locator('td.cell a').first.click()
  expect(page).to_have_url(
      re.compile(r'#/episodes\?runs=grpo%3Bppo.*horizon=6')
  )


def delay(page, endpoint):
  """Lets the answers of an endpoint come half a second late."""
  page.add_init_script(
      'const ask = window.fetch; window.fetch = async (url, options) => {'
      f' if (String(url).match(/{endpoint}($|[?])/))'
      ' await new Promise((resolve) => setTimeout(resolve, 500));'
      ' return ask(url, options);'
      '};'
  )


def test_a_comparison_that_is_cleared_while_it_loads_is_dropped(
    root, viewer, page
):
  delay(page, 'compare')
  page.goto(viewer(root) + '#/compare?a=grpo:eval/000012&b=grpo:eval/000000')
  result = page.locator('.result')
  expect(result).to_have_attribute('aria-busy', 'true')
  page.get_by_label('Evaluation B').select_option('')
  expect(result).to_contain_text('Choose two evaluations')
  page.wait_for_timeout(700)  # the answer has come meanwhile
  expect(result).to_contain_text('Choose two evaluations')
  expect(result).not_to_have_attribute('aria-busy', 'true')


# The endpoint whose answers come last: each part of a page may be the late one.
@pytest.mark.parametrize(
    'late',
    'nothing runs curves evaluations stages compare failures words'.split(),
)
def test_400_pixels_are_enough_and_nothing_moves(root, viewer, page, late):
  page.set_viewport_size({'width': 400, 'height': 800})
  delay(page, late)
  page.add_init_script(
      'window.shift = 0; new PerformanceObserver((list) => {'
      ' for (const e of list.getEntries()) if (!e.hadRecentInput)'
      ' window.shift += e.value;'
      '}).observe({type: "layout-shift", buffered: true});'
  )
  url = viewer(root)
  for fragment, shown in (
      ('runs?runs=grpo;ppo', '.card'),
      ('compare?a=grpo:eval/000012&b=grpo:eval/000000', '.cells'),
      ('failures?runs=grpo', '.map'),
  ):
    page.goto(f'{url}#/{fragment}')
    page.reload()  # another fragment alone is no load
    page.locator(shown).first.wait_for()
    page.wait_for_timeout(700)
    assert page.evaluate('document.documentElement.scrollWidth') <= 400
    assert page.evaluate('window.shift') < 0.1  # "good" by Web Vitals


@pytest.mark.parametrize('name', ['runs', 'failures'])
@pytest.mark.parametrize('key', ['run', 'runs'])
def test_a_run_that_is_not_here_is_said(root, viewer, page, name, key):
  page.goto(viewer(root) + f'#/{name}?{key}=nobody')
  expect(page.get_by_text('There is no such run here: nobody.')).to_be_visible()
  expect(page.locator('.map, .card')).to_have_count(0)


def test_pages_of_runs_keep_those_that_are_chosen(root, viewer, page):
  page.goto(viewer(root) + '#/runs?runs=ppo')
  for name in ('Failures', 'Episodes', 'Runs'):
    link = page.get_by_label('Pages', exact=True).get_by_text(name, exact=True)
    expect(link).to_have_attribute('href', f'#/{name.lower()}?runs=ppo')
    link.click()


def test_the_runs_seen_last_are_shown_again(root, viewer, page):
  url = viewer(root)
  page.goto(url)  # nothing was seen: the run that was written last
  box = lambda run: page.get_by_label(f'Show the curves of {run}')
  expect(box('ppo')).to_be_checked()
  page.goto(f'{url}#/runs?runs=grpo')
  expect(box('grpo')).to_be_checked()
  expect(page.locator('.card').first).to_be_visible()
  for fragment in ('', '#/runs'):
    page.goto('about:blank')
    page.goto(f'{url}{fragment}')
    expect(box('grpo')).to_be_checked()
    expect(box('ppo')).not_to_be_checked()
  page.goto(f'{url}#/failures')
  expect(page.locator('.map').first).to_be_visible()
  link = page.locator('.map a').first
  expect(link).to_have_attribute('href', re.compile(r'runs=grpo&'))
  (root / 'grpo').rename(root / 'gone')  # it is no longer here
  # Folders are looked at once a second, and one that was listed is asked for.
  listed = lambda: page.request.get(f'{url}api/runs').text()
  assert wait_until(lambda: '"grpo"' not in listed())
  page.goto('about:blank')
  page.goto(url)
  expect(page.locator('.list :checked')).to_have_count(1)


@pytest.mark.parametrize('width', [1440, 720, 390])
def test_the_list_of_runs_ends_with_a_whole_row(root, viewer, page, width):
  for i in range(20):
    folder = root / f'more{i}'
    folder.mkdir()
    shutil.copy(root / 'ppo/config.json', folder)
    shutil.copy(root / 'ppo/metrics.jsonl', folder)
  page.set_viewport_size({'width': width, 'height': 900})
  page.goto(viewer(root))
  page.locator('.list tbody tr').nth(20).wait_for()
  cut = """() => {
    const box = document.querySelector('.list');
    const end = box.getBoundingClientRect().top + box.clientTop + box.clientHeight;
    return [...box.querySelectorAll('tbody tr')].filter((row) => {
      const {top, bottom} = row.getBoundingClientRect();
      return top < end - 1 && bottom > end + 1;
    }).length;
  }"""
  assert page.evaluate(cut) == 0
  # Success is seen without a scroll sideways, its interval too.
  ends = """() => {
    const box = document.querySelector('.list').getBoundingClientRect();
    const cell = document.querySelector('.list td.success');
    const range = document.createRange();
    range.selectNodeContents(cell);
    return [range.getBoundingClientRect().right, box.right];
  }"""
  right, edge = page.evaluate(ends)
  assert right <= edge
  page.set_viewport_size({'width': width - 40, 'height': 900})
  page.wait_for_timeout(100)
  assert page.evaluate(cut) == 0


def test_all_pairs_of_a_comparison_are_linked(root, viewer, page):
  names = ['grpo:eval/000000', 'grpo:eval/000012', 'ppo:eval/000012']
  (root / 'three').mkdir()
  (root / 'three/config.json').write_text(json.dumps({'mode': 'compare'}))
  (root / 'three/comparison.json').write_text(
      json.dumps({
          'policies': [
              {
                  'evaluation': str(root / name.split(':')[0]),
                  'policy': {'name': name.split(':')[1]},
              }
              for name in names
          ]
      })
  )
  page.goto(viewer(root))
  page.locator('.list').get_by_text('three', exact=True).click()
  links = page.get_by_label('Pairs of the comparison').get_by_role('link')
  expect(links).to_have_count(3)
  expect(links.nth(0)).to_have_attribute('aria-current', 'true')
  links.nth(2).click()
  expect(links.nth(2)).to_have_attribute('aria-current', 'true')
  expect(page.get_by_label('Evaluation a', exact=True)).to_have_value(names[1])
  expect(page.get_by_label('Evaluation b', exact=True)).to_have_value(names[2])


MANY = 400


@pytest.fixture
def many(tmp_path):
  """More runs than are drawn, none of the same seed; some rows have two lines."""
  rate = {'mean': 0.5, 'low': 0.4, 'high': 0.6, 'n': 8}
  for i in range(MANY):
    folder = tmp_path / f'run-{i:03d}'
    folder.mkdir()
    mixture = i % 7 == 0
    config = {'mode': 'train', 'seed': i, 'env': {'name': 'babyai'}}
    (folder / 'config.json').write_text(json.dumps(config))
    found = {'a': rate, 'b': rate} if mixture else rate
    summary = {'mode': 'train', 'steps': 3, 'eval': {'before': found}}
    if mixture:
      summary['eval'] = {'before/a': rate, 'before/b': rate}
    (folder / 'summary.json').write_text(json.dumps(summary))
    (folder / 'metrics.jsonl').write_text('{"step": 0, "policy/entropy": 1}\n')
  return tmp_path


def names_in_view(page):
  """Names of the runs that are seen in the list, from its top."""
  return page.evaluate("""() => {
    const box = document.querySelector('.list');
    const {top, bottom} = box.getBoundingClientRect();
    const head = box.querySelector('thead').getBoundingClientRect().height;
    return [...box.querySelectorAll('tbody tr[aria-rowindex]')].filter((row) => {
      const at = row.getBoundingClientRect();
      return at.bottom > top + head + 1 && at.top < bottom - 1;
    }).map((row) => row.querySelector('.name').textContent);
  }""")


def test_of_many_runs_those_in_view_are_rows(many, viewer, page):
  page.goto(viewer(many) + '#/runs?sort=run')
  table = page.locator('.list table')
  expect(table).to_have_attribute('aria-rowcount', str(MANY + 1))
  rows = table.locator('tbody tr[aria-rowindex]')
  expect(rows.first).to_have_attribute('aria-rowindex', '2')
  assert rows.count() < 60
  assert names_in_view(page)[0] == 'run-000'
  # The end is reached by a scroll, with no gap in view on the way.
  box = page.locator('.list')
  for to in (500, 3000, 2500, 10**6):
    box.evaluate(f'(each) => each.scrollTop = {to}')
    page.wait_for_timeout(150)
    found = names_in_view(page)
    assert found == sorted(found) and len(found) >= 4
  assert found[-1] == f'run-{MANY - 1}'
  expect(rows.last).to_have_attribute('aria-rowindex', str(MANY + 1))
  # Another order begins at its first row, and the history comes back.
  page.get_by_role('button', name='Seed').click()
  expect(page.locator('th[aria-sort]')).to_contain_text('Seed')
  expect(rows.first).to_contain_text('run-399')
  assert names_in_view(page)[0] == 'run-399'
  page.go_back()
  expect(rows.first).to_contain_text('run-000')
  # The filter finds what is not drawn.
  page.get_by_label('Filter runs').fill('run-27')
  expect(rows).to_have_count(0)  # few rows are all drawn, as they always were
  expect(table.locator('tbody tr')).to_have_count(10)
  expect(table).not_to_have_attribute('aria-rowcount', re.compile('.'))


def test_the_keyboard_goes_through_rows_that_were_not_drawn(many, viewer, page):
  page.goto(viewer(many) + '#/runs?sort=run')
  page.get_by_label('Show the curves of run-000').focus()
  for _ in range(90):  # each row has a box and a link
    page.keyboard.press('Tab')
  label = page.evaluate('document.activeElement.getAttribute("aria-label")')
  assert label == 'Show the curves of run-045'
  assert 'run-045' in names_in_view(page)
  # What had the focus is not drawn any more: the list has it.
  page.locator('.list').evaluate('(each) => each.scrollTop = 1e6')
  expect(page.locator('.list')).to_be_focused()
  page.keyboard.press('Home')
  expect(page.get_by_label('Show the curves of run-000')).to_be_visible()
  # A run that is chosen far below stays in view and keeps the focus.
  page.locator('.list').evaluate('(each) => each.scrollTop = 5000')
  page.wait_for_timeout(150)
  name = names_in_view(page)[3]
  box = page.get_by_label(f'Show the curves of {name}')
  box.focus()
  box.press('Space')
  expect(page).to_have_url(re.compile(f'runs=.*{name}'))
  expect(box).to_be_focused()
  assert name in names_in_view(page)
  # The table was drawn anew, and has not moved.
  assert page.locator('.list').evaluate('(each) => each.scrollTop') == 5000


@pytest.mark.parametrize('width', [1440, 390])
def test_many_runs_are_accessible_and_end_with_a_whole_row(
    many, viewer, page, width
):
  page.set_viewport_size({'width': width, 'height': 900})
  url = viewer(many)
  for fragment in ('runs', 'arms?group=seed'):
    page.goto(f'{url}#/{fragment}')
    page.locator('.list tr[aria-rowindex="9"]').wait_for()
    page.locator('.card').first.wait_for()
    assert page.evaluate('document.documentElement.scrollWidth') <= width
    assert axe.findings(page) == []


def test_many_groups_are_drawn_in_part(many, viewer, page):
  page.goto(viewer(many) + '#/arms?group=seed')
  table = page.locator('.list table')
  expect(table).to_have_attribute('aria-rowcount', re.compile(r'\d{3}'))
  assert table.locator('tbody tr').count() < 60
