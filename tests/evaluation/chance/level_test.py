"""Tests for agentrl.evaluation.chance.level and .metrics."""

import dataclasses

import msgspec
import numpy as np
import pytest

from agentrl.evaluation import rows
from agentrl.evaluation.chance import level as level_lib, metrics
from agentrl.evaluation.chance.level import EXPERT, RANDOM, Level
from agentrl.evaluation.compare import matrix
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.evaluate import summarise
from agentrl.types import Group
from tests.evaluation import recording

KINDS = ('easy', 'easy', 'hard', 'hard', 'hard', 'easy')


def make(kind, outcomes, *, small=(), **fields):
  """A level; `outcomes[task][sample]` is success, None where it failed."""
  panel = recording.panel(
      task_ids=range(len(outcomes)), samples=len(outcomes[0]), **fields
  )
  episodes = [
      recording.episode(kind, panel.env, task, sample, success)
      for task, samples in enumerate(outcomes)
      for sample, success in enumerate(samples)
  ]
  return Level(
      kind=kind,
      key=f'{kind} of {panel.hash}',
      panel=panel,
      outcomes=tuple(map(level_lib.outcome_of, episodes)),
      small=small,
  )


@pytest.mark.parametrize('clusters', [None, ('a', 'a', 'b', 'c', 'b', 'c')])
@pytest.mark.parametrize('samples', [1, 3])
def test_the_figures_are_those_of_an_evaluation(samples, clusters):
  rng = np.random.default_rng(samples)
  panel = recording.panel(
      task_ids=(7, 3, 5, 20, 21, 4),
      samples=samples,
      subtasks=KINDS,
      clusters=clusters,
  )
  draw = lambda: None if rng.random() < 0.2 else bool(rng.integers(2))
  groups = [
      Group(
          task,
          i,
          tuple(
              recording.episode(
                  'random', 'textcraft', task, k, None if i == 3 else draw()
              )
              for k in range(samples)
          ),
      )
      for i, task in enumerate(panel.task_ids)
  ]
  level = Level(
      kind=RANDOM,
      key='k',
      panel=panel,
      outcomes=tuple(
          level_lib.outcome_of(e) for group in groups for e in group.episodes
      ),
  )
  expected = summarise(rows.of_panel('random', panel, groups))
  found = level_lib.summarise(level)
  assert found['panel'] == panel.hash and found['horizon'] == panel.horizon
  assert found['tasks'] < 6  # one was never played
  for name in ('mean', 'low', 'high', 'return_mean', 'turns_mean'):
    assert found[name] == pytest.approx(expected[name]), name
  for name in ('n', 'tasks', 'invalid', 'not_played'):
    assert found[name] == expected[name], name
  assert found['subtasks'].keys() == expected['subtasks'].keys()
  for name, kind in expected['subtasks'].items():
    assert found['subtasks'][name] == kind
  # The same as a side of a comparison.
  side = Side(RANDOM, [level_lib.recorded_of(recording.pathlib.Path(), level)])
  [standing] = matrix.standings(side)
  assert standing.mean == pytest.approx(found['mean'])
  assert standing.low == pytest.approx(found['low'])
  # A part is as if nothing else had been played.
  part = level.only({7, 20, 4})
  own = [group for group in groups if group.task_id in (7, 20, 4)]
  alone = summarise(rows.of_panel('random', panel.only({7, 20, 4}), own))
  assert level_lib.summarise(part)['mean'] == pytest.approx(alone['mean'])


def test_a_level_without_an_episode_is_none_at_all():
  level = make(EXPERT, [[1]])
  assert (
      level_lib.summarise(msgspec.structs.replace(level, outcomes=())) is None
  )
  failed = level_lib.summarise(make(EXPERT, [[None], [None]]))
  assert failed['mean'] is None and failed['invalid'] == 2
  assert failed['not_played'] == {'env_error': 2}
  assert level_lib.beside({'expert': failed, 'random': None}) == ''


def test_a_key_names_all_that_decides_an_episode():
  panel = recording.panel(task_ids=(1, 2), options={'a': 1, 'port': 2})
  key = lambda panel, kind=RANDOM, format='react': level_lib.key_of(
      kind, panel, format=format, machine_options=('port',)
  )
  others = [
      key(panel),
      key(panel, EXPERT),
      key(panel, format='plain'),
      key(msgspec.structs.replace(panel, horizon=11)),
      key(msgspec.structs.replace(panel, options={'a': 2, 'port': 2})),
      key(recording.panel(task_ids=(1, 3), options={'a': 1, 'port': 2})),
      key(recording.panel(task_ids=(1, 2), options={'a': 1}, seed=1)),
  ]
  assert len(set(others)) == len(others)
  elsewhere = msgspec.structs.replace(panel, options={'port': 9, 'a': 1})
  assert key(elsewhere) == key(panel)


def test_levels_are_said_by_environment():
  summaries = {
      'random/a': {'mean': 0.25},
      'expert/a': {'mean': 1.0},
      'random/b': {'mean': 0.0},
      'expert/b': None,
  }
  assert (
      level_lib.beside(summaries, 'a') == 'random actions 0.250, expert 1.000'
  )
  assert level_lib.beside(summaries, 'b') == 'random actions 0.000'
  assert level_lib.beside(summaries) == ''


def test_a_metric_has_the_levels_of_its_own_tasks():
  of = lambda kind, outcomes: make(kind, outcomes, subtasks=KINDS, small=(0, 3))
  levels = {
      'random': of(RANDOM, [[1], [0], [0], [0], [1], [0]]),
      'expert': of(EXPERT, [[1], [1], [1], [0], [1], [1]]),
  }
  found = lambda name: metrics.beside(levels, name)
  whole = {'random': pytest.approx(1 / 3), 'expert': pytest.approx(5 / 6)}
  for name in ('eval/success', 'eval_before/success', 'eval_untrained/success'):
    assert found(name) == whole and list(found(name)) == ['random', 'expert']
  assert found('eval_small/success') == {'random': 0.5, 'expert': 0.5}
  assert found('eval/hard/success') == {
      'random': pytest.approx(1 / 3),
      'expert': pytest.approx(2 / 3),
  }
  assert found('eval_small/hard/success') == {'random': 0.0, 'expert': 0.0}
  for name in ('eval/return_mean', 'rollout/success', 'eval/none/success'):
    assert found(name) == {}
  mixture = {
      'random/textcraft': levels['random'],
      'expert/babyai': levels['expert'],
  }
  assert metrics.beside(mixture, 'eval/success') == {}
  assert metrics.beside(mixture, 'eval/textcraft/success') == {
      'random': whole['random']
  }
  assert metrics.beside(mixture, 'eval/babyai/hard/success') == {
      'expert': pytest.approx(2 / 3)
  }


def test_an_outcome_is_that_of_the_episode():
  episode = recording.episode('x', 'textcraft', 3, 1, True, progress=0.5)
  found = level_lib.outcome_of(episode)
  assert found.key == (3, 1, 0) and found.success is True
  assert (found.ret, found.progress, found.turns) == (1.0, 0.5, 1)
  failed = dataclasses.replace(episode, stop_reason='env_error', error='down')
  found = level_lib.outcome_of(failed)
  assert (found.success, found.ret, found.progress) == (None, None, None)
