"""The servers of one environment, started here or found at URLs."""

import asyncio
import time
from collections.abc import Sequence

from absl import logging

from agentrl.envs import options
from agentrl.envs.client import EnvClient
from agentrl.envs.pool import EnvPool
from agentrl.http import auth
from agentrl.rollout import env_server
from agentrl.rollout.env_server import Begin, EnvServer
from agentrl.rollout.task_lists import TaskLists
from agentrl.runtime.event_loop import EventLoop

_ENDING_S = 0.5  # from a connection that broke to the end of the process
_LOOK_S = 0.1
_LEAVING_S = 20.0  # the same of a server that was asked to end, at most


class Environment(TaskLists):
  """The servers of one environment, started here or found at URLs."""

  def __init__(
      self,
      loop: EventLoop,
      env: options.EnvOptions,
      *,
      task_file: str | None = None,
      expert: bool = False,
      begin: Begin = env_server.begin,
  ):
    """Starts or finds the servers.

    Args:
      loop: runs the clients, with one HTTP session.
      env: which environment, and where.
      task_file: an item file of tasks to train on; None: the train list.
      expert: whether the servers must offer the expert's actions.
      begin: begins to start a server.

    Raises:
      ConfigError: a URL has a server of another environment, or no expert.
      EnvError: they do not start, or no URL has one.
    """
    super().__init__(env, task_file)
    self._loop = loop
    self._lock = asyncio.Lock()
    self._children: list[EnvServer] = []
    self._deaths: list[str] = []
    if not env.urls:
      try:
        for _ in range(env.workers):
          child = begin(
              env.name, env.options, expert=expert, timeout_s=env.timeout_s
          )
          self._children.append(child)
        for child in self._children:
          child.wait()
      except BaseException:
        self.close()  # do not leave half of them behind
        raise
    self._connect()
    if env.urls:
      loop.run(
          self._pool.probe(
              self.tasks('train')[0],
              expert=expert,
              data_version=self.spec.data_version,
          )
      )

  def client(self) -> EnvClient:
    """A client for one episode."""
    return self._pool.client()

  @property
  def deaths(self) -> Sequence[str]:
    """How each child ended that died so far, with its last words."""
    return tuple(self._deaths)

  async def revive(self) -> None:
    """Starts children again that died; their episodes are lost, not the run."""
    if all(child.alive for child in self._children):
      await asyncio.sleep(_ENDING_S)
    async with self._lock:
      dead = [child for child in self._children if await self._is_gone(child)]
      for child in dead:
        how = f'takes no connections for {_LEAVING_S:g} s and does not end'
        if not child.alive:
          how = child.last_words()
        words = f'The {self.name} server {how}'
        self._deaths.append(words)
        logging.warning('%s; starting it again.', words)
        await asyncio.to_thread(child.restart)
      if dead:
        self._connect()

  async def _is_gone(self, child: EnvServer) -> bool:
    """True if a child has ended; waits for one that takes no connections.

    An episode that is tried meanwhile would use its tries up.
    """
    deadline = time.monotonic() + _LEAVING_S
    while child.alive:
      if await child.listens():
        return False
      if time.monotonic() > deadline:
        return True
      await asyncio.sleep(_LOOK_S)
    return True

  def close(self) -> None:
    for child in self._children:
      child.hang_up()
    for child in self._children:
      child.stop()

  def __enter__(self) -> 'Environment':
    return self

  def __exit__(self, *exc_info) -> None:
    self.close()

  def _connect(self) -> None:
    urls = [child.url for child in self._children] or self._env.urls
    self._pool = EnvPool(
        self._loop.session,
        urls,
        env_name=self._env.name,
        timeout_s=self._env.timeout_s,
        # A child that died is started again by `revive`, at another URL.
        retry_s=self._env.retry_s if self._env.urls else 0.0,
        token=(
            auth.read_token(self._env.token_file)
            if self._env.token_file
            else None
        ),
    )
