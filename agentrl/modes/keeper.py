"""Runs a command that must not outlive whoever started this process.

    python agentrl/modes/keeper.py COMMAND [ARGUMENT ...]

Its standard input is a pipe from the process that wants the command. The kernel
closes it however that process ends; then the command and all that it started
get SIGTERM, and SIGKILL if they take too long. They also end with the keeper
itself. Standard library only: it has to start at once.
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
_PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
  """Runs `command` until it or standard input ends; gives its exit code."""
  if not command:
    print('keeper: no command', file=sys.stderr)
    return 2
  prctl = ctypes.CDLL(None).prctl if sys.platform == 'linux' else None

  def die_with_keeper():
    if prctl is not None:
      prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

  try:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a group of its own, to be ended as a whole
        preexec_fn=die_with_keeper,
    )
  except OSError as error:
    print(f'keeper: cannot run {command[0]}: {error}', file=sys.stderr)
    return 127
  ended = []
  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: ended.append(True))
  while child.poll() is None and not ended:
    readable, _, _ = select.select([0], [], [], _POLL_S)
    if readable and not os.read(0, 4096):
      ended.append(True)
  _end(child)
  code = child.wait()
  return code if code >= 0 else 128 - code  # as a shell tells of a signal


def _end(child: subprocess.Popen) -> None:
  """Ends the child's group; after a crash, what it left behind."""
  deadline = time.monotonic() + GRACE_S
  with contextlib.suppress(ProcessLookupError):
    if child.poll() is None:
      os.killpg(child.pid, signal.SIGTERM)
      while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
