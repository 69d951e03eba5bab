"""Inference servers as child processes: started, watched, started again.

One thread a server does all of that, since the event loop of a run stands still
during updates. A first start and one after a crash take the same steps: the
server loads the current weights from disk, gets their version, is checked, and
only then gets requests. So does a server of somebody else (`remote.Found`) that
was away; nothing is started then, it is waited for.
"""

import asyncio
import contextlib
import pathlib
import socket
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

import aiohttp
from absl import logging

from agentrl.errors import EngineError, EngineRefusal, EnvError
from agentrl.http.auth import Keys
from agentrl.inference.compatibility import Needs
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.runtime import cache, children, connections, ranks, supervisor
from agentrl.runtime.children import Child
from agentrl.runtime.event_loop import KEEP_ALIVE_S
from agentrl.runtime.scratch import Scratch
from agentrl.serving.options import Launch
from agentrl.serving.remote import Found
from agentrl.serving.weight_sync.disk import DiskPush
from agentrl.serving.weight_sync.files import Version

HOST = '127.0.0.1'
_POLL_S = 0.1
_LOOK_S = 15.0  # between two looks at the health of a server that serves
_MAX_BACKOFF_S = 60.0
_LAST_BYTES = 1000  # of a log, in an error message


class Server:
  """One server process on a port of its own, and its log file."""

  AGAIN = 'starting it again'
  RESUMES = False  # a process that has just started is not paused
  keys = Keys()  # it listens on loopback

  def __init__(
      self,
      launch: Launch,
      port: int,
      log: pathlib.Path,
      *,
      flags: Sequence[str] = (),
      devices: str | None = None,
  ):
    """Keeps the settings; starts nothing.

    Args:
      launch: how to start it.
      port: where it listens.
      log: file that gets what it says, after what is there.
      flags: of every replica, before those of `launch`, which win.
      devices: its CUDA_VISIBLE_DEVICES; None: those of this process.
    """
    self.port = port
    self.url = f'http://{HOST}:{port}'
    self.log = log
    self._launch = launch
    self._flags = tuple(flags)
    self._devices = devices
    self._child: Child | None = None
    self._scratch: Scratch | None = None

  def command(self, model: pathlib.Path) -> list[str]:
    """The command that starts it with this model."""
    python = self._launch.python
    assert python is not None  # nothing is launched without one
    return [
        python,
        *('-m', self._launch.module),
        *('--model-path', str(model)),
        *('--host', HOST, '--port', str(self.port)),
        *self._flags,
        *self._launch.words,
    ]

  def start(self, model: pathlib.Path) -> None:
    """Starts it; it needs a while until it listens.

    Raises:
      OSError: it cannot have a folder for temporary files.
    """
    self._scratch = Scratch('server')
    # This process's rank among those of the run is not the server's.
    ours = children.environment()
    env = {k: v for k, v in ours.items() if k not in ranks.VARIABLES}
    # --context-length may be more than the model's; see `start`.
    env['SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN'] = '1'
    env['TMPDIR'] = str(self._scratch.folder)
    # Compiled programs would be there too, and are of use to the next start.
    try:
      compiled = str(cache.root('torchinductor'))
      env.setdefault('TORCHINDUCTOR_CACHE_DIR', compiled)
    except EnvError as error:
      logging.info('The server keeps no compiled programs: %s', error)
    if self._devices is not None:
      env['CUDA_VISIBLE_DEVICES'] = self._devices
    self._child = Child(
        self.command(model), env=env, log=self.log, supervised=True
    )

  @property
  def pid(self) -> int:
    """Process id of the supervisor, whose child the server is."""
    return self._started().pid

  def ending(self) -> str | None:
    """Its exit in words; None while it runs."""
    return self._started().ending()

  def _started(self) -> Child:
    assert self._child is not None, 'The server was not started.'
    return self._child

  def hang_up(self) -> None:
    """Asks it to end; returns at once."""
    if self._child is not None:
      self._child.hang_up()

  def stop(self) -> None:
    """Ends it; never hangs."""
    if self._child is not None:
      self._child.stop(supervisor.GRACE_S + 5)
    scratch, self._scratch = self._scratch, None
    if scratch is not None:
      scratch.remove()

  def last_words(self) -> str:
    """The end of its log."""
    return self._child.last_words() if self._child is not None else ''

  def epilogue(self) -> str:
    """The sentence that follows the reason of its end."""
    return f'; its log {self.log} ends: {self.last_words()}'


