"""Environment servers that the viewer starts, as child processes."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp

from agentrl import envs
from agentrl.envs.client import EnvClient
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError, EnvError
from agentrl.evaluation.workdirs import run_config
from agentrl.rollout.env_server import EnvServer

_MOST = 4  # servers at a time
_IDLE_S = 600.0
# An episode that nobody uses for so long is closed: somebody may think.
LEASE_S = 1200
_LOOK_S = 30.0


def safe_options(spec: EnvSpec, options: Mapping[str, Any]) -> dict[str, Any]:
  """Options of a run under which its environment can be started here.

  They come from files that are shown, which need not be the reader's own: nothing
  that they name is run or asked.

  Raises:
    ConfigError: it cannot; says why.
  """
  for name, names_something in spec.unsafe_options.items():
    if name in options and names_something(options[name]):
      raise ConfigError(
          f'This {spec.name} ran with {name}={options[name]!r:.80}, which the'
          ' viewer neither opens nor asks.'
      )
  return {
      name: value
      for name, value in options.items()
      if name in spec.options and name not in spec.machine_options
  }


class _Entry:
  """One server, and how many use it."""

  def __init__(self) -> None:
    self.lock = asyncio.Lock()  # of its start
    self.server: EnvServer | None = None
    self.users = 0
    self.last_used = time.monotonic()


class EnvServers:
  """Servers by environment and options, started when they are first asked.

  All end with this process, however it ends.

  Attributes:
    specs: of the environments that may be started, by name.
  """

  def __init__(self, own: Sequence[str] = ()):
    """Starts nothing.

    Args:
      own: environments of somebody's own, `module:NAME` each, that may be
        imported and started besides those of agentrl.

    Raises:
      ConfigError: one cannot be imported.
    """
    specs = {name: envs.get(name) for name in (*envs.ENVS, *own)}
    self.specs = {spec.name: spec for spec in specs.values()}
    self._names = {spec.name: name for name, spec in specs.items()}
    self._entries: dict[str, _Entry] = {}
    self._session: aiohttp.ClientSession | None = None

  def options(self, env: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an environment in a run.

    Args:
      env: its name, as episodes have it.
      config: of the run, by `run_config.config`; {} or one of another
        environment: the defaults.

    Raises:
      ConfigError: it is not one that may be started, or not under these.
      DataError: the run has it under several.
    """
    if env not in self.specs:
      raise ConfigError(
          f'{env} is no environment of agentrl; one of your own is named by'
          ' config.view.environments=("module:NAME",).'
      )
    options = run_config.env_options(config, self.names(env))
    return safe_options(self.specs[env], options)

  def names(self, env: str) -> tuple[str, str]:
    """Names of an environment: as episodes have it, and as configs do."""
    return env, self._names[env]

  @property
  def pids(self) -> list[int]:
    """Process ids of the servers that run."""
    servers = (entry.server for entry in self._entries.values())
    return [server.pid for server in servers if server is not None]

  async def run(self) -> AsyncIterator[None]:
    """A cleanup context: stops idle servers, and all at the end."""
    async with aiohttp.ClientSession() as self._session:
      sweep = asyncio.create_task(self._sweep())
      try:
        yield
      finally:
        sweep.cancel()
        for entry in self._entries.values():
          if entry.server is not None:
            await asyncio.to_thread(entry.server.stop)

  @contextlib.asynccontextmanager
  async def client(
      self, env: str, options: Mapping[str, Any]
  ) -> AsyncIterator[EnvClient]:
    """A client of one episode, whose server runs for as long as the block.

    Args:
      env: name of an environment.
      options: that `options` has checked.

    Raises:
      EnvError: the server does not start, or too many are in use.
    """
    key = json.dumps([env, dict(options)], sort_keys=True)
    await self._make_room(key)
    entry = self._entries.setdefault(key, _Entry())
    entry.users += 1
    try:
      async with entry.lock:
        if entry.server is not None and not entry.server.alive:
          await asyncio.to_thread(entry.server.stop)
          entry.server = None
        if entry.server is None:
          entry.server = await asyncio.to_thread(
              EnvServer,
              self._names[env],
              options,
              expert=True,
              flags=[f'--lease_s={LEASE_S}'],
          )
      assert self._session is not None  # `run` has opened it
      async with EnvClient(
          self._session, entry.server.url, env_name=self._names[env]
      ) as client:
        yield client
    finally:
      entry.users -= 1
      entry.last_used = time.monotonic()

  async def _make_room(self, key: str) -> None:
    if key in self._entries or len(self._entries) < _MOST:
      return
    idle = [key for key, entry in self._entries.items() if not entry.users]
    if not idle:
      raise EnvError(
          f'{_MOST} environments are in use in this viewer; end one of them.'
      )
    await self._stop(min(idle, key=lambda key: self._entries[key].last_used))

  async def _stop(self, key: str) -> None:
    server = self._entries.pop(key).server
    if server is not None:
      await asyncio.to_thread(server.stop)

  async def _sweep(self) -> None:
    while True:
      await asyncio.sleep(_LOOK_S)
      now = time.monotonic()
      for key, entry in list(self._entries.items()):
        if not entry.users and now - entry.last_used > _IDLE_S:
          await self._stop(key)
