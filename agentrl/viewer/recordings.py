"""Evaluations with the outcomes of their episodes, read once and kept."""

import functools
import pathlib
from typing import Any

from agentrl.evaluation import results
from agentrl.evaluation.compare.recorded import Recorded
from agentrl.evaluation.workdirs import files, panels


def load(root: pathlib.Path, spec: str) -> Recorded:
  """The evaluation `RUN:NAME`, as its files are now.

  Raises:
    AgentrlError: there is none, or it is damaged.
  """
  return _read(root, spec, stamp(root, spec))


@functools.lru_cache(256)
def _read(root: pathlib.Path, spec: str, stamp: tuple[Any, ...]) -> Recorded:
  del stamp  # another one where its files have changed
  return panels.read(root, spec)


def stamp(root: pathlib.Path, spec: str) -> tuple[Any, ...]:
  """Changes when the files of an evaluation do."""
  run, _, name = spec.rpartition(':')
  folder = files.run_folder(root, run)
  paths = (
      folder / results.FILE,
      folder / 'config.json',
      folder / 'episodes' / f'{name}.jsonl',
  )
  stats = [path.stat() for path in paths if path.is_file()]
  return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)
