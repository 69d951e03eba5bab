"""HTTP routes of SGLang's contract over a `Scheduler`: all of them, by path.

Health and state are here; `generate`, `openai` and `control` have the rest.
"""

import asyncio
import datetime
import re
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from agentrl.engine.http import auth, errors
from agentrl.engine.http.auth import Keys
from agentrl.engine.http.control import Control
from agentrl.engine.http.errors import BodyError
from agentrl.engine.http.generate import Generate
from agentrl.engine.http.metrics import EngineMetrics
from agentrl.engine.http.submissions import Submissions
from agentrl.engine.openai.routes import OpenAI
from agentrl.engine.read_write_lock import ReadWriteLock
from agentrl.engine.request import Limits, Request, SamplingParams
from agentrl.engine.scheduler import Scheduler
from agentrl.text.tokenizer import Tokenizer

# A first token may have to wait for programs to compile; SGLang waits as long.
_HEALTH_S = 20.0
# Prompts of as many lengths, so that each check takes over the slot of the one
# before instead of an episode's; all are one chunk of prefill.
_HEALTH_PROMPTS = 16
# Of /model_info; /server_info has more.
_MODEL_KEYS = (
    'model_path',
    'served_model_name',
    'tokenizer_path',
    'is_generation',
    'preferred_sampling_params',
    'load_format',
    'reasoning_parser',
    'tool_call_parser',
    'disaggregation_mode',
    'has_image_understanding',
    'has_audio_understanding',
    'model_type',
    'architectures',
)


class Routes:
  """The handlers. One instance serves one scheduler."""

  def __init__(
      self,
      scheduler: Scheduler,
      limits: Limits,
      metrics: EngineMetrics,
      *,
      tokenizer: Tokenizer | None,
      chat_template: str | None,
      info: dict[str, Any],
      load_params: Callable[[str], Any],
      load_adapter: Callable[[str], Any],
      read_weight: Callable[[str, int], Any],
      keys: Keys,
      max_body: int,
      incremental_streaming_output: bool,
      stream_interval: int,
      health_timeout_s: float = _HEALTH_S,
  ):
    """Keeps what the routes need.

    Args:
      scheduler: runs the requests.
      limits: what requests are checked against.
      metrics: of /metrics.
      tokenizer: for text in and out; None takes and gives ids.
      chat_template: see `text.chat.ChatFormat`.
      info: what /model_info and /server_info tell beside the state; its
        model_path changes with an update from disk.
      load_params: path -> parameters in the engine's layout; blocks.
      load_adapter: path -> those in use with its adapter merged; blocks.
      read_weight: (Hugging Face name, rows) -> nested lists.
      keys: what a request must carry.
      max_body: bytes of a body; a larger one is refused with 413.
      incremental_streaming_output: see `generate.Generate`.
      stream_interval: see `generate.Generate`.
      health_timeout_s: seconds after which /health_generate gives up.
    """
    self._scheduler = scheduler
    self._limits = limits
    self._metrics = metrics
    self._info = info
    self._keys = keys
    self._max_body = max_body
    self._health_timeout_s = health_timeout_s
    self._weights_lock = weights_lock = ReadWriteLock()
    self._submissions = Submissions(scheduler, weights_lock)
    self._generate = Generate(
        self._submissions,
        limits,
        tokenizer,
        incremental=incremental_streaming_output,
        stream_interval=stream_interval,
    )
    self._openai = OpenAI(
        self._generate,
        info,
        chat_template,
        lambda: dict(scheduler.batcher.adapters.paths),
    )
    self._control = Control(
        scheduler,
        weights_lock,
        info,
        load_params=load_params,
        load_adapter=load_adapter,
        read_weight=read_weight,
    )
    self._checks = 0
    self._started = time.time()

  def app(self) -> web.Application:
    """The application."""
    control = self._control.routes()
    app = web.Application(
        client_max_size=self._max_body,
        middlewares=[
            errors.middleware(self._max_body, self._metrics.refused),
            auth.middleware(self._keys, {path for _, path, _ in control}),
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
    ready = self._scheduler.healthy and not self._scheduler.batcher.paused
    return web.Response(status=200 if ready else 503)

  async def _health_generate(self, request: web.Request) -> web.Response:
    """Samples a token when idle; else sees that dispatches end.

    While paused nothing is sampled: 503, as a server answers.
    """
    del request
    if not self._scheduler.healthy or self._scheduler.batcher.paused:
      return web.Response(status=503)
    load = self._scheduler.stats()
    idle = not (load['num_running_reqs'] or load['num_waiting_reqs'])
    try:
      async with asyncio.timeout(self._health_timeout_s):
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
    info = {key: self._info[key] for key in _MODEL_KEYS}
    version = self._scheduler.batcher.weight_version
    return web.json_response(info | {'weight_version': version})

  async def _server_info(self, request: web.Request) -> web.Response:
    del request
    return web.json_response(
        self._info
        | {
            'weight_version': self._scheduler.batcher.weight_version,
            'startup_time': {'started': self._started},
            'paused': self._scheduler.batcher.paused,
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
