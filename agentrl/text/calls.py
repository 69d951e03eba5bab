"""The syntax in which a chat template writes calls of tools."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.errors import ChatTemplateError
from agentrl.text import harmony, probes
from agentrl.text.template import Renderer
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Message


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


def find(
    render: Renderer, tokenizer: Tokenizer, names_answers: bool
) -> CallSyntax | NamedCallSyntax:
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
