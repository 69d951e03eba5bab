"""The recipe planner: what to do next for a goal, from any inventory."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from agentrl.envs.textcraft.recipes import Recipe, RecipeBook, plain_name


class Plan(NamedTuple):
  """The rest of a task, the deepest item first.

  Attributes:
    gets: item -> count.
    crafts: recipes; some have to be made several times.
  """

  gets: Mapping[str, int]
  crafts: list[Recipe]


def next_action(
    book: RecipeBook, goal: str, inventory: Mapping[str, int]
) -> str:
  """The next command of a shallowest plan for one `goal`."""
  gets, crafts = plan(book, goal, inventory)
  if gets:
    name = min(gets)
    return f'get {gets[name]} {plain_name(name)}'
  # The last one found is the shallowest, so all its inputs are at hand.
  recipe = crafts[-1]
  inputs = ', '.join(
      f'{count} {plain_name(name)}'
      for name, count in _concrete_inputs(book, recipe)
  )
  return f'craft {recipe.count} {plain_name(recipe.item)} using {inputs}'


def plan(
    book: RecipeBook,
    goal: str,
    inventory: Mapping[str, int],
    *,
    any_member: bool = False,
) -> Plan:
  """A shallowest plan for one `goal`.

  Demand is summed from the goal down: an input is always shallower than what is
  made of it, so one pass over names by falling depth settles every count, and
  what the inventory holds is used before more is asked for. The plan then runs
  upwards: get everything, craft the shallow items, craft the goal. It is made
  anew for every action, so it also continues from any other start.

  Args:
    book: of recipes.
    goal: an item that can be crafted.
    inventory: item -> count.
    any_member: whether a kind of item (planks) is at hand where enough of any
      item of the kind is, which several recipes may then count on. Without, the
      kind is the one item that is planned for it.
  """
  demand = {goal: 1}
  gets: dict[str, int] = {}
  crafts: list[Recipe] = []
  while demand:
    name = max(demand, key=lambda x: (book.depths[x], x))
    # The goal must be made even if some is held: making it ends the task.
    held = 0 if name == goal else inventory.get(name, 0)
    missing = demand.pop(name) - held
    if missing <= 0:
      continue
    if book.depths[name] == 0:
      gets[name] = missing
      continue
    recipe = _shallowest(book, name)
    crafts.append(recipe)
    batches = math.ceil(missing / recipe.count)
    concrete = _concrete_inputs(book, recipe)
    for (kind, _), (used, count) in zip(recipe.inputs, concrete, strict=True):
      count *= batches
      if any_member and _held(book, kind, inventory) >= count:
        continue
      demand[used] = demand.get(used, 0) + count
  return Plan(gets, crafts)


def _held(book: RecipeBook, tag: str, inventory: Mapping[str, int]) -> int:
  """The most that is held of one item of a tag; 0 for what is no tag."""
  return max(
      (n for item, n in inventory.items() if book.kinds.get(item) == tag),
      default=0,
  )


def _concrete_inputs(book: RecipeBook, recipe: Recipe) -> list[tuple[str, int]]:
  """The inputs of `recipe` with its tags replaced by items."""
  return [
      (_shallowest(book, name).item if name in book.members else name, count)
      for name, count in recipe.inputs
  ]


def _shallowest(book: RecipeBook, name: str) -> Recipe:
  """The maker of `name` with the shallowest inputs, first in the book."""
  return min(
      book.makers(name),
      key=lambda recipe: max(book.depths[x] for x, _ in recipe.inputs),
  )
