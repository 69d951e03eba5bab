"""Episodes on disk: one JSON object a line, one file a step."""

import dataclasses
import itertools
import json
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from agentrl import json_files
from agentrl.errors import DataError
from agentrl.types import ACT, Episode, Message, Segment, Turn

# The lines, what was trained on, the pictures.
_OF_A_STEP = ('.jsonl', '.npz', '.zip')
_PLAIN_FIELDS = (
    'episode_id',
    'env',
    'task_id',
    'split',
    'seed',
    'policy_version',
    'horizon',
    'stop_reason',
    'success',
    'sample',
    'attempt',
)


_Ids = tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**31)], ...]
_Mask = tuple[Literal[0, 1] | bool, ...]


class _Segment(msgspec.Struct):
  tokens: _Ids
  completion_mask: _Mask
  sampler_logprobs: tuple[float, ...]


class _Line(msgspec.Struct):
  """A line of an episode file; what follows from the rest is not read."""

  episode_id: str
  env: str
  task_id: int
  split: str
  seed: int
  policy_version: int
  horizon: int
  stop_reason: str
  success: bool
  error: str | None
  prompt: tuple[Message, ...]
  turns: tuple[Turn, ...]
  tokens: _Ids = ()
  completion_mask: _Mask = ()
  sampler_logprobs: tuple[float, ...] = ()
  # In place of these three, where there are several.
  segments: tuple[_Segment, ...] = ()
  sample: int = 0
  attempt: int = 0
  data_version: int = 1  # older lines have none: all environments began at 1


def step_path(
    workdir: str | pathlib.Path, split: str, step: int
) -> pathlib.Path:
  """The file of a step's episodes: `episodes/train/000012.jsonl`."""
  return pathlib.Path(workdir) / 'episodes' / split / f'{step:06d}.jsonl'


def to_line(episode: Episode, *, tokens: bool = True) -> str:
  """Encodes an episode as one line of JSON, without the line end.

  Args:
    episode: the record.
    tokens: False leaves out the token arrays, most of a line's size.

  Raises:
    ValueError: a number is NaN or infinite, which JSON cannot say.
  """
  record: dict[str, Any] = {
      name: getattr(episode, name) for name in _PLAIN_FIELDS
  }
  if episode.data_version != 1:  # most, and need not say so
    record['data_version'] = episode.data_version
  record['terminated'] = episode.terminated
  record['return'] = episode.episode_return
  record['error'] = episode.error
  record['prompt'] = [dataclasses.asdict(message) for message in episode.prompt]
  record['turns'] = [_turn(turn) for turn in episode.turns]
  if tokens:
    parts = [_part(segment) for segment in episode.segments]
    record |= parts[0] if len(parts) == 1 else {'segments': parts}
  return json.dumps(record, allow_nan=False)


_USUAL = {
    'kind': ACT,
    'learn': True,
    'request': '',
    'env_reward': None,
    'spans': (),
    'began': None,
}


def _turn(turn: Turn) -> dict[str, Any]:
  record = dataclasses.asdict(turn)
  # Most are actions to learn from, and need not say so.
  for name, usual in _USUAL.items():
    if record[name] == usual:
      del record[name]
  return record


def _part(segment: Segment) -> dict[str, Any]:
  return {
      'tokens': segment.tokens,
      'completion_mask': [int(value) for value in segment.completion_mask],
      'sampler_logprobs': segment.sampler_logprobs,
  }


def from_line(line: str) -> Episode:
  """Decodes what `to_line` wrote; keys that it does not know are ignored.

  Raises:
    DataError: not such a line; says why.
  """
  try:
    record = json.loads(line)
  except (ValueError, RecursionError) as error:
    raise DataError(str(error)) from error
  return from_record(record)


def from_record(record: Any) -> Episode:
  """Decodes the JSON object of a line.

  Raises:
    DataError: it is not such an object, or contradicts itself; says why.
  """
  try:
    line = msgspec.convert(record, _Line)
    values = {field: getattr(line, field) for field in line.__struct_fields__}
    parts = values.pop('segments')
    if parts:
      values |= {
          name: tuple(
              itertools.chain.from_iterable(getattr(p, name) for p in parts)
          )
          for name in _Segment.__struct_fields__
      }
      lengths = (len(part.tokens) for part in parts[:-1])
      values['segment_starts'] = (0, *itertools.accumulate(lengths))
    values['completion_mask'] = tuple(map(bool, values['completion_mask']))
    episode = Episode(**values)
  except (ValueError, RecursionError) as error:  # msgspec's is a ValueError
    raise DataError(str(error)) from error
  sampled = [stop - start for start, stop in episode.sampled_runs]
  of_turns = [turn.completion_tokens for turn in episode.turns]
  if episode.tokens and sampled != of_turns:
    raise DataError(
        f'episode {episode.episode_id!r} contradicts itself: its mask has runs'
        f' of {_short(sampled)} tokens, its turns sampled {_short(of_turns)}'
    )
  return episode


def check_fields(record: dict[str, Any]) -> None:
  """Refuses a field that `from_record` would ignore and that may have a meaning.

  Raises:
    DataError: names it.
  """
  json_files.check_fields(
      record, (*_Line.__struct_fields__, 'terminated', 'return')
  )
  for field, kind in (('turns', Turn), ('prompt', Message)):
    items = record.get(field)
    for index, item in enumerate(items if isinstance(items, list) else ()):
      if isinstance(item, dict):
        json_files.check_fields(
            item,
            [x.name for x in dataclasses.fields(kind)],
            what=f'{field}[{index}]',
        )


