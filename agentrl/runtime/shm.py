"""Folders in shared memory that are removed with their run, or by a later one.

A run holds a lock on a file in its folder. The kernel drops the lock however the
run ends, so a later run can tell the folders that nobody uses, and remove them.
"""

import contextlib
import fcntl
import os
import pathlib
import secrets
import shutil
from collections.abc import Iterator

from absl import logging

_PREFIX = 'agentrl-'
_OWNER = '.owner'


@contextlib.contextmanager
def folder(parent: pathlib.Path) -> Iterator[pathlib.Path]:
  """A new folder, of a name that is never used again, for one block."""
  path = parent / f'{_PREFIX}{secrets.token_hex(6)}'
  path.mkdir(mode=0o700)  # weights are private
  try:
    with (path / f'{_OWNER}.new').open('w') as owner:
      fcntl.flock(owner, fcntl.LOCK_EX)
      # Under its final name it is always locked.
      (path / f'{_OWNER}.new').rename(path / _OWNER)
      yield path
  finally:
    shutil.rmtree(path, ignore_errors=True)


def remove_unused(parent: pathlib.Path) -> None:
  """Removes this user's folders whose runs have ended without doing so."""
  for owner in parent.glob(f'{_PREFIX}*/{_OWNER}'):
    path = owner.parent
    try:
      if path.lstat().st_uid != os.getuid():
        continue
      with owner.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    except (BlockingIOError, FileNotFoundError):  # it is in use, or just gone
      continue
    except OSError as error:  # it need not stop this run
      logging.warning('Cannot remove what a killed run left: %s', error)
    else:
      logging.warning('Removed %s, which a killed run had left.', path)
