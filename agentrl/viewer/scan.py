"""What the index keeps of an episode, read from its line."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec


class _Message(msgspec.Struct):
  content: str


class _Turn(msgspec.Struct):
  action: str
  observation: str
  reward: float
  parse_error: str | None = None
  completion_tokens: int | None = None
  weight_version: str = ''


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
  error: str | None = None


_decoder = msgspec.json.Decoder(_Line)

# Columns of an episode that follow from its line, in this order.
COLUMNS = {
    'line': 'INTEGER NOT NULL',  # in its file, from 0
    'offset': 'INTEGER NOT NULL',  # bytes before it
    'length': 'INTEGER NOT NULL',  # bytes, without the line end
    'episode_id': 'TEXT NOT NULL',
    'env': 'TEXT NOT NULL',
    'task': 'INTEGER NOT NULL',
    'sample': 'INTEGER NOT NULL',
    'seed': 'INTEGER NOT NULL',
    'split': 'TEXT NOT NULL',  # of the tasks: train, dev or test
    'return': 'REAL NOT NULL',
    'success': 'INTEGER NOT NULL',
    'stop_reason': 'TEXT NOT NULL',
    'turns': 'INTEGER NOT NULL',
    'tokens': 'INTEGER',  # sampled; NULL: an endpoint did not report them
    'parse_errors': 'INTEGER NOT NULL',  # turns without an action
    # Turns with an action that the same observation was answered with before.
    'repeated': 'INTEGER NOT NULL',
    'first_reward': 'INTEGER',  # turn of the first reward, from 0; NULL: none
    'horizon': 'INTEGER NOT NULL',
    'version': 'INTEGER NOT NULL',  # of the policy, when the episode began
    'weights': 'TEXT NOT NULL',  # versions that sampled it, in order
    'error': 'TEXT',
}


def rows(
    path: pathlib.Path, offset: int, line: int
) -> Iterator[tuple[int, int, tuple[Any, ...] | None]]:
  """Lines of an episode file from a line's beginning on.

  A last line that is incomplete is left for later.

  Args:
    path: of the file.
    offset: bytes before the first line that is read.
    line: its number.

  Yields:
    Bytes and lines up to the end of this line, and its columns; None for a
    line that is blank or no episode.
  """
  with path.open('rb') as file:
    file.seek(offset)
    for text in file:
      row = None
      if text.strip():
        row = of_line(text.rstrip(b'\r\n'), offset, line)
      if not text.endswith(b'\n'):
        if row is not None:
          yield offset + len(text), line, row
        return
      offset, line = offset + len(text), line + 1
      yield offset, line, row


def of_line(text: bytes, offset: int, line: int) -> tuple[Any, ...] | None:
  """The columns of a line; None if it is no episode."""
  try:
    found = _decoder.decode(text)
  except (ValueError, RecursionError):  # msgspec's is a ValueError
    return None
  turns = found.turns
  total, tokens, errors, repeated, first = 0.0, 0, 0, 0, None
  answered = set()
  seen = found.prompt[-1].content if found.prompt else ''
  versions: dict[str, None] = {}
  for number, turn in enumerate(turns):
    total += turn.reward
    if tokens is not None:
      count = turn.completion_tokens
      tokens = None if count is None else tokens + count
    errors += turn.parse_error is not None
    if first is None and turn.reward > 0:
      first = number
    answer = hash((seen, turn.action))
    repeated += answer in answered
    answered.add(answer)
    seen = turn.observation
    versions[turn.weight_version] = None
  if found.episode_return is not None:
    total = found.episode_return
  return (
      line,
      offset,
      len(text),
      found.episode_id,
      found.env,
      found.task_id,
      found.sample,
      found.seed,
      found.split,
      total,
      found.success,
      found.stop_reason,
      len(turns),
      tokens,
      errors,
      repeated,
      first,
      found.horizon,
      found.policy_version,
      ' '.join(versions),
      found.error,
  )


_STEP = re.compile(r'\d+')


def place(file: str) -> tuple[str, int | None, str]:
  """Origin, step and policy of a file by its path in the run.

  The origin is 'train', 'eval', 'warmstart', 'diverged' or the folder's name;
  the policy is named where an evaluation has several, and '' elsewhere.
  """
  path = pathlib.PurePosixPath(file)
  parts = [part for part in path.parts[:-1] if part != 'episodes']
  step = int(path.stem) if _STEP.fullmatch(path.stem) else None
  origin = parts[0] if parts else path.stem
  policy = parts[1] if len(parts) > 1 else ''
  return origin, step, policy
