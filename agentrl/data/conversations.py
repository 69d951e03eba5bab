"""Files of recorded conversations and episodes, broken records left out.

Three kinds of records are read, from a JSON list or from JSON lines:

    {"item_id": "textcraft_12",                               AgentTraj
     "conversations": [{"from": "human", "value": "..."},
                       {"from": "gpt", "value": "...", "loss": true}, ...]}
    {"messages": [{"role": "user", "content": "..."}, ...]}   plain
    {"episode_id": ..., "prompt": ..., "turns": ...}          our own episodes

The loss is on the assistant's words, except those marked `"loss": false`.
"""

import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.types import Conversation, Episode, Message

OnBroken = Callable[[DataError], None]

# Raised by the json module for a text that is not JSON, or nested too deeply.
_BROKEN = (ValueError, RecursionError)

_ROLES = {
    'system': 'system',
    'human': 'user',
    'user': 'user',
    'gpt': 'assistant',
    'assistant': 'assistant',
}


def read(
    path: str | pathlib.Path, *, on_broken: OnBroken, env: str | None = None
) -> Iterator[Conversation | Episode]:
  """Reads the usable records of a file.

  Args:
    path: the file.
    env: the environment that they must be of, as far as they say; None: any.
    on_broken: called for each record that cannot be used, with an error that
      names the file, the line or record and the reason.

  Raises:
    DataError: the file cannot be read.
  """
  for where, record in records(path, on_broken=on_broken):
    try:
      found = parse(record, name=where)
      check_env(found, env)
    except DataError as error:
      on_broken(DataError(f'{where}: {error}'))
    else:
      yield found


def parse(record: Any, *, name: str, prompt: int = 0) -> Conversation | Episode:
  """The conversation or episode of a record's JSON object.

  Args:
    record: of any of the three kinds.
    name: of the conversation, when the record has no `item_id`.
    prompt: number of messages at its beginning without a loss.

  Raises:
    DataError: it is not such an object; says why.
  """
  if not isinstance(record, dict):
    raise DataError(f'a {type(record).__name__} where an object is expected')
  if 'turns' in record:
    return episodes_lib.from_record(record)
  key = 'conversations' if 'conversations' in record else 'messages'
  if key not in record:
    raise DataError("none of 'conversations', 'messages', 'turns' is in it")
  messages, learn = _messages(record[key])
  learn = (False,) * prompt + learn[prompt:]
  _check(messages, learn)
  item = str(record.get('item_id', name))
  env, _, number = item.rpartition('_')
  # Longer numbers than any list of tasks has are part of a name.
  known = 'item_id' in record and re.fullmatch('[0-9]{1,18}', number)
  return Conversation(
      name=item,
      env=env if known else '',
      task_id=int(number) if known else 0,
      messages=messages,
      learn=learn,
  )


def check_env(found: Conversation | Episode, env: str | None) -> None:
  """Raises DataError: it was recorded in another environment than `env`."""
  if env is not None and found.env not in ('', env):
    name = found.name if isinstance(found, Conversation) else found.episode_id
    raise DataError(
        f'{name!r:.80} is of the environment {found.env!r:.40}, not of this'
        f" run's env.name={env!r}"
    )


def _messages(items: Any) -> tuple[tuple[Message, ...], tuple[bool, ...]]:
  """Messages of either kind, and which of them are to be learnt.

  Raises:
    DataError: they are not such messages; says which and why.
  """
  if not isinstance(items, list) or not items:
    raise DataError('its messages are no list, or an empty one')
  messages, learn = [], []
  for index, item in enumerate(items):
    if not isinstance(item, dict):
      raise DataError(f'message {index} is a {type(item).__name__}')
    role = item.get('from', item.get('role'))
    content = item.get('value', item.get('content'))
    if not isinstance(role, str) or role not in _ROLES:
      raise DataError(
          f'message {index} is of {role!r}; known: {", ".join(_ROLES)}'
      )
    if not isinstance(content, str):
      raise DataError(f'message {index} has no text but {content!r}')
    loss = item.get('loss')
    if loss not in (True, False, None):
      raise DataError(f'message {index} has loss={loss!r}, not true or false')
    messages.append(Message(_ROLES[role], content))
    learn.append(_ROLES[role] == 'assistant' and loss is not False)
  return tuple(messages), tuple(learn)


