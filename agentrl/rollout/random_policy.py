"""A policy that acts at random: the floor that an evaluation is read against.

    await run_episode(env, agent, RandomPolicy(env, agent), ...)

Each turn it draws uniformly from what the environment's server offers at
GET /available_actions, under the turn's seed: the same episode is the same
actions again.

- BabyAI and SciWorld offer whole actions; one of them is drawn.
- TextCraft offers forms. Drawn is from the crafting commands that the episode
  has shown, `get` of each of their ingredients in the count named there, and
  `inventory`.
- SearchQA offers the forms of a search and of an answer. One is drawn, filled
  with one to four consecutive words of the last observation.
- Browsers (MiniWoB, WebArena) offer a click on each element, and forms. One is
  drawn; an element, a key or a direction is drawn for it, texts are one to four
  consecutive words of the page, addresses those that the page shows. Forms that
  the page has nothing for are left out.
- Any other environment: as BabyAI. Forms, which it has in braces, are filled
  with words of the last observation.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence

from agentrl.envs.client import EnvClient
from agentrl.errors import EnvError
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.text_agent import TextAgent

_MOST_WORDS = 4
# Tries to draw an action that the agent's format can say.
_TRIES = 100
_BRACES = re.compile(r'{(?P<name>\w+)}')
_BRACKETS = re.compile(r'(?<=\[)(?P<name>(?!\d+\])[^\]]+)(?=\])')
_CRAFT = re.compile(r'^craft \d+ .+ using (.+)$', re.MULTILINE)
_CLICK = re.compile(r'click \[(\d+)\]')
_TAB = re.compile(r'^Tab (\d+)', re.MULTILINE)
_ADDRESS = re.compile(r'https?://[^\s\]\'"]+')
_WORD = re.compile(r"\w[\w'-]*")

_KEYS = ('Enter', 'Tab', 'Escape', 'Backspace', 'ArrowDown', 'ArrowUp')

# Gives the values of a parameter of a form; none: the form is of no use now.
Values = Callable[[str], Sequence[str]]


class RandomPolicy(ActingPolicy):
  """Draws actions uniformly; see the module."""

  weight_version = 'random'

  def __init__(self, env: EnvClient, agent: TextAgent):
    """Keeps the parts.

    Args:
      env: the client of this very episode, whose server is one of ours.
      agent: writes the action in the policy's format.
    """
    super().__init__(env, agent)
    self._seen: list[str] = []  # observations of the episode

  async def action(self, seed: int) -> str:
    """Draws an action.

    Raises:
      EnvError: the server offers none, or none that the format can say.
    """
    rng = random.Random(seed)
    self._seen.append(await self._env.observation())
    offered = await self._env.available_actions()
    draw = _RULES.get(self._env.name, _in_braces)
    for _ in range(_TRIES):
      action = draw(rng, offered, self._seen)
      try:
        self._agent.write_text(action)
      except ValueError:  # no function stands for it
        continue
      return action
    raise EnvError(
        f'{self._env.name} offers no action that the format of the agent can'
        f' say, such as {action!r:.80}; set another agent.format.'
    )


def _textcraft(
    rng: random.Random, offered: Sequence[str], seen: Sequence[str]
) -> str:
  del offered
  commands, ingredients = {}, {}  # ordered sets
  for match in _CRAFT.finditer('\n'.join(seen)):
    commands[match[0]] = True
    ingredients |= dict.fromkeys(map(str.strip, match[1].split(',')))
  gets = [f'get {ingredient}' for ingredient in ingredients]
  return rng.choice([*commands, *gets, 'inventory'])


def _in_braces(
    rng: random.Random, offered: Sequence[str], seen: Sequence[str]
) -> str:
  words = _phrase(rng, seen[-1])
  return _draw(rng, offered, _BRACES, lambda name: words)


def _browser(
    rng: random.Random, offered: Sequence[str], seen: Sequence[str]
) -> str:
  page = seen[-1]
  values: Mapping[str, Sequence[str]] = {
      'id': [m[1] for m in map(_CLICK.fullmatch, offered) if m],
      'text': _phrase(rng, page),
      'answer': _phrase(rng, page),
      'press_enter: 0 or 1': ('0', '1'),
      'keys': _KEYS,
      'up or down': ('up', 'down'),
      'index': _TAB.findall(page),
      'url': _ADDRESS.findall(page),
  }
  return _draw(rng, offered, _BRACKETS, values.__getitem__)


def _draw(
    rng: random.Random,
    offered: Sequence[str],
    parameter: re.Pattern[str],
    values: Values,
) -> str:
  """Draws one of what is offered, and a value for each of its parameters."""
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


def _phrase(rng: random.Random, text: str) -> list[str]:
  """One to four consecutive words of a text; none of a text without words."""
  words = _WORD.findall(text)
  if not words:
    return []
  start = rng.randrange(len(words))
  return [' '.join(words[start : start + rng.randint(1, _MOST_WORDS)])]


_RULES = {
    'textcraft': _textcraft,
    'miniwob': _browser,
    'webarena': _browser,
}
