"""A run with servers of its own, watched from outside: processes and records."""

import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psutil

from agentrl.runtime import summary, supervisor

ROOT = pathlib.Path(__file__).parents[2]
_SHM = pathlib.Path('/dev/shm')
# Float32 on both sides; measured 1.4e-7 to 1.7e-7 for this policy.
LOGPROB_BOUND = 1e-5


class Server:
  """The processes of one server of a run; which they are is read once."""

  def __init__(self, main: psutil.Process):
    command = main.cmdline()
    self.main = main
    self.url = f'http://127.0.0.1:{command[command.index("--port") + 1]}'
    self.model = pathlib.Path(command[command.index('--model-path') + 1])

  def child(self, title: str) -> psutil.Process | None:
    """The process that calls itself so; None before there is one."""
    with contextlib.suppress(psutil.NoSuchProcess):
      for process in self.main.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
          if process.cmdline()[:1] == [title]:
            return process
    return None


class Run:
  """The command of a run, started as often as it takes.

  Attributes:
    directory: its workdir.
    process: of the last start.
    groups: process groups that servers of any start had.
    folders: where weights were pushed to.
    discards: most lines of metrics that the kills so far may have cost.
  """

  def __init__(self, directory: pathlib.Path, flags: Sequence[str]):
    """Starts nothing; what the run says goes to a file beside its workdir."""
    self.directory = directory
    self.log = directory.with_name(f'{directory.name}.log')
    self.groups: set[int] = set()
    self.folders: set[pathlib.Path] = set()
    self.process: subprocess.Popen | None = None
    self._flags = tuple(flags)
    self._shared: set[int] = set()

  def start(self, *flags: str) -> None:
    """Starts the command, or the same with more or other flags."""
    given = {flag.partition('=')[0]: flag for flag in (*self._flags, *flags)}
    with self.log.open('ab') as log:
      self.process = subprocess.Popen(
          [
              sys.executable,
              str(ROOT / 'launch.py'),
              f'--workdir={self.directory}',
              *given.values(),
          ],
          cwd=ROOT,
          stdout=log,
          stderr=subprocess.STDOUT,
          start_new_session=True,
      )

  def servers(self) -> list[Server]:
    """Those that run now; remembers what they use."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
      for child in psutil.Process(self.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess, ValueError, IndexError):
          if supervisor.__file__ in child.cmdline():
            [main] = child.children()
            found.append(Server(main))
    for server in found:
      self.groups.add(server.main.pid)
      self.folders.add(server.model.parent)
      self._shared |= supervisor.shared_memory(server.main.pid)
    return found

  def steps(self) -> int:
    """Lines of metrics so far."""
    path = self.directory / 'metrics.jsonl'
    return path.read_bytes().count(b'\n') if path.exists() else 0

  def last_words(self) -> str:
    return self.log.read_text(errors='replace')[-1500:]

  def end(self) -> None:
    """Ends what still runs; for a test that failed."""
    if self.process is not None and self.process.poll() is None:
      self.process.kill()
      self.process.wait()

  def remains(self) -> list[str]:
    """Processes and memory that servers of this run left behind."""
    texts = [str(self.directory), *map(str, self.folders)]
    found = []
    for process in psutil.process_iter():
      with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        command = ' '.join(process.cmdline())
        ours = any(text in command for text in texts)
        if process.pid == psutil.Process().pid:
          continue
        if ours or _group(process.pid) in self.groups:
          found.append(f'process {process.pid}: {command[:200]}')
    with contextlib.suppress(FileNotFoundError):
      found += [
          f'shared memory: {path}'
          for path in _SHM.iterdir()
          if path.lstat().st_ino in self._shared and path.is_file()
      ]
    found += [
        f'weights: {path}'
        for path in self.folders
        if path.is_relative_to(_SHM) and path.exists()
    ]
    return found

  def await_end(self, seconds: float) -> list[str]:
    """`remains`, once they are none or so many seconds have passed."""
    deadline = time.monotonic() + seconds
    while found := self.remains():
      if time.monotonic() > deadline:
        break
      time.sleep(0.2)
    return found


def _group(pid: int) -> int | None:
  with contextlib.suppress(ProcessLookupError):
    return os.getpgid(pid)
  return None


def lines(path: pathlib.Path) -> list[dict[str, Any]]:
  return [json.loads(line) for line in path.read_text().splitlines()]


def problems_of_record(
    directory: pathlib.Path, *, steps: int, episodes: int, discards: int
) -> Iterator[str]:
  """What is wrong with the files of a run that ended.

  Args:
    directory: its workdir.
    steps: that it should have made.
    episodes: of each step.
    discards: most steps that its kills can have cost.
  """
  metrics = lines(directory / 'metrics.jsonl')
  found = [line['step'] for line in metrics]
  if found != list(range(steps)):
    yield f'metrics.jsonl has steps {found}, not 0 to {steps - 1}'
  for line in metrics:
    off, stale = (
        line[f'sampler/{k}'] for k in ('logprob_abs_diff_mean', 'stale_turns')
    )
    if not off < LOGPROB_BOUND or stale:
      yield f'step {line["step"]}: log-probabilities off by {off}, {stale=}'
  folder = directory / 'episodes' / 'train'
  for kind in ('jsonl', 'npz'):
    names = sorted(path.name for path in folder.glob(f'*.{kind}'))
    if names != [f'{step:06d}.{kind}' for step in range(steps)]:
      yield f'{folder} has {names}'
  seen = collections.Counter()
  for path in sorted(folder.glob('*.jsonl')):
    played = lines(path)
    seen.update((path.stem, episode['episode_id']) for episode in played)
    if len(played) != episodes:
      yield f'{path.name} has {len(played)} episodes, not {episodes}'
  yield from (f'{key} {n} times' for key, n in seen.items() if n > 1)
  again = directory / 'metrics.jsonl.discarded'
  if again.exists():
    lost = again.read_text().splitlines()
    if len(lost) > discards:
      yield f'{len(lost)} steps were done again, for at most {discards}'
  found = summary.read(directory)
  if not found:
    yield f'there is no {summary.FILE}'
  elif not summary.finished(found) or found['steps'] != steps:
    yield (
        f'{summary.FILE} tells of {found["steps"]} steps, and of a run that is'
        f' {found.get("status", summary.FINISHED)}'
    )
