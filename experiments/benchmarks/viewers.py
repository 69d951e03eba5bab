"""A viewer in a process of its own, and requests to it, for benchmarks."""

import contextlib
import json
import pathlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator


@contextlib.contextmanager
def server(root: pathlib.Path) -> Iterator[tuple[subprocess.Popen, str]]:
  """The viewer of a folder: its process and its address."""
  command = ['launch.py', '--config=configs/view.py:port=0']
  process = subprocess.Popen(
      [sys.executable, *command, f'--workdir={root}'],
      stdout=subprocess.PIPE,
      text=True,
  )
  try:
    yield process, process.stdout.readline().split()[-1]
  finally:
    process.terminate()
    process.wait()
    process.stdout.close()


def ask(url: str) -> bytes:
  """The body of an answer."""
  with urllib.request.urlopen(url, timeout=300) as response:
    return response.read()


def say(case: str, **values) -> None:
  """Prints one JSON line."""
  shown = {
      k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()
  }
  print(json.dumps({'case': case, **shown}), flush=True)
