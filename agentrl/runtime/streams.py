"""Standard output and error that outlive their reader."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

# Of a pipe that nobody reads, and of a terminal that was closed.
_UNREAD = (errno.EPIPE, errno.EIO)


class LastingStream:
  """A stream that a run goes on without, once nobody reads it.

  `launch.py ... | head`, a killed `tee`, a quit `less`, a closed terminal: from
  then on what is written is lost, and nothing is raised. Other failures, as of a
  full disk, are.
  """

  def __init__(self, stream: TextIO):
    self._stream = stream

  def write(self, text: str) -> int:
    with self._unread():
      self._stream.write(text)
    return len(text)

  def flush(self) -> None:
    with self._unread():
      self._stream.flush()

  def __getattr__(self, name: str) -> Any:
    return getattr(self._stream, name)

  @contextlib.contextmanager
  def _unread(self) -> Iterator[None]:
    try:
      yield
    except OSError as error:
      if error.errno not in _UNREAD:
        raise
      # What is buffered, and what children write, go the same way.
      nowhere = os.open(os.devnull, os.O_WRONLY)
      os.dup2(nowhere, self._stream.fileno())
      os.close(nowhere)
      if self._stream is sys.__stdout__:
        print(
            'Nobody reads standard output any more; the run goes on and writes'
            ' to its workdir.',
            file=sys.stderr,
            flush=True,
        )


@contextlib.contextmanager
def lasting() -> Iterator[None]:
  """Makes `sys.stdout` and `sys.stderr` lasting ones inside the block."""
  before = sys.stdout, sys.stderr
  sys.stdout, sys.stderr = map(LastingStream, before)
  try:
    yield
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    sys.stdout, sys.stderr = before
