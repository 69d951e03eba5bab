"""Runs a command that must not outlive the parent of this process.

    python agentrl/runtime/supervisor.py COMMAND [ARGUMENT ...]

Its standard input is a pipe from the process that wants the command. The kernel
closes it however that process ends; then the command and its descendants get
SIGTERM, and SIGKILL if they take too long. The kernel kills the command if the
supervisor itself is killed. Files that they leave in /dev/shm are removed: SGLang
has files and semaphores there that it keeps when it is killed. Standard library
only: it has to start at once.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

GRACE_S = 10.0
_POLL_S = 0.2
_LOOK_S = 2.0  # between two looks at the shared memory of the group
_PR_SET_PDEATHSIG = 1
_SHM = '/dev/shm'


def main(command: list[str]) -> int:
  """The exit code of `command`, which ends with standard input."""
  if not command:
    print('supervisor: no command', file=sys.stderr)
    return 2
  prctl = ctypes.CDLL(None).prctl if sys.platform == 'linux' else None

  def die_with_supervisor():
    if prctl is not None:
      prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

  try:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a group of its own, to be ended as a whole
        preexec_fn=die_with_supervisor,
    )
  except OSError as error:
    print(f'supervisor: cannot run {command[0]}: {error}', file=sys.stderr)
    return 127
  ended = []
  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: ended.append(True))
  shared, look = set(), 0.0
  while child.poll() is None and not ended:
    if time.monotonic() >= look:
      shared |= shared_memory(child.pid)
      look = time.monotonic() + _LOOK_S
    readable, _, _ = select.select([0], [], [], _POLL_S)
    if readable and not os.read(0, 4096):
      ended.append(True)
  shared |= shared_memory(child.pid)
  _end(child)
  code = child.wait()
  if shared:
    _await_group(child.pid)
    _remove(shared)
  return code if code >= 0 else 128 - code  # as in a shell


def _end(child: subprocess.Popen) -> None:
  """Ends the child's group, also after a crash of the child."""
  deadline = time.monotonic() + GRACE_S
  with contextlib.suppress(ProcessLookupError):
    if child.poll() is None:
      os.killpg(child.pid, signal.SIGTERM)
      while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)


def _await_group(group: int) -> None:
  """Waits until every process of a killed group is gone."""
  deadline = time.monotonic() + GRACE_S
  with contextlib.suppress(ProcessLookupError):
    while time.monotonic() < deadline:
      os.killpg(group, 0)
      time.sleep(0.05)


def shared_memory(group: int | None) -> set[int]:
  """Inodes of files in /dev/shm that a group uses; None: that anybody uses."""
  inodes = set()
  for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
      if group is not None and os.getpgid(int(pid)) != group:
        continue
      with open(f'/proc/{pid}/maps') as maps:
        for line in maps:
          fields = line.split(maxsplit=5)
          if len(fields) == 6 and fields[5].startswith(f'{_SHM}/'):
            inodes.add(int(fields[4]))
    except OSError:  # it has ended, or is another user's
      continue
  return inodes


def _remove(shared: set[int]) -> None:
  """Removes files that nobody uses any more, and no folders."""
  unused = shared - shared_memory(None)
  with os.scandir(_SHM) as entries:
    for entry in entries:
      if entry.is_file(follow_symlinks=False) and entry.inode() in unused:
        with contextlib.suppress(FileNotFoundError, PermissionError):
          os.unlink(entry.path)


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
