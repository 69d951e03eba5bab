"""Machines of one episode each, and the processes that run in them.

Nothing of the machine but its /usr can be read, none of it can be written, and what an
episode has written is gone with it.
"""

import pathlib
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from agentrl.errors import EnvFault

CONTROL_S = 120.0  # for what is no command of a policy
_ASK_S = 20.0  # for an answer whether something runs here
_MOST_READ = 1_000_000


class Ran(NamedTuple):
  """A command that has ended, or was ended."""

  code: int | None  # how it exited; None: its time was over
  output: str  # what it printed, to either stream

  def last_words(self, most_chars: int = 300) -> str:
    """The end of its output, in one line."""
    return ' '.join(self.output.split())[-most_chars:]


class Limits(NamedTuple):
  """Bounds of a sandbox."""

  cpus: float | None = None  # processors, None: all. A namespace has all
  memory_mb: int | None = None  # MiB of memory; None: as there is
  network: bool = False  # whether it reaches others. A namespace never does


class Sandbox(Protocol):
  """The machine of one episode."""

  def run(
      self,
      command: str,
      timeout_s: float,
      *,
      env: Mapping[str, str] | None = None,
      user: str | None = None,
  ) -> Ran:
    """Runs a command of a shell in the working folder; files stay, processes do not.

    Raises:
      EnvFault: the sandbox is gone.
    """

  def put(self, folder: pathlib.Path, target: str) -> None:
    """Lays a folder's files at `target`, in place of whatever was there.

    Raises:
      EnvFault: it cannot be done.
    """

  def close(self) -> None:
    """Ends it with whatever runs in it. May be called twice."""


class Image(Protocol):
  """The state in which all sandboxes of a task begin."""

  def start(
      self, workdir: str | None, env: Mapping[str, str], limits: Limits
  ) -> Sandbox:
    """A sandbox of its own.

    Raises:
      EnvFault: none starts.
    """


def read(box: Sandbox, path: str) -> str | None:
  """The file at `path` as the sandbox has it, or None; at most a megabyte."""
  ran = box.run(f'head -c {_MOST_READ} {path} 2> /dev/null', CONTROL_S)
  return ran.output if ran.code == 0 else None


class Runner:
  """Runs one process at a time, which `close` ends."""

  def __init__(self):
    self._lock = threading.Lock()
    self._process: subprocess.Popen[bytes] | None = None
    self._closed = False

  def run(
      self,
      command: Sequence[str],
      timeout_s: float,
      env: Mapping[str, str] | None = None,
  ) -> Ran:
    # A file, since a process that is ended may have children that hold a pipe.
    with tempfile.TemporaryFile() as output:
      with self._lock:
        if self._closed:
          raise EnvFault('The sandbox is closed.')
        try:
          self._process = subprocess.Popen(
              command,
              stdin=subprocess.DEVNULL,
              stdout=output,
              stderr=subprocess.STDOUT,
              env=env,
              start_new_session=True,
          )
        except OSError as error:
          raise EnvFault(f'{command[0]} does not start: {error}') from error
      code: int | None = None
      try:
        code = self._process.wait(timeout_s)
      except subprocess.TimeoutExpired:
        pass
      finally:
        self._process.kill()
        self._process.wait()
      if self._closed:
        raise EnvFault('The sandbox was closed while a command ran.')
      output.seek(0)
      text = output.read(_MOST_READ).decode(errors='replace')
      return Ran(code, text)

  def close(self) -> None:
    with self._lock:
      self._closed = True
      if self._process is not None:
        self._process.kill()


def succeeds(command: Sequence[str]) -> bool:
  """True for a command that runs here, and well."""
  try:
    return Runner().run(command, _ASK_S).code == 0
  except EnvFault:
    return False


def check_copied(ran: Ran, folder: pathlib.Path, target: str) -> None:
  """Refuses a copy of `Sandbox.put` that failed.

  Raises:
    EnvFault: it did.
  """
  if ran.code != 0:
    raise EnvFault(f'{folder} was not copied to {target}: {ran.output[:500]}')