def _short(values: Sequence[int | None]) -> str:
  shown = ', '.join(map(str, values[:8]))
  return f'[{shown}{", ..." if len(values) > 8 else ""}]'


def write(
    path: str | pathlib.Path,
    episodes: Iterable[Episode],
    *,
    tokens: bool = True,
) -> None:
  """Writes a whole file, or nothing: a reader never sees half of it.

  Pictures of episodes that have some are in a ZIP file of the same name, as
  `EPISODE_ID/TTT.png`; turn 0 is the reset.

  Args:
    path: the file; its directory is made, an old file is replaced.
    episodes: what to write.
    tokens: as in `to_line`.

  Raises:
    DataError: the file cannot be written.
  """
  path, episodes = pathlib.Path(path), list(episodes)
  part = path.with_name(path.name + '.part')
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with part.open('w', encoding='utf-8') as file:
      for episode in episodes:
        file.write(to_line(episode, tokens=tokens) + '\n')
    if any(episode.views for episode in episodes):
      _write_views(path.with_suffix('.zip'), episodes)
    os.replace(part, path)
  except OSError as error:
    raise DataError(f'Cannot write episodes to {path}: {error}') from error


def _write_views(path: pathlib.Path, episodes: Sequence[Episode]) -> None:
  part = path.with_name(path.name + '.part')
  with zipfile.ZipFile(part, 'w') as file:  # stored: a PNG is compressed
    for episode in episodes:
      for turn, png in enumerate(episode.views):
        file.writestr(f'{episode.episode_id}/{turn:03d}.png', png)
  os.replace(part, path)


def read_views(path: str | pathlib.Path, episode_id: str) -> tuple[bytes, ...]:
  """The pictures of an episode, by turn; () where its file has none beside it.

  Args:
    path: of the file of episodes, by `write`.
    episode_id: of the episode.

  Raises:
    OSError: they cannot be read.
    BadZipFile: their file is damaged.
  """
  archive = pathlib.Path(path).with_suffix('.zip')
  if not archive.exists():
    return ()
  with zipfile.ZipFile(archive) as file:
    names = [x for x in file.namelist() if x.startswith(f'{episode_id}/')]
    return tuple(file.read(name) for name in sorted(names))


def append(
    path: str | pathlib.Path, episode: Episode, *, tokens: bool = True
) -> None:
  """Adds one episode to a file, making the file where it is missing.

  Raises:
    DataError: the file cannot be written.
  """
  path = pathlib.Path(path)
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('a', encoding='utf-8') as file:
      file.write(to_line(episode, tokens=tokens) + '\n')
  except OSError as error:
    raise DataError(f'Cannot write episodes to {path}: {error}') from error


def read(
    path: str | pathlib.Path,
    *,
    on_broken: Callable[[DataError], None] | None = None,
) -> Iterator[Episode]:
  """Reads the episodes of a file, one at a time.

  Args:
    path: the file.
    on_broken: called for each line that cannot be used, which is then skipped;
      None raises instead. A caller that skips should count.

  Raises:
    DataError: the file cannot be read, or a line is broken; names the file,
      the line and the reason.
  """
  try:
    with open(path, encoding='utf-8', errors='replace') as file:
      for number, line in enumerate(file, start=1):
        if not line.strip():
          continue
        try:
          episode = from_line(line)
        except DataError as error:
          broken = DataError(f'{path}, line {number}: {error}')
          if on_broken is None:
            raise broken from error
          on_broken(broken)
        else:
          yield episode
  except OSError as error:
    raise DataError(f'Cannot read episodes from {path}: {error}') from error


def write_learned(path: pathlib.Path, **arrays: np.ndarray | None) -> None:
  """Writes what was trained on beside an episode file: `NNNNNN.npz`.

  Args:
    path: of the episode file.
    **arrays: `[B, ...]`, mostly `[B, T]`: row b is the file's episode b; None
      is left out.

  Raises:
    DataError: the file cannot be written.
  """
  path = path.with_suffix('.npz')
  # NumPy's annotations take every `**` for its option `allow_pickle`.
  columns: dict[str, Any] = {k: v for k, v in arrays.items() if v is not None}
  try:
    np.savez_compressed(path, **columns)
  except OSError as error:
    raise DataError(f'Cannot write {path}: {error}') from error


def drop_before(directory: str | pathlib.Path, step: int) -> int:
  """Removes the files of earlier steps than `step`; gives how many."""
  old = [
      path
      for path in pathlib.Path(directory).glob('*')
      if path.suffix in _OF_A_STEP
      and path.stem.isdecimal()
      and int(path.stem) < step
  ]
  for path in old:
    path.unlink()
  return len(old)


def discard_from(directory: str | pathlib.Path, step: int) -> int:
  """Sets aside the files of `step` and later, which a resumed run plays again.

  `.discarded` is added to their names.

  Returns:
    How many.
  """
  count = 0
  for path in sorted(pathlib.Path(directory).glob('*')):
    recorded = path.suffix in _OF_A_STEP and path.stem.isdecimal()
    if recorded and int(path.stem) >= step:
      os.replace(path, path.with_name(path.name + '.discarded'))
      count += 1
  return count
