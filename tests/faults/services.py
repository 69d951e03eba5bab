"""An engine that is somebody else's, and a proxy in front of it that lies."""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import aiohttp
import psutil
from aiohttp import web

from tests.e2e import running
from tests.faults.runs import SECRETS
from tests.faults.scenarios import ENGINE_PORT, PROXY_PORT

_UP_S = 120.0


class Engine:
  """The embedded engine in a process that no run has started; it is kept up."""

  def __init__(self, model: pathlib.Path, log: pathlib.Path):
    self._model, self._log = model, log
    self._process: subprocess.Popen | None = None
    self._ended = threading.Event()
    self._thread = threading.Thread(target=self._keep_up)

  def __enter__(self):
    self._thread.start()
    return self

  def __exit__(self, *exc_info):
    self._ended.set()
    self._thread.join()
    if self._process is not None:
      self._process.kill()
      self._process.wait()

  @property
  def process(self) -> psutil.Process | None:
    with contextlib.suppress(psutil.NoSuchProcess):
      if self._process is not None:
        return psutil.Process(self._process.pid)
    return None

  def _keep_up(self):
    while not self._ended.wait(0.1):
      if self._process is None or self._process.poll() is not None:
        self._process = self._start()

  def _start(self):
    command = [
        *(sys.executable, '-m', 'agentrl.serving.launch_server'),
        *('--model-path', str(self._model), '--port', str(ENGINE_PORT)),
        *('--context-length', '768', '--max-running-requests', '8'),
        *('--enable-deterministic-inference', '--skip-server-warmup'),
        *('--api-key', SECRETS['AGENTRL_SAMPLER_API_KEY']),
        *('--admin-api-key', SECRETS['AGENTRL_SAMPLER_ADMIN_KEY']),
    ]
    with self._log.open('ab') as log:
      return subprocess.Popen(
          command,
          cwd=running.ROOT,
          stdin=subprocess.DEVNULL,
          stdout=log,
          stderr=subprocess.STDOUT,
          env=os.environ | {'PYTHONPATH': str(running.ROOT)},
          start_new_session=True,
      )


class Proxy:
  """Hands requests on, in a thread; some replies it loses, delays or forges."""

  def __init__(self):
    self.requests = 0  # of all routes
    self._mode, self._left = '', 0
    self._earlier: dict | None = None  # a reply to /generate
    self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
    self._ready = threading.Event()

  def __enter__(self):
    self._thread.start()
    assert self._ready.wait(60)
    return self

  def __exit__(self, *exc_info):
    self._loop.call_soon_threadsafe(self._end.set)
    self._thread.join()

  def misbehave(self, mode: str, replies: int) -> None:
    """Treats the next so many replies so; see `FAULTS`."""
    self._mode, self._left = mode, replies

  def behave(self) -> None:
    self._mode, self._left = '', 0

  async def _serve(self):
    self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route('*', '/{route:.*}', self._pass)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as self._session:
      await runner.setup()
      await web.TCPSite(runner, '127.0.0.1', PROXY_PORT).start()
      self._ready.set()
      await self._end.wait()
      await runner.cleanup()

  async def _pass(self, request):
    self.requests += 1
    mode = ''
    forged = self._mode.startswith(('of', 'twice'))
    if self._left > 0 and (request.path == '/generate' or not forged):
      if self._mode != 'twice' or self._earlier is not None:
        mode, self._left = self._mode, self._left - 1
    if mode == 'refused':
      request.transport.abort()
      raise web.HTTPServiceUnavailable
    if mode == 'hanging':  # half open: it takes all and says nothing
      await asyncio.sleep(3600)
    try:
      async with self._session.request(
          request.method,
          f'http://127.0.0.1:{ENGINE_PORT}{request.path_qs}',
          data=await request.read(),
          headers={
              k: v for k, v in request.headers.items() if k.lower() != 'host'
          },
          timeout=aiohttp.ClientTimeout(total=None),
      ) as reply:
        body, status = await reply.read(), reply.status
        kind = reply.content_type
    except aiohttp.ClientError as error:
      return web.Response(status=503, text=f'no engine: {error!r}')
    if status == 200 and request.path == '/generate':
      body = self._forged(body, mode)
    if mode == 'slow':
      await asyncio.sleep(5.0)
    response = web.StreamResponse(status=status)
    response.content_type = kind
    response.content_length = len(body)
    await response.prepare(request)
    half = len(body) // 2
    await response.write(body[:half])
    if mode == 'cut':
      request.transport.abort()
      return response
    if mode == 'slow':
      await asyncio.sleep(2.0)
    await response.write(body[half:])
    return response

  def _forged(self, body, mode):
    reply = json.loads(body)
    meta = reply['meta_info']
    if mode == 'twice':
      return json.dumps(self._earlier).encode()
    self._earlier = json.loads(body)
    triples = meta.get('output_token_logprobs')
    if mode == 'of other ids':
      for triple in triples:
        triple[1] += 100_000
    elif mode == 'of an old version':
      meta['weight_version'] = str(int(meta['weight_version']) - 1)
    elif mode == 'of another length':
      del triples[-1:]
    return json.dumps(reply).encode()


class Services:
  """Engine and proxy of a trial."""

  def __init__(self, model: pathlib.Path, log: pathlib.Path):
    self.engine, self.proxy = Engine(model, log), Proxy()

  def __enter__(self):
    with contextlib.ExitStack() as stack:
      stack.enter_context(self.engine)
      stack.enter_context(self.proxy)
      self._stack = stack.pop_all()
    deadline = time.monotonic() + _UP_S
    while not _listens(ENGINE_PORT) and time.monotonic() < deadline:
      time.sleep(0.1)
    return self

  def __exit__(self, *exc_info):
    self._stack.close()

  def pids(self) -> set[int]:
    """The engine's processes."""
    if (engine := self.engine.process) is None:
      return set()
    return {engine.pid, *(x.pid for x in engine.children(recursive=True))}


def _listens(port: int) -> bool:
  return any(
      x.laddr.port == port and x.status == psutil.CONN_LISTEN
      for x in psutil.net_connections('tcp')
  )
