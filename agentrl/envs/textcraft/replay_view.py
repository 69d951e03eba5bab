"""TextCraft: goal, recipe tree, inventory."""

import collections
import functools
import re
from collections.abc import Mapping

from agentrl.envs import blocks
from agentrl.envs.blocks import Block, Moment
from agentrl.envs.textcraft import recipes, tasks
from agentrl.errors import EnvError

_GOAL = re.compile(r'^Goal: craft (.+)\.$', re.MULTILINE)
_COMMAND = re.compile(r'^craft (\d+) (.+) using (.+)$', re.MULTILINE)
_GOT = re.compile(r'Got (\d+) (.+)')
_CRAFTED = re.compile(r'Crafted (\d+) (.+)')
_COUNTED = re.compile(r'(\d+) (.+)')
_DEEPEST = 8
_REFUSED = ('Could not ', 'Wrong item format: ')


def view(moment: Moment) -> list[Block]:
  """Shows how far the goal's recipes are, and what is held."""
  goal = _GOAL.search(moment.opening)
  held, products, changed = _inventory(moment)
  parts = [
      blocks.facts('Goal', craft=goal and goal[1]),
      blocks.items(
          'Inventory',
          (
              blocks.item(
                  f'{n} {name}', blocks.NEW if name in changed else None
              )
              for name, n in held.items()
          ),
          'nothing',
      ),
  ]
  if goal:
    ways = collections.defaultdict(list)
    for count, item, inputs in _COMMAND.findall(moment.opening):
      ways[item].append((int(count), _counted(inputs)))
    kinds = _kinds(tasks.world_of(moment.task))
    tree = _node(goal[1], 1, ways, kinds, {**held}, products, ())
    parts.insert(1, blocks.tree('Recipes', tree))
  return parts


def refuses(observation: str) -> bool:
  """True if the command before an observation could not be done."""
  return observation.startswith(_REFUSED)


def _counted(text: str) -> dict[str, int]:
  pairs = (_COUNTED.fullmatch(part.strip()) for part in text.split(','))
  return {pair[2]: int(pair[1]) for pair in pairs if pair}


def _inventory(moment: Moment) -> tuple[dict[str, int], set[str], set[str]]:
  """Items held, items ever crafted, and items that the last turn changed."""
  held: collections.Counter[str] = collections.Counter()
  products: set[str] = set()
  changed: set[str] = set()
  for turn in moment.past:
    changed = set()
    if got := _GOT.fullmatch(turn.observation):
      name = recipes.plain_name(recipes.full_name(got[2]))
      held[name] += int(got[1])
      changed = {name}
    elif crafted := _CRAFTED.fullmatch(turn.observation):
      name = recipes.plain_name(crafted[2])
      used = _counted(turn.action.rpartition(' using ')[2].rstrip('. '))
      held.subtract(used)
      held[name] += int(crafted[1])
      products.add(name)
      changed = {name, *used}
  return {name: n for name, n in held.items() if n > 0}, products, changed


@functools.lru_cache(maxsize=64)
def _kinds(world: int) -> Mapping[str, str]:
  """Item -> the kind that recipes may ask for in its place."""
  try:
    book, _ = recipes.of_world(world)
  except EnvError:  # the recipes are not installed: kinds are not resolved
    return {}
  plain = recipes.plain_name
  return {plain(item): plain(kind) for item, kind in book.kinds.items()}


def _node(
    name: str,
    count: int,
    ways: Mapping[str, list],
    kinds: Mapping[str, str],
    held: dict[str, int],
    products: set[str],
    above: tuple[str, ...],
) -> Block:
  """An item, whether it is at hand, and what it is made of."""
  fits = lambda item: name in (item, kinds.get(item))
  there = sum(n for item, n in held.items() if fits(item))
  done = there >= count or any(map(fits, products))
  makers = [item for item in ways if fits(item) and item not in above]
  # The one that was crafted already, else the first that is shown.
  makers.sort(key=lambda item: item not in products)
  children = []
  if makers and len(above) < _DEEPEST:
    # Of several ways, the one that more is held for, else the shortest.
    have = lambda inputs: sum(x in held for x in inputs)
    inputs = min(
        (inputs for _, inputs in ways[makers[0]]),
        key=lambda inputs: (-have(inputs), len(inputs)),
    )
    children = [
        _node(x, n, ways, kinds, held, products, (*above, makers[0]))
        for x, n in inputs.items()
    ]
  note = f'have {there}' if there else ('' if makers else 'get')
  return {
      **blocks.item(f'{count} {name}', blocks.DONE if done else None, note),
      'children': children,
  }
