"""Random actions in TextCraft, whose server offers forms alone."""

import random
import re
from collections.abc import Sequence

_CRAFT = re.compile(r'^craft \d+ .+ using (.+)$', re.MULTILINE)


def draw(
    rng: random.Random, offered: Sequence[str], seen: Sequence[str]
) -> str:
  """Draws from what the episode has shown; see `random_rules`.

  That is its crafting commands, `get` of each of their ingredients in the count
  named there, and `inventory`.
  """
  del offered
  # Ordered sets.
  commands: dict[str, bool] = {}
  ingredients: dict[str, None] = {}
  for match in _CRAFT.finditer('\n'.join(seen)):
    commands[match[0]] = True
    ingredients |= dict.fromkeys(map(str.strip, match[1].split(',')))
  gets = [f'get {ingredient}' for ingredient in ingredients]
  return rng.choice([*commands, *gets, 'inventory'])
