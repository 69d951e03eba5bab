"""Completions in gpt-oss's format, harmony, as text and back.

A completion is one or more messages, each of a channel: reasoning in `analysis`,
words before a call in `commentary`, the answer in `final`
(https://github.com/openai/harmony). The generation prompt is an open message of the
assistant, whose channel the policy chooses. A message to a function, mostly of
`commentary`, is a call; the answer then comes from that function.

As text, a completion is its thoughts in `<think>` tags, and its answer or its call
behind them; a call as harmony writes it, control tokens spelled.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

START, CHANNEL, MESSAGE = '<|start|>', '<|channel|>', '<|message|>'
END, RETURN = '<|end|>', '<|return|>'
CALL = '<|call|>'  # ends a message that calls a function
_ENDS = (END, RETURN, CALL)
_NAMESPACE = 'functions.'
# A call's text: before the function's name, before its arguments, behind them.
CALL_TEXTS = (
    f'{CHANNEL}commentary to={_NAMESPACE}',
    f' <|constrain|>json{MESSAGE}',
    CALL,
)
_NAME = r'(?:(?!<\|)\S)*'  # of a function, whatever the policy makes up
_OPEN, _CLOSE = '<think>\n', '\n</think>\n\n'

# A text; True for one that may hold control tokens.
Piece = tuple[str, bool]


class _Message(NamedTuple):
  """One message of a completion.

  Attributes:
    header: its role, channel and recipient; without a role in the first message.
    content: None where it was cut before.
    end: its last token; '' where it was cut before.
  """

  header: str
  content: str | None = None
  end: str = ''

  @property
  def channel(self) -> str:
    return re.split(r'\W', self.header.partition(CHANNEL)[2], maxsplit=1)[0]

  @property
  def function(self) -> str | None:
    """The function that it calls, in whatever channel; None: it calls none."""
    match = re.search(rf'(?<!\S)to=functions\.({_NAME})', self.header)
    return match[1] if match and self.content is not None else None


def _messages(pieces: Iterable[Piece]) -> list[_Message]:
  """The messages of what follows a generation prompt.

  Args:
    pieces: its text, cut at its control tokens, which are marked.
  """
  messages = [_Message('')]
  for text, is_control in pieces:
    last = messages[-1]
    if is_control and text == START:
      messages.append(_Message(''))
    elif last.content is None:
      if is_control and text == MESSAGE:
        messages[-1] = last._replace(content='')
      else:
        messages[-1] = last._replace(header=last.header + text)
    elif is_control and text in _ENDS:
      messages[-1] = last._replace(end=text)
    else:
      messages[-1] = last._replace(content=last.content + text)
  return messages


def read(pieces: Iterable[Piece], *, calls: bool) -> str:
  """The text of a completion: its answer behind what it thought, in `<think>` tags.

  Args:
    pieces: what follows the generation prompt, its control tokens marked.
    calls: whether there are functions to call.

  Returns:
    The content of the messages of `final`, calls among them, and of all others as
    one block of thought before; the block stays open where the last message is a
    thought that was cut off.
  """
  thoughts, answers, is_open = [], [], False
  for message in _messages(pieces):
    content = message.content or ''
    name = message.function if calls else None
    is_open = False
    if name is not None:
      before, between, after = CALL_TEXTS
      call = f'{before}{name}{between}{content}'
      answers.append(call + (after if message.end else ''))
    elif message.channel == 'final':
      answers.append(content)
    else:
      thoughts.append(content)
      is_open = not message.end
  answer = '\n'.join(answers)
  if not thoughts:
    return answer
  thought = _OPEN + '\n'.join(thoughts)
  return thought if is_open else f'{thought}{_CLOSE}{answer}'


def called(pieces: Iterable[Piece]) -> str | None:
  """The function that a completion calls in the end; None: it calls none."""
  return _messages(pieces)[-1].function


class Said(NamedTuple):
  """A completion by its parts.

  Attributes:
    thought: its reasoning; None: there is none.
    answer: None where it is a call, or was cut while it thought.
    call: the name of a function, and the arguments.
  """

  thought: str | None
  answer: str | None
  call: tuple[str, str] | None

  @property
  def fields(self) -> dict[str, str]:
    """Its texts, by the names that a chat template has for them."""
    fields = {} if self.thought is None else {'thinking': self.thought}
    if self.call is not None:
      name, arguments = self.call
      return fields | {'function': name, 'arguments': arguments}
    return fields | {'content': self.answer or ''}

  def pieces(self) -> list[Piece]:
    """The completion without its end."""
    pieces = []
    if self.thought is not None:
      pieces += [(f'{CHANNEL}analysis{MESSAGE}', True), (self.thought, False)]
      if self.call is None and self.answer is None:
        return pieces
      pieces.append((f'{END}{START}assistant', True))
    if self.call is not None:
      before, between, _ = CALL_TEXTS
      name, arguments = self.call
      pieces += [(before, True), (name, False)]
      return [*pieces, (between, True), (arguments, False)]
    return [
        *pieces,
        (f'{CHANNEL}final{MESSAGE}', True),
        (self.answer or '', False),
    ]


def split(text: str, *, calls: bool) -> Said:
  """The parts of a completion that `read` gave, or that one would give.

  Args:
    text: of several calls, or of words beside one, all is its answer.
    calls: whether there are functions to call.
  """
  thought, answer = None, text
  if text.startswith(_OPEN):
    thought, closed, answer = text.removeprefix(_OPEN).partition(_CLOSE)
    if not closed:
      return Said(thought, None, None)
  before, between, after = CALL_TEXTS
  name, has_arguments, arguments = answer.removeprefix(before).partition(
      between
  )
  arguments = arguments.removesuffix(after)
  if (
      calls
      and answer.startswith(before)
      and has_arguments
      and re.fullmatch(_NAME, name)
      and after not in arguments
  ):
    return Said(thought, None, (name, arguments))
  return Said(thought, answer, None)


def answered(name: str) -> list[Piece]:
  """The template's text between a call and the answer of the function."""
  return [
      (f'{CALL}{START}{_NAMESPACE}', True),
      (name, False),
      (f' to=assistant{CHANNEL}commentary{MESSAGE}', True),
  ]