class Fleet:
  """Keeps all replicas of a run alive, with the current weights.

  A server that the run starts is given up after `launch.restarts`, one of somebody
  else when it has been away for `launch.start_timeout_s` and no other serves.
  """

  def __init__(
      self,
      servers: Sequence[Server | Found],
      launch: Launch,
      replicas: Replicas,
      push: DiskPush,
      *,
      needs: Needs,
      timeout_s: float,
      look_s: float = _LOOK_S,
      serving: bool = False,
  ):
    """Holds all replicas, unless they serve; `start` begins to release them.

    Args:
      servers: not started, or found.
      launch: patience, limits.
      replicas: the balancer that requests go through.
      push: has a current version, and watches `replicas`.
      needs: of the run.
      timeout_s: of one HTTP exchange. A server without health for this time,
        paused or not, is started again.
      look_s: between two looks at the health of a server.
      serving: whether all of them run and have the current weights.
    """
    self._servers = tuple(servers)
    self._restarts = launch.restarts
    self._backoff_s = launch.backoff_s
    self._start_timeout_s = launch.start_timeout_s
    self._replicas = replicas
    self._push = push
    self._needs = needs
    self._timeout_s = timeout_s
    self._look_s = look_s
    self._serving = serving
    self._stopping = threading.Event()
    self._threads = [
        threading.Thread(target=self._keep, args=(server,), daemon=True)
        for server in self._servers
    ]
    for server in self._servers:
      if not serving:
        replicas.hold(server.url)

  def start(self) -> None:
    """Starts the servers, all at once."""
    for thread in self._threads:
      thread.start()

  async def started(self) -> None:
    """Returns once every replica serves the current weights.

    Raises:
      EngineError: one cannot be started; quotes its last words.
    """
    while len(self._replicas.serving()) < len(self._servers):
      for reason in self._replicas.losses():
        raise EngineRefusal(reason)
      await asyncio.sleep(_POLL_S)

  def stop(self) -> None:
    """Ends all servers and threads."""
    self._stopping.set()
    for server in self._servers:
      server.hang_up()  # they end side by side
    for server in self._servers:
      server.stop()
    for thread in self._threads:
      if thread.ident is not None:
        thread.join(5)

  def _keep(self, server: Server | Found) -> None:
    """The thread of one server. With its end the replica counts as lost."""
    reason = f'The server at {server.url} lost its watcher.'
    try:
      reason = self._watch(server)
    finally:
      if not self._stopping.is_set():
        self._replicas.lose(server.url, reason)
        logging.error('%s', reason)

  def _watch(self, server: Server | Found) -> str:
    """Starts and restarts a server; says why it gives up."""
    failures, served = 0, self._serving
    serving = served
    while not self._stopping.is_set():
      back = serving
      try:
        if not serving:
          self._bring_up(server)
        served = back = True
        asyncio.run(self._attend(server))
      except (EngineError, OSError) as error:
        reason = str(error)
      serving = False
      self._replicas.hold(server.url)
      if self._stopping.is_set():
        break
      epilogue = server.epilogue()
      server.stop()
      failures += 1
      alone = self._serving and not back and not self._replicas.serving()
      if not served or alone or failures > self._restarts:
        count = f', failure {failures} of this run' if served else ''
        return f'The server at {server.url} {reason}{count}{epilogue}'
      pause = min(self._backoff_s * 2 ** (failures - 1), _MAX_BACKOFF_S)
      logging.warning(
          'The server at %s %s; %s in %g s (%d%s).',
          *(server.url, reason, server.AGAIN, pause, failures),
          '' if self._serving else f' of {self._restarts}',
      )
      self._stopping.wait(pause)
    return 'The run ends.'

  def _bring_up(self, server: Server | Found) -> None:
    """From nothing to serving the current weights.

    Raises:
      EngineError: it died, was not ready in time or did not take them.
    """
    with self._push.pinned() as version:
      server.start(version.model)
      asyncio.run(self._prepare(server, version, first=True))
    while not self._push.release(server.url, version):
      # A push came meanwhile, and left this one out.
      with self._push.pinned() as version:
        asyncio.run(self._prepare(server, version, first=False))

  async def _attend(self, server: Server | Found) -> None:
    """Waits for a server that serves to fail.

    Raises:
      EngineError: says how. It ended, it hangs, or it has been condemned.
    """
    connector = connections.connector(keepalive_timeout=KEEP_ALIVE_S)
    async with aiohttp.ClientSession(connector=connector) as session:
      control = self._control(session, server)

      async def look():
        while True:
          await asyncio.sleep(self._look_s)
          await control.wait_ready(self._timeout_s)

      await self._while_well(server, look())

  async def _prepare(
      self, server: Server | Found, version: Version, *, first: bool
  ) -> None:
    async with aiohttp.ClientSession(
        connector=connections.connector()
    ) as session:
      control = self._control(session, server)

      async def prepare():
        if first:
          await control.wait_ready(self._start_timeout_s, resume=server.RESUMES)
          await control.probe(self._needs)
        await self._push.install(control, version)

      await self._while_well(server, prepare())

  def _control(
      self, session: aiohttp.ClientSession, server: Server | Found
  ) -> ControlClient:
    return ControlClient(
        session,
        [server.url],
        timeout_s=self._timeout_s,
        api_key=server.keys.api,
        admin_key=server.keys.admin,
    )

  async def _while_well(
      self, server: Server | Found, coroutine: Coroutine[Any, Any, None]
  ) -> None:
    """Awaits it; EngineError as soon as the server has ended or is condemned."""
    task = asyncio.create_task(coroutine)
    while not (await asyncio.wait([task], timeout=_POLL_S))[0]:
      failure = server.ending() or self._replicas.condemned(server.url)
      if failure is not None:
        task.cancel()
        await asyncio.wait([task])
        raise EngineError(failure)
    task.result()


def ports(launch: Launch) -> list[int]:
  """One for each replica, those of the config or free ones.

  Raises:
    EngineError: one of the config is taken.
  """
  numbers = []
  with contextlib.ExitStack() as stack:  # all at once, so that they differ
    for i in range(launch.replicas):
      port = launch.port + i if launch.port else 0
      probe = stack.enter_context(socket.socket())
      # As servers set it: connections of an earlier server may linger.
      probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
      try:
        probe.bind((HOST, port))
      except OSError as error:
        raise EngineRefusal(
            f'Port {port} of sampler.launch.port={launch.port} cannot be'
            f' used: {error}. Name another, or 0 for free ones.'
        ) from error
      numbers.append(probe.getsockname()[1])
  return numbers
