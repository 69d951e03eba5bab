"""Tests for agentrl.envs.sciworld.tasks, and of them against the simulator."""

import pytest

from agentrl import envs
from agentrl.envs.sciworld import tasks
from agentrl.envs.sciworld.simulator import Simulator
from agentrl.errors import ConfigError, EnvError

SPLITS = ('train', 'dev', 'test')


def test_the_first_4639_ids_are_agentgyms():
  assert (tasks.NUM_AGENTGYM, tasks.NUM_TASKS) == (4639, 7207)
  assert len(tasks.GROUPS['agentgym']) == 23 and len(tasks.GROUPS['all']) == 30
  for task_id, name, variation in (
      (0, 'boil', 0),
      (119, 'change-the-state-of-matter-of', 29),
      (120, 'use-thermometer', 0),
      (1396, 'power-component', 0),
      (2935, 'test-conductivity-of-unknown-substances', 599),
      (4136, 'chemistry-mix', 0),
      (4638, 'identify-life-stages-2', 9),
      (4639, 'grow-plant', 0),
      (7206, 'mendelian-genetics-unknown-plant', 479),
  ):
    assert tasks.task_of(task_id) == name
    assert tasks.variation_of(task_id) == variation
    assert tasks.id_of(name, variation) == task_id


@pytest.mark.parametrize('task_id', [-1, 7207])
def test_there_are_no_other_ids(task_id):
  with pytest.raises(EnvError, match='ids are 0 to 7206'):
    tasks.task_of(task_id)


# Counts of variations that leave each remainder by four, and small ones.
SOME = (
    'boil',
    'measure-melting-point-known-substance',
    'lifespan-longest-lived',
    'identify-life-stages-1',
    'identify-life-stages-2',
)


def splits_of(simulator, task):
  """The simulator's own splits of the variations of `task`."""
  simulator.load(task, 0, '')
  server = simulator._server
  return {
      'train': list(server.getVariationsTrain()),
      'dev': list(server.getVariationsDev()),
      'test': list(server.getVariationsTest()),
  }


@pytest.mark.parametrize(
    'names', [SOME, pytest.param(tasks.NAMES, marks=pytest.mark.slow)]
)
def test_the_simulator_has_these_tasks_variations_and_splits(names):
  simulator = Simulator()
  try:
    assert simulator.tasks() == tasks.VARIATIONS
    for name in names:
      splits = {x: list(tasks.variations(name, x)) for x in SPLITS}
      assert splits_of(simulator, name) == splits, name
  finally:
    simulator.kill()
    simulator.reap()


@pytest.mark.parametrize('group', ['agentgym', 'all'])
def test_splits_hold_every_variation_once(group):
  ids = [x for split in SPLITS for x in tasks.tasks(split, tasks=group)]
  count = tasks.NUM_TASKS if group == 'all' else tasks.NUM_AGENTGYM
  assert sorted(ids) == list(range(count))


def test_a_prefix_of_a_list_has_every_task_equally_often():
  names = [tasks.task_of(x) for x in tasks.tasks('test')[: 3 * 23]]
  assert {name: names.count(name) for name in names} == dict.fromkeys(
      tasks.GROUPS['agentgym'], 3
  )


def test_tasks_can_be_chosen_by_name():
  ids = tasks.tasks('dev', tasks=['melt', 'grow-fruit'])
  assert {tasks.task_of(x) for x in ids} == {'melt', 'grow-fruit'}
  assert len(ids) == 30 // 4 + 126 // 4


@pytest.mark.parametrize(
    'wrong, words',
    [
        ('some', 'known: agentgym, all'),
        (['fry'], "Unknown SciWorld tasks \\['fry'\\]; known: boil"),
        ([], 'tasks is empty'),
    ],
)
def test_unknown_tasks_are_refused(wrong, words):
  with pytest.raises(ConfigError, match=words):
    tasks.tasks('train', tasks=wrong)


def test_kinds_are_rows_of_tables_or_the_tasks_that_are_named():
  kind = envs.get('sciworld').subtasks()
  of = {name: kind(tasks.id_of(name, 0)) for name in tasks.NAMES}
  assert len({of[name] for name in tasks.GROUPS['agentgym']}) == 8
  assert len(set(of.values())) == 11
  for name, row in of.items():
    for start, expected in (
        ('find-', 'Find'),
        ('chemistry-', 'Chem-Mix'),
        ('lifespan-', 'Lifespan'),
        ('test-conductivity', 'Test-Cond'),
        ('measure-', 'Measure'),
        ('grow-', 'Grow'),
        ('inclined-', 'Incline'),
        ('mendelian-', 'Genetics'),
    ):
      assert name.startswith(start) == (row == expected) or (
          name == 'use-thermometer'
      )
  assert of['use-thermometer'] == 'Measure' and of['boil'] == 'Change-State'
  assert kind(tasks.id_of('find-animal', 299)) == 'Find'
  named = envs.get('sciworld').subtasks(tasks=['find-animal', 'find-plant'])
  assert named(tasks.id_of('find-animal', 0)) == 'find-animal'
  assert envs.get('sciworld').clusters() is None
  with pytest.raises(EnvError, match='ids are 0 to 7206'):
    kind(7207)
