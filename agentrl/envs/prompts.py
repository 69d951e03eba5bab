"""Instructions of a policy before its first observation.

`full` instructions explain the environment to a language model; `compact` ones
spare the context of a policy of a few million parameters, which learns the
rules from episodes. A text of one's own stands in their place.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping

from agentrl import plugins
from agentrl.envs import formats, functions as functions_lib
from agentrl.envs.formats import Format
from agentrl.envs.functions import Functions


@dataclasses.dataclass(frozen=True)
class Words:
  """Instructions of one environment, in its parts.

  Attributes:
    full: explains it, and every action that it has.
    compact: the goal in a few words.
    formats: what replaces the words of a format, where the environment finds
      the action in the text itself.
  """

  full: str
  compact: str
  formats: Mapping[str, str] = dataclasses.field(default_factory=dict)


STYLES = ('full', 'compact')
# What a text of one's own may name.
_SLOT = re.compile(r'\{(environment|format|functions)\}')


# Instructions of one's own: of an environment and its functions, in a format.
Instructions = Callable[[Words, Functions, Format], str]


def instructions(
    words: Words, functions: Functions, format: str, style: str = 'full'
) -> str:
  """The instructions of an environment for an action format.

  Args:
    words: of the environment.
    functions: of the environment.
    format: a name that `formats.find` knows.
    style: 'full', 'compact' (empty for plain and raw ones), `module:NAME` or
      `FILE.py:NAME` of an `Instructions`, or a text, in which `{environment}`,
      `{format}` and `{functions}` stand for the parts of the full ones.

  Raises:
    ConfigError: there is no such style or format.
    ValueError: the format calls functions and the environment has none, or a
      function of one's own gives no text.
  """
  chosen = formats.find(format)
  if chosen.calls and not functions:
    raise ValueError(
        f'The environment has no functions to call in format {format!r};'
        ' choose another.'
    )
  if style == 'compact':
    ending = chosen.compact
    return '' if ending is None else f'{words.compact}{ending}'
  calls = functions_lib.describe(functions) if functions else ''
  ending = words.formats.get(format, chosen.full).replace('{functions}', calls)
  if style == 'full':
    return f'{words.full}\n\n{ending}'
  if plugins.is_own(style):
    what = 'agent.instructions='
    text = plugins.function(style, {}, what)(words, functions, chosen)
    if not isinstance(text, str):
      raise ValueError(
          f'{what}{style} gives {type(text).__name__}, not a text.'
      )
    return text
  parts = {'environment': words.full, 'format': ending, 'functions': calls}
  return _SLOT.sub(lambda slot: parts[slot[1]], style).strip()
