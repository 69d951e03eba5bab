"""Runs and their episode files below a folder."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

# Folders of a run that hold no episodes and no other run.
_SKIPPED = {'checkpoints', 'tokenizer', 'tensorboard', 'export'}
_MARKS = ('config.json', 'metrics.jsonl', 'evaluation.json', 'comparison.json')
_WHERE_EPISODES_ARE = ('episodes', 'diverged')
# What pages show of a run besides its episodes.
_FOLLOWED = (
    'lock', 'metrics.jsonl', 'warmstart.jsonl', 'summary.json',
    'evaluation.json', 'comparison.json',
)  # fmt: skip


def walk(
    root: pathlib.Path,
) -> Iterator[tuple[str, dict[str, os.stat_result]]]:
  """Runs below a folder, each with its episode files by path in the run.

  Symbolic links and hidden folders are not followed.
  """
  waiting = [root]
  while waiting:
    folder = waiting.pop()
    entries = _entries(folder)
    inner = [name for name, entry in entries.items() if _is_folder(entry)]
    holds = [name for name in _WHERE_EPISODES_ARE if name in inner]
    if holds or any(name in entries for name in _MARKS):
      files = {}
      for name in holds:
        for path, entry in _jsonl(folder / name):
          with contextlib.suppress(OSError):
            files[path.relative_to(folder).as_posix()] = entry.stat()
      yield folder.relative_to(root).as_posix(), files
      inner = [name for name in inner if name not in _SKIPPED]
    waiting += [folder / name for name in inner if name not in holds]


def stamp(run: pathlib.Path) -> tuple[Any, ...]:
  """A value that changes when a run has written something besides episodes."""
  stamps = []
  for name in _FOLLOWED:
    with contextlib.suppress(OSError):
      stat = (run / name).stat()
      stamps.append((name, stat.st_mtime_ns, stat.st_size))
  return tuple(stamps)


def _jsonl(
    folder: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, os.DirEntry[str]]]:
  for name, entry in sorted(_entries(folder).items()):
    if _is_folder(entry):
      yield from _jsonl(folder / name)
    elif name.endswith('.jsonl') and not entry.is_symlink():
      yield folder / name, entry


def _entries(folder: pathlib.Path) -> dict[str, os.DirEntry[str]]:
  try:
    with os.scandir(folder) as entries:
      return {x.name: x for x in entries if not x.name.startswith('.')}
  except OSError:  # gone, or not ours to read
    return {}


def _is_folder(entry: os.DirEntry[str]) -> bool:
  return entry.is_dir(follow_symlinks=False)
