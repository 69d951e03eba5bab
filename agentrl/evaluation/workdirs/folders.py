"""Runs and their episode files below a folder."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

# Folders of a run that hold no episodes and no other run.
_SKIPPED = {'checkpoints', 'tokenizer', 'tensorboard', 'export'}
_MARKS = ('config.json', 'metrics.jsonl', 'evaluation.json', 'comparison.json')
_WHERE_EPISODES_ARE = ('episodes', 'diverged')
# What pages show of a run besides its episodes.
_FOLLOWED = (
    'config.json', 'lock', 'metrics.jsonl', 'warmstart.jsonl', 'summary.json',
    'chance.json', 'evaluation.json', 'comparison.json',
)  # fmt: skip


def walk(
    root: pathlib.Path,
) -> Iterator[tuple[str, dict[str, os.stat_result]]]:
  """Runs below a folder, each with its episode files by path in the run.

  Symbolic links and hidden folders are not followed.
  """
  # Texts, not paths: thousands of runs are looked at every second.
  waiting = [('', os.fspath(root))]
  while waiting:
    run, folder = waiting.pop()
    entries = _entries(folder)
    inner = [name for name, entry in entries.items() if _is_folder(entry)]
    holds = [name for name in _WHERE_EPISODES_ARE if name in inner]
    if holds or any(name in entries for name in _MARKS):
      files = {}
      for name in holds:
        for path, entry in _jsonl(f'{folder}/{name}', name):
          with contextlib.suppress(OSError):
            files[path] = entry.stat()
      yield run or '.', files
      inner = [name for name in inner if name not in _SKIPPED]
    waiting += [
        (f'{run}/{name}' if run else name, f'{folder}/{name}')
        for name in inner
        if name not in holds
    ]


def stamp(run: pathlib.Path) -> tuple[Any, ...]:
  """A value that changes when a run has written something besides episodes."""
  return stamp_of(run, _FOLLOWED)


def stamp_of(folder: pathlib.Path, names: Iterable[str]) -> tuple[Any, ...]:
  """A value that changes when one of these files or folders does."""
  stamps, prefix = [], f'{folder}{os.sep}'  # quicker than paths, for thousands
  for name in names:
    try:
      stat = os.stat(prefix + name)
    except OSError:
      continue
    stamps.append((name, stat.st_mtime_ns, stat.st_size))
  return tuple(stamps)


def _jsonl(folder: str, name: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
  """Files of episodes below a folder, by their paths from where `name` is."""
  for inner, entry in sorted(_entries(folder).items()):
    if _is_folder(entry):
      yield from _jsonl(f'{folder}/{inner}', f'{name}/{inner}')
    elif inner.endswith('.jsonl') and not entry.is_symlink():
      yield f'{name}/{inner}', entry


def _entries(folder: str) -> dict[str, os.DirEntry[str]]:
  try:
    with os.scandir(folder) as entries:
      return {x.name: x for x in entries if not x.name.startswith('.')}
  except OSError:  # gone, or not ours to read
    return {}


def _is_folder(entry: os.DirEntry[str]) -> bool:
  return entry.is_dir(follow_symlinks=False)
