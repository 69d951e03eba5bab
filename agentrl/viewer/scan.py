"""The columns of the index, read from files of episodes.

As a program it does so for `readers`: jobs come as lines of JSON on standard input,
each answered by a piece in MessagePack after its length; it ends with its input.
Imports little, so that it starts at once.
"""

import os
import pathlib
import re
import sys
import zlib
from typing import Any, BinaryIO

import msgspec

from agentrl.evaluation.workdirs import files
from agentrl.http import surrogates
from agentrl.types import ACT


class Job(msgspec.Struct, frozen=True):
  """A file, and what is known of it.

  Attributes:
    path: of the file.
    read: bytes that were read before, up to the end of a line.
    lines: line ends in them.
    checksum: of the last bytes before `read`.
  """

  path: str
  read: int = 0
  lines: int = 0
  checksum: int = 0


class Piece(msgspec.Struct, array_like=True):
  """Some lines of a file.

  Attributes:
    rows: values of `COLUMNS`, one list an episode.
    words: the different words of each of these episodes.
    broken: lines that are no episodes.
    job: with these lines. None: there is no such file (any more).
    again: it is another file than before: what was read of that one is void.
    more: there is more to read.
    changed: time of its last change, in nanoseconds.
    size: of the file, in bytes.
    problem: why it cannot be read; empty where it can.
  """

  rows: list[list[Any]] = []
  words: list[str] = []
  broken: int = 0
  job: Job | None = None
  again: bool = False
  more: bool = False
  changed: int = 0
  size: int = 0
  problem: str = ''


class _Message(msgspec.Struct):
  content: str


class _Turn(msgspec.Struct):
  action: str
  observation: str
  reward: float
  parse_error: str | None = None
  completion_tokens: int | None = None
  weight_version: str = ''
  kind: str = ACT


class _Line(msgspec.Struct, rename={'episode_return': 'return'}):
  episode_id: str
  env: str
  task_id: int
  split: str
  stop_reason: str
  success: bool
  turns: list[_Turn]
  prompt: list[_Message] = []
  episode_return: float | None = None
  policy_version: int = 0
  horizon: int = 0
  seed: int = 0
  sample: int = 0
  attempt: int = 0
  error: str | None = None


# Columns of an episode that follow from its line, in this order.
COLUMNS = {
    'line': 'INTEGER NOT NULL',  # in its file, from 0
    'offset': 'INTEGER NOT NULL',  # bytes before it
    'length': 'INTEGER NOT NULL',  # bytes, without the line end
    'task': 'INTEGER NOT NULL',
    'sample': 'INTEGER NOT NULL',
    'attempt': 'INTEGER NOT NULL',
    'return': 'REAL NOT NULL',
    'success': 'INTEGER NOT NULL',
    'turns': 'INTEGER NOT NULL',  # that the horizon counts
    'tokens': 'INTEGER',  # sampled; NULL: an endpoint did not report them
    'parse_errors': 'INTEGER NOT NULL',  # turns without an action
    # Turns with an action that the same observation was answered with before.
    'repeated': 'INTEGER NOT NULL',
    'first_reward': 'INTEGER',  # turn of the first reward, from 1; NULL: none
    'horizon': 'INTEGER NOT NULL',
    'version': 'INTEGER NOT NULL',  # of the policy, when the episode began
    'stop_reason': 'TEXT NOT NULL',
    'env': 'TEXT NOT NULL',
    'split': 'TEXT NOT NULL',  # of the tasks: train, dev or test
    'seed': 'INTEGER NOT NULL',
    'episode_id': 'TEXT NOT NULL',
    'weights': 'TEXT NOT NULL',  # versions that sampled it, in order
    'error': 'TEXT',
}
ENV, TASK = list(COLUMNS).index('env'), list(COLUMNS).index('task')

_PIECE_BYTES = 2**22  # of lines, after which a piece ends
_MOST_LINE = 2**28  # bytes; a longer line counts as broken
_CHECKED_BYTES = 256  # before the end of what was read, to know it again
_SEARCHED_CHARS = 50_000  # of a text; words beyond are not found by a search
_decoder = msgspec.json.Decoder(_Line)
# Where `data.episodes` begins the token arrays: the last keys of a line, half of
# its bytes, and of no use here. Within a string the quotes would be escaped.
_ARRAYS = b', "tokens": ['
_ARRAY_KEYS = 3


def read(job: Job) -> Piece:
  """The next lines of a file; a last line that is incomplete waits."""
  try:
    with open(job.path, 'rb') as file:
      return _read(file, job)
  except FileNotFoundError:
    return Piece()
  except OSError as error:
    return Piece(problem=error.strerror or str(error))


