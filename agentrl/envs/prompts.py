"""Instructions of a policy before its first observation, by environment.

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


TEXTCRAFT = Words(
    compact='Craft the goal.',
    full="""\
You are crafting an item in Minecraft. You will be given a list of crafting \
commands and a goal. You have three kinds of commands:
- get N ITEM: takes N of an item that no command crafts, for example: get 2 oak \
logs
- craft N ITEM using N ITEM, N ITEM: crafts by one of the listed commands, with \
exactly its counts; you must hold what it uses. Where it names a kind of item, \
such as planks, use one item of that kind, such as oak planks.
- inventory: lists what you hold.
Always give the counts. Only listed commands work, one at a time; to make more, \
repeat them. The task ends when you craft the goal.""",
)

BABYAI = Words(
    compact='Reach the goal.',
    full="""\
You are in a world of rooms and have a goal to reach. You see only what is in \
front of you, up to walls and closed doors. Objects have a number to tell equal \
ones apart, counted from the nearest. Your actions are:
- turn left, turn right, move forward
- go to OBJECT N: walks there and faces it, for example: go to red ball 1
- pick up OBJECT N: walks there and takes it; you can hold one object
- drop: puts down what you hold, in front of you
- go through DOOR N: walks into an open door
- toggle and go through DOOR N: opens a closed door, or a locked one if you hold \
the key of its colour, and walks into it
- toggle: opens or closes what is in front of you
- check available actions
Every answer ends with the actions that you can do now. When you do not see what \
you need, turn and explore. Use few steps: fewer are worth more.""",
)

SCIWORLD = Words(
    compact='Do the task.',
    full="""\
You are in a house with a garden and do a science task that is told to you \
first. OBJ is a thing that you see, PLACE a room, for example: open door to \
kitchen; pour cup into sink. Your actions are:
- look around, look at OBJ, look in OBJ, read OBJ
- go to PLACE: through an open door
- open OBJ, close OBJ, activate OBJ, deactivate OBJ
- pick up OBJ, put down OBJ, move OBJ to OBJ, inventory
- pour OBJ into OBJ, dunk OBJ into OBJ, mix OBJ: mixes what a container holds
- use OBJ, use OBJ on OBJ: a tool, for example: use thermometer on water
- connect OBJ to OBJ, disconnect OBJ: parts of an electric circuit
- eat OBJ, flush OBJ
- focus on OBJ: says that this is the object of the task. Do it only when the \
task tells you to: a wrong focus loses the task at once.
- wait: lets ten steps pass; wait1: lets one pass
- task: tells the task again
When you are asked which of several things you mean, answer with its number. \
You earn points for every part of the task.""",
)

SEARCHQA = Words(
    compact='<search>, then <answer>.',
    formats={
        'raw': (
            'Think first, between <think> and </think>, every time you get new'
            ' information. Then write one action. Text outside of the tags is'
            ' ignored.'
        )
    },
    full="""\
You are asked a question and have a search engine to find the facts. A question \
may need several facts, one after the other. You have two actions:
- <search>words</search>: shows the passages that match the words best, for \
example: <search>capital of France</search>. Search for one fact at a time.
- <answer>words</answer>: gives your answer, as short as possible, for example: \
<answer>Paris</answer>
Results come between <information> and </information>. Answer with a name, a \
number or a few words and nothing else. Your first answer ends the task.""",
)

_BROWSER = """\
You are in a web browser and have an objective to reach. A page is shown as its \
accessibility tree: every element has a number in brackets, its role and its \
name. Numbers change with the page: use those of the last observation. Your \
actions are:
- click [id]
- type [id] [text] [1]: types in place of what the field holds, and presses Enter \
after it; with [0] it does not
- hover [id]
- press [keys], for example: press [ctrl+a]
- scroll [down] or scroll [up]
- new_tab, tab_focus [index], close_tab
- goto [url], go_back, go_forward
- stop [answer]: ends the task; the answer is empty unless you are asked for one"""

MINIWOB = Words(
    compact='Reach the objective.',
    full=f"""\
{_BROWSER}
The task ends by itself when it is done. What you do last counts, so act with \
care: most tasks are lost by one wrong click.""",
)

WEBARENA = Words(
    compact='Do it, then stop.',
    full=f"""\
{_BROWSER}
You are signed in everywhere. Do what the objective says and nothing else, then \
end the task yourself with stop. Where it asks for something, the answer is that \
alone: a name, a number, a date, or a list with semicolons between its items.""",
)

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
  ending = (_FORMATS | words.formats)[format]
  if calls:
    ending = ending.format(functions=functions_lib.describe(functions))
  return f'{words.full}\n\n{ending}'
