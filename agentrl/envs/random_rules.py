"""Rules by which a policy draws actions at random: the floor of a table.

An environment's `random_rule` gets a random number generator, the actions that
its server offers at GET /available_actions, and all observations of the episode,
the last one last. It gives an action, or raises EnvError where there is none.
"""

import random
import re
from collections.abc import Callable, Sequence

from agentrl.errors import EnvError

Rule = Callable[[random.Random, Sequence[str], Sequence[str]], str]
# Gives the values of a parameter of a form; none: the form is of no use now.
Values = Callable[[str], Sequence[str]]

_MOST_WORDS = 4
_BRACES = re.compile(r'{(?P<name>\w+)}')
_WORD = re.compile(r"\w[\w'-]*")


def in_braces(
    rng: random.Random, offered: Sequence[str], seen: Sequence[str]
) -> str:
  """One of the actions; a form has its parameters in braces.

  All of them are the same one to four consecutive words of the last observation.
  """
  words = phrase(rng, seen[-1])
  return fill(rng, offered, _BRACES, lambda name: words)


def fill(
    rng: random.Random,
    offered: Sequence[str],
    parameter: re.Pattern[str],
    values: Values,
) -> str:
  """Draws one of what is offered, and a value for each of its parameters.

  Args:
    rng: of this turn.
    offered: actions and forms of actions.
    parameter: finds one in a form; its group `name` is the name.
    values: of a parameter by its name.

  Raises:
    EnvError: nothing is offered that has values for all its parameters.
  """
  usable = [
      form
      for form in offered
      if all(values(m['name']) for m in parameter.finditer(form))
  ]
  if not usable:
    raise EnvError(f'No action can be drawn from {list(offered)!r:.200}.')
  return parameter.sub(
      lambda match: rng.choice(values(match['name'])), rng.choice(usable)
  )


def phrase(rng: random.Random, text: str) -> list[str]:
  """One to four consecutive words of a text; none of a text without words."""
  words = _WORD.findall(text)
  if not words:
    return []
  start = rng.randrange(len(words))
  return [' '.join(words[start : start + rng.randint(1, _MOST_WORDS)])]
