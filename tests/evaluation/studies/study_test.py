"""Tests for agentrl.evaluation.study: a folder, and its figures by hand."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from agentrl import evaluation
from agentrl.errors import DataError
from tests.evaluation.studies import chance_test
from tests.evaluation.workdirs import panels_test

KINDS = ('fixed', 'stepwise')
TASKS, SEEDS = 10, 4


def raw(root, run):
  """Task and success of each episode of a run's last evaluation, as written."""
  path = root / run / 'episodes' / 'eval' / '000004.jsonl'
  lines = map(json.loads, path.read_text().splitlines())
  return {line['task_id']: line['success'] for line in lines}


def write(root):
  """Two arms of four seeds on one panel, and two evaluations on another."""
  rng = np.random.default_rng(0)
  for kind, seed in itertools.product(KINDS, range(SEEDS)):
    run = f'{kind}-{seed}'
    config = {
        'mode': 'train',
        'seed': seed,
        'horizon': {'kind': kind},
        'env': {'name': 'babyai', 'options': panels_test.OPTIONS},
        'agent': {'template': None},
        'rollout': {},
        'eval': panels_test.EVAL,
    }
    shares = {}
    for stem, rate in (('000000', 0.1), ('000004', 0.7)):
      solved = rng.random((TASKS, 1)) < rate
      panels_test.write(root, run, stem, solved.tolist(), config=config)
      shares[stem] = {'mean': solved.mean(), 'low': 0, 'high': 1, 'n': TASKS}
    (root / run / 'summary.json').write_text(
        json.dumps({
            'mode': 'train',
            'steps': 4,
            'eval': {'before': shares['000000'], 'after': shares['000004']},
        })
    )
  chance_test.write(root, 'r', chance_test.RANDOM, 'random')
  chance_test.write(root, 'x', chance_test.EXPERT, 'expert')
  # Policies that did as these two.
  chance_test.write(root, 'worse', chance_test.RANDOM, 'model')
  chance_test.write(root, 'better', chance_test.EXPERT, 'model')


@pytest.fixture
def root(tmp_path):
  write(tmp_path)
  return tmp_path


def test_every_figure_follows_from_the_files(root):
  found = evaluation.study(root)
  assert found.left_out == []
  solved = {
      kind: [raw(root, f'{kind}-{seed}') for seed in range(SEEDS)]
      for kind in KINDS
  }
  shares = {
      kind: [np.mean(list(x.values())) for x in each]
      for kind, each in solved.items()
  }
  for row in found.groups:
    mine = shares[row['horizon.kind']]
    ends = stats.ttest_1samp(mine, 0).confidence_interval(0.95)
    assert row['mean'] == pytest.approx(np.mean(mine))
    assert (row['low'], row['high']) == pytest.approx(tuple(ends))
  rows = {row['env']: row for row in found.matrix}
  row = rows['babyai']
  better, worse = (
      x.removeprefix('horizon.kind=') for x in (row['a'], row['b'])
  )
  assert np.mean(shares[better]) >= np.mean(shares[worse])
  welch = stats.ttest_ind(shares[better], shares[worse], equal_var=False)
  assert (row['seed_low'], row['seed_high']) == pytest.approx(
      tuple(welch.confidence_interval(0.95))
  )
  # Ten tasks: all signs of their differences are tried.
  tasks = list(solved['fixed'][0])
  difference = np.array([
      np.mean([x[task] for x in solved[better]])
      - np.mean([x[task] for x in solved[worse]])
      for task in tasks
  ])
  signs = np.array(list(itertools.product((-1, 1), repeat=TASKS)))
  as_extreme = np.abs(signs @ difference) >= abs(difference.sum()) - 1e-9
  assert row['p_value'] == pytest.approx(as_extreme.mean())
  assert (rows['textcraft']['won'], rows['textcraft']['lost']) == (2, 0)
  for row in found.tasks:
    if row['env'] == 'babyai':
      kind = row['column'].removeprefix('horizon.kind=')
      count = sum(x[row['task']] for x in solved[kind])
      assert (row['solved'], row['n']) == (count, SEEDS)
  assert len(found.tasks) == 2 * TASKS + 2 * 5
  # Levels are no columns.
  assert {row['column'] for row in found.tasks} == {
      'horizon.kind=fixed',
      'horizon.kind=stepwise',
      'worse:model',
      'better:model',
  }


def test_levels_are_compared_where_there_is_nothing_else(tmp_path):
  chance_test.write(tmp_path, 'r', chance_test.RANDOM, 'random')
  chance_test.write(tmp_path, 'x', chance_test.EXPERT, 'expert')
  (row,) = evaluation.study(tmp_path).matrix
  assert (row['a'], row['b']) == ('x:expert', 'r:random')


def test_values_are_plain(root):
  for table in evaluation.study(root, group=['horizon.kind']):
    json.dumps(table)


def test_damage_is_left_out_and_a_folder_is_needed(root):
  (root / 'fixed-2/episodes/eval/000004.jsonl').write_text('')
  found = evaluation.study(root)
  assert [x['a'] for x in found.left_out] == ['horizon.kind=fixed']
  with pytest.raises(DataError, match='no folder'):
    evaluation.study(root / 'none')


def test_a_run_that_has_just_begun_counts_for_nothing_beside_others(root):
  before = evaluation.study(root)
  path = root / 'fixed-0' / 'episodes' / 'eval' / '000004.jsonl'
  rest = root / 'fixed-0' / 'summary.json'
  summary = json.loads(rest.read_text())
  del summary['eval']['after']
  rest.write_text(json.dumps(summary))
  path.unlink()
  [pair] = [
      row
      for row in evaluation.study(root).matrix
      if 'fixed' in row['a'] + row['b'] and 'stepwise' in row['a'] + row['b']
  ]
  assert pair['seeds'] == SEEDS - 1
  own = 'a' if 'fixed' in pair['a'] else 'b'
  shares = [
      np.mean(list(raw(root, f'fixed-{seed}').values())) for seed in (1, 2, 3)
  ]
  assert pair[f'success_{own}'] == pytest.approx(np.mean(shares))
  assert len(before.matrix) == len(evaluation.study(root).matrix)