def _check(messages: Sequence[Message], learn: Sequence[bool]) -> None:
  """Refuses a conversation that no rollout could have produced.

  Raises:
    DataError: says why.
  """
  if True not in learn:
    raise DataError("it has no assistant's message to learn from")
  roles = [message.role for message in messages]
  first = learn.index(True)
  if first == 0 or roles[first - 1] != 'user':
    raise DataError(
        f'message {first}, the first to learn, does not follow a user message'
    )
  if 'system' in roles[1:]:
    raise DataError(
        f'message {roles.index("system", 1)} is of the system, which speaks'
        ' first or not at all'
    )
  for index in range(first, len(roles)):
    expected = ('assistant', 'user')[(index - first) % 2]
    if roles[index] != expected:
      raise DataError(
          f'message {index} is of {roles[index]!r} where the turn is of'
          f' {expected!r}'
      )
    if learn[index] and not messages[index].content:
      raise DataError(f'message {index} is to be learnt and empty')


def texts_of(found: Conversation | Episode) -> list[str]:
  """All that is said in it."""
  if isinstance(found, Conversation):
    return [message.content for message in found.messages]
  return [
      *(message.content for message in found.prompt),
      *(turn.completion for turn in found.turns),
      *(turn.observation for turn in found.turns),
  ]


def records(
    path: str | pathlib.Path, *, on_broken: OnBroken
) -> Iterator[tuple[str, Any]]:
  """The JSON values of a file, each with where it stands.

  Args:
    path: a JSON list, one value a line, or values over several lines.
    on_broken: as in `read`.

  Raises:
    DataError: the file cannot be read.
  """
  try:
    text = pathlib.Path(path).read_text(encoding='utf-8-sig', errors='replace')
  except OSError as error:
    raise DataError(f'Cannot read {path}: {error}') from error
  if text.lstrip().startswith('['):
    yield from _elements(path, text, text.index('[') + 1, on_broken)
    return
  if _is_indented(text):
    yield from _elements(path, text, 0, on_broken)
    return
  for number, line in enumerate(text.split('\n'), start=1):
    if not line.strip():
      continue
    where = f'{path}, line {number}'
    try:
      value = json.loads(line)
    except _BROKEN as error:
      on_broken(DataError(f'{where}: {error}'))
    else:
      yield where, value


def _is_indented(text: str) -> bool:
  """True if the first value is whole, but not on one line."""
  start = len(text) - len(text.lstrip())
  first, _, _ = text[start:].partition('\n')
  try:
    json.loads(first)
  except _BROKEN:
    pass
  else:
    return False
  try:
    json.JSONDecoder().raw_decode(text, start)
  except _BROKEN:
    return False
  return True


def _elements(
    path, text: str, start: int, on_broken: OnBroken
) -> Iterator[tuple[str, Any]]:
  """Values from `start` on, those of a list or one after the other.

  After a broken one, those that can be found.
  """
  decode = json.JSONDecoder().raw_decode
  blank = re.compile(r'[\s,]*')
  is_list = start > 0
  position = blank.match(text, start).end()
  number = 0
  while position < len(text) and not (is_list and text[position] == ']'):
    where = f'{path}, record {number}'
    number += 1
    try:
      value, end = decode(text, position)
    except _BROKEN as error:
      on_broken(DataError(f'{where}: {error}'))
      position = _next_record(text, position + 1, decode)
      continue
    yield where, value
    position = blank.match(text, end).end()
  if is_list and position >= len(text):
    on_broken(DataError(f'{path}: it ends before its list does'))


def _next_record(text: str, position: int, decode: Callable) -> int:
  """Where the next whole record begins; the end of the text without one."""
  for match in re.compile(r'\{').finditer(text, position):
    try:
      value, _ = decode(text, match.start())
    except _BROKEN:
      continue
    if value.keys() & {'conversations', 'messages', 'turns', 'chosen'}:
      return match.start()
  return len(text)
