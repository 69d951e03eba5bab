"""Messages of recorded conversations, as common data sets write them.

    {"role": "user", "content": "..."}       OpenAI's names
    {"from": "human", "value": "..."}        ShareGPT's

Content is a text or a list of parts that are texts. The loss is on the
assistant's words. A message says otherwise by one of `LEARN`, whose values are
true, false, 1 and 0. A field that is not known is refused: it may say what is
not to be learnt.
"""

from typing import Any, NamedTuple

from agentrl import json_files
from agentrl.errors import DataError
from agentrl.types import Message

# AgentTraj; OpenAI, Mistral and Fireworks; axolotl and others.
LEARN = ('loss', 'weight', 'train', 'trainable')

_ROLES = {
    'system': 'system',
    'human': 'user',
    'user': 'user',
    'gpt': 'assistant',
    'assistant': 'assistant',
}
_FIELDS = ('role', 'from', 'content', 'value', *LEARN)
_TEXT_PARTS = ('text', 'input_text', 'output_text')

# What a policy cannot be asked or answered here -> the way out. Empty ones pass.
_IN_CONTENT = (
    "write it into 'content', in the words that agent.format has for it"
)
_UNSUPPORTED = {
    'tool_calls': f'a call is text of the assistant here: {_IN_CONTENT}',
    'function_call': f'a call is text of the assistant here: {_IN_CONTENT}',
    'reasoning_content': f'thoughts are text here: {_IN_CONTENT}',
    'reasoning': f'thoughts are text here: {_IN_CONTENT}',
    'thinking': f'thoughts are text here: {_IN_CONTENT}',
    'refusal': "write it into 'content', or leave the record out",
    'images': 'only text can be learnt',
    'audio': 'only text can be learnt',
}
# Roles of what a tool answered.
_TOOLS = (
    'tool', 'function', 'observation', 'ipython', 'tool_response',
    'function_response',
)  # fmt: skip


class Read(NamedTuple):
  """Messages, and which of them are to be learnt."""

  messages: tuple[Message, ...]
  learn: tuple[bool, ...]


def read(items: Any, what: str = 'its messages') -> Read:
  """The messages of a list.

  Args:
    items: the list.
    what: names it in errors.

  Raises:
    DataError: they are not such messages; says which and why.
  """
  if not isinstance(items, list) or not items:
    raise DataError(f'{what} are no list, or an empty one')
  pairs = [_read_one(item, f'message {i}') for i, item in enumerate(items)]
  return Read(tuple(m for m, _ in pairs), tuple(learn for _, learn in pairs))


def _read_one(item: Any, name: str) -> tuple[Message, bool]:
  if not isinstance(item, dict):
    raise DataError(f'{name} is a {type(item).__name__}')
  role = _one_of(item, ('from', 'role'), name)
  if not isinstance(role, str) or role not in _ROLES:
    raise DataError(f'{name} is of {role!r}; {_way_out(role)}')
  for field, way_out in _UNSUPPORTED.items():
    if item.get(field):
      raise DataError(f'{name} has {field}={item[field]!r:.60}; {way_out}')
  json_files.check_fields(
      item,
      _FIELDS,
      what=name,
      harmless=json_files.NOTES | _UNSUPPORTED.keys(),
  )
  content = _text(_one_of(item, ('value', 'content'), name), name)
  is_assistant = _ROLES[role] == 'assistant'
  learn = _learn(item, name)
  if learn and not is_assistant:
    raise DataError(
        f'{name}, of {role!r}, is marked to be learnt; only the words of the'
        ' assistant can be (algo.prompt_weight is for what it reads)'
    )
  return Message(_ROLES[role], content), is_assistant and learn is not False


def _way_out(role: Any) -> str:
  if role in _TOOLS:
    return (
        'what a tool or an environment answers is a message of the user here:'
        " name it 'user'"
    )
  return f'known: {", ".join(_ROLES)}'


def _one_of(item: dict[str, Any], names: tuple[str, str], where: str) -> Any:
  """The value of the one of two fields that is there; None without any."""
  values = [item[name] for name in names if item.get(name) is not None]
  if len(values) > 1 and values[0] != values[1]:
    raise DataError(f'{where} has both {names[0]!r} and {names[1]!r}')
  return values[0] if values else None


def _text(content: Any, name: str) -> str:
  if isinstance(content, list):
    return ''.join(_part(part, name) for part in content)
  if not isinstance(content, str):
    raise DataError(f'{name} has no text but {content!r:.60}')
  return content


def _part(part: Any, name: str) -> str:
  if isinstance(part, str):
    return part
  if not isinstance(part, dict):
    raise DataError(f'{name} has a part that is no text but {part!r:.60}')
  if part.get('type', 'text') not in _TEXT_PARTS:
    raise DataError(
        f'{name} has a part of type {part["type"]!r:.40}; only text can be'
        ' learnt'
    )
  json_files.check_fields(
      part,
      ('type', 'text'),
      what=f'a part of {name}',
      harmless=('annotations', 'cache_control', 'index'),
  )
  if not isinstance(part.get('text'), str):
    raise DataError(
        f'{name} has a part without a text but {part.get("text")!r:.60}'
    )
  return part['text']


def _learn(item: dict[str, Any], name: str) -> bool | None:
  """True or False, as the message says; None: it does not say."""
  flags = {field: item[field] for field in LEARN if item.get(field) is not None}
  for field, value in flags.items():
    if value not in (0, 1):  # True and False are such
      raise DataError(
          f'{name} has {field}={value!r:.60}, which is neither true nor false,'
          ' 1 nor 0: a message is learnt whole or not at all'
      )
  if len(set(map(bool, flags.values()))) > 1:
    marks = ', '.join(f'{field}={value!r}' for field, value in flags.items())
    raise DataError(f'{name} contradicts itself: {marks}')
  return bool(next(iter(flags.values()))) if flags else None
