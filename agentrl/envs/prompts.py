"""What a policy is told before its first observation, by environment.

`full` instructions explain the environment to a language model; `compact` ones
spare the context of a policy of a few million parameters, which learns the
rules from episodes.
"""

_TEXTCRAFT = """\
You are crafting an item in Minecraft. You will be given a list of crafting \
commands and a goal. You have three kinds of commands:
- get N ITEM: takes N of an item that no command crafts, for example: get 2 oak \
logs
- craft N ITEM using N ITEM, N ITEM: crafts by one of the listed commands, with \
exactly its counts; you must hold what it uses. Where it names a kind of item, \
such as planks, use one item of that kind, such as oak planks.
- inventory: lists what you hold.
Always give the counts. Only listed commands work, one at a time; to make more, \
repeat them. The task ends when you craft the goal."""

_BABYAI = """\
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
you need, turn and explore. Use few steps: fewer are worth more."""

_SEARCHQA = """\
You are asked a question and have a search engine to find the facts. A question \
may need several facts, one after the other. You have two actions:
- <search>words</search>: shows the passages that match the words best, for \
example: <search>capital of France</search>. Search for one fact at a time.
- <answer>words</answer>: gives your answer, as short as possible, for example: \
<answer>Paris</answer>
Results come between <information> and </information>. Answer with a name, a \
number or a few words and nothing else. Your first answer ends the task."""

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
    'raw': 'Answer every time with one action and nothing else.',
}
# Where the environment finds the action in the text itself.
_OWN_FORMATS = {
    'searchqa': {
        'raw': (
            'Think first, between <think> and </think>, every time you get new'
            ' information. Then write one action. Text outside of the tags is'
            ' ignored.'
        )
    }
}

_FULL = {'textcraft': _TEXTCRAFT, 'babyai': _BABYAI, 'searchqa': _SEARCHQA}
_COMPACT = {
    'textcraft': {'react': 'Craft the goal. Thought: ... Action: ...'},
    'babyai': {'react': 'Reach the goal. Thought: ... Action: ...'},
    'searchqa': {
        'react': 'Thought: ... Action: <search> or <answer>',
        'plain': '<search>...</search> or <answer>...</answer>',
        'raw': '<search>...</search> or <answer>...</answer>',
    },
}

STYLES = ('full', 'compact')


def instructions(env_name: str, format: str, style: str = 'full') -> str:
  """The instructions of an environment for an action format.

  Args:
    env_name: a name in `envs.ENVS`.
    format: a name in `envs.actions.FORMATS`.
    style: 'full' or 'compact'; some compact plain instructions are empty.

  Raises:
    ValueError: one of them is not known.
  """
  formats = _FORMATS | _OWN_FORMATS.get(env_name, {})
  for value, known in (
      (env_name, tuple(_FULL)),
      (format, tuple(formats)),
      (style, STYLES),
  ):
    if value not in known:
      raise ValueError(
          f'No instructions for {value!r}; known: {", ".join(known)}.'
      )
  if style == 'compact':
    return _COMPACT[env_name].get(format, '')
  return f'{_FULL[env_name]}\n\n{formats[format]}'
