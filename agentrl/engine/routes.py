"""HTTP routes of SGLang's native contract over a `Scheduler`."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from absl import logging
from aiohttp import web

from agentrl.engine import protocol, replies
from agentrl.engine.request import Limits
from agentrl.engine.scheduler import Scheduler
from agentrl.errors import EngineError, WeightsError

# Prompts are lists of ids; 64 MB hold several million of them.
_MAX_BODY = 64 * 2**20


class Gate:
  """Readers together or one writer; a waiting writer holds new readers back.

  Generations read, an update of the weights writes: SGLang's lock.
  """

  def __init__(self):
    self._readers = 0
    self._writing = False
    self._changed = asyncio.Condition()

  @contextlib.asynccontextmanager
  async def reading(self):
    async with self._changed:
      await self._changed.wait_for(lambda: not self._writing)
      self._readers += 1
    try:
      yield
    finally:
      async with self._changed:
        self._readers -= 1
        self._changed.notify_all()

  @contextlib.asynccontextmanager
  async def writing(self):
    async with self._changed:
      await self._changed.wait_for(lambda: not self._writing)
      self._writing = True
    try:
      async with self._changed:
        await self._changed.wait_for(lambda: not self._readers)
      yield
    finally:
      async with self._changed:
        self._writing = False
        self._changed.notify_all()


class Routes:
  """The handlers. One instance serves one scheduler."""

  def __init__(
      self,
      scheduler: Scheduler,
      limits: Limits,
      *,
      encode: Callable[[str], list[int]] | None,
      info: dict[str, Any],
      load_params: Callable[[str], Any],
      read_weight: Callable[[str, int], Any],
  ):
    """Keeps what the routes need.

    Args:
      scheduler: runs the requests.
      limits: what requests are checked against.
      encode: text -> ids, or None without a tokenizer.
      info: what /model_info and /server_info tell beside the state; its
        model_path changes with an update from disk.
      load_params: path -> parameters in the engine's layout; blocks.
      read_weight: (Hugging Face name, rows) -> nested lists.
    """
    self._scheduler = scheduler
    self._limits = limits
    self._encode = encode
    self._info = info
    self._load_params = load_params
    self._read_weight = read_weight
    self._gate = Gate()
    self._started = time.time()

  def app(self) -> web.Application:
    """The application."""
    app = web.Application(client_max_size=_MAX_BODY, middlewares=[_errors])
    for method, names, handler in (
        ('POST PUT', 'generate', self._generate),
        ('GET', 'health health_generate ready ping', self._health),
        ('GET', 'model_info get_model_info', self._model_info),
        ('GET', 'server_info get_server_info', self._server_info),
        ('GET', 'v1/loads', self._loads),
        ('GET POST', 'flush_cache', self._flush_cache),
        ('POST', 'abort_request', self._abort_request),
        ('POST', 'pause_generation', self._pause),
        ('POST', 'continue_generation', self._continue),
        ('POST', 'update_weights_from_disk', self._update_from_disk),
        ('GET POST', 'get_weights_by_name', self._get_weights),
    ):
      for name in names.split():
        for verb in method.split():
          app.router.add_route(verb, f'/{name}', handler)
    return app

  async def _generate(self, request: web.Request) -> web.Response:
    body = await _json(request)
    # Encoding and checking are the server's: a bad request costs no dispatch.
    call = protocol.parse(body, self._limits, self._encode)
    async with self._gate.reading():
      futures = []
      try:
        for item in call.requests:
          futures.append(self._scheduler.submit(item))
        results = await asyncio.gather(*map(asyncio.wrap_future, futures))
      except BaseException:
        # The client has gone (or a later part was refused): nobody will read
        # the rest, so it must not go on using the device.
        self._abandon(call.requests[: len(futures)])
        raise
    failed = replies.failure(results)
    if failed is not None:
      status, message = failed
      return _error(message, status)
    return web.json_response(replies.write(call, results))

  def _abandon(self, requests) -> None:
    for item in requests:
      with contextlib.suppress(EngineError):  # it has stopped: all are aborted
        self._scheduler.abort(item.rid)

  async def _health(self, request: web.Request) -> web.Response:
    ready = self._scheduler.healthy and not (
        request.path == '/ready' and self._scheduler.paused
    )
    return web.Response(status=200 if ready else 503)

  async def _model_info(self, request: web.Request) -> web.Response:
    del request
    version = self._scheduler.weight_version
    return web.json_response(self._info | {'weight_version': version})

  async def _server_info(self, request: web.Request) -> web.Response:
    del request
    return web.json_response(
        self._info
        | {
            'weight_version': self._scheduler.weight_version,
            'startup_time': self._started,
            'paused': self._scheduler.paused,
            'internal_states': [self._scheduler.stats()],
        }
    )

  async def _loads(self, request: web.Request) -> web.Response:
    del request
    return web.json_response({
        'timestamp': time.time(),
        'version': self._info['version'],
        'loads': [{'dp_rank': 0} | self._scheduler.stats()],
    })

  async def _flush_cache(self, request: web.Request) -> web.Response:
    try:
      patience = float(request.query.get('timeout', '0'))
    except ValueError as error:
      raise ValueError(f'timeout must be a number: {error}.') from error
    deadline = time.monotonic() + patience
    while not await asyncio.wrap_future(self._scheduler.flush()):
      if time.monotonic() >= deadline:
        return web.Response(
            text='The cache was not flushed: requests run or wait.\n',
            status=400,
        )
      await asyncio.sleep(0.02)
    return web.Response(text='Cache flushed.\n')

  async def _abort_request(self, request: web.Request) -> web.Response:
    body = await _object(request)
    rid, everything = body.get('rid') or '', bool(body.get('abort_all'))
    if rid or everything:  # as SGLang, an empty rid alone does nothing
      await asyncio.wrap_future(
          self._scheduler.abort(None if everything else str(rid))
      )
    return web.Response()

  async def _pause(self, request: web.Request) -> web.Response:
    body = await _object(request)
    mode = body.get('mode') or 'abort'
    await asyncio.wrap_future(self._scheduler.pause(mode))
    return web.json_response(
        {'message': f'Generation is paused ({mode}).', 'status': 'ok'}
    )

  async def _continue(self, request: web.Request) -> web.Response:
    await _object(request)
    await asyncio.wrap_future(self._scheduler.resume())
    return web.json_response({'message': 'Generation goes on.', 'status': 'ok'})

  async def _update_from_disk(self, request: web.Request) -> web.Response:
    body = await _object(request)
    path = body.get('model_path')
    if not isinstance(path, str) or not path:
      raise ValueError('update_weights_from_disk needs a model_path.')
    if body.get('load_format') not in (None, 'auto', 'safetensors'):
      raise ValueError(
          f"load_format {body['load_format']!r} is not supported; leave it out."
      )
    if body.get('abort_all_requests'):
      await asyncio.wrap_future(self._scheduler.abort(None))
    # While paused nothing decodes, and what is frozen would never end.
    paused = self._scheduler.paused
    lock = contextlib.nullcontext() if paused else self._gate.writing()
    async with lock:
      return await self._swap_from_disk(path, body)

  async def _swap_from_disk(
      self, path: str, body: dict[str, Any]
  ) -> web.Response:
    version = body.get('weight_version') or self._scheduler.weight_version
    flush = body.get('flush_cache')
    flush = True if flush is None else bool(flush)
    loop = asyncio.get_running_loop()
    try:
      params = await loop.run_in_executor(None, self._load_params, path)
      running = await asyncio.wrap_future(
          self._scheduler.update_params(params, str(version), flush=flush)
      )
    except (WeightsError, EngineError, OSError) as error:
      logging.warning('Weights from %s were refused: %s', path, error)
      return _updated(False, f'The weights stay as they are: {error}')
    self._info['model_path'] = self._info['served_model_name'] = path
    if flush and running:
      return _updated(
          False,
          'Weights were updated, but the cache was not flushed: '
          f'{running} requests are running.',
      )
    return _updated(True, 'Weights were updated.')

  async def _get_weights(self, request: web.Request) -> web.Response:
    body = dict(request.query)
    if request.method == 'POST':
      body = await _object(request)
    name, size = body.get('name'), int(body.get('truncate_size') or 100)
    if not name:
      raise ValueError('get_weights_by_name needs a name.')
    return web.json_response(self._read_weight(str(name), size))


def _updated(success: bool, message: str) -> web.Response:
  return web.json_response(
      {'success': success, 'message': message, 'num_paused_requests': 0},
      status=200 if success else 400,
  )


async def _json(request: web.Request) -> Any:
  """The body of /generate.

  Raises:
    ValueError: it is not JSON (NaN and infinities are not).
  """

  def refuse(constant: str):
    raise ValueError(f'{constant} is not JSON')

  try:
    return json.loads(await request.read(), parse_constant=refuse)
  except ValueError as error:
    raise ValueError(f'The body is not JSON: {error}.') from error


async def _object(request: web.Request) -> dict[str, Any]:
  """The body of a control route; an empty one is an empty object."""
  body = await _json(request) if await request.read() else {}
  if not isinstance(body, dict):
    raise ValueError(f'The body must be an object, got {body!r:.80}.')
  return body


@web.middleware
async def _errors(
    request: web.Request,
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> web.StreamResponse:
  """Gives refusals the shapes that SGLang's clients know."""
  try:
    return await handler(request)
  except protocol.ContractError as error:
    return web.json_response({'error': str(error)}, status=400)
  except ValueError as error:
    return _error(str(error), 400)
  except EngineError as error:  # full or stopped
    return _error(str(error), 503)
  except web.HTTPException as error:
    return web.json_response(
        {
            'object': 'error',
            'message': f'{request.method} {request.path}: {error.reason}',
            'type': str(error.status),
            'code': error.status,
        },
        status=error.status,
    )


def _error(message: str, status: int) -> web.Response:
  return web.json_response({'error': {'message': message}}, status=status)
