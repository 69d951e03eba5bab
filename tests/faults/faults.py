"""The faults: what each does to a run, and how it is taken back."""

import contextlib
import dataclasses
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable

import numpy as np
import psutil

from tests.faults import checks, files
from tests.faults.runs import Run

Undo = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Strike:
  """What a fault is given.

  Attributes:
    run: while it runs; for a fault `between` starts, once it was killed.
    process: the target; None for faults that have none.
    rng: draws the rest.
    services: engine and proxy of the harness, where the run has no own.
  """

  run: Run
  process: psutil.Process | None
  rng: np.random.Generator
  services: 'object | None' = None


@dataclasses.dataclass(frozen=True)
class Fault:
  """A kind of fault.

  Attributes:
    strike: does it; returns what takes it back, and a word on what it did.
    targets: processes that it can hit; (): none, it hits the whole run.
    between: whether it hits what a SIGKILL of the run has left.
    lasts: whether it is taken back only where the run's last words ask for it.
    early: whether a run has what it hits before its first checkpoint.
    only: what the scenario needs: '' for nothing, 'found' for a proxy, 'own'
      for an engine in a process of its own.
  """

  strike: Callable[[Strike], tuple[Undo | None, str]]
  targets: tuple[str, ...] = ()
  between: bool = False
  lasts: bool = False
  early: bool = True
  only: str = ''


_ANY = (
    *('trainer', 'environment', 'engine', 'java', 'browser', 'rank'),
    'scheduler',
)

# Where memory is accounted, its limit, and how often that has killed; of cgroups
# of version 1 and of version 2.
_CGROUPS = (
    ('/sys/fs/cgroup/memory', 'memory.limit_in_bytes', 'memory.oom_control'),
    ('/sys/fs/cgroup', 'memory.max', 'memory.events'),
)
_USED_UP_S = 5.0  # for a process to need more memory than it has


def _kill(strike):
  strike.process.kill()
  return None, ''


def _stop(strike):
  seconds = float(strike.rng.choice([2.0, 4.0, 8.0, 20.0]))
  strike.process.suspend()
  time.sleep(seconds)
  with contextlib.suppress(psutil.NoSuchProcess):
    strike.process.resume()
  return None, f'{seconds:g} s'


def _term(strike):
  strike.process.terminate()
  return None, ''


def _two(strike):
  wait = float(strike.rng.uniform(0, 1.0))
  first, second = strike.rng.choice([signal.SIGTERM, signal.SIGINT], 2)
  strike.process.send_signal(int(first))
  time.sleep(wait)
  with contextlib.suppress(psutil.NoSuchProcess):
    strike.process.send_signal(int(second))
  return None, f'{int(first)} and {int(second)} after {wait:.2f} s'


def _fill(folder: pathlib.Path) -> pathlib.Path:
  """Fills a file system; the file that does."""
  path = folder / '.fills-the-disk'
  block = b'\0' * (1 << 16)
  with path.open('wb', buffering=0) as file:
    with contextlib.suppress(OSError):
      while True:
        file.write(block)
    with contextlib.suppress(OSError):
      while True:
        file.write(b'\0' * 512)
  return path


def _disk_full(strike):
  path = _fill(strike.run.folder)
  return lambda: path.unlink(missing_ok=True), ''


def _memory_disk_full(strike):
  del strike
  path = _fill(pathlib.Path('/dev/shm'))
  return lambda: path.unlink(missing_ok=True), ''


def _file_limit(strike):
  size = int(strike.rng.choice([1, 10_000, 60_000]))
  strike.process.rlimit(resource.RLIMIT_FSIZE, (size, size))
  return None, f'{size} bytes'


def _memory(strike):
  more = int(strike.rng.choice([1, 32, 128]))
  used = strike.process.memory_info().vms
  limit = used + (more << 20)
  strike.process.rlimit(resource.RLIMIT_AS, (limit, limit))
  return None, f'{more} MiB more'


def _out_of_memory(strike):
  """The kernel kills the process once it has written to some more pages."""
  pid, more = strike.process.pid, int(strike.rng.choice([256, 4096, 32768]))
  root, limit, events = accounts()
  group = root / f'agentrl-faults-{os.getpid()}'
  before = root / _cgroup(pid).lstrip('/')
  group.mkdir()
  (group / limit).write_text(str(more << 10))
  (group / 'cgroup.procs').write_text(str(pid))
  killed = lambda: 'oom_kill 0' not in (group / events).read_text()
  deadline = time.monotonic() + _USED_UP_S
  while not killed() and time.monotonic() < deadline:
    time.sleep(0.01)
  used_up = killed()
  while left := (group / 'cgroup.procs').read_text().split():
    for pid in left:
      with contextlib.suppress(OSError):  # it has just ended
        (before / 'cgroup.procs').write_text(pid)
    time.sleep(0.01)
  group.rmdir()
  if not used_up:
    raise TimeoutError(f'{more} KiB more were not used up')
  return None, f'{more} KiB more'


