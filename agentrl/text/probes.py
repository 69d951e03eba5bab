"""Conversations that show how a chat template treats what it is given."""

from collections.abc import Iterator, Sequence

from agentrl.types import Message

# Contents that templates have changed: blanks (trimmed), reasoning (removed), JSON
# (parsed), empty text.
CONTENTS = (
    'go to the red ball',
    '',
    ' \n blanks around \t\n',
    '<think>\nreasons\n</think>\n\nan answer',
    'no tag opens </think> here',
    '{"name": "f", "arguments": {"x": 1}}',
    '[TOOL_CALLS] <tool_call>\n</tool_call>',
    'Thought:\nI am.\n\nAction:\n{{ messages }} {% if %} \u96ea \U0001f600',
)


def marks(count: int) -> list[str]:
  """Contents that occur nowhere else: private-use characters around an index."""
  return [f'\ue0f0{i}\ue0f1' for i in range(count)]


def conversations(has_system: bool) -> Iterator[list[Message]]:
  """Yields the conversations of each probe: its history, and all of it."""
  for history, answers in histories(has_system):
    yield history
    for completion, observation in answers:
      yield [
          *history,
          Message('assistant', completion),
          Message('user', observation),
      ]


def histories(
    has_system: bool, contents: Sequence[str] = CONTENTS
) -> Iterator[tuple[list[Message], list[tuple[str, str]]]]:
  """Yields histories, each with completions and observations that follow it.

  Args:
    has_system: whether some have a system message.
    contents: of messages.
  """
  plain = contents[0]
  user = lambda content: Message('user', content)
  assistant = lambda content: Message('assistant', content)
  starts = [
      *([user(content)] for content in contents),
      [user(plain), assistant('one'), user('two')],
  ]
  for content in contents:
    starts.append([
        user(plain),
        assistant(content),
        user('one'),
        assistant('two'),
        user(content),
    ])
  if has_system:
    starts += [
        [Message('system', content), *history]
        for content in ('Be brief.', '', ' padded ')
        for history in (starts[0], starts[-1])
    ]
  answers = [
      *((content, plain) for content in contents),
      *((plain, content) for content in contents),
  ]
  for history in starts:
    yield history, answers


def difference(whole: str, appended: str) -> str:
  """The place where two renderings first differ, as a message."""
  same = next(
      (i for i, (a, b) in enumerate(zip(whole, appended)) if a != b),  # noqa: B905
      min(len(whole), len(appended)),
  )
  start = max(0, same - 20)
  return (
      f'{whole[start : same + 40]!r} where appending gives'
      f' {appended[start : same + 40]!r}'
  )
