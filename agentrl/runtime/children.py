"""Child processes that end with this one, however this one ends."""

import io
import os
import pathlib
import select
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, BinaryIO

from absl import logging

from agentrl.runtime import supervisor

# Variables with the keys of servers that sample: `sampler.api_key_file` and
# `admin_key_file` may be left out where these are set. No child gets them.
SECRETS = ('AGENTRL_SAMPLER_API_KEY', 'AGENTRL_SAMPLER_ADMIN_KEY')
# What agentrl is imported from, and where pip puts packages.
_PACKAGES = pathlib.Path(__file__).parents[2]
_INSTALLED = {sysconfig.get_path(name) for name in ('purelib', 'platlib')}
_POLL_S = 0.1
_LAST_WORDS_S = 2.0  # to read what a child that ended had written
_LAST_LINES = 20  # on standard error, kept for an error message
_LINE_BYTES = 1000  # of a line there; a longer one is several
_MOST_CHARS = 4000  # of them all
_LAST_BYTES = 1000  # of a log, likewise


def environment() -> dict[str, str]:
  """The variables of this process without the secrets among them."""
  return {k: v for k, v in os.environ.items() if k not in SECRETS}


def module_environment() -> dict[str, str]:
  """`environment()` for `python -m agentrl.MODULE`, wherever agentrl lies.

  An installed one is found without a path; the folder of packages in front of the
  standard library would hide some of its modules.
  """
  folder = str(_PACKAGES)
  paths = [] if folder in _INSTALLED else [folder]
  paths += filter(None, [os.environ.get('PYTHONPATH')])
  if not paths:
    return environment()
  return environment() | {'PYTHONPATH': os.pathsep.join(paths)}


class Child:
  """A command that ends with this process, whatever ends it.

  Its standard input is a pipe that the kernel closes even after a SIGKILL of
  this process. A command that does not end with its standard input runs under a
  `supervisor`, which does. Ctrl-C in a terminal goes to a whole session: a
  child has its own, so that the parent decides.
  """

  def __init__(
      self,
      command: Sequence[str],
      *,
      name: str = '',
      env: Mapping[str, str] | None = None,
      cwd: str | None = None,
      log: pathlib.Path | None = None,
      supervised: bool = False,
  ):
    """Starts it.

    Args:
      command: program and arguments.
      name: in the log of this process.
      env: variables; None: `environment()`.
      cwd: working directory; None: that of this process.
      log: file that its output is appended to. None: standard output is for
        `read_line`, and standard error goes to the log of this process.
      supervised: run it under a supervisor, which also ends its descendants.

    Raises:
      OSError: the command cannot be run; a supervisor exits with code 127.
    """
    self._name, self._log = name, log
    output: BinaryIO | None = None
    if log is not None:
      log.parent.mkdir(parents=True, exist_ok=True)
      output = log.open('ab')
      stamp = time.strftime('%Y-%m-%d %H:%M:%S')
      output.write(f'--- {stamp} {" ".join(command)}\n'.encode())
      output.flush()
    if supervised:
      command = [sys.executable, supervisor.__file__, *command]
    try:
      self._process = subprocess.Popen(
          command,
          bufsize=0,  # `select` knows nothing of lines in a buffer
          stdin=subprocess.PIPE,
          stdout=subprocess.PIPE if output is None else output,
          stderr=subprocess.PIPE if output is None else subprocess.STDOUT,
          env=environment() if env is None else env,
          cwd=cwd,
          start_new_session=True,
      )
    finally:
      if output is not None:
        output.close()
    self._reading = threading.Lock()
    if log is None:
      self._words: deque[str] = deque(maxlen=_LAST_LINES)
      self._reader = threading.Thread(target=self._read_stderr, daemon=True)
      self._reader.start()

  @property
  def pid(self) -> int:
    """The process id, that of the supervisor where there is one."""
    return self._process.pid

  def read_line(self, timeout_s: float) -> str:
    """The next line of its standard output; '' if it ended or was reaped before.

    Raises:
      TimeoutError: the child still runs and has written no line.
    """
    stdout = _pipe(self._process.stdout)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
      # A child of its own, which outlives it, may hold the pipe open.
      ended = self.ending() is not None
      with self._reading:
        if stdout.closed:  # by `reap`, in another thread
          return ''
        readable, _, _ = select.select([stdout], [], [], _POLL_S)
        if readable:
          return stdout.readline().decode(errors='replace')
      if ended:
        return ''
    raise TimeoutError

  def write_line(self, line: str) -> None:
    """Writes a line to its standard input.

    Raises:
      OSError: it has ended.
    """
    data = f'{line}\n'.encode()
    stdin = _pipe(self._process.stdin)
    while data:  # a pipe without a buffer may take a part
      data = data[stdin.write(data) :]

  def ending(self, wait_s: float = 0.0) -> str | None:
    """Its exit in words, after `wait_s` at most; None while it runs."""
    try:
      code = self._process.wait(wait_s)
    except subprocess.TimeoutExpired:
      return None
    number = -code if code < 0 else code - 128  # as a supervisor has it
    name = {s.value: s.name for s in signal.Signals}.get(number)
    return f'was killed by {name}' if name else f'ended with exit code {code}'

  def last_words(self) -> str:
    """The last lines that it wrote; for a child that has ended."""
    if self._log is None:
      self._reader.join(_LAST_WORDS_S)
      return ' | '.join(self._words)[-_MOST_CHARS:] or 'it said nothing'
    try:
      data = self._log.read_bytes()
    except OSError as error:
      return f'(it cannot be read: {error})'
    text = data[-_LAST_BYTES:].decode(errors='replace')
    return ' | '.join(text.splitlines()[-8:])

  def hang_up(self) -> None:
    """Asks it to end; returns at once."""
    _pipe(self._process.stdin).close()

  def kill(self) -> None:
    """Ends it without asking; returns at once."""
    self._process.kill()

  def reap(self, timeout_s: float) -> None:
    """Waits for a child that was killed, and frees what is left of it."""
    self.ending(timeout_s)
    self.hang_up()
    if self._log is None:
      # Not while another thread reads: the number of what is closed is given anew.
      if self._reading.acquire(timeout=timeout_s):
        _pipe(self._process.stdout).close()
        self._reading.release()
      self._reader.join(timeout_s)

  def stop(self, grace_s: float = 5.0) -> None:
    """Ends it, at the latest after `grace_s`."""
    self.hang_up()
    if self.ending(grace_s) is None:
      self.kill()
    self.reap(grace_s)

  def _read_stderr(self) -> None:
    raw = self._process.stderr
    assert isinstance(raw, io.RawIOBase)  # a pipe without a buffer
    with io.BufferedReader(raw) as stderr:
      while line := stderr.readline(_LINE_BYTES):
        self._words.append(line.decode(errors='replace').rstrip())
        logging.info('%s: %s', self._name, self._words[-1])


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
  """A stream of a child that was asked to be a pipe."""
  assert stream is not None
  return stream
