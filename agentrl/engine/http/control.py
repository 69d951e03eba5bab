"""Control routes: pause, abort, flush, and new weights."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from absl import logging
from aiohttp import web

from agentrl.engine.core import EngineCore
from agentrl.engine.http import body_fields
from agentrl.engine.http.body_fields import Field
from agentrl.engine.http.errors import BodyError
from agentrl.engine.http.info import TRAINED_WITH
from agentrl.engine.http.read_write_lock import ReadWriteLock
from agentrl.engine.scheduler import Scheduler
from agentrl.engine.weight_files import WeightFiles
from agentrl.errors import EngineError, WeightsError
from agentrl.http.errors import Handler

T = TypeVar('T')

# Fields of SGLang without a meaning here are checked and ignored.
_UPDATE = {
    'model_path': Field(str),
    'load_format': Field(str, None),
    'weight_version': Field(str, None),
    'abort_all_requests': Field(bool, False),
    'flush_cache': Field(bool, True),
    'is_async': Field(bool, False),
    'torch_empty_cache': Field(bool, False),
    'keep_pause': Field(bool, False),
    'recapture_cuda_graph': Field(bool, False),
    'token_step': Field(int, 0),
    'manifest': Field(dict, None),
}


class Control:
  """The handlers of routes that an admin key guards."""

  def __init__(
      self,
      scheduler: Scheduler,
      weights_lock: ReadWriteLock,
      info: dict[str, Any],
      files: WeightFiles,
  ):
    """Keeps what the routes need; see `routes.EngineRoutes`."""
    self._scheduler = scheduler
    self._weights_lock = weights_lock
    self._info = info
    self._files = files
    # One update at a time, paused or not: path, version and weights belong
    # together. The second waits.
    self._updating = asyncio.Lock()

  def routes(self) -> list[tuple[str, str, Handler]]:
    """Methods, path and handler of each route."""
    return [
        ('GET POST', '/flush_cache', self._flush_cache),
        ('POST', '/abort_request', self._abort_request),
        ('POST', '/pause_generation', self._pause),
        ('POST', '/continue_generation', self._continue),
        ('POST', '/update_weights_from_disk', self._update_from_disk),
        ('POST', '/update_weight_version', self._update_version),
        ('GET POST', '/get_weights_by_name', self._get_weights),
        ('POST', '/load_lora_adapter', self._load_lora),
        ('POST', '/unload_lora_adapter', self._unload_lora),
    ]

  async def _flush_cache(self, request: web.Request) -> web.Response:
    try:
      patience = float(request.query.get('timeout', '0'))
    except ValueError as error:
      raise BodyError(f'timeout must be a number: {error}.') from error
    if not patience >= 0:
      raise BodyError(f'timeout must be at least 0, got {patience}.')
    deadline = time.monotonic() + patience
    while not await self._run(EngineCore.flush):
      if time.monotonic() >= deadline:
        return web.Response(
            text='The cache was not flushed: requests run or wait.\n',
            status=400,
        )
      await asyncio.sleep(0.02)
    return web.Response(text='Cache flushed.\n')

  async def _abort_request(self, request: web.Request) -> web.Response:
    fields = await body_fields.read_fields(
        request, rid=Field(str, None), abort_all=Field(bool, False)
    )
    if fields['rid'] or fields['abort_all']:  # an empty rid alone does nothing
      rid = None if fields['abort_all'] else fields['rid']
      await self._run(EngineCore.abort, rid)
    return web.Response()

  async def _pause(self, request: web.Request) -> web.Response:
    fields = await body_fields.read_fields(request, mode=Field(str, 'abort'))
    mode = fields['mode']
    try:
      await self._run(EngineCore.pause, mode)
    except ValueError as error:
      raise BodyError(str(error)) from error
    return web.json_response(
        {'message': f'Generation is paused ({mode}).', 'status': 'ok'}
    )

  async def _continue(self, request: web.Request) -> web.Response:
    await body_fields.read_fields(request, torch_empty_cache=Field(bool, True))
    await self._run(EngineCore.resume)
    return web.json_response({'message': 'Generation goes on.', 'status': 'ok'})

  async def _update_from_disk(self, request: web.Request) -> web.Response:
    fields = await body_fields.read_fields(request, **_UPDATE)
    if fields['load_format'] not in (None, 'auto', 'safetensors'):
      raise ValueError(
          f"load_format {fields['load_format']!r} is not supported; leave it"
          ' out.'
      )
    if fields['abort_all_requests']:
      await self._run(EngineCore.abort, None)
    async with self._updating:
      # While paused nothing decodes: frozen requests would never let go of it.
      paused = self._scheduler.core.paused
      lock = (
          contextlib.nullcontext() if paused else self._weights_lock.writing()
      )
      async with lock:
        return await self._swap_from_disk(
            fields['model_path'],
            fields['weight_version'],
            fields['flush_cache'],
        )

  async def _swap_from_disk(
      self, path: str, version: str | None, flush: bool
  ) -> web.Response:
    if not path:
      return _updated(False, 'model_path is empty; the weights stay.')
    version = version or self._scheduler.core.weights.version
    loop = asyncio.get_running_loop()
    try:
      params = await loop.run_in_executor(None, self._files.load_model, path)
      running = await self._run(EngineCore.swap, params, version, flush=flush)
    except (WeightsError, EngineError, OSError) as error:
      logging.warning('Weights from %s were refused: %s', path, error)
      return _updated(False, f'The weights stay as they are: {error}')
    self._info['model_path'] = self._info['served_model_name'] = path
    self._info.pop(TRAINED_WITH, None)  # which was about the weights of before
    if flush and running:
      return _updated(
          False,
          'Weights were updated, but the cache was not flushed: '
          f'{running} requests are running.',
      )
    return _updated(True, 'Weights were updated.')

  async def _update_version(self, request: web.Request) -> web.Response:
    fields = await body_fields.read_fields(
        request, new_version=Field(str), abort_all_requests=Field(bool, True)
    )
    version = fields['new_version']
    async with self._updating:
      await self._run(
          EngineCore.set_version,
          version,
          abort_all=fields['abort_all_requests'],
      )
    return web.json_response({
        'success': True,
        'message': f'The weights are called {version!r} now.',
        'new_version': version,
    })

  async def _get_weights(self, request: web.Request) -> web.Response:
    # With a GET too, SGLang reads a body and no query.
    fields = await body_fields.read_fields(
        request, name=Field(str), truncate_size=Field(int, 100)
    )
    return web.json_response(
        self._files.read_rows(fields['name'], fields['truncate_size'])
    )

  async def _load_lora(self, request: web.Request) -> web.Response:
    fields = await body_fields.read_fields(
        request, lora_name=Field(str), lora_path=Field(str)
    )
    name, path = fields['lora_name'], fields['lora_path']
    loop = asyncio.get_running_loop()
    async with self._updating:
      try:
        params = await loop.run_in_executor(
            None, self._files.load_adapter, path
        )
        await self._run(EngineCore.load_adapter, name, path, params)
      except (WeightsError, EngineError, OSError) as error:
        logging.warning('The adapter %s was refused: %s', path, error)
        return self._adapters(error)
    return self._adapters()

  async def _unload_lora(self, request: web.Request) -> web.Response:
    fields = await body_fields.read_fields(request, lora_name=Field(str))
    name = fields['lora_name']
    async with self._updating:
      try:
        # As in SGLang, new requests are refused and running ones end first.
        while True:
          if await self._run(EngineCore.unload_adapter, name):
            break
          await asyncio.sleep(0.02)
      except EngineError as error:
        return self._adapters(error)
    return self._adapters()

  async def _run(self, method: Callable[..., T], *args, **kwargs) -> T:
    """The result of a method of the core, run by the scheduler."""
    return await asyncio.wrap_future(
        self._scheduler.call(method, *args, **kwargs)
    )

  def _adapters(self, error: Exception | None = None) -> web.Response:
    return web.json_response(
        {
            'success': error is None,
            'error_message': None if error is None else str(error),
            'loaded_adapters': dict(self._scheduler.core.weights.paths),
        },
        status=200 if error is None else 400,
    )


def _updated(success: bool, message: str) -> web.Response:
  return web.json_response(
      {'success': success, 'message': message, 'num_paused_requests': 0},
      status=200 if success else 400,
  )
