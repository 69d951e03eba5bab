"""Tests for the comparison's routes, against mode='compare'."""

import json

import numpy as np
import pytest

from agentrl.modes import compare
from configs import compare as config_lib
from tests.evaluation import recording
from tests.evaluation.workdirs.panels_test import write
from tests.viewer.asking import get


def test_the_figures_are_those_of_mode_compare(tmp_path, viewer):
  rng = np.random.default_rng(0)
  for name in ('e1', 'e2'):
    outcomes = rng.integers(0, 2, (30, 1)).tolist()
    outcomes[3] = [None]
    recording.simple(
        tmp_path / name,
        outcomes,
        name=f'policy-{name}',
        subtasks=('easy', 'hard') * 15,
    )
  arg = f'a={tmp_path}/e1,b={tmp_path}/e2'
  compare.run(config_lib.get_config(arg), str(tmp_path / 'out'))
  expected = json.loads((tmp_path / 'out' / 'comparison.json').read_text())
  found = get(viewer(tmp_path), 'compare', a='e1:policy-e1', b='e2:policy-e2')
  for name in ('rows', 'outcomes', 'settings', 'skipped'):
    assert found[name] == expected[name]
  assert {row['subtask'] for row in found['rows']} == {'all', 'easy', 'hard'}
  # Each episode has its place among the files.
  for side, name in zip('ab', ('e1', 'e2'), strict=True):
    [outcomes] = found['outcomes']
    for pair in [*outcomes['won'], *outcomes['missing']]:
      place = found['places'][side]['textcraft'][pair[side]]
      path = tmp_path / name / place['file']
      line = path.read_text().splitlines()[place['line']]
      assert json.loads(line)['episode_id'] == pair[side]


def test_stages_pair_neighbouring_evaluations(tmp_path, viewer):
  outcomes = {'untrained': [0, 0, 0], '000000': [1, 0, 0], '000004': [1, 1, 0],
              '000008': [0, 1, 1]}  # fmt: skip
  for stem, successes in outcomes.items():
    write(tmp_path, 'run', stem, [[x] for x in successes])
  lines = [{'step': i, 'rollout/horizon': 3 if i < 4 else 6} for i in range(8)]
  (tmp_path / 'run' / 'metrics.jsonl').write_text(
      ''.join(json.dumps(line) + '\n' for line in lines)
  )
  found = get(viewer(tmp_path), 'stages', run='run')
  rows = [
      (x['b'], x['a'], x['horizons'], x['row']['won'], x['row']['lost'])
      for x in found['rows']
  ]
  assert rows == [
      ('run:eval/untrained', 'run:eval/000000', [], 1, 0),
      ('run:eval/000000', 'run:eval/000004', [3], 1, 0),
      ('run:eval/000004', 'run:eval/000008', [6], 1, 1),
      ('run:eval/000000', 'run:eval/000008', [3, 6], 2, 1),
  ]
  assert [stage['turns'] for stage in found['stages']] == [3, 6]


def test_evaluations_of_other_panels_are_no_stages(tmp_path, viewer):
  write(tmp_path, 'run', '000000', [[0], [0]], data_version=2)  # other tasks
  write(tmp_path, 'run', '000004', [[1]])
  write(tmp_path, 'run', '000008', [[1]])
  first, second, _ = get(viewer(tmp_path), 'stages', run='run')['rows']
  assert 'babyai has version 2' in first['refused']
  assert second['row']['both'] == 1


@pytest.mark.parametrize(
    ('query', 'status', 'words'),
    [
        ({'a': 'a:eval/000001', 'b': 'a:eval/000001'}, 422, 'one evaluation'),
        ({'a': 'a:eval/000001'}, 422, 'Choose two evaluations'),
        ({'a': 'a:eval/000001', 'b': '../a:eval/000001'}, 404, 'no run'),
        ({'a': 'a:eval/000001', 'b': 'a:../../config'}, 404, 'no evaluation'),
    ],
)
def test_what_does_not_compare_is_refused(
    tmp_path, viewer, query, status, words
):
  write(tmp_path, 'a', '000001', [[1], [0]])
  write(tmp_path, 'b', '000001', [[1]])
  found = get(viewer(tmp_path), 'compare', **query)
  assert found['status'] == status and words in found['error']


def test_different_panels_are_refused_with_the_reason(tmp_path, viewer):
  write(tmp_path, 'a', '000001', [[1], [0]])
  write(tmp_path, 'b', '000001', [[1], [0]], data_version=2)
  found = get(viewer(tmp_path), 'compare', a='a:eval/000001', b='b:eval/000001')
  assert 'babyai has version 2' in found['refused']


def test_a_changed_file_is_read_again(tmp_path, viewer):
  for stem, success in (('000000', 0), ('000001', 1)):
    write(tmp_path, 'run', stem, [[success]])
  url = viewer(tmp_path)
  ask = lambda: get(url, 'compare', a='run:eval/000001', b='run:eval/000000')[
      'rows'
  ][0]
  assert ask()['won'] == 1
  write(tmp_path, 'run', '000001', [[0]])
  assert ask()['won'] == 0
