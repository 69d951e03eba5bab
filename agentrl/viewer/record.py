"""One episode as its line has it, decoded as far as the pages need it."""

from typing import Any

import msgspec

from agentrl.errors import DataError
from agentrl.types import Message, Turn


class Record(msgspec.Struct, rename={'episode_return': 'return'}):
  """A line of an episode file; `agentrl.data.episodes` writes it.

  The token arrays stay JSON until somebody decodes them; they may be empty.
  """

  episode_id: str
  env: str
  task_id: int
  split: str
  stop_reason: str
  success: bool
  seed: int = 0
  policy_version: int = 0
  horizon: int = 0
  sample: int = 0
  terminated: bool = False
  episode_return: float = 0.0
  error: str | None = None
  prompt: tuple[Message, ...] = ()
  turns: tuple[Turn, ...] = ()
  tokens: msgspec.Raw = msgspec.Raw(b'[]')
  completion_mask: msgspec.Raw = msgspec.Raw(b'[]')
  sampler_logprobs: msgspec.Raw = msgspec.Raw(b'[]')


_decoder = msgspec.json.Decoder(Record)


def decode(line: bytes) -> Record:
  """The record of a line.

  Raises:
    DataError: the line is no such record; says why.
  """
  try:
    return _decoder.decode(line)
  except (ValueError, RecursionError) as error:  # msgspec's is a ValueError
    raise DataError(f'This line is no episode: {error}') from error


def long_text(text: str, limit: int) -> dict[str, Any]:
  """The beginning of a text and the number of its characters.

  Pages show `text`, and where it has fewer than `chars` offer the rest, which
  `/api/text` has.
  """
  return {'text': text[:limit], 'chars': len(text)}
