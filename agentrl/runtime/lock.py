"""The lock on a workdir: one run at a time writes there.

The kernel drops it however the run ends, SIGKILL included. A mode that
only reads a workdir (evaluate, inspect, export) takes no lock.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import IO

from absl import logging

from agentrl.errors import ConfigError

_NAME = 'lock'
# A file system without locks, as some network mounts are.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
# `holder` has the lock for an instant: try again before it counts as held.
_TRIES, _WAIT_S = 5, 0.02


@contextlib.contextmanager
def hold(directory: pathlib.Path) -> Iterator[None]:
  """Holds the lock of a workdir for one block; `lock` in it names the holder.

  Raises:
    ConfigError: another process holds it; says which, where and since when.
  """
  # The file stays: were it removed, two runs could hold two files of its name.
  with (directory / _NAME).open('a+', encoding='utf-8') as file:
    try:
      _lock(file)
      locked = True
    except BlockingIOError as error:
      file.seek(0)
      holder = file.read().strip() or 'another process'
      raise ConfigError(
          f'{directory} is in use: {holder} writes there. Wait for that run or'
          ' end it, or use another --workdir.'
      ) from error
    except OSError as error:
      if error.errno not in _NO_LOCKS:
        raise
      locked = False
      logging.warning(
          '%s cannot be locked (%s): see to it that no other run uses it.',
          *(directory, error.strerror),
      )
    file.truncate(0)
    since = time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())
    file.write(
        f'process {os.getpid()} on {socket.gethostname()}, since {since}'
    )
    file.flush()
    try:
      yield
    finally:
      file.truncate(0)
      if locked:
        # Not by closing alone: a child that is just being started has the file
        # too, for a moment.
        fcntl.flock(file, fcntl.LOCK_UN)


def holder(directory: pathlib.Path) -> str | None:
  """The run that writes in a workdir, in words; None: none does.

  Without locks on the file system, a run that was killed still seems to.
  """
  try:
    with (directory / _NAME).open(encoding='utf-8', errors='replace') as file:
      named = file.read(1000).strip()
      if not named:
        return None  # as a run leaves it that ended by itself
      fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
  except BlockingIOError:
    return named
  except FileNotFoundError:
    return None
  except OSError as error:
    return named if error.errno in _NO_LOCKS else None
  return None  # it was killed; closing the file gives the lock back


def _lock(file: IO[str]) -> None:
  for _ in range(_TRIES - 1):
    with contextlib.suppress(BlockingIOError):
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      return
    time.sleep(_WAIT_S)
  fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
