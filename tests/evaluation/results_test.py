"""The file of an evaluation: written, read again, refused."""

import hashlib
import math

import pytest

from agentrl.errors import DataError
from agentrl.evaluation import results
from agentrl.evaluation.stats.intervals import Interval


def an_evaluation():
  figure = results.Figure(0.5, 0.25, 0.75, 'wilson')
  return results.Results(
      config={'mode': 'evaluate'},
      policies=(
          results.PolicyRecord(name='expert', kind='expert', source='expert'),
      ),
      panels=(
          results.Panel(
              env='textcraft',
              options={},
              split='test',
              task_file=None,
              task_ids=(3, 5),
              subtasks=('depth 1', 'depth 2'),
              clusters=None,
              samples=1,
              seed=0,
              horizon=30,
              success='The item is crafted.',
              hash='00',
          ),
      ),
      rows=(
          results.Row(
              env='textcraft',
              subtask=results.ALL,
              policy='expert',
              n=2,
              tasks=2,
              errors=0,
              success=figure,
              success_errors_fail=figure,
              ret=figure,
              pass_at_k={'1': figure},
              stop_reasons={'terminated': 2},
          ),
      ),
  )


def test_what_is_written_is_read(tmp_path):
  path = results.write(tmp_path, an_evaluation())
  assert results.read(tmp_path) == an_evaluation()
  assert b'"return": {' in path.read_bytes()
  assert [p.name for p in tmp_path.iterdir()] == [results.FILE]


def test_an_end_without_bounds_is_null():
  interval = Interval(1.0, -math.inf, math.inf, 'conservative')
  assert results.Figure.of(interval) == results.Figure(
      1.0, None, None, 'conservative'
  )


@pytest.mark.parametrize(
    'old, new, words',
    [
        ('"format": 1', '"format": 2', 'has format 2'),
        ('"n": 2', '"n": "two"', r'rows\[0\].n|rows'),
        ('{', '', 'is no evaluation'),
    ],
)
def test_another_file_is_refused(tmp_path, old, new, words):
  path = results.write(tmp_path, an_evaluation())
  text = path.read_text()
  assert old in text
  path.write_text(text.replace(old, new, 1))
  with pytest.raises(DataError, match=words):
    results.read(tmp_path)


def test_a_missing_file_names_the_way_out(tmp_path):
  with pytest.raises(DataError, match='configs/evaluate.py'):
    results.read(tmp_path)


def test_what_changes_the_tasks_changes_the_hash():
  said = {
      'env': 'textcraft',
      'task_options': {'depth': 2},
      'task_ids': (1, 2),
      'samples': 2,
      'seed': 0,
  }
  of = lambda **changed: results.panel_hash(**(said | changed))
  assert of() == of()
  others = [
      of(env='babyai'),
      of(task_options={}),
      of(task_ids=(2, 1)),
      of(samples=1),
      of(seed=1),
      of(attempts=2),
      of(data_version=2),
      of(data_version=3),
      of(attempts=2, data_version=2),
  ]
  assert len({of(), *others}) == 10


def test_hashes_of_the_first_data_version_are_those_of_older_records():
  said = {'task_options': {'depth': 2}, 'task_ids': (1, 2), 'samples': 2}
  found = results.panel_hash('textcraft', **said, seed=0, data_version=1)
  assert found == results.panel_hash('textcraft', **said, seed=0)
  assert (
      found
      == hashlib.sha256(
          b'["textcraft", {"depth": 2}, [1, 2], 2, 0]'
      ).hexdigest()
  )
