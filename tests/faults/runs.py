"""A run in processes of its own, started as often as it takes and watched."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import psutil

from agentrl.runtime import supervisor
from tests.e2e import running
from tests.faults import scenarios
from tests.faults.clock import Clock
from tests.parallel import eight_devices
from tests.waiting import alive

INSIDE = pathlib.Path(__file__).parent / 'inside'
# Given to each run; none of its files may have one of them.
SECRETS = {
    'AGENTRL_SAMPLER_API_KEY': 'faults-secret-api',
    'AGENTRL_SAMPLER_ADMIN_KEY': 'faults-secret-admin',
    'HF_TOKEN': 'faults-secret-hub',
    'WANDB_API_KEY': 'faults-secret-tracker',
}
PHASES = (
    'warm start',
    'collection',
    'update',
    'push',
    'checkpoint',
    'evaluation',
)
# A line with the name of an error.
_NAMED = re.compile('[A-Z][A-Za-z]+(?<!Warning): ')
_PORT = 31100  # of the rendezvous of several processes
_READ_S = 5.0  # to read what a start that ended has written


class Mark(NamedTuple):
  phase: str
  begins: bool
  at: float  # when the harness has read it, by time.monotonic


class Ending(NamedTuple):
  """How a start of the command ended."""

  code: int
  last: str  # line that it wrote

  @property
  def named(self) -> bool:
    """Whether it ended well, when it was asked to, or by a name of ours."""
    return self.code in (0, 130) or (
        self.code == 2 and _NAMED.match(self.last) is not None
    )


class Run:
  """The command of a scenario, and all that its starts leave.

  Attributes:
    folder: of the trial; `run` in it is the workdir.
    clock: of its processes.
    began: when the last start was, by time.monotonic.
    boot: put before the command; for clocks of their own.
    processes: of the last start; the first one counts.
    log: what all starts have written.
  """

  def __init__(
      self, name: str, folder: pathlib.Path, clock: Clock, broken: str = ''
  ):
    """Starts nothing.

    Args:
      name: of its scenario.
      folder: of the trial.
      clock: of its processes.
      broken: of `sitecustomize.BROKEN`; '' for what is shipped.
    """
    self.name, self.folder, self.clock = name, folder, clock
    self.scenario = scenarios.SCENARIOS[name]
    self.workdir = folder / 'run'
    self.log = bytearray()
    self.began = 0.0
    self.boot: tuple[str, ...] = ()
    self.processes: list[subprocess.Popen] = []
    self.endings: list[Ending] = []
    self._marks: list[Mark] = []
    self._said = 0  # bytes of the log before this start
    self._readers: list[threading.Thread] = []
    self._broken = broken

  def start(self) -> None:
    """Starts the command, after what earlier starts have left."""
    self._marks, self._said = [], len(self.log)
    command = running.command(
        self.workdir,
        *scenarios.flags_of(self.name),
        config=self.scenario.config,
    )
    path = f'{INSIDE}{os.pathsep}{running.ROOT}'
    env = os.environ | SECRETS | self.clock.environment | {'PYTHONPATH': path}
    if self._broken:
      env['FAULTS_BROKEN'] = self._broken
    self.began = time.monotonic()
    for rank in range(self.scenario.processes):
      # Through pipes, which no full disk and no limit of files concerns.
      marks, marked = os.pipe()
      own = {} if rank else {'FAULTS_MARKS': str(marked)}
      process = subprocess.Popen(
          [*self.boot, *command],
          cwd=running.ROOT,
          stdin=subprocess.DEVNULL,
          stdout=subprocess.PIPE,
          stderr=subprocess.STDOUT,
          env=env | own | self._ranks(rank),
          start_new_session=True,
          pass_fds=(marked,),
      )
      os.close(marked)
      self.processes.append(process)
      self._read(process.stdout, self.log.extend)
      self._read(os.fdopen(marks, 'rb', 0), self._note)

  def _read(self, stream: IO[bytes], take: Callable[[bytes], object]) -> None:
    def read():
      with stream:
        for line in stream:
          take(line)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    self._readers.append(thread)

  def _note(self, line: bytes) -> None:
    phase, kind = line.decode().rsplit(maxsplit=1)
    self._marks.append(Mark(phase, kind == 'begin', time.monotonic()))

  def _ranks(self, rank: int) -> dict[str, str]:
    count = self.scenario.processes
    if count == 1:
      return {}
    return eight_devices.environment(1) | {
        'WORLD_SIZE': str(count),
        'MASTER_ADDR': '127.0.0.1',
        'MASTER_PORT': str(_PORT),
        'RANK': str(rank),
    }

  @property
  def running(self) -> bool:
    return any(process.poll() is None for process in self.processes)

  def marks(self) -> list[Mark]:
    """The phases of this start so far."""
    return list(self._marks)

  def phase(self) -> str:
    """The phase of this moment; a checkpoint is one until the next begins."""
    open_, last = [], ''
    for mark in self.marks():
      if mark.begins:
        open_.append(mark.phase)
      else:
        open_.remove(mark.phase)
      last = mark.phase
    return (open_ or [last if last == 'checkpoint' else 'between'])[-1]

  def wait(self, seconds: float) -> bool:
    """Whether this start ends within so many seconds; notes how."""
    deadline = time.monotonic() + seconds
    while self.running:
      if time.monotonic() > deadline:
        return False
      time.sleep(0.05)
    for reader in self._readers:
      reader.join(_READ_S)  # a child that is left may have the pipe open
    self._readers = []
    lines = [x for x in self.said().splitlines() if x.strip()]
    codes = [process.returncode for process in self.processes]
    # Of several processes the one that did not end well.
    code = next(filter(None, codes), 0)
    # Threads that a failed process has left may speak after it.
    named = [x for x in lines if code == 2 and _NAMED.match(x)]
    last = (named or lines or [''])[-1].strip()
    self.endings.append(Ending(code, last))
    self.processes = []
    return True

  def said(self) -> str:
    """What this start has written."""
    return self.log[self._said :].decode(errors='replace')

  def find(self, target: str) -> psutil.Process | None:
    """A process of the run, if it is there."""
    with contextlib.suppress(psutil.NoSuchProcess, IndexError):
      main = psutil.Process(self.processes[target == 'rank'].pid)
      if target in ('trainer', 'rank'):
        return main
      return next(self._descendants(main, target), None)
    return None

  def _descendants(
      self, main: psutil.Process, target: str
  ) -> Iterator[psutil.Process]:
    for child in main.children(recursive=True):
      with contextlib.suppress(psutil.NoSuchProcess, IndexError):
        words, name = child.cmdline(), child.name()
        if target == 'environment' and 'agentrl.envs.server' in words:
          yield child
        elif target == 'java' and name == 'java':
          yield child
        elif target == 'browser' and 'headless' in name:
          yield child
        elif target == 'scheduler' and 'scheduler' in words[0]:
          yield child
        elif target == 'engine' and supervisor.__file__ in words:
          yield from child.children()[:1]

  def kill(self) -> None:
    """Ends this start; its children see to it that they end."""
    for process in self.processes:
      process.kill()
    self.wait(60)


def others(known: set[int]) -> list[str]:
  """Processes of these namespaces beside the harness and those it knows."""
  found = []
  for folder in pathlib.Path('/proc').glob('[0-9]*'):
    pid = int(folder.name)
    if pid in known or pid in (os.getpid(), 1) or not alive(pid):
      continue
    with contextlib.suppress(OSError):
      words = (folder / 'cmdline').read_bytes().replace(b'\0', b' ')
      found.append(f'{pid} {words.decode(errors="replace")[:150]}')
  return found


def summary_of(workdir: pathlib.Path) -> dict[str, Any]:
  return json.loads((workdir / 'summary.json').read_text())
