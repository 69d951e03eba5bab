"""Reading of JSON that a user gives, as a file: encoding, values, known fields."""

import json
import pathlib
from collections.abc import Container, Iterable, Mapping
from typing import Any

from agentrl.errors import DataError

# Raised by `loads` for a text that is not JSON, or nested too deeply.
BROKEN = (ValueError, RecursionError)

# Fields of public data that name a record, its source or its annotation. They
# carry no meaning for training.
NOTES = frozenset(
    'id uuid index idx name title topic category domain subset split source'
    ' dataset data_source lang language model timestamp created_at date'
    ' metadata message_id parent_id conversation_id conversation_hash prompt_id'
    ' num_turns'.split()
)


def read_text(path: str | pathlib.Path) -> str:
  """The text of a file in UTF-8, without a byte order mark.

  Raises:
    DataError: it cannot be read, or a byte of it is not UTF-8; names the line.
  """
  try:
    content = pathlib.Path(path).read_bytes()
  except OSError as error:
    raise DataError(f'Cannot read {path}: {error}') from error
  try:
    return content.decode('utf-8-sig')
  except UnicodeDecodeError as error:
    # Its position counts from behind a byte order mark.
    place = len(content) - len(error.object) + error.start
    line = content.count(b'\n', 0, place) + 1
    raise DataError(
        f'Cannot read {path}: line {line} is not UTF-8 (byte'
        f' 0x{content[place]:02x}); save the file as UTF-8.'
    ) from error


def loads(text: str) -> Any:
  """The value of a JSON text.

  Raises:
    ValueError: it is not JSON, or has half of a surrogate pair, which is no
      character and which no tokenizer and no server takes.
    RecursionError: it is nested too deeply.
  """
  value = json.loads(text)
  check_characters(text, value)
  return value


def check_characters(text: str, value: Any) -> None:
  r"""Raises ValueError for half of a surrogate pair, such as `\ud800`.

  Args:
    text: the JSON.
    value: of the text.
  """
  if '\\ud' not in text and '\\uD' not in text:
    return
  try:
    json.dumps(value, ensure_ascii=False).encode()
  except UnicodeEncodeError as error:
    half = error.object[error.start]
    raise ValueError(
        f'it has \\u{ord(half):04x}, half of a surrogate pair, which is no'
        ' character'
    ) from error


def check_fields(
    record: Mapping[str, Any],
    fields: Iterable[str],
    *,
    what: str = 'it',
    harmless: Container[str] = NOTES,
) -> None:
  """Refuses a field whose meaning would be lost. Null stands for no field.

  Args:
    record: a JSON object.
    fields: those that are read.
    what: names the object in the error.
    harmless: fields that carry no meaning.

  Raises:
    DataError: names the field, its value and the known ones.
  """
  fields = tuple(fields)
  for name, value in record.items():
    if value is None or name in fields or name in harmless:
      continue
    raise DataError(
        f'{what} has the unknown field {name}={value!r:.60}; known:'
        f' {", ".join(fields)}'
    )
