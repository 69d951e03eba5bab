"""Each start of a run: its command, the versions that ran, and where.

A line of JSON a start, so that who reads a result knows what made it.
"""

import datetime
import functools
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from agentrl import shipped

FILE = 'starts.jsonl'
# Packages whose versions may change a result.
_PACKAGES = (
    'agentrl',
    'jax',
    'jaxlib',
    'flax',
    'optax',
    'orbax-checkpoint',
    'numpy',
    'tokenizers',
    'sglang',
    'transformers',
)
_GIT_S = 10.0


@functools.cache
def note(workdir: pathlib.Path) -> None:
  """Writes this process down in a workdir, at the first call."""
  line = json.dumps(_this(), ensure_ascii=False) + '\n'
  # One write: a reader sees the whole line or none.
  with open(workdir / FILE, 'ab', buffering=0) as file:
    file.write(line.encode('utf-8', 'backslashreplace'))


def read(workdir: pathlib.Path) -> list[dict[str, Any]]:
  """The starts of a run, in order; a torn line is left out.

  Of a run from before there was such a file, none.
  """
  try:
    lines = (workdir / FILE).read_bytes().splitlines()
  except OSError:
    return []
  found = []
  for line in lines:
    try:
      start = json.loads(line)
    except (ValueError, RecursionError):
      continue
    if isinstance(start, dict):
      found.append(start)
  return found


def _this() -> dict[str, Any]:
  now = datetime.datetime.now(datetime.UTC)
  return {
      'time': now.isoformat(timespec='seconds'),
      'command': command(),
      'commit': _commit(shipped.ROOT),
      'python': platform.python_version(),
      'platform': platform.platform(),
      'cpus': os.cpu_count(),
      'packages': dict(_versions(_PACKAGES)),
  }


def command() -> str:
  """The command of this process, as it would be typed."""
  return shlex.join([*_program(), *sys.argv[1:]])


def _program() -> list[str]:
  """The program of this process, as it would be typed."""
  spec = getattr(sys.modules.get('__main__'), '__spec__', None)
  if spec is not None:
    return ['python', '-m', spec.name]
  return ['python', sys.argv[0]]


def _versions(names: Iterable[str]) -> Iterable[tuple[str, str]]:
  for name in names:
    try:
      yield name, metadata.version(name)
    except metadata.PackageNotFoundError:
      continue


def _commit(root: pathlib.Path) -> str | None:
  """The commit of a clone, with '-dirty' where files were changed; else None."""
  if not (root / '.git').exists():  # a folder above may be another project
    return None
  try:
    done = subprocess.run(
        [
            'git',
            'describe',
            '--always',
            '--dirty',
            '--abbrev=12',
            '--exclude=*',
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=_GIT_S,
    )
  except (OSError, subprocess.TimeoutExpired):
    return None
  return done.stdout.strip() or None
