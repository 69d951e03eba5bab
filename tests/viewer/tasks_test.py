"""Tests for the routes and the page of tasks by columns."""

import json
import re

import numpy as np
import pytest
from playwright.sync_api import expect

from agentrl import envs
from agentrl.types import Message
from tests.evaluation import recording
from tests.evaluation.workdirs import panels_test
from tests.viewer import axe, runs
from tests.viewer.asking import get

OPTIONS = {'levels': ['GoToRedBall', 'GoToDoor'], 'style': 'compact'}
TASKS = envs.get('babyai').tasks('test', **OPTIONS)
CONFIG = {
    'mode': 'train',
    'env': {'name': 'babyai', 'options': OPTIONS},
    'agent': {'template': None},
    'rollout': {},
    'eval': panels_test.EVAL,
}
GOALS = ('fetch the red ball', 'open a blue door', 'go to the grey key')


def write(root, run, stem, outcomes, *, seed=0, kind='fixed', options=None):
  """An evaluation of a run; None: the infrastructure failed the episode."""
  found = [
      runs.episode(
          f'{stem}-{i}',
          task_id=TASKS[i],
          split='test',
          success=bool(success),
          stop_reason='env_error' if success is None else 'terminated',
          prompt=(Message('user', f'Goal: {GOALS[i % 3]}.'),),
      )
      for i, success in enumerate(outcomes)
  ]
  runs.write(root, run, f'episodes/eval/{stem}.jsonl', found)
  env = {'name': 'babyai', 'options': options or OPTIONS}
  config = CONFIG | {'seed': seed, 'horizon': {'kind': kind}, 'env': env}
  (root / run / 'config.json').write_text(json.dumps(config))
  return found


@pytest.fixture
def outcomes():
  """Outcomes `[runs][tasks]` of two arms of two seeds at their last step."""
  rng = np.random.default_rng(0)
  found = (rng.random((4, 12)) < 0.5).astype(int).tolist()
  for row in found:
    row[4] = 0
  found[0][7] = None
  return found