def _read(file: BinaryIO, job: Job) -> Piece:
  stat = os.fstat(file.fileno())
  piece = Piece(changed=stat.st_mtime_ns, size=stat.st_size)
  offset, line = job.read, job.lines
  if offset and _checksum(file, offset) != job.checksum:
    piece.again, offset, line = True, 0, 0
  end = offset + _PIECE_BYTES
  file.seek(offset)
  for text, size, complete in files.lines(file, _MOST_LINE):
    if text.strip():
      entry = of_line(text, offset, line)
      if entry is not None:
        piece.rows.append(entry[0])
        piece.words.append(entry[1])
      elif complete:
        piece.broken += 1
      else:
        break
    offset, line = offset + size, line + complete
    if offset >= end:
      piece.more = offset < stat.st_size
      break
  piece.job = Job(job.path, offset, line, _checksum(file, offset))
  return piece


def _checksum(file: BinaryIO, end: int) -> int:
  """CRC-32 of the last _CHECKED_BYTES before `end`."""
  file.seek(max(end - _CHECKED_BYTES, 0))
  return zlib.crc32(file.read(min(end, _CHECKED_BYTES)))


def of_line(
    text: bytes, offset: int, line: int
) -> tuple[list[Any], str] | None:
  """The columns and the words of a line; None if it is no episode."""
  episode = _decode(text)
  if episode is None:
    return None
  total, acts, errors, repeated = 0.0, 0, 0, 0
  tokens: int | None = 0
  first: int | None = None
  answered: set[tuple[str, str]] = set()
  versions: dict[str, None] = {}
  words: set[str] = set()
  seen = ''
  for message in episode.prompt:
    seen = message.content
    words.update(seen[:_SEARCHED_CHARS].split())
  for number, turn in enumerate(episode.turns):
    total += turn.reward
    if turn.completion_tokens is None:
      tokens = None
    elif tokens is not None:
      tokens += turn.completion_tokens
    errors += turn.parse_error is not None
    if first is None and turn.reward > 0:
      first = number + 1
    versions[turn.weight_version] = None
    words.update(turn.action[:_SEARCHED_CHARS].split())
    words.update(turn.observation[:_SEARCHED_CHARS].split())
    if turn.kind != ACT:
      continue
    acts += 1
    answer = seen, turn.action
    repeated += answer in answered
    answered.add(answer)
    seen = turn.observation
  if episode.episode_return is not None:
    total = episode.episode_return
  row = [
      line,
      offset,
      len(text.rstrip(b'\r\n')),
      episode.task_id,
      episode.sample,
      episode.attempt,
      total,
      episode.success,
      acts,
      tokens,
      errors,
      repeated,
      first,
      episode.horizon,
      episode.policy_version,
      episode.stop_reason,
      episode.env,
      episode.split,
      episode.seed,
      episode.episode_id,
      ' '.join(versions),
      episode.error,
  ]
  return row, ' '.join(words)


def _decode(text: bytes) -> _Line | None:
  end = text.rfind(_ARRAYS)
  whole = text.rstrip().endswith(b'}')  # not torn within the arrays
  if end >= 0 and whole and text.count(b'":', end) <= _ARRAY_KEYS:
    try:
      return _decoder.decode(text[:end] + b'}')
    except (ValueError, RecursionError):  # another order of the keys
      pass
  for line in (text, surrogates.mend(text)):
    try:
      return _decoder.decode(line)
    except (ValueError, RecursionError):  # msgspec's is a ValueError
      pass
  return None


_STEP = re.compile(r'(\d+)(-.+)?')  # a mixture has a file for each member


def place(file: str) -> tuple[str, int | None, str]:
  """Origin, step and policy of a file by its path in the run.

  The origin is 'train', 'eval', 'warmstart', 'diverged' or the folder's name;
  the policy is named where an evaluation has several, and '' elsewhere.
  """
  path = pathlib.PurePosixPath(file)
  parts = [part for part in path.parts[:-1] if part != 'episodes']
  match = _STEP.fullmatch(path.stem)
  step = int(match[1]) if match else None
  origin = parts[0] if parts else path.stem
  policy = parts[1] if len(parts) > 1 else ''
  return origin, step, policy


def main() -> None:
  """Answers jobs until standard input ends."""
  decoder, encoder = msgspec.json.Decoder(Job), msgspec.msgpack.Encoder()
  output = sys.stdout.buffer
  for text in sys.stdin.buffer:
    answer = encoder.encode(read(decoder.decode(text)))
    output.write(len(answer).to_bytes(8, 'big'))
    output.write(answer)
    output.flush()


if __name__ == '__main__':
  main()
