"""Tests for agentrl.envs.babyai.tasks and levels."""

import pytest

from agentrl import envs
from agentrl.envs.babyai import levels, tasks
from agentrl.errors import ConfigError, EnvError


def test_there_are_forty_levels_counted_before_seeds():
  assert len(set(levels.NAMES)) == 40
  assert levels.level_of(0) == 'GoToRedBallGrey'
  assert levels.level_of(44) == 'GoToLocalS8N7' and levels.seed_of(44) == 1
  with pytest.raises(EnvError, match='ids start at 0'):
    levels.level_of(-1)


def test_minigrid_has_every_level():
  for task_id, name in enumerate(levels.NAMES):
    grid = levels.build(task_id)
    assert grid.mission, name


def test_splits_share_no_task_and_suffice_for_one_level():
  sizes = {}
  for split in ('train', 'dev', 'test'):
    ids = tasks.tasks(split, levels=['GoToLocalS8N7'])
    assert {levels.level_of(x) for x in ids} == {'GoToLocalS8N7'}
    sizes[split] = len(set(ids))
  assert sizes['train'] >= 4000 and sizes['dev'] >= 64 and sizes['test'] >= 256
  ids = [x for split in sizes for x in tasks.tasks(split)]
  assert len(ids) == len(set(ids)) == 40 * sum(sizes.values())


def test_a_prefix_of_a_list_has_every_level_equally_often():
  chosen = ('Pickup', 'SynthLoc', 'OneRoomS20')
  ids = tasks.tasks('test', levels=chosen)[:30]
  names = [levels.level_of(x) for x in ids]
  assert {name: names.count(name) for name in chosen} == dict.fromkeys(
      chosen, 10
  )


@pytest.mark.parametrize('wrong', [['GoToMoon'], []])
def test_unknown_levels_are_refused(wrong):
  with pytest.raises(ConfigError, match='evels'):
    tasks.tasks('train', levels=wrong)


def test_kinds_are_groups_of_levels_or_the_levels_that_are_named():
  kind = envs.get('babyai').subtasks()
  named = envs.get('babyai').subtasks(levels=['Pickup', 'PickupLoc'])
  of = {name: kind(levels.NAMES.index(name)) for name in levels.NAMES}
  rows = {'GoTo', 'Pickup', 'AOD', 'FindObj', 'OneRoom', 'SynthLoc'}
  assert rows < set(of.values())
  for level, group in of.items():
    if group in ('GoTo', 'Open', 'PutNext', 'SynthLoc', 'OneRoom'):
      assert level.startswith(group)
    if level.startswith(('GoTo', 'PutNext')) or level.endswith('PickupLoc'):
      assert level.startswith(group)
  assert of['ActionObjDoor'] == 'AOD' and of['UnblockPickup'] == 'Pickup'
  assert of['SynthSeq'] != 'SynthLoc' and of['UnlockPickupDist'] == 'Unlock'
  assert named(levels.NAMES.index('PickupLoc')) == 'PickupLoc'
  assert envs.get('babyai').clusters() is None
  with pytest.raises(EnvError, match='ids start at 0'):
    kind(-1)
