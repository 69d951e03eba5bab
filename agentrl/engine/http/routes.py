"""All HTTP routes of the engine, by path; health and state are handled here.

The other handlers are in `generate`, `control` and `openai.routes`.
"""

import asyncio
import datetime
import re
import time
from typing import Any

from aiohttp import web

from agentrl.engine.http import auth, errors, info
from agentrl.engine.http.control import Control
from agentrl.engine.http.errors import BodyError
from agentrl.engine.http.generate import Generate
from agentrl.engine.http.metrics import EngineMetrics
from agentrl.engine.http.read_write_lock import ReadWriteLock
from agentrl.engine.http.submissions import Submissions
from agentrl.engine.openai.routes import OpenAI
from agentrl.engine.options import EngineOptions
from agentrl.engine.request import Request, RequestLimits, SamplingParams
from agentrl.engine.scheduler import Scheduler
from agentrl.engine.weight_files import WeightFiles
from agentrl.text.tokenizer import Tokenizer

# A first token may have to wait for programs to compile; SGLang waits as long.
_HEALTH_S = 20.0
# Prompts of as many lengths, so that each check takes over the slot of the one
# before instead of an episode's; all are one chunk of prefill.
_HEALTH_PROMPTS = 16


class EngineRoutes:
  """The handlers of one engine."""

  def __init__(
      self,
      scheduler: Scheduler,
      limits: RequestLimits,
      metrics: EngineMetrics,
      tokenizer: Tokenizer | None,
      files: WeightFiles,
      about: dict[str, Any],
      options: EngineOptions,
  ):
    """Keeps what the routes need.

    Args:
      scheduler: runs the requests.
      limits: what requests are checked against.
      metrics: of /metrics.
      tokenizer: for text in and out; None takes and gives ids.
      files: reads new weights, and those in use.
      about: see `info.describe`; its model_path changes with an update from
        disk.
      options: of the engine.
    """
    self._scheduler = scheduler
    self._limits = limits
    self._metrics = metrics
    self._info = about
    self._options = options
    self._weights_lock = weights_lock = ReadWriteLock()
    self._submissions = Submissions(scheduler, weights_lock)
    self._generate = Generate(
        self._submissions,
        limits,
        tokenizer,
        incremental=options.incremental_streaming_output,
        stream_interval=options.stream_interval,
    )
    self._openai = OpenAI(
        self._generate,
        about,
        options.chat_template,
        options.chat_date,
        lambda: dict(scheduler.core.weights.paths),
    )
    self._control = Control(scheduler, weights_lock, about, files)
    self._checks = 0
    self._started = time.time()

  def app(self) -> web.Application:
    """The application."""
    control = self._control.routes()
    app = web.Application(
        client_max_size=self._options.max_body,
        middlewares=[
            errors.middleware(self._options.max_body, self._metrics.refused),
            auth.middleware(
                self._options.keys, {path for _, path, _ in control}
            ),
        ],
    )
    app.on_cleanup.append(self._close)
    for methods, path, handler in (
        ('POST PUT', '/generate', self._generate.handle),
        ('GET', '/health', self._health),
        ('GET', '/ping', self._health),
        ('GET', '/ready', self._ready),
        ('GET', '/health_generate', self._health_generate),
        ('GET', '/model_info', self._model_info),
        ('GET', '/get_model_info', self._model_info),
        ('GET', '/server_info', self._server_info),
        ('GET', '/get_server_info', self._server_info),
        ('GET', '/v1/loads', self._loads),
        ('GET', '/metrics', self._metrics.handle),
        *self._openai.routes(),
        *control,
    ):
      for method in methods.split():
        app.router.add_route(method, path, handler)
    return app

  async def _close(self, app: web.Application) -> None:
    del app
    self._generate.close()

  async def _health(self, request: web.Request) -> web.Response:
    del request
    return web.Response(status=200 if self._scheduler.healthy else 503)

  async def _ready(self, request: web.Request) -> web.Response:
    del request
    ready = self._scheduler.healthy and not self._scheduler.core.paused
    return web.Response(status=200 if ready else 503)

  async def _health_generate(self, request: web.Request) -> web.Response:
    """Samples a token when idle; else checks that dispatches end.

    While paused nothing is sampled: 503, as a server answers.
    """
    del request
    if not self._scheduler.healthy or self._scheduler.core.paused:
      return web.Response(status=503)
    load = self._scheduler.stats()
    idle = not (load['num_running_reqs'] or load['num_waiting_reqs'])
    try:
      async with asyncio.timeout(_HEALTH_S):
        if idle and not self._weights_lock.closed:
          alive = await self._sample_one()
        else:
          await asyncio.wrap_future(self._scheduler.call(lambda _: None))
          alive = self._scheduler.healthy
    except TimeoutError:
      alive = False
    return web.Response(status=200 if alive else 503)

  async def _sample_one(self) -> bool:
    size = min(1 + self._checks % _HEALTH_PROMPTS, self._limits.max_len - 1)
    self._checks += 1
    probe = Request(
        rid=f'HEALTH_CHECK_{self._checks}',
        tokens=(0,) * size,
        params=SamplingParams(max_new_tokens=1, temperature=0.0),
        salt='health',
    )
    (result,) = await self._submissions.finish([probe])
    return len(result.output_ids) == 1

  async def _model_info(self, request: web.Request) -> web.Response:
    del request
    about = {key: self._info[key] for key in info.MODEL_KEYS}
    version = self._scheduler.core.weights.version
    return web.json_response(about | {'weight_version': version})

  async def _server_info(self, request: web.Request) -> web.Response:
    del request
    return web.json_response(
        self._info
        | {
            'weight_version': self._scheduler.core.weights.version,
            'startup_time': {'started': self._started},
            'paused': self._scheduler.core.paused,
            'internal_states': [self._scheduler.stats()],
        }
    )

  async def _loads(self, request: web.Request) -> web.Response:
    rank = request.query.get('dp_rank', '0')
    if re.fullmatch(r'[+-]?\d{1,9}', rank) is None:
      raise BodyError(f'dp_rank must be an integer, got {rank!r:.80}.')
    now = datetime.datetime.now(datetime.UTC)
    load = {'timestamp': now.timestamp(), 'dp_rank': 0}
    return web.json_response({
        'timestamp': now.isoformat(),
        'version': self._info['version'],
        'accelerator': self._info['accelerator'],
        'num_accelerators': 1,
        'loads': [] if int(rank) else [load | self._scheduler.stats()],
    })
