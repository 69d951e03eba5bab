"""Tests for agentrl.evaluation.studies.chance."""

import json
import shutil

import msgspec
import pytest

from agentrl.evaluation.chance import level as level_lib, store
from agentrl.evaluation.chance.level import KINDS, Level
from agentrl.evaluation.studies import chance
from agentrl.evaluation.studies.arms import Arm
from agentrl.evaluation.workdirs import panels
from tests.evaluation import recording
from tests.evaluation.chance import level_test
from tests.evaluation.workdirs import panels_test

RANDOM = [[1], [0], [0], [1], [0]]
EXPERT = [[1], [1], [1], [1], [0]]


def write(root, name, outcomes, kind, **fields):
  """An evaluation of one policy of a kind."""
  played = [
      recording.episode(name, 'textcraft', task, 0, samples[0])
      for task, samples in enumerate(outcomes)
  ]
  panel = recording.panel(task_ids=range(len(outcomes)), **fields)
  recording.write(
      root / name, {kind: played}, [panel], **{kind: {'kind': kind}}
  )


def play(root, run, *, spec=None, member='', **outcomes):
  """Writes levels of a run on the panel of its evaluation.

  Args:
    root: folder of all.
    run: that has `chance.json` then.
    spec: of the evaluation; None: its first one.
    member: of a mixture.
    **outcomes: success of each task, by kind.
  """
  spec = spec or panels.find(root, run)[0].spec
  [panel] = panels.read(root, spec).panels.values()
  levels = {}
  for kind, solved in outcomes.items():
    episodes = [
        recording.episode(kind, panel.env, task, 0, success)
        for task, success in zip(panel.task_ids, solved, strict=True)
    ]
    key = level_lib.key_of(kind, panel, format='plain', machine_options=())
    levels[level_lib.entry_of(kind, member)] = Level(
        kind=kind,
        key=key,
        panel=panel,
        outcomes=tuple(map(level_lib.outcome_of, episodes)),
    )
  store.write_levels(root / run, store.read_levels(root / run) | levels)


def test_levels_are_of_the_same_tasks(tmp_path):
  write(tmp_path, 'r', RANDOM, 'random')
  write(tmp_path, 'x', EXPERT, 'expert')
  write(tmp_path, 'other', [[1]] * 5, 'random', seed=5)
  recording.simple(tmp_path / 'e', [[0]] * 5, name='policy')
  names = ['e', 'other', 'r', 'x']
  found = chance.references(tmp_path, names, panels.read)
  assert [side.label for side in found] == ['random', 'random', 'expert']
  whole = recording.side([[0]] * 5)
  levels = chance.levels(whole, found)['textcraft']
  assert {kind: each.mean for kind, each in levels.items()} == {
      'random': 0.4, 'expert': 0.8
  }  # fmt: skip
  # Panels nest: the levels of the first three tasks alone.
  part = chance.levels(recording.side([[0]] * 3), found)['textcraft']
  assert part['random'].mean == pytest.approx(1 / 3)
  assert (part['expert'].mean, part['expert'].tasks) == (1.0, 3)
  # The other way round they would be of other tasks than the figure.
  assert chance.levels(recording.side([[0]] * 9), found) == {}


def test_runs_have_their_own_levels(tmp_path):
  for run in ('a-0', 'a-1', 'b'):
    panels_test.write(tmp_path, run, '000003', [[0]] * 5)
    play(tmp_path, run, expert=[1] * 5, random=[0, 0, 0, 1, 1])
  found = chance.references(tmp_path, ['a-0', 'a-1', 'b'], panels.read)
  # Seeds share them: one of each kind is enough.
  assert sorted(side.label for side in found) == sorted(KINDS)
  arm = Arm('a', {}, ('a-0', 'a-1'))
  unread = lambda root, spec: pytest.fail('No episode has to be read.')
  levels = chance.of_arm(tmp_path, arm, found, unread)
  means = {kind: each.mean for kind, each in levels[''].items()}
  assert means == {'random': 0.4, 'expert': 1.0}
  assert list(levels['']) == ['random', 'expert']
  # A run that has none, and an evaluation of three of the tasks.
  shutil.copytree(tmp_path / 'b', tmp_path / 'c')
  (tmp_path / 'c' / store.FILE).unlink()
  other = chance.of_arm(tmp_path, Arm('c', {}, ('c',)), found, panels.read)
  assert {kind: each.mean for kind, each in other[''].items()} == means
  panels_test.write(tmp_path, 'part', '000003', [[0]] * 3)
  part = chance.of_arm(tmp_path, Arm('p', {}, ('part',)), found, panels.read)
  assert part['']['random'].mean == 0.0 and part['']['random'].tasks == 3


def test_levels_of_as_many_turns_come_first(tmp_path):
  level = level_test.make('random', [[1], [1]])
  longer = msgspec.structs.replace(
      level_test.make('random', [[0], [1]]),
      panel=recording.panel(task_ids=range(2), horizon=20),
      key='longer',
  )
  found = []
  for name, each in (('short', level), ('long', longer)):
    (tmp_path / name).mkdir()
    store.write_levels(tmp_path / name, {'random': each})
  found = chance.references(tmp_path, ['short', 'long'], panels.read)
  assert len(found) == 2
  for horizon, mean in ((10, 1.0), (20, 0.5), (7, 1.0)):
    side = recording.side([[0]] * 2, horizon=horizon)
    assert chance.levels(side, found)['textcraft']['random'].mean == mean


def test_members_have_their_own_levels(tmp_path):
  config = {
      'mode': 'train',
      'mixture': {
          'near': {'env': {'name': 'babyai', 'options': panels_test.OPTIONS}}
      },
      'eval': panels_test.EVAL,
  }
  panels_test.write(tmp_path, 'm', '000000-near', [[0]] * 4, config=config)
  play(tmp_path, 'm', member='near', random=[0, 0, 1, 1])
  arm = Arm('m', {}, ('m',))
  found = chance.of_arm(tmp_path, arm, [], panels.read)
  assert found.keys() == {'near'} and found['near']['random'].mean == 0.5


def test_what_is_damaged_or_empty_is_left_out(tmp_path):
  for run in ('broken', 'empty', 'missing'):
    (tmp_path / run).mkdir()
  (tmp_path / 'broken' / store.FILE).write_text('{"levels": {"random": 3}}')
  none = msgspec.structs.replace(level_test.make('expert', [[1]]), outcomes=())
  store.write_levels(tmp_path / 'empty', {'expert': none})
  names = ['broken', 'empty', 'missing']
  assert chance.references(tmp_path, names, panels.read) == []
  for run in names:
    assert chance.of_arm(tmp_path, Arm(run, {}, (run,)), [], panels.read) == {}
  (tmp_path / 'missing' / store.FILE).write_text(
      '{"summaries": {"random": {"mean": "high"}, "other": {}}}'
  )
  arm = Arm('m', {}, ('missing',))
  assert chance.of_arm(tmp_path, arm, [], panels.read) == {}
  # A file that is written anew is read anew.
  store.write_levels(
      tmp_path / 'broken', {'expert': level_test.make('expert', [[1]])}
  )
  assert len(chance.references(tmp_path, names, panels.read)) == 1
  assert json.loads((tmp_path / 'broken' / store.FILE).read_text())
