"""Instructions of a policy before its first observation.

`full` instructions explain the environment to a language model; `compact` ones
spare the context of a policy of a few million parameters, which learns the
rules from episodes.
"""

import dataclasses
from collections.abc import Mapping

from agentrl.envs import functions as functions_lib
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


# The functions of the environment follow where it says so.
_FORMATS = {
    'react': (
        """\
Answer every time with one thought and one action, in this form and nothing \
else:
Thought:
what you think

Action:
the action"""
    ),
    'plain': 'Answer every time with one action and nothing else.',
    'raw': 'Answer every time with one action.',
    'tags': (
        """\
Think first if you like. End every answer with one action, in this form:
<action>the action</action>"""
    ),
    'fenced': (
        """\
Think first if you like. End every answer with one action on a line of its own, \
in this form:
```
the action
```"""
    ),
    'function_calling': (
        """\
You act by calling functions. Each stands for one of these actions:
{functions}
Think first if you like. End every answer with one call, as a JSON object in \
this form:
{{"name": "the function", "arguments": {{"parameter": "value"}}}}"""
    ),
    'code': (
        """\
You act by calling Python functions. Each stands for one of these actions:
{functions}
Answer every time with one call and nothing else; write texts and numbers \
themselves as arguments. What you think belongs in comments before it, in this \
form:
# what you think
function(parameter=value)"""
    ),
}
_COMPACT_FORMATS = {
    'react': ' Thought: ... Action: ...',
    'plain': None,  # there is nothing to say
    'raw': None,
    'tags': ' <action>...</action>',
    'fenced': ' ```...```',
    'function_calling': ' {"name": ..., "arguments": {...}}',
    'code': ' function(parameter=value)',
}

# Formats in which an action is the call of a function.
CALLING = ('function_calling', 'code')
STYLES = ('full', 'compact')


def instructions(
    words: Words, functions: Functions, format: str, style: str = 'full'
) -> str:
  """The instructions of an environment for an action format.

  Args:
    words: of the environment.
    functions: of the environment.
    format: a name in `envs.actions.FORMATS`.
    style: 'full' or 'compact'; compact plain and raw instructions are empty.

  Raises:
    ValueError: the style is not known, or the format calls functions and the
      environment has no function.
  """
  if style not in STYLES:
    raise ValueError(
        f'No instructions for {style!r}; known: {", ".join(STYLES)}.'
    )
  calls = format in CALLING
  if calls and not functions:
    raise ValueError(
        f'The environment has no functions to call in format {format!r};'
        ' choose another.'
    )
  if style == 'compact':
    ending = _COMPACT_FORMATS[format]
    return '' if ending is None else f'{words.compact}{ending}'
  ending = {**_FORMATS, **words.formats}[format]
  if calls:
    ending = ending.format(functions=functions_lib.describe(functions))
  return f'{words.full}\n\n{ending}'
