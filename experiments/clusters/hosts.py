"""Hosts on one machine: namespaces with a network of their own.

Each host has an address, a name, `/tmp` and `/dev/shm` of its own, as a machine
of a cluster has; they share the repository and one folder, as over NFS. A link can
be cut and joined again. Processor, memory and clock are those of the one machine.

Linux alone, as root or where users may make namespaces.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from agentrl.errors import ConfigError

_INSIDE = (  # the shared folder, in the process that may make hosts
    'AGENTRL_HOSTS'
)
_NETWORK = '10.77.0'
_SWITCH = 'switch'
_OURS = f'{_NETWORK}.254'
_NEEDS = {
    'ip': 'apt-get install iproute2',
    'unshare': 'apt-get install util-linux',
    'nsenter': 'apt-get install util-linux',
}

# Run in the namespaces of a host: the arguments are its name, its table of hosts and
# the folders that it keeps, which may be below the /tmp that is hidden.
_SETUP = """
set -e
hostname "$1"; mount --bind "$2" /etc/hosts; shift 2
mount -t tmpfs tmpfs /mnt
i=0
for kept in "$@"; do mkdir /mnt/$i; mount --bind "$kept" /mnt/$i; i=$((i+1)); done
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
i=0
for kept in "$@"; do mkdir -p "$kept"; mount --bind /mnt/$i "$kept"; i=$((i+1)); done
ip link set lo up
echo ready
exec sleep infinity
"""


def enter() -> pathlib.Path:
  """Goes on in namespaces in which hosts can be made; returns only there.

  Everything that is started there ends with this process, whatever ends it.

  Returns:
    A folder for what the hosts share, removed at the end.

  Raises:
    ConfigError: this machine allows none.
  """
  inside = os.environ.get(_INSIDE)
  if inside:
    _run('ip', 'link', 'set', 'lo', 'up')
    return pathlib.Path(inside)
  found = reason()
  if found is not None:
    raise ConfigError(found)
  sys.stdout.flush()
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
  with tempfile.TemporaryDirectory(
      prefix='hosts-', ignore_cleanup_errors=True
  ) as shared:
    child = subprocess.Popen(
        [*_unshare(), *sys.orig_argv], env=os.environ | {_INSIDE: shared}
    )
    try:
      code = child.wait()
    finally:
      # The first process of a namespace takes all others along.
      child.kill()
      child.wait()
  sys.exit(code)


def reason() -> str | None:
  """The reason why this machine has no such hosts; None: it has."""
  missing = [
      f'{name} is missing ({remedy})'
      for name, remedy in _NEEDS.items()
      if subprocess.run(
          ['sh', '-c', f'command -v {name}'], capture_output=True
      ).returncode
  ]
  if missing:
    return f'Hosts are namespaces of Linux: {", ".join(missing)}.'
  tried = subprocess.run(
      [
          *_unshare(),
          *('sh', '-c'),
          (
              f'ip link add {_SWITCH} type bridge &&'
              ' ip link add one type veth peer name other &&'
              ' mount -t tmpfs tmpfs /mnt'
          ),
      ],
      capture_output=True,
      text=True,
  )
  if tried.returncode:
    words = tried.stderr.strip().splitlines() or ['no reason is given']
    return f'This machine allows no namespaces as hosts: {words[-1]}.'
  return None


class Host:
  """One host; made by `network`."""

  def __init__(self, name: str, number: int, kept: Sequence[pathlib.Path]):
    """Makes its namespaces, which last until this process ends.

    Args:
      name: of the host.
      number: the last of its address, from 1.
      kept: folders that it shares with all others; the last has `hosts`, the
        table of names.
    """
    self.name, self.address = name, f'{_NETWORK}.{number}'
    self._link = f'link{number}'
    self._processes: list[subprocess.Popen] = []
    self._holder = subprocess.Popen(
        [
            *('unshare', '--net', '--mount', '--uts', '--ipc'),
            *('sh', '-c', _SETUP, 'sh', name, str(kept[-1] / 'hosts')),
            *map(str, kept),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert self._holder.stdout is not None
    if self._holder.stdout.readline() != 'ready\n':
      raise ConfigError(f'The host {name} was not made; see above.')
    _run(
        *('ip', 'link', 'add', self._link, 'type', 'veth', 'peer'),
        *('name', 'eth0', 'netns', str(self._holder.pid)),
    )
    _run('ip', 'link', 'set', self._link, 'master', _SWITCH, 'up')
    for words in (
        ('addr', 'add', f'{self.address}/24', 'dev', 'eth0'),
        ('link', 'set', 'eth0', 'up'),
    ):
      _run(*self._inside(), 'ip', *words)

  def start(
      self,
      command: Sequence[str],
      log: IO[str],
      env: Mapping[str, str] | None = None,
  ) -> subprocess.Popen:
    """Starts a command there.

    Args:
      command: program and arguments.
      log: gets both of its outputs.
      env: variables beside those of this process.
    """
    process = subprocess.Popen(
        [*self._inside(), *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=os.environ | (env or {}),
    )
    self._processes.append(process)
    return process

  def read(self, *command: str) -> str:
    """The output of a command there."""
    done = subprocess.run(
        [*self._inside(), *command], capture_output=True, text=True, check=True
    )
    return done.stdout

  def kill(self, words: str) -> int:
    """Kills the processes there whose command lines have `words`; their number."""
    pids = [pid for pid, line in self._lines().items() if words in line]
    for pid in pids:
      os.kill(pid, signal.SIGKILL)
    return len(pids)

  def cut(self) -> None:
    """Takes its link down: nothing arrives, and nobody is told."""
    _run('ip', 'link', 'set', self._link, 'down')

  def join(self) -> None:
    """Takes its link up again."""
    _run('ip', 'link', 'set', self._link, 'up')

  def processes(self) -> list[str]:
    """Command lines of what runs there, but for what makes the host."""
    return list(self._lines().values())

  def _lines(self) -> dict[int, str]:
    own = os.readlink(f'/proc/{self._holder.pid}/ns/net')
    found = {}
    for folder in pathlib.Path('/proc').glob('[0-9]*'):
      # One may end while it is looked at.
      with contextlib.suppress(OSError):
        if os.readlink(folder / 'ns/net') == own:
          words = (folder / 'cmdline').read_bytes().replace(b'\0', b' ')
          found[int(folder.name)] = words.decode(errors='replace').strip()
    return {k: x for k, x in found.items() if x and x != 'sleep infinity'}

  def _inside(self) -> list[str]:
    kinds = ('--net', '--mount', '--uts', '--ipc')
    # Entering a mount namespace leads to its root.
    return [
        *('nsenter', '--target', str(self._holder.pid), *kinds),
        f'--wd={os.getcwd()}',
    ]


@contextlib.contextmanager
def network(
    names: Sequence[str], kept: Sequence[pathlib.Path], shared: pathlib.Path
) -> Iterator[list[Host]]:
  """Hosts that reach each other, and this process, by name and address.

  Args:
    names: of the hosts.
    kept: folders that all see, as the repository.
    shared: folder that all see; it gets the table of names.
  """
  table = ['127.0.0.1 localhost']
  numbers = {name: number for number, name in enumerate(names, 1)}
  table += [f'{_NETWORK}.{number} {name}' for name, number in numbers.items()]
  (shared / 'hosts').write_text('\n'.join(table) + '\n')
  _run('ip', 'link', 'add', _SWITCH, 'type', 'bridge')
  _run('ip', 'addr', 'add', f'{_OURS}/24', 'dev', _SWITCH)
  _run('ip', 'link', 'set', _SWITCH, 'up')
  hosts: list[Host] = []
  try:
    for name, number in numbers.items():
      hosts.append(Host(name, number, [*kept, shared]))
    yield hosts
  finally:
    for host in hosts:
      for process in host._processes:
        process.kill()
        process.wait()
      host._holder.kill()
      host._holder.wait()
    _run('ip', 'link', 'del', _SWITCH)


def _unshare() -> list[str]:
  words = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child']
  if os.geteuid():
    words += ['--user', '--map-root-user']
  return [*words, '--mount-proc']


def _run(*command: str) -> None:
  done = subprocess.run(command, capture_output=True, text=True)
  if done.returncode:
    raise ConfigError(f'{" ".join(command)} failed: {done.stderr.strip()}')