@pytest.fixture
def root(tmp_path, outcomes):
  for i, row in enumerate(outcomes):
    kind, seed = ('fixed', 'stepwise')[i // 2], i % 2
    run = f'{kind}-{seed}'
    write(tmp_path, run, '000000', [0] * 12, seed=seed, kind=kind)
    write(tmp_path, run, '000004', row, seed=seed, kind=kind)
  return tmp_path


def test_cells_are_counts_of_the_files(root, viewer, outcomes):
  found = get(viewer(root), 'tasks', count=200)
  assert [x['label'] for x in found['columns']] == [
      'horizon.kind=fixed', 'horizon.kind=stepwise'
  ]  # fmt: skip
  assert (found['env'], found['total']) == ('babyai', 12)
  cells = {row['key']: row for row in found['rows']}
  shares = []
  for i, task in enumerate(TASKS[:12]):
    for column in range(2):
      mine = [outcomes[2 * column][i], outcomes[2 * column + 1][i]]
      valid = [x for x in mine if x is not None]
      assert cells[task]['cells'][column] == [len(valid), sum(valid)]
    every = [row[i] for row in outcomes if row[i] is not None]
    assert cells[task]['all'] == [len(every), sum(every)]
    shares.append((sum(every) / len(every), task))
    assert GOALS[i % 3] in cells[task]['goal']
  assert [row['key'] for row in found['rows']] == [t for _, t in sorted(shares)]


def test_filters_leave_rows_out(root, viewer, outcomes):
  url = viewer(root)
  failed = [TASKS[i] for i in range(12) if not any(row[i] for row in outcomes)]
  found = get(url, 'tasks', only='failed')
  assert sorted(row['key'] for row in found['rows']) == sorted(failed)
  assert found['failed'] == found['total'] == len(failed)
  red = get(url, 'tasks', q='RED fet')
  assert {row['key'] for row in red['rows']} == set(TASKS[:12:3])
  # Words of observations are found in episodes, and are no goal.
  assert get(url, 'tasks', q='see')['total'] == 0
  second = get(url, 'tasks', **{'from': 10})
  assert (len(second['rows']), second['total']) == (2, 12)
  kind = found['subtasks'][0] if found['subtasks'] else ''
  kinds = get(url, 'tasks', by='subtask')
  assert sum(row['all'][0] for row in kinds['rows']) == 47
  assert kind in {row['key'] for row in kinds['rows']}
  for query in ({'order': 'x'}, {'by': 'x'}, {'only': 'x'}, {'env': 'x'}):
    assert get(url, 'tasks', **query)['status'] == 422


def test_the_steps_of_a_run_are_columns(root, viewer, outcomes):
  found = get(viewer(root), 'tasks', run='fixed-0', only='lost')
  assert [x['label'] for x in found['columns']] == ['step 0', 'step 4']
  assert found['total'] == 0  # step 0 solved nothing
  write(root, 'fixed-0', '000009', [0] * 12)
  url = viewer(root)
  found = get(url, 'tasks', run='fixed-0', only='lost')
  solved = {TASKS[i] for i, x in enumerate(outcomes[0]) if x}
  assert {row['key'] for row in found['rows']} == solved


def test_policies_of_evaluations_are_columns(tmp_path, viewer):
  recording.simple(tmp_path / 'e1', [[1, 0], [0, None]], name='new')
  recording.simple(tmp_path / 'e2', [[1, 1], [0, 0]], name='old')
  found = get(viewer(tmp_path), 'tasks')
  assert [x['policy'] for x in found['columns']] == ['new', 'old']
  assert [(row['key'], row['cells']) for row in found['rows']] == [
      (1, [[1, 0], [2, 0]]), (0, [[2, 1], [2, 2]])
  ]  # fmt: skip


def test_other_tasks_under_the_same_numbers_are_left_out(root, viewer):
  other = OPTIONS | {'levels': ['GoToRedBall']}
  write(root, 'other', '000000', [1] * 12, options=other, kind='other')
  found = get(viewer(root), 'tasks')
  assert len(found['columns']) == 2
  assert len(found['left_out']) == 1


@pytest.mark.browser
def test_a_cell_opens_its_episodes(root, viewer, page, outcomes):
  page.goto(viewer(root) + '#/tasks')
  table = page.get_by_label('Table of tasks')
  expect(table.locator('tbody tr')).to_have_count(12)
  row = table.locator('tbody tr').first
  expect(row).to_contain_text('none (')
  row.locator('td.cell a').first.click()
  expect(page).to_have_url(re.compile(r'episodes\?runs=fixed-0%3Bfixed-1'))
  expect(page.locator('.episodes tbody tr').first).to_be_visible()
  expect(page.locator('.episodes tbody tr')).to_have_count(2)
  page.go_back()
  page.get_by_label('Words of the goal').fill('blue')
  page.get_by_label('Words of the goal').press('Enter')
  expect(table.locator('tbody tr')).to_have_count(4)
  page.get_by_label('Show').select_option('failed')
  expect(page).to_have_url(re.compile('only=failed'))
  page.get_by_label('Columns').select_option('run fixed-0')
  expect(table.locator('thead')).to_contain_text('step 4')


@pytest.mark.browser
@pytest.mark.parametrize('width', [1440, 390])
def test_the_page_is_accessible_and_not_too_wide(root, viewer, page, width):
  page.set_viewport_size({'width': width, 'height': 800})
  page.goto(viewer(root) + '#/tasks')
  page.get_by_label('Table of tasks').wait_for()
  assert page.evaluate('document.documentElement.scrollWidth') <= width
  assert axe.findings(page) == []


@pytest.mark.browser
def test_too_many_columns_can_be_chosen_among(tmp_path, viewer, page, allowed):
  allowed.append('422')
  for i in range(65):
    write(tmp_path, f'run-{i}', '000000', [1], kind=f'kind-{i}')
  page.goto(viewer(tmp_path) + '#/tasks')
  expect(page.get_by_role('alert')).to_contain_text('65 policies are too many')
  page.get_by_label('Columns').select_option('run run-7')
  rows = page.get_by_label('Table of tasks').locator('tbody tr')
  expect(rows).to_have_count(1)


def test_losses_since_a_step_are_of_what_it_had_solved(root, viewer, outcomes):
  early = [1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0]
  last = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1]
  write(root, 'fixed-0', '000002', early)
  write(root, 'fixed-0', '000009', last)
  url = viewer(root)
  ask = lambda **query: get(url, 'tasks', of='fixed-0', only='lost', **query)
  found = ask(since='2')
  assert found['steps'] == [0, 2, 4, 9]
  lost = {TASKS[i] for i in range(12) if early[i] and not last[i]}
  assert {row['key'] for row in found['rows']} == lost
  middle = {TASKS[i] for i in range(12) if outcomes[0][i] and not last[i]}
  assert {row['key'] for row in ask(since='4')['rows']} == middle
  assert {row['key'] for row in ask()['rows']} == lost | middle
  assert ask(since='0')['total'] == 0
  refused = ask(since='3')
  assert refused['status'] == 422 and '0, 2, 4, 9' in refused['error']
  assert get(url, 'tasks', since='4')['status'] == 422  # columns are groups


def test_runs_and_evaluations_are_named_alike(root, viewer):
  url = viewer(root)
  found = get(url, 'tasks', of=['fixed-0', 'stepwise-1:eval/000004'])
  assert [x['label'] for x in found['columns']] == [
      'fixed-0 step 0', 'fixed-0 step 4', 'stepwise-1:eval/000004'
  ]  # fmt: skip
  for name in ('nobody', 'nobody:eval/000004', 'fixed-0:eval/9', '../x:a'):
    refused = get(url, 'tasks', of=['fixed-0', name])
    assert refused['status'] == 404 and name in refused['error']


@pytest.mark.browser
def test_losses_since_a_step_are_chosen(root, viewer, page, outcomes):
  write(root, 'fixed-0', '000009', [0] * 12)
  page.goto(viewer(root) + '#/tasks?runs=fixed-0&only=lost')
  table = page.get_by_label('Table of tasks')
  solved = sum(x or 0 for x in outcomes[0])
  expect(table.locator('tbody tr')).to_have_count(solved)
  page.get_by_label('Solved by').select_option('step 4')
  expect(page).to_have_url(re.compile('since=4'))
  expect(table.locator('tbody tr')).to_have_count(solved)
  page.get_by_label('Solved by').select_option('step 0')
  expect(page.get_by_text('none of 12')).to_be_visible()
  page.go_back()
  expect(table.locator('tbody tr')).to_have_count(solved)
