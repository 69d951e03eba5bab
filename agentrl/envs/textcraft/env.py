"""TextCraft: one episode of crafting a goal item.

The commands, their quirks and the form of the observations are those of
AgentGym's TextCraft, whose policies read them; the tasks are not, because the
original's depend on the machine (see recipes.py).
"""

import random
import re

from agentrl.envs.textcraft import expert, recipes, tasks
from agentrl.envs.textcraft.recipes import RecipeBook
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

MAX_DISTRACTORS = 10
_MAX_USERS = 10  # recipes drawn among the users of one input, as distractors
_SHOWN = 80  # characters of an action that an error repeats

# Counts of up to six digits: more are not needed, and int() of a megabyte of
# digits is an error of its own.
_COUNTED = re.compile(r'(\d{1,6}) (.+)')
_CRAFT = re.compile(r'craft (.+) using (.+)')
_GET = re.compile(r'get (\d{1,6}) (.+)')
_NOT_COMMAND = re.compile(r'[^A-Za-z0-9, ]+')


class _Refused(Exception):
  """A command that cannot be done; the message is the observation."""


class TextCraft:
  """Craft the goal from listed recipes and from items that one can get.

  Progress is the share of the crafts of a shallowest plan that are done or need
  not be done any more: the best so far, because all that is wasted can be had
  again.

  Args:
    min_depth: refuses tasks whose goal is less deep.
    max_depth: refuses tasks whose goal is deeper; None allows all.
    max_ingredients: refuses tasks whose goal takes more kinds of things; None
      allows all.
    min_family: refuses tasks whose goal's family has fewer training goals.
    distractors: commands that are shown without need, at most; the original
      shows ten.
    worlds: how many there are to train in, see tasks.py.
  """

  def __init__(
      self,
      *,
      min_depth: int = 1,
      max_depth: int | None = None,
      max_ingredients: int | None = None,
      min_family: int = 0,
      distractors: int = MAX_DISTRACTORS,
      worlds: int = 1,
  ):
    tasks.check_depths(min_depth, max_depth)
    tasks.check_max_ingredients(max_ingredients)
    tasks.check_min_family(min_family)
    tasks.check_worlds(worlds)
    if type(distractors) is not int or not 0 <= distractors <= MAX_DISTRACTORS:
      raise ConfigError(
          f'distractors must be 0 to {MAX_DISTRACTORS}, got {distractors!r}.'
      )
    self._min_depth, self._max_depth = min_depth, max_depth
    self._distractors = distractors
    self._max_ingredients, self._min_family = max_ingredients, min_family
    self._worlds = worlds
    self._book = recipes.load()
    self._goal = ''
    self._commands = ''
    self._inventory: dict[str, int] = {}
    self._crafts = 1  # of a plan from nothing
    self._progress = 0.0

  def reset(self, task_id: int, seed: int) -> str:
    world, number = tasks.split_id(task_id, self._worlds)
    depth = tasks.depth_of(number)
    if self._max_depth is not None and depth > self._max_depth:
      raise EnvError(
          f'TextCraft task {task_id} has depth {depth}, above'
          f' max_depth={self._max_depth}; raise max_depth or choose another.'
      )
    if depth < self._min_depth:
      raise EnvError(
          f'TextCraft task {task_id} has depth {depth}, below'
          f' min_depth={self._min_depth}; lower min_depth or choose another.'
      )
    kinds = tasks.ingredients_of(number)
    if self._max_ingredients is not None and kinds > self._max_ingredients:
      raise EnvError(
          f'TextCraft task {task_id} takes {kinds} ingredients, above'
          f' max_ingredients={self._max_ingredients}; raise max_ingredients or'
          ' choose another.'
      )
    size = tasks.family_size(number)
    if size < self._min_family:
      raise EnvError(
          f'TextCraft task {task_id} is of a family with {size} training goals,'
          f' below min_family={self._min_family}; lower min_family or choose'
          ' another.'
      )
    self._book, names = recipes.of_world(world)
    self._goal = names[recipes.load().goals[number]]
    self._inventory = {}
    self._crafts, self._progress = self._crafts_left(), 0.0
    self._commands = '\n'.join(
        _shown_commands(
            self._book, self._goal, task_id, seed, self._distractors
        )
    )
    goal = recipes.plain_name(self._goal)
    return f'Crafting commands:\n{self._commands}\n\nGoal: craft {goal}.'

  def step(self, action: str) -> StepResult:
    # Like the original's client: "get 1 stick." and "[inventory]" are meant.
    command = ' '.join(_NOT_COMMAND.sub('', action).split())
    try:
      observation, item = self._do(command)
    except _Refused as refusal:
      observation, item = str(refusal), None
    success = item == self._goal
    if success:
      self._progress = 1.0
    elif item is not None:
      done = 1 - self._crafts_left() / self._crafts
      self._progress = max(self._progress, done)
    return StepResult(
        observation=observation,
        reward=float(success),
        terminated=success,
        success=success,
        progress=self._progress,
    )

  def available_actions(self) -> list[str]:
    return [
        'craft {count} {item} using {count} {item}, {count} {item}, ...',
        'get {count} {item}',
        'inventory',
    ]

  def query(self, name: str) -> str:
    """The 'commands', one a line, or the 'goal', an item."""
    return {
        'commands': self._commands,
        'goal': recipes.plain_name(self._goal),
    }[name]

  def expert_action(self) -> str:
    return expert.next_action(self._book, self._goal, self._inventory)

  def close(self) -> None:
    self._inventory = {}

  def _crafts_left(self) -> int:
    """Recipes that are still to be used, the goal's among them."""
    plan = expert.plan(self._book, self._goal, self._inventory, any_member=True)
    return len(plan.crafts)

  def _do(self, command: str) -> tuple[str, str | None]:
    """Does `command`; returns the observation and the item it gave."""
    if match := _CRAFT.match(command):
      return self._craft(*match.groups())
    if match := _GET.match(command):
      return self._get(int(match[1]), match[2])
    if command.startswith('inventory'):
      return self._list_inventory(), None
    raise _Refused(f'Could not execute {command[:_SHOWN]}')

  def _craft(self, output: str, inputs: str) -> tuple[str, str]:
    counted = _COUNTED.fullmatch(output)  # the count of the output is ignored
    item = recipes.full_name(counted[2] if counted else output)
    used: dict[str, int] = {}
    for text in inputs.split(','):
      match = _COUNTED.fullmatch(text.strip())
      if match is None:
        raise _Refused(f'Wrong item format: {text.strip()[:_SHOWN]}')
      name = recipes.full_name(match[2])
      used[name] = used.get(name, 0) + int(match[1])
    if any(self._inventory.get(name, 0) < n for name, n in used.items()):
      raise _Refused(f'Could not find enough items to craft {item[:_SHOWN]}')
    recipe = self._book.match(item, used)
    if recipe is None:
      raise _Refused(f'Could not find a valid recipe for {item[:_SHOWN]}')
    for name, count in used.items():
      self._inventory[name] -= count
      if not self._inventory[name]:
        del self._inventory[name]
    self._add(item, recipe.count)
    return f'Crafted {recipe.count} {item}', item

  def _get(self, count: int, text: str) -> tuple[str, str]:
    item = recipes.full_name(text)
    is_raw = item in self._book.items and item not in self._book.recipes
    if not is_raw or count == 0:
      raise _Refused(f'Could not find {text[:_SHOWN]}')
    self._add(item, count)
    return f'Got {count} {text}', item

  def _list_inventory(self) -> str:
    held = ' '.join(
        f'[{recipes.plain_name(name)}] ({count})'
        for name, count in self._inventory.items()
    )
    return f'Inventory: {held or "You are not carrying anything."}'

  def _add(self, item: str, count: int) -> None:
    self._inventory[item] = self._inventory.get(item, 0) + count


def _shown_commands(
    book: RecipeBook, goal: str, task_id: int, seed: int, most: int
) -> list[str]:
  """All that a plan may need and at most so many distractors, shuffled.

  Distractors are drawn among the other users of the inputs, so that they look
  as if they might help. The generator is seeded by `(task_id, seed)` alone.
  """
  rng = random.Random(task_id + (seed << 16))
  recipes_needed = book.closure(goal)
  needed = dict.fromkeys(recipe.command for recipe in recipes_needed)
  pool: dict[str, None] = {}  # a dictionary, not a set: its order is fixed
  for recipe in recipes_needed:
    for name, _ in recipe.inputs:
      users = book.uses[name]
      for user in rng.sample(users, min(len(users), _MAX_USERS)):
        if user.command not in needed:
          pool[user.command] = None
  distractors = rng.sample(list(pool), min(len(pool), most))
  shown = [*needed, *distractors]
  rng.shuffle(shown)
  return shown