def accounts() -> tuple[pathlib.Path, str, str]:
  """Where cgroups of memory are; files of a limit and of what it has killed.

  Raises:
    OSError: there are none, or not for this user.
  """
  for root, limit, events in _CGROUPS:
    if os.access(f'{root}/cgroup.procs', os.W_OK):
      return pathlib.Path(root), limit, events
  raise FileNotFoundError('no cgroup of memory can be made')


def _cgroup(pid: int) -> str:
  lines = pathlib.Path(f'/proc/{pid}/cgroup').read_text().splitlines()
  paths = dict(line.split(':', 2)[1:] for line in lines)
  return paths.get('memory', paths.get('', '/'))


def _clock(strike):
  """Sets the clock of all processes of the run; later it is set right."""
  hours = float(strike.rng.choice([-10_000, -1, -0.01, 0.01, 1, 10_000]))
  strike.run.clock.set(round(3600 * hours))
  return lambda: strike.run.clock.set(0), f'by {hours:g} h'


def _restart(strike):
  """A machine that starts again: no process, empty /tmp, clocks from zero."""
  checks.sweep(strike.services.pids() if strike.services is not None else set())
  past = int(time.monotonic()) - 5
  strike.run.boot = (
      *('unshare', '--time'),
      *(f'--monotonic=-{past}', f'--boottime=-{past}'),
  )
  return None, ''


def _read_only(strike):
  folder = strike.run.folder
  mount = lambda how: subprocess.run(
      ['mount', '-o', f'remount,{how}', str(folder)], check=True
  )
  mount('ro')
  return lambda: mount('rw'), ''


def _port(strike):
  """Takes the port of the engine, which is killed, for a while."""
  words = strike.process.cmdline()
  port = int(words[words.index('--port') + 1])
  strike.process.kill()
  thief = socket.socket()
  thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
  deadline = time.monotonic() + 5
  while True:
    try:
      thief.bind(('127.0.0.1', port))
      break
    except OSError:
      if time.monotonic() > deadline:
        thief.close()
        return None, 'the port was not free'
      time.sleep(0.005)
  thief.listen()
  seconds = float(strike.rng.choice([0.5, 3.0, 10.0]))
  time.sleep(seconds)
  thief.close()
  return None, f'{seconds:g} s'


def _damage(kind, how):
  def strike(strike):
    return files.damage(strike.run.workdir, kind, how, strike.rng)

  early = kind in ('record', 'evaluation')
  return Fault(strike, between=True, lasts=True, early=early)


def _network(mode):
  def strike(strike):
    proxy = strike.services.proxy
    count = int(strike.rng.integers(1, 4))
    proxy.misbehave(mode, count)
    return proxy.behave, f'{count} replies'

  return Fault(strike, only='found')


FAULTS: dict[str, Fault] = {
    'SIGKILL': Fault(_kill, _ANY),
    'SIGSTOP': Fault(_stop, _ANY),
    'SIGTERM': Fault(_term, _ANY),
    'two signals': Fault(_two, ('trainer', 'rank', 'engine', 'environment')),
    'disk full': Fault(_disk_full),
    '/dev/shm full': Fault(_memory_disk_full, only='own'),
    'file size limit': Fault(_file_limit, ('trainer',)),
    'memory limit': Fault(_memory, ('trainer', 'engine', 'environment')),
    'out of memory': Fault(_out_of_memory, _ANY),
    'clock set': Fault(_clock),
    'machine restarted': Fault(_restart, between=True),
    'read-only workdir': Fault(_read_only, between=True),
    'port stolen': Fault(_port, ('engine',), only='own'),
    **{
        f'{kind} {how}': _damage(kind, how)
        for kind in files.KINDS
        for how in ('truncated', 'bit flipped')
    },
    **{f'reply {mode}': _network(mode) for mode in (
        'refused', 'hanging', 'slow', 'cut', 'of other ids', 'of an old version',
        'of another length', 'twice',
    )},
}  # fmt: skip
