"""Files of recorded conversations and episodes, broken records left out.

Four kinds of records are read, from a JSON list, from JSON lines or from
Parquet; `data.messages` says what a message is:

    {"item_id": "textcraft_12",                               AgentTraj
     "conversations": [{"from": "human", "value": "..."},
                       {"from": "gpt", "value": "...", "loss": true}, ...]}
    {"messages": [{"role": "user", "content": "..."}, ...]}   plain
    {"prompt": "...", "completion": "..."}                    texts or messages
    {"episode_id": ..., "prompt": ..., "turns": ...}          our own episodes

The loss is on the assistant's words, except those marked `"loss": false` or
alike; nothing of a prompt is learnt.
"""

import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agentrl import json_files, shipped
from agentrl.data import episodes as episodes_lib, messages as messages_lib
from agentrl.errors import DataError
from agentrl.types import Conversation, Episode, Message

OnBroken = Callable[[DataError], None]

# One of these is in every record.
_BEGINS = {'conversations', 'messages', 'completion', 'turns', 'chosen'}

# Fields of a record that change what the policy is asked -> the way out.
UNSUPPORTED = {
    'system': "write it as the first message, of the role 'system'",
    'tools': "describe them in the message of the role 'system'",
    'functions': "describe them in the message of the role 'system'",
    'images': 'only text can be learnt',
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
      example = parse(record, name=where)
      check_env(example, env)
    except DataError as error:
      on_broken(DataError(f'{where}: {error}'))
    else:
      yield example


def parse(record: Any, *, name: str) -> Conversation | Episode:
  """The conversation or episode of a record's JSON object.

  Args:
    record: of any of the four kinds.
    name: where it stands; of the conversation, when the record has no `item_id`.

  Raises:
    DataError: it is not such an object; says why.
  """
  if not isinstance(record, dict):
    raise DataError(f'a {type(record).__name__} where an object is expected')
  if record.get('turns') is not None:
    episodes_lib.check_fields(record)
    return episodes_lib.from_record(record)
  kinds = ('conversations', 'messages', 'completion')
  key = next((key for key in kinds if record.get(key) is not None), None)
  if key is None:
    raise DataError(
        "none of 'conversations', 'messages', 'completion', 'turns' is in it"
    )
  item = record.get('item_id')
  if key == 'completion':
    check_fields(record, ('item_id', 'prompt', key))
    prompt = of_side(record, 'prompt', 'user')
    rest = of_side(record, key, 'assistant')
    return make(prompt, rest, item=item, name=name)
  conversation = messages_lib.read(record[key])
  opening = record.get('prompt')
  texts = [m.content for m in conversation.messages]
  if opening is not None and opening not in texts:
    raise DataError(
        f"it has a 'prompt' that is none of its {key!r}: {opening!r:.60}"
    )
  check_fields(record, ('item_id', 'prompt', key))
  return make(messages_lib.Read((), ()), conversation, item=item, name=name)


def check_fields(record: dict[str, Any], fields: Sequence[str], **how) -> None:
  """Refuses a field of a record that is not known, or cannot be honoured.

  Args:
    record: of any kind but an episode.
    fields: names of its fields.
    **how: see `json_files.check_fields`.

  Raises:
    DataError: names it, and the way out.
  """
  for field, way_out in UNSUPPORTED.items():
    if record.get(field):
      raise DataError(f'it has {field}={record[field]!r:.60}; {way_out}')
  harmless = how.pop('harmless', frozenset()) | json_files.NOTES
  json_files.check_fields(
      record, fields, harmless=harmless | UNSUPPORTED.keys(), **how
  )


def of_side(record: dict[str, Any], key: str, role: str) -> messages_lib.Read:
  """The messages of a field: a list of them, one, or a text of this role.

  Raises:
    DataError: it is missing, or something else; says why.
  """
  value = record.get(key)
  if value is None:
    raise DataError(f'it has no {key!r}')
  if isinstance(value, str):
    value = [{'role': role, 'content': value}]
  if isinstance(value, dict):
    value = [value]
  if not isinstance(value, list):
    raise DataError(
        f'its {key!r} is neither a text nor a list of messages but'
        f' {value!r:.60}'
    )
  try:
    return messages_lib.read(value, 'its messages')
  except DataError as error:
    raise DataError(f'{key!r}: {error}') from error


def make(
    prompt: messages_lib.Read,
    rest: messages_lib.Read,
    *,
    item: Any,
    name: str,
) -> Conversation:
  """The conversation of a prompt, which is not learnt, and what follows.

  Args:
    prompt: may be empty.
    rest: what follows.
    item: the environment and the number of the task, as in 'textcraft_12', or
      another name; None: none.
    name: where the record stands.

  Raises:
    DataError: no rollout could have produced it; says why.
  """
  messages = (*prompt.messages, *rest.messages)
  learn = (False,) * len(prompt.messages) + rest.learn
  _check(messages, learn)
  item = None if item is None else str(item)
  env, _, number = (item or '').rpartition('_')
  # Longer numbers than any list of tasks has are part of a name.
  is_id = bool(re.fullmatch('[0-9]{1,18}', number))
  return Conversation(
      name=name if item is None else item,
      env=env if is_id else '',
      task_id=int(number) if is_id else 0,
      messages=messages,
      learn=learn,
      where=name,
  )


def check_env(example: Conversation | Episode, env: str | None) -> None:
  """Raises DataError: it was recorded in another environment than `env`."""
  if env is not None and example.env not in ('', env):
    name = (
        example.name
        if isinstance(example, Conversation)
        else example.episode_id
    )
    raise DataError(
        f'{name!r:.80} is of the environment {example.env!r:.40}, not of this'
        f" run's env.name={env!r}"
    )


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


def texts_of(example: Conversation | Episode) -> list[str]:
  """All that is said in it."""
  if isinstance(example, Conversation):
    return [message.content for message in example.messages]
  return [
      *(message.content for message in example.prompt),
      *(turn.completion for turn in example.turns),
      *(turn.observation for turn in example.turns),
  ]


def records(
    path: str | pathlib.Path, *, on_broken: OnBroken
) -> Iterator[tuple[str, Any]]:
  """The JSON values of a file, each with where it stands.

  Args:
    path: a JSON list, one value a line, values over several lines, or Parquet.
    on_broken: as in `read`.

  Raises:
    DataError: the file cannot be read.
  """
  if _is_parquet(path):
    yield from _rows(path)
    return
  text = json_files.read_text(path)
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
      value = json_files.loads(line)
    except json_files.BROKEN as error:
      on_broken(DataError(f'{where}: {error}'))
    else:
      yield where, value


def _is_parquet(path: str | pathlib.Path) -> bool:
  try:
    with open(path, 'rb') as file:
      return file.read(4) == b'PAR1'
  except OSError as error:
    raise DataError(f'Cannot read {path}: {error}') from error


def _rows(path: str | pathlib.Path) -> Iterator[tuple[str, Any]]:
  """The rows of a Parquet file, in which null stands for a missing field.

  Raises:
    DataError: pyarrow is missing, or cannot read it; names a text's row.
  """
  try:
    # Many times as large as all that reads JSON, and needed for this alone.
    import pyarrow
    from pyarrow import parquet
  except ImportError as error:
    raise DataError(
        f'{path} is a Parquet file, which pyarrow reads: pip install -r'
        f' {shipped.requirements("parquet")}, or write it as JSON lines.'
    ) from error
  number = 0
  try:
    for batch in parquet.ParquetFile(path).iter_batches():
      for start in range(batch.num_rows):
        (row,) = batch.slice(start, 1).to_pylist()
        yield f'{path}, row {number}', row
        number += 1
  except UnicodeDecodeError as error:
    raise DataError(
        f'Cannot read {path}: a text of row {number} is not UTF-8 ({error})'
    ) from error
  except (pyarrow.ArrowException, OSError) as error:
    raise DataError(f'Cannot read {path}: {error}') from error


def _is_indented(text: str) -> bool:
  """True if the first value is whole, but not on one line."""
  start = len(text) - len(text.lstrip())
  first, _, _ = text[start:].partition('\n')
  try:
    json.loads(first)
  except json_files.BROKEN:
    pass
  else:
    return False
  try:
    json.JSONDecoder().raw_decode(text, start)
  except json_files.BROKEN:
    return False
  return True


def _elements(
    path, text: str, start: int, on_broken: OnBroken
) -> Iterator[tuple[str, Any]]:
  """Values from `start` on, those of a list or one after the other.

  After a broken one, those that can be found.
  """
  decode = json.JSONDecoder().raw_decode
  is_list = start > 0
  position = _skip_blank(text, start)
  number = 0
  while position < len(text) and not (is_list and text[position] == ']'):
    where = f'{path}, record {number}'
    number += 1
    try:
      value, end = decode(text, position)
      json_files.check_characters(text[position:end], value)
    except json_files.BROKEN as error:
      on_broken(DataError(f'{where}: {error}'))
      position = _next_record(text, position + 1, decode)
      continue
    yield where, value
    position = _skip_blank(text, end)
  if is_list and position >= len(text):
    on_broken(DataError(f'{path}: it ends before its list does'))


def _skip_blank(text: str, position: int) -> int:
  """The position of the next value."""
  blank = re.compile(r'[\s,]*').match(text, position)
  assert blank is not None  # it may be empty
  return blank.end()


def _next_record(text: str, position: int, decode: Callable) -> int:
  """The position of the next whole record, or the end of the text."""
  for match in re.compile(r'\{').finditer(text, position):
    try:
      value, _ = decode(text, match.start())
    except json_files.BROKEN:
      continue
    if value.keys() & _BEGINS:
      return match.start()
  return len(text)
