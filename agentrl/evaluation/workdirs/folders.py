"""Runs and their episode files below a folder, and exported policies."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from agentrl.runtime import workdir

_MARKS = ('config.json', 'metrics.jsonl', 'evaluation.json', 'comparison.json')
_WHERE_EPISODES_ARE = ('episodes', 'diverged')
# Folders of a run that hold no other run.
_SKIPPED = {
    'checkpoints', 'tokenizer', 'tensorboard', 'export', *_WHERE_EPISODES_ARE,
}  # fmt: skip
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
  for run, folder, entries, is_run in _visit(root):
    if not is_run:
      continue
    files = {}
    for name in _holds(entries):
      for path, entry in _jsonl(f'{folder}/{name}', name):
        with contextlib.suppress(OSError):
          files[path] = entry.stat()
    yield run, files


def exported(root: pathlib.Path) -> Iterator[str]:
  """Exported policies below a folder, by path; those inside of runs are not."""
  for name, _, entries, _ in _visit(root):
    if workdir.EXPORTED in entries:
      yield name


def _visit(
    root: pathlib.Path,
) -> Iterator[tuple[str, str, dict[str, os.DirEntry[str]], bool]]:
  """Folders below a folder, but those that a run keeps its own things in.

  Yields:
    The path below it, the whole path, the entries, and True for a run's folder.
  """
  # Texts, not paths: thousands of runs are looked at every second.
  waiting = [('', os.fspath(root))]
  while waiting:
    name, folder = waiting.pop()
    entries = _entries(folder)
    is_run = _is_run(entries)
    yield name or '.', folder, entries, is_run
    skipped = _SKIPPED if is_run else ()
    waiting += [
        (f'{name}/{x}' if name else x, f'{folder}/{x}')
        for x, entry in reversed(entries.items())
        if x not in skipped and _is_folder(entry)
    ]


def _is_run(entries: dict[str, os.DirEntry[str]]) -> bool:
  """True for a folder that a run, an evaluation or a comparison writes to."""
  if workdir.EXPORTED in entries:  # its config.json is that of a model
    return False
  return bool(_holds(entries)) or any(name in entries for name in _MARKS)


def _holds(entries: dict[str, os.DirEntry[str]]) -> list[str]:
  """Those of a run's folders that have episodes."""
  return [
      name
      for name in _WHERE_EPISODES_ARE
      if name in entries and _is_folder(entries[name])
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
  for inner, entry in _entries(folder).items():
    if _is_folder(entry):
      yield from _jsonl(f'{folder}/{inner}', f'{name}/{inner}')
    elif inner.endswith('.jsonl') and not entry.is_symlink():
      yield f'{name}/{inner}', entry


def _entries(folder: str) -> dict[str, os.DirEntry[str]]:
  try:
    with os.scandir(folder) as entries:
      found = {x.name: x for x in entries if not x.name.startswith('.')}
  except OSError:  # gone, or not ours to read
    return {}
  return dict(sorted(found.items()))


def _is_folder(entry: os.DirEntry[str]) -> bool:
  return entry.is_dir(follow_symlinks=False)
