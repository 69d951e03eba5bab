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

from absl import logging

from agentrl.errors import ConfigError

_NAME = 'lock'
# A file system without locks, as some network mounts are.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def hold(directory: pathlib.Path) -> Iterator[None]:
  """Holds the lock of a workdir for one block; `lock` in it names the holder.

  Raises:
    ConfigError: another process holds it; says which, where and since when.
  """
  # The file stays: were it removed, two runs could hold two files of its name.
  with (directory / _NAME).open('a+', encoding='utf-8') as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
