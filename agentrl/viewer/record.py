"""One episode as its line has it, decoded as far as the pages need it."""

import collections
import pathlib
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from agentrl.errors import DataError
from agentrl.evaluation.workdirs import files
from agentrl.http import surrogates
from agentrl.types import ACT, Message, Turn

_ARRAYS = ('tokens', 'completion_mask', 'sampler_logprobs')


class _Segment(msgspec.Struct):
  tokens: msgspec.Raw
  completion_mask: msgspec.Raw
  sampler_logprobs: msgspec.Raw


class Record(msgspec.Struct, rename={'episode_return': 'return'}):
  """A line of an episode file; `agentrl.data.episodes` writes it.

  The token arrays stay JSON until somebody decodes them; they may be empty. Those
  of several segments are joined, as rows of what was trained on are.
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
  attempt: int = 0
  terminated: bool = False
  episode_return: float = 0.0
  error: str | None = None
  prompt: tuple[Message, ...] = ()
  turns: tuple[Turn, ...] = ()
  tokens: msgspec.Raw = msgspec.Raw(b'[]')
  completion_mask: msgspec.Raw = msgspec.Raw(b'[]')
  sampler_logprobs: msgspec.Raw = msgspec.Raw(b'[]')
  segments: tuple[_Segment, ...] = ()
  num_segments: int = 1  # set by `decode`

  @property
  def acts(self) -> tuple[Turn, ...]:
    """The turns that were for the environment: those the horizon counts."""
    return tuple(turn for turn in self.turns if turn.kind == ACT)


_decoder = msgspec.json.Decoder(Record)


def decode(line: bytes) -> Record:
  """The record of a line.

  Raises:
    DataError: the line is no such record; says why.
  """
  try:
    try:
      record = _decoder.decode(line)
    except msgspec.DecodeError:
      record = _decoder.decode(surrogates.mend(line))
  except (ValueError, RecursionError) as error:  # msgspec's is a ValueError
    raise DataError(f'This line is no episode: {error}') from error
  # As they are, they would keep the whole line in memory.
  for name in _ARRAYS:
    parts = [getattr(segment, name) for segment in record.segments]
    whole = _join(parts) if parts else getattr(record, name).copy()
    setattr(record, name, whole)
  record.num_segments = max(len(record.segments), 1)
  record.segments = ()
  return record


def _join(arrays: Sequence[msgspec.Raw]) -> msgspec.Raw:
  """JSON arrays one after the other, as one."""
  inner = (bytes(array).strip()[1:-1].strip() for array in arrays)
  return msgspec.Raw(b'[' + b','.join(filter(None, inner)) + b']')


def long_text(text: str, limit: int) -> dict[str, Any]:
  """The beginning of a text and the number of its characters.

  Pages show `text`, and where it has fewer than `chars` offer the rest, which
  `/api/text` has.
  """
  return {'text': text[:limit], 'chars': len(text)}


class Reader:
  """Reads episodes and keeps the last ones, up to a size. Thread-safe."""

  def __init__(self, most_bytes: int = 2**26):
    """Begins with none; the last one is kept whatever its size."""
    self._most_bytes = most_bytes
    self._kept: collections.OrderedDict[tuple, Record] = (
        collections.OrderedDict()
    )
    self._lock = threading.Lock()

  def read(self, path: pathlib.Path, offset: int, length: int) -> Record:
    """The episode in these bytes of a file.

    Raises:
      DataError: it cannot be read, or is no episode.
    """
    try:
      stat = path.stat()
    except OSError as error:
      raise DataError(f'Cannot read {path.name}: {error.strerror}.') from error
    key = (path, stat.st_ino, stat.st_mtime_ns, offset, length)
    # One at a time: a second reader of the same episode waits for the first.
    with self._lock:
      if key in self._kept:
        self._kept.move_to_end(key)
        return self._kept[key]
      record = decode(files.read_line(path, offset, length))
      self._kept[key] = record
      while len(self._kept) > 1 and self._size() > self._most_bytes:
        self._kept.popitem(last=False)
      return record

  def _size(self) -> int:
    return sum(key[-1] for key in self._kept)
