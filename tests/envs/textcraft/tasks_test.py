"""Tests for agentrl.envs.textcraft.tasks."""

import collections

import pytest

from agentrl.envs.textcraft import recipes, tasks
from agentrl.errors import ConfigError, EnvError


def test_splits_have_their_sizes_and_share_nothing():
  sizes = {split: len(ids) for split, ids in tasks.SPLITS.items()}
  assert sizes == {'train': 374, 'dev': 70, 'test': 100}
  everything = [x for ids in tasks.SPLITS.values() for x in ids]
  assert sorted(everything) == list(range(544))


def test_depths_written_here_are_those_of_the_recipes():
  book = recipes.load()
  for task_id, goal in enumerate(book.goals):
    assert tasks.depth_of(task_id) == book.depths[goal]


@pytest.mark.parametrize(
    'split, mix',
    [
        ('train', (79, 211, 77, 7)),
        ('dev', (15, 39, 15, 1)),
        ('test', (31, 41, 25, 3)),
    ],
)
def test_every_split_has_every_depth(split, mix):
  found = collections.Counter(map(tasks.depth_of, tasks.SPLITS[split]))
  assert tuple(found[depth] for depth in (1, 2, 3, 4)) == mix


def test_max_depth_keeps_the_shallow_tasks_of_a_split():
  shallow = tasks.tasks('train', max_depth=2)
  assert len(shallow) == 79 + 211
  assert set(shallow) < set(tasks.tasks('train'))
  assert all(tasks.depth_of(x) <= 2 for x in shallow)


@pytest.mark.parametrize('depth', [0, 5, -1, 'deep', 1.5])
def test_a_depth_that_does_not_exist_is_refused(depth):
  with pytest.raises(ConfigError, match='max_depth must be 1 to 4'):
    tasks.tasks('train', max_depth=depth)


def test_min_depth_keeps_the_deep_tasks_of_a_split():
  deep = tasks.tasks('train', min_depth=3)
  assert len(deep) == 75 + 9
  assert {tasks.depth_of(x) for x in deep} == {3, 4}


@pytest.mark.parametrize('depth', [0, 3, None, 'deep'])
def test_a_least_depth_above_the_greatest_is_refused(depth):
  with pytest.raises(ConfigError, match='min_depth must be 1 to 2, the great'):
    tasks.tasks('train', min_depth=depth, max_depth=2)


def test_max_ingredients_keeps_the_goals_of_simple_recipes():
  simple = tasks.tasks('train', max_depth=1, max_ingredients=1, worlds=2)
  assert len(simple) == 2 * 68
  book = recipes.load()
  for task in tasks.tasks('train', max_depth=1, worlds=2):
    kinds = [len(x.inputs) for x in book.recipes[book.goals[task % 544]]]
    assert (task in simple) == (min(kinds) == 1)


@pytest.mark.parametrize('most', [0, 10, 'one'])
def test_a_number_of_ingredients_that_no_recipe_has_is_refused(most):
  with pytest.raises(ConfigError, match='max_ingredients must be 1 to 9'):
    tasks.tasks('train', max_ingredients=most)


def test_min_family_keeps_goals_that_have_relatives_to_learn_from():
  family_of = tasks.clusters()
  known = collections.Counter(map(family_of, tasks.SPLITS['train']))
  for split in tasks.SPLITS:
    kept = tasks.tasks(split, min_family=4)
    assert kept == tuple(
        x for x in tasks.SPLITS[split] if known[family_of(x)] >= 4
    )
    assert 20 < len(kept) < len(tasks.SPLITS[split])


def test_listing_all_tasks_needs_no_recipes(monkeypatch):
  def missing():
    raise EnvError('The recipes are missing.')

  monkeypatch.setattr(recipes, 'load', missing)
  tasks._family_sizes.cache_clear()
  assert tasks.tasks('train', max_depth=2) == tasks.SPLITS['train'][: 79 + 211]


@pytest.mark.parametrize('size', [-1, 99, None, 'large'])
def test_a_family_larger_than_any_is_refused(size):
  with pytest.raises(
      ConfigError, match='min_family must be 0 to 13, the train'
  ):
    tasks.tasks('train', min_family=size)


def test_worlds_multiply_the_tasks_and_held_out_ones_have_their_own():
  train = tasks.tasks('train', max_depth=1, worlds=3)
  assert len(set(train)) == 3 * 79
  assert train[79:158] == tuple(544 + x for x in train[:79])
  kind_of = tasks.subtasks(worlds=3)
  assert [kind_of(x) for x in train] == ['depth 1'] * 3 * 79
  for split in ('dev', 'test'):
    goals = tasks.tasks(split)
    found = tasks.tasks(split, worlds=3)
    assert found[: len(goals)] == goals and len(set(found)) == 3 * len(goals)
    worlds = {tasks.split_id(x, 3)[0] for x in found}
    assert worlds == {0, 998, 999}
    assert {tasks.split_id(x, 3)[1] for x in found} == set(goals)
  with pytest.raises(ConfigError, match='worlds must be 1 to 500'):
    tasks.tasks('train', worlds=0)


@pytest.mark.parametrize('task_id', [-1, 544])
def test_a_task_that_does_not_exist_is_refused(task_id):
  with pytest.raises(EnvError, match='ids are 0 to 543'):
    tasks.depth_of(task_id)


def test_goals_that_differ_in_colour_or_wood_are_one_family():
  family = tasks.clusters()
  goals = recipes.load().goals
  of = {goal: family(task_id) for task_id, goal in enumerate(goals)}
  assert of['minecraft:red_bed'] == of['minecraft:blue_bed'] == 'bed'
  assert of['minecraft:oak_door'] == of['minecraft:birch_door']
  assert of['minecraft:oak_door'] != of['minecraft:oak_fence']
  assert of['minecraft:beacon'] == 'beacon'
  assert len({family(x) for x in tasks.TEST}) == 71
  with pytest.raises(EnvError, match='ids are 0 to 543'):
    family(-1)
