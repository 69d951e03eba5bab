"""Files of levels: in the user's cache for all runs, and in a run's workdir."""

import os
import pathlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from absl import logging

from agentrl import files
from agentrl.errors import EnvError
from agentrl.evaluation.chance.level import (
    KINDS,
    Level,
    Outcome,
    places,
    summarise,
)
from agentrl.runtime import cache

FILE = 'chance.json'  # of a workdir
_CACHE = 'chance'
_FORMAT = 1
_MOST = 2**26  # bytes that are read of a file


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
  """Outcomes of a level as far as they are played, in the user's cache."""

  key: str
  outcomes: tuple[Outcome, ...]
  format: int = _FORMAT


class _Summaries(msgspec.Struct, frozen=True, kw_only=True):
  """The figures of a run's levels by `level.entry_of`, without the episodes."""

  summaries: dict[str, dict[str, Any] | None]
  format: int = _FORMAT


class _Levels(_Summaries, frozen=True, kw_only=True):
  """The levels of a run, by `level.entry_of`."""

  levels: dict[str, Level]


S = TypeVar('S', bound=_Summaries)


def folder() -> pathlib.Path | None:
  """The folder of levels in the user's cache; None: no such folder is known."""
  try:
    return cache.root(_CACHE)
  except EnvError:
    return None


def path_of(folder: pathlib.Path, panel_hash: str, key: str) -> pathlib.Path:
  """The file of a level in a folder of levels.

  Args:
    folder: of levels.
    panel_hash: of its panel.
    key: of the level.
  """
  return folder / panel_hash / f'{key}.json'


def read(
    path: pathlib.Path, key: str, wanted: Collection[tuple[int, int, int]]
) -> tuple[Outcome, ...]:
  """Outcomes that were played before; none where the file cannot be used.

  Args:
    path: of the file, by `path_of`.
    key: of the level.
    wanted: places of the panel; a file with others is not used.
  """
  try:
    kept = msgspec.json.decode(_data(path), type=_Kept)
  except FileNotFoundError:
    return ()
  except (OSError, ValueError, RecursionError) as error:
    logging.warning('%s cannot be read and is played again: %s', path, error)
    return ()
  places = [outcome.key for outcome in kept.outcomes]
  if (kept.format, kept.key) != (_FORMAT, key):
    return ()
  if len(set(places)) < len(places) or not set(places) <= set(wanted):
    logging.warning('%s has other episodes and is played again.', path)
    return ()
  return kept.outcomes


def write(path: pathlib.Path, key: str, outcomes: Iterable[Outcome]) -> None:
  """Keeps outcomes, whole or not at all; a full disk is only logged.

  Args:
    path: of the file, by `path_of`.
    key: of the level.
    outcomes: so far.
  """
  _replace(path, _Kept(key=key, outcomes=tuple(outcomes)), parents=True)


def read_levels(directory: pathlib.Path) -> dict[str, Level]:
  """The levels that a run has kept, by entry; none where the file is damaged."""
  found = _read(directory, _Levels)
  levels = found.levels if found else {}
  return levels if all(_fits(*item) for item in levels.items()) else {}


def read_summaries(
    directory: pathlib.Path,
) -> dict[str, dict[str, Any] | None]:
  """The figures of these levels, as `level.summarise` has them; see there."""
  found = _read(directory, _Summaries)
  return found.summaries if found else {}


def write_levels(directory: pathlib.Path, levels: Mapping[str, Level]) -> None:
  """Keeps the levels of a run beside its records, as `write` does."""
  content = _Levels(
      levels=dict(levels),
      # Lists of thousands of runs show these.
      summaries={name: summarise(level) for name, level in levels.items()},
  )
  _replace(directory / FILE, content, parents=False)


def _read(directory: pathlib.Path, kind: type[S]) -> S | None:
  try:
    found = msgspec.json.decode(_data(directory / FILE), type=kind)
  except (OSError, ValueError, RecursionError):
    return None
  return found if found.format == _FORMAT else None


def _fits(name: str, level: Level) -> bool:
  """True if a level has the episodes of its panel, and stands in its place."""
  panel = level.panel
  lengths = {
      len(panel.task_ids),
      len(panel.subtasks),
      len(panel.subtasks if panel.clusters is None else panel.clusters),
  }
  keys = [outcome.key for outcome in level.outcomes]
  return (
      len(lengths) == 1
      and level.kind in KINDS
      and name.partition('/')[0] == level.kind
      and (not keys or sorted(keys) == sorted(places(panel)))
  )


def _data(path: pathlib.Path) -> bytes:
  """The content of a file.

  Raises:
    OSError: it cannot be read.
    ValueError: it is too large to be one of ours.
  """
  with path.open('rb') as file:
    data = file.read(_MOST + 1)
  if len(data) > _MOST:
    raise ValueError(f'It has more than {_MOST} bytes.')
  return data


def _replace(
    path: pathlib.Path, content: msgspec.Struct, *, parents: bool
) -> None:
  # A name of its own: runs of several seeds write one level at a time.
  data = msgspec.json.encode(content) + b'\n'
  try:
    if parents:
      path.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(path, data, own=str(os.getpid()))
  except OSError as error:
    logging.warning('%s cannot be written: %s', path, error)
