"""Tests for the routes and the page of all pairs."""

import csv
import io
import json
import re

import numpy as np
import pytest
from playwright.sync_api import expect

from agentrl.modes import compare
from configs import compare as config_lib
from tests.evaluation import recording
from tests.evaluation.workdirs import panels_test
from tests.viewer import axe
from tests.viewer.asking import get, text

OPTIONS = panels_test.OPTIONS


@pytest.fixture
def root(tmp_path):
  """Three evaluations of one panel, and two arms of three runs on another."""
  rng = np.random.default_rng(0)
  for name, rate in (('e1', 0.2), ('e2', 0.9), ('e3', 0.6)):
    outcomes = (rng.random((30, 1)) < rate).astype(int).tolist()
    recording.simple(tmp_path / name, outcomes, name=f'policy-{name}')
  for kind, rate in (('fixed', 0.3), ('stepwise', 0.8)):
    for seed in range(3):
      config = {
          'mode': 'train',
          'seed': seed,
          'horizon': {'kind': kind},
          'env': {'name': 'babyai', 'options': OPTIONS},
          'agent': {'template': None},
          'rollout': {},
          'eval': panels_test.EVAL,
      }
      for stem, share in (('000000', 0.1), ('000004', rate)):
        outcomes = (rng.random((12, 1)) < share).astype(int).tolist()
        panels_test.write(
            tmp_path, f'{kind}-{seed}', stem, outcomes, config=config
        )
  return tmp_path


def matrix_of(found, env):
  (each,) = [each for each in found['matrices'] if each['env'] == env]
  return each


def test_the_matrix_is_that_of_mode_compare(root, viewer, tmp_path_factory):
  out = tmp_path_factory.mktemp('out')
  arg = f'a={root}/e1,b={root}/e2,more={root}/e3'
  compare.run(config_lib.get_config(arg), str(out))
  with (out / 'comparison_matrix.csv').open() as file:
    expected = list(csv.DictReader(file))
  url, of = viewer(root), [f'{x}:policy-{x}' for x in ('e1', 'e2', 'e3')]
  found = list(csv.DictReader(io.StringIO(text(url, 'matrix.csv', of=of))))
  names = lambda row: {**row, 'a': row['a'][-2:], 'b': row['b'][-2:]}
  assert list(map(names, found)) == list(map(names, expected))
  (each,) = get(url, 'matrix', of=of)['matrices']
  assert [x['label'][:2] for x in each['standings']] == ['e2', 'e3', 'e1']


def test_groups_and_evaluations_are_the_columns(root, viewer):
  found = get(viewer(root), 'matrix')
  assert len(found['specs']) == 5 and not found['left_out']
  assert found['specs']['horizon.kind=fixed'] == [
      f'fixed-{seed}:eval/000004' for seed in range(3)
  ]
  arms = matrix_of(found, 'babyai')
  assert [x['label'] for x in arms['standings']] == [
      'horizon.kind=stepwise', 'horizon.kind=fixed'
  ]  # fmt: skip
  assert arms['standings'][0]['runs'] == 3
  (row,), (over,) = arms['rows'], arms['seed_rows']
  assert row['difference'] == pytest.approx(over['mean'])
  assert len(matrix_of(found, 'textcraft')['rows']) == 3


def test_the_steps_of_a_run_are_columns_and_damage_is_left_out(root, viewer):
  (root / 'fixed-1/episodes/eval/000004.jsonl').write_text('')
  url = viewer(root)
  found = get(url, 'matrix', run='stepwise-0')
  assert set(found['specs']) == {'step 0', 'step 4'}
  (left_out,) = get(url, 'matrix')['left_out']
  assert left_out['label'] == 'horizon.kind=fixed'
  assert 'no episode' in left_out['why']
  assert get(url, 'matrix', run='../x')['status'] == 404


@pytest.mark.browser
def test_a_cell_leads_to_the_pair(root, viewer, page):
  page.goto(viewer(root) + '#/matrix')
  textcraft = page.get_by_label('Pairs in textcraft')
  rows = textcraft.locator('tbody tr')
  expect(rows).to_have_count(3)
  expect(rows.first).to_contain_text('e2:policy-e2')
  expect(rows.first.locator('td.better').first).to_contain_text('Holm')
  expect(page.get_by_label('Pairs in babyai')).to_contain_text('over seeds')
  rows.first.locator('td.better a').first.click()
  expect(page).to_have_url(re.compile('compare.*a=e2%3Apolicy-e2'))
  expect(page.locator('.cells')).to_contain_text('won')
  page.go_back()
  page.get_by_label('Columns').select_option('run fixed-0')
  expect(page.get_by_label('Pairs in babyai')).to_contain_text('step 4')
  page.get_by_label('Add an evaluation').select_option('e1:policy-e1')
  expect(page).to_have_url(re.compile('runs=fixed-0|runs=e1'))
  expect(page.locator('.notice')).to_contain_text('no two policies')


@pytest.mark.browser
@pytest.mark.parametrize('width', [1440, 390])
def test_the_page_is_accessible_and_not_too_wide(root, viewer, page, width):
  page.set_viewport_size({'width': width, 'height': 800})
  page.goto(viewer(root) + '#/matrix')
  page.get_by_label('Pairs in textcraft').wait_for()
  assert page.evaluate('document.documentElement.scrollWidth') <= width
  assert axe.findings(page) == []


def test_a_stored_comparison_names_its_policies(root, viewer):
  arg = f'a={root}/e1,b={root}/e2,more={root}/e3'
  compare.run(config_lib.get_config(arg), str(root / 'three'))
  (found,) = [x for x in get(viewer(root), 'runs')['runs'] if x['compares']]
  specs = found['compares']
  stored = json.loads((root / 'three' / 'comparison.json').read_text())
  assert len(specs) == len(stored['standings']) == 3
  assert len(get(viewer(root), 'matrix', of=specs)['specs']) == 3
