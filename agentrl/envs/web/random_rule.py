"""Random actions in a browser: a click on an element, or a form."""

import random
import re
from collections.abc import Mapping, Sequence

from agentrl.envs import random_rules

_BRACKETS = re.compile(r'(?<=\[)(?P<name>(?!\d+\])[^\]]+)(?=\])')
_CLICK = re.compile(r'click \[(\d+)\]')
_TAB = re.compile(r'^Tab (\d+)', re.MULTILINE)
_ADDRESS = re.compile(r'https?://[^\s\]\'"]+')
_KEYS = ('Enter', 'Tab', 'Escape', 'Backspace', 'ArrowDown', 'ArrowUp')


def draw(
    rng: random.Random, offered: Sequence[str], seen: Sequence[str]
) -> str:
  """Draws one of what is offered; see `random_rules`.

  For a form an element, a key or a direction is drawn; texts are one to four
  consecutive words of the page, addresses those that it shows. Forms that the
  page has nothing for are left out.
  """
  page = seen[-1]
  values: Mapping[str, Sequence[str]] = {
      'id': [m[1] for m in map(_CLICK.fullmatch, offered) if m],
      'text': random_rules.phrase(rng, page),
      'answer': random_rules.phrase(rng, page),
      'press_enter: 0 or 1': ('0', '1'),
      'keys': _KEYS,
      'up or down': ('up', 'down'),
      'index': _TAB.findall(page),
      'url': _ADDRESS.findall(page),
  }
  return random_rules.fill(rng, offered, _BRACKETS, values.__getitem__)
