"""Environments in worker processes, for simulators that are bound to the CPU.

The server keeps one process and one table of episodes; only the calls into
environments go elsewhere, so clients notice nothing but speed.
"""

import collections
import itertools
import multiprocessing
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from agentrl import envs, plugins
from agentrl.envs import live_episodes
from agentrl.errors import AgentrlError, ConfigError, EnvError, EnvFault
from agentrl.types import StepResult

_START_S = 60.0
_STOP_S = 3.0


class Workers:
  """A factory whose environments live in `count` processes.

  A worker that dies takes its episodes with it, which fail with an EnvError at
  their next call; another one takes its place.

  Raises:
    ConfigError: an option is wrong, or the environment has processes of its own.
    EnvError: a package is missing, or the workers do not start.
  """

  slots = None
  inline = ()

  def __init__(self, env_name: str, options: Mapping[str, Any], *, count: int):
    # A thread sleeps while its worker computes: enough of them that no worker
    # waits for a thread that stands in another one's queue.
    self.threads = 8 * count
    self._workers = [_Worker(env_name, options) for _ in range(count)]
    try:
      for worker in self._workers:
        worker.start()
    except BaseException:
      self.close()
      raise

  def make(self) -> '_Remote':
    """A new environment, with the worker that has the fewest."""
    return _Remote(min(self._workers, key=lambda worker: len(worker.live)))

  def gauges(self) -> Mapping[str, float]:
    return {
        'workers': len(self._workers),
        'worker_restarts': sum(max(x.starts - 1, 0) for x in self._workers),
    }

  def close(self) -> None:
    for worker in self._workers:
      worker.stop()


class _Remote:
  """One environment of a worker, as `Env`."""

  _numbers = itertools.count()

  def __init__(self, worker: '_Worker'):
    self._worker = worker
    self._number = next(self._numbers)
    self._home = 0  # which start of the worker has it; 0: none yet
    self._closed = False
    worker.live.add(self._number)

  def reset(self, task_id: int, seed: int) -> str:
    # A reset needs nothing of what a worker that died took with it.
    observation, self._home = self._worker.call(
        self._number, None, 'reset', task_id, seed
    )
    return observation

  def step(self, action: str) -> StepResult:
    return self._call('step', action)

  def available_actions(self) -> list[str]:
    return self._call('available_actions')

  def expert_action(self) -> str:
    return self._call('expert_action')

  def query(self, name: str) -> Any:
    return self._call('query', name)

  def picture(self) -> bytes:
    return self._call('picture')

  def close(self) -> None:
    if not self._closed:
      self._closed = True
      self._worker.live.discard(self._number)
      self._worker.forget(self._number)

  def _call(self, method: str, *args: Any) -> Any:
    result, _ = self._worker.call(self._number, self._home, method, *args)
    return result


class _Worker:
  """A process, and the calls that take turns on its pipe.

  It is a multiprocessing child and not a `runtime.children.Child`, because it
  exchanges Python objects; it ends when its pipe closes, as those do.
  """

  def __init__(self, env_name: str, options: Mapping[str, Any]):
    # Numbers of its environments; a set, since several threads close them.
    self.live: set[int] = set()
    self.starts = 0
    self._env_name = env_name
    self._options = dict(options)
    self._lock = threading.Lock()
    self._closed: collections.deque[int] = collections.deque()
    self._process: SpawnProcess | None = None
    self._pipe: Connection | None = None

  def start(self) -> None:
    """Starts the process and waits until it is ready."""
    # Not a fork: the server has threads.
    context = multiprocessing.get_context('spawn')
    self._pipe, theirs = context.Pipe()
    self._process = context.Process(
        target=_work, args=(theirs, self._env_name, self._options), daemon=True
    )
    self._process.start()
    theirs.close()  # so that its end is noticed
    if not self._pipe.poll(_START_S):
      self.stop()
      raise EnvError(
          f'A worker of {self._env_name} did not start in {_START_S:g} s.'
      )
    self._receive()
    self.starts += 1

  def call(
      self, number: int, home: int | None, method: str, *args: Any
  ) -> tuple[Any, int]:
    """The result of a method of environment `number`, and the start it is from.

    Args:
      number: of the environment.
      home: the start that has it; None: any will do.
      method: of the environment.
      *args: of the method.

    Raises:
      EnvError: the environment's own, or its worker died.
    """
    with self._lock:
      assert self._process is not None and self._pipe is not None  # `start`
      if not self._process.is_alive():
        self.start()
      if home not in (None, self.starts):
        raise EnvError(
            f'A worker of {self._env_name} died, and this episode with it;'
            ' reset it.'
        )
      closed = []
      while self._closed:
        closed.append(self._closed.popleft())
      try:
        self._pipe.send((closed, number, method, args))
        return self._receive(), self.starts
      except (EOFError, OSError) as error:
        self._process.join(_STOP_S)
        raise EnvError(
            f'A worker of {self._env_name} died during {method}'
            f' (exit code {self._process.exitcode}); reset the episode.'
        ) from error

  def forget(self, number: int) -> None:
    """Closes an environment with the next call; does not wait for it."""
    self._closed.append(number)

  def stop(self) -> None:
    """Ends the process; may be called twice."""
    if self._pipe is not None:
      self._pipe.close()
    if self._process is not None:
      self._process.join(_STOP_S)
      self._process.kill()
      self._process.join()

  def _receive(self) -> Any:
    assert self._pipe is not None  # `start` made it
    failed, value = self._pipe.recv()
    if failed:
      raise value
    return value


def _work(pipe: Connection, env_name: str, options: dict[str, Any]) -> None:
  """The worker: answers calls until the server's end of the pipe closes."""
  live: dict[int, Any] = {}
  try:
    factory = envs.get(env_name).open(**options)
    if factory.slots is not None:
      raise ConfigError(
          f'workers has no effect with {env_name}: its simulators are processes'
          ' already. Leave it 1.'
      )
  except AgentrlError as error:
    pipe.send((True, error))
    return
  pipe.send((False, None))
  while True:
    try:
      closed, number, method, args = pipe.recv()
    except (EOFError, KeyboardInterrupt):
      return
    for old in closed:
      if old in live:
        live_episodes.close_env(live.pop(old), env_name)
    if number not in live:
      live[number] = factory.make()
    try:
      reply = False, getattr(live[number], method)(*args)
    except AgentrlError as error:
      reply = True, error
    except Exception as error:  # the edge: a user's code may raise anything
      # Another process cannot tell where it was raised.
      reply = True, EnvFault(plugins.words(error))
    pipe.send(reply)
