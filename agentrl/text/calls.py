"""The syntax in which a chat template writes calls of tools."""

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from agentrl.errors import ChatTemplateError
from agentrl.text import harmony, probes, reasoning
from agentrl.text.template import Renderer
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Message


class Call(NamedTuple):
  """A call of a tool: its name, and its arguments by their names."""

  name: str
  arguments: Mapping[str, Any]


class CallSyntax(NamedTuple):
  """The call of a tool in a chat template: text, a JSON object, text.

  Attributes:
    before: the text before the object.
    name: key of the tool's name.
    arguments: key of the arguments.
    after: the text behind the object.
  """

  before: str
  name: str
  arguments: str
  after: str

  def write(self, call: Call) -> str:
    """The text of a call."""
    made = {self.name: call.name, self.arguments: call.arguments}
    return f'{self.before}{_json(made)}{self.after}'

  def read(self, inside: str) -> Call | None:
    """The call that is written between `before` and `after`; None: none is."""
    made = _object(inside)
    if made is None or made.keys() != {self.name, self.arguments}:
      return None
    name, arguments = made[self.name], made[self.arguments]
    if not (isinstance(name, str) and isinstance(arguments, dict)):
      return None
    return Call(name, arguments)


class NamedCallSyntax(NamedTuple):
  """The call of a tool in a chat template that names it outside of the JSON.

  Attributes:
    before: the text before the tool's name.
    between: the text between that and the JSON object of the arguments.
    after: the text behind the object.
  """

  before: str
  between: str
  after: str

  def write(self, call: Call) -> str:
    """As `CallSyntax.write`."""
    arguments = _json(call.arguments)
    return f'{self.before}{call.name}{self.between}{arguments}{self.after}'

  def read(self, inside: str) -> Call | None:
    """As `CallSyntax.read`."""
    name, _, rest = inside.partition(self.between)
    arguments = _object(rest)
    return None if arguments is None else Call(name, arguments)


Syntax = CallSyntax | NamedCallSyntax


def split(
    text: str, syntax: Syntax, names: Collection[str]
) -> tuple[str, Call | None]:
  """The words of a completion, and the call that it ends with.

  Args:
    text: a completion; what it says within its reasoning is no call.
    syntax: of the chat template.
    names: of the tools.

  Returns:
    The whole text and None where it has no call of one of them, more than one, or
    something behind it.
  """
  answer = reasoning.answer(text)
  before, after = syntax.before.strip(), syntax.after.strip()
  if answer.count(before) != 1 if before else not answer:
    return text, None
  inside, rest = answer.partition(before)[2] if before else answer, ''
  if after:
    inside, _, rest = inside.partition(after)
  call = None if rest.strip() else syntax.read(inside)
  at = text.rfind(
      before or answer.strip()
  )  # -1: reasoning stands in the middle
  if call is None or call.name not in names or at < 0:
    return text, None
  return text[:at], call


def settled(text: str, syntax: Syntax) -> str:
  """The beginning of a completion that will be words, whatever follows."""
  mark = syntax.before.strip()
  if not mark:  # a call is all of an answer
    return ''
  at = text.find(mark)
  if at >= 0:
    return text[:at]
  sizes = range(min(len(mark), len(text)), 0, -1)
  begun = next((n for n in sizes if text.endswith(mark[:n])), 0)
  return text[: len(text) - begun]


def _json(value: Any) -> str:
  return json.dumps(value, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
  """The JSON object that a text is; None: it is none."""
  try:
    value = json.loads(text)
  except (ValueError, RecursionError):
    return None
  return value if isinstance(value, dict) else None


def find(render: Renderer, tokenizer: Tokenizer, names_answers: bool) -> Syntax:
  """The syntax in which a template writes a call, from a conversation with one.

  Args:
    render: the template, told of tools.
    tokenizer: of the policy.
    names_answers: whether it writes calls as harmony does.

  Raises:
    ChatTemplateError: it writes no calls that are JSON without control tokens.
  """
  name, key, value = probes.marks(3)
  history = [Message('user', 'x')]
  call = {
      'id': 'call00000',  # Mistral's have nine letters and digits
      'type': 'function',
      'function': {'name': name, 'arguments': {key: value}},
  }
  asked = {'role': 'assistant', 'content': '', 'tool_calls': [call]}
  text = render([*history, asked, Message('user', 'y')])
  written = text.removeprefix(render(history))
  if names_answers:
    before, between, after = harmony.CALL_TEXTS
    arguments = json.dumps({key: value}, ensure_ascii=False)
    if written.startswith(f'{before}{name}{between}{arguments}{after}'):
      return NamedCallSyntax(before, between, after)
  pieces = tokenizer.split_special(written)
  body = pieces[0][0] if pieces and pieces[0][1] is None else ''
  found = _json_with(body, name)
  if found is not None:
    start, stop, made = found
    keys = {
        'name': [k for k, x in made.items() if x == name],
        'arguments': [k for k, x in made.items() if isinstance(x, dict)],
    }
    if all(len(x) == 1 for x in keys.values()) and len(made) == 2:
      return CallSyntax(
          body[:start], keys['name'][0], keys['arguments'][0], body[stop:]
      )
  raise ChatTemplateError(
      f'The chat template writes a call as {written[:80]!r}: no JSON object'
      ' of a name and arguments without control tokens.'
      " agent.format='function_calling' needs no such template."
  )


def _json_with(text: str, word: str) -> tuple[int, int, dict[str, Any]] | None:
  """Start, stop and value of the first JSON object that has `word` as a value."""
  decoder = json.JSONDecoder()
  for start in (i for i, letter in enumerate(text) if letter == '{'):
    try:
      value, stop = decoder.raw_decode(text, start)
    except ValueError:
      continue
    if isinstance(value, Mapping) and word in value.values():
      return start, stop, dict(value)
  return None
