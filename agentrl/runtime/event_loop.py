"""What a run holds of the host: an event loop, signals, child processes."""

import asyncio
import json
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp
from absl import logging

from agentrl.errors import ConfigError, EnvError
from agentrl.inference import control
from agentrl.runtime import children
from agentrl.runtime.children import Child

T = TypeVar('T')
_ROOT = pathlib.Path(__file__).parents[2]  # what `agentrl` is imported from
_START_S = 60.0
_LAST_WORDS_S = 2.0  # for a server that ends


class Interrupted(Exception):
  """The user asked to stop (Ctrl-C or SIGTERM)."""


class EventLoop:
  """The event loop of a run, with one HTTP session and the stop signal.

  Between its calls of `run`, the loop stands still: rollouts and updates take
  turns. The first signal cancels what the loop is doing, or is noticed at the
  next call; a second one ends the process the hard way.
  """

  def __init__(self):
    self.interrupted = False
    self._runner = asyncio.Runner()
    self._task: asyncio.Task | None = None
    self._old_handlers = {
        number: signal.signal(number, self._on_signal)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    self.session: aiohttp.ClientSession = self.run(self._open())

  def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end.

    Raises:
      Interrupted: a signal came, now or before.
    """
    try:
      self.check()
    except Interrupted:
      coroutine.close()
      raise
    try:
      return self._runner.run(self._watch(coroutine))
    except asyncio.CancelledError:
      if self.interrupted:
        raise Interrupted from None
      raise
    finally:
      self._task = None

  def check(self) -> None:
    """Raises Interrupted if a signal came."""
    if self.interrupted:
      raise Interrupted

  def close(self) -> None:
    for number, handler in self._old_handlers.items():
      signal.signal(number, handler)
    self._runner.run(self.session.close())
    self._runner.close()

  def __enter__(self) -> 'EventLoop':
    return self

  def __exit__(self, *exc_info) -> None:
    self.close()

  async def _open(self) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=0,  # rollout.concurrency decides how many requests run
        keepalive_timeout=control.KEEP_ALIVE_S,
    )
    return aiohttp.ClientSession(connector=connector)

  async def _watch(self, coroutine: Coroutine[Any, Any, T]) -> T:
    self._task = asyncio.current_task()
    return await coroutine

  def _on_signal(self, number, frame) -> None:
    del frame
    if self.interrupted:
      raise KeyboardInterrupt
    self.interrupted = True
    logging.warning(
        'Stopping after %s; once more ends it at once.',
        signal.Signals(number).name,
    )
    task = self._task
    if task is not None:
      task.get_loop().call_soon_threadsafe(task.cancel)


class EnvServer:
  """An environment server as a child process.

  It ends with this process, whatever ends it: the child watches a pipe that the
  kernel closes even after SIGKILL.
  """

  def __init__(
      self,
      name: str,
      options: Mapping[str, Any],
      *,
      expert: bool = False,
      flags: Sequence[str] = (),
  ):
    """Starts the server and waits until it listens.

    Args:
      name: of the environment.
      options: its options.
      expert: whether it offers the expert's actions.
      flags: more of `python -m agentrl.envs.server`.

    Raises:
      EnvError: it did not start; quotes its last words.
    """
    self._command = [
        sys.executable,
        '-m',
        'agentrl.envs.server',
        f'--env={name}',
        '--port=0',
        f'--options={json.dumps(dict(options))}',
        '--exit_with_parent',
        *(['--expert'] if expert else []),
        *flags,
    ]
    self._name = name
    self._start()

  @property
  def url(self) -> str:
    """Changes when the server is started again."""
    return self._url

  @property
  def alive(self) -> bool:
    return self._child.ending() is None

  def restart(self) -> None:
    """Starts the server again after it died, on another port."""
    self.stop()
    self._start()

  def stop(self) -> None:
    """Ends the child; never hangs."""
    self._child.stop()

  def _start(self) -> None:
    path = filter(None, [str(_ROOT), os.environ.get('PYTHONPATH')])
    self._child = Child(
        self._command,
        name=f'{self._name} server',
        env=children.environment() | {'PYTHONPATH': os.pathsep.join(path)},
    )
    try:
      line = self._child.read_line(_START_S)
      self._url = f'http://127.0.0.1:{json.loads(line)["port"]}'
    except (TimeoutError, json.JSONDecodeError, KeyError, TypeError) as error:
      how = f'did not start within {_START_S:g} s'
      if not isinstance(error, TimeoutError):
        # Its output may have ended just before it did.
        ending = self._child.ending(_LAST_WORDS_S)
        how = 'did not say where it listens'
        if ending is not None:
          how = f'{ending} before it listened'
      self._child.kill()
      raise EnvError(
          f'The {self._name} server {how}: {self._child.last_words()}'
      ) from error


def make_workdir(workdir: str | None) -> pathlib.Path:
  """The directory of a run, which exists and can be written.

  Raises:
    ConfigError: it was not given, or cannot be used.
  """
  if not workdir:
    raise ConfigError('This mode needs a directory: --workdir=runs/NAME')
  path = pathlib.Path(workdir).absolute()
  try:
    path.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=path).close()
  except OSError as error:
    raise ConfigError(
        f'Cannot write to --workdir={workdir}: {error}'
    ) from error
  return path
