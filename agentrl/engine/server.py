"""The embedded inference engine: a model, its cache, and an HTTP server.

    engine = Engine(config, params, tokenizer, EngineOptions(...))
    url = engine.start('127.0.0.1')
    engine.update_params(new_params, '7')
    engine.stop()

It speaks SGLang's native HTTP contract, so a sampler client cannot tell the two
apart, and OpenAI's routes, so any agent library can talk to the policy; code in
the same process may `submit` without HTTP.
"""

import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

from agentrl.engine import request as request_lib
from agentrl.engine.cache import SlotTable
from agentrl.engine.core import EngineCore
from agentrl.engine.http import info
from agentrl.engine.http.metrics import EngineMetrics
from agentrl.engine.http.routes import EngineRoutes
from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.options import EngineOptions
from agentrl.engine.request import Request, RequestLimits, Result
from agentrl.engine.scheduler import Scheduler
from agentrl.engine.weight_files import WeightFiles
from agentrl.errors import EngineError
from agentrl.http import addresses
from agentrl.http.thread import HttpThread
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.text.tokenizer import Tokenizer

T = TypeVar('T')


class Engine:
  """Serves one decoder; owns two threads, one for the device, one for HTTP."""

  def __init__(
      self,
      config: TransformerConfig,
      params: Any,
      tokenizer: Tokenizer | None,
      options: EngineOptions,
  ):
    """Allocates the cache; `start` starts the threads.

    Args:
      config: shape of the decoder.
      params: engine layout. The engine keeps the arrays, so nobody else may
        donate them.
      tokenizer: for text prompts, stop strings and text in replies; None
        serves ids only.
      options: all else.

    Raises:
      ValueError: a request may be longer than the model has positions.
    """
    if not 2 <= options.max_len <= config.max_row:
      raise ValueError(
          f'max_len must be in [2, {config.max_row}], the positions of'
          f' the model; got {options.max_len}.'
      )
    self._limits = RequestLimits(
        vocab_size=config.vocab_size,
        max_len=options.context_length or options.max_len,
        has_tokenizer=tokenizer is not None,
        eos_ids=tuple(options.eos_ids),
        rows=options.max_len,
    )
    self._model_runner = ModelRunner(
        Transformer(config, dtype=options.dtype),
        params,
        slots=options.slots,
        max_len=options.max_len,
        max_rows=options.max_running,
        deterministic=options.deterministic,
    )
    self._table = SlotTable(
        options.slots,
        options.max_len,
        alignment=self._model_runner.alignment,
        whole=config.is_recurrent,
    )
    core = EngineCore(
        self._model_runner,
        self._table,
        max_running=options.max_running,
        weight_version=options.weight_version,
    )
    about = info.describe(config, options, self._limits)
    metrics = EngineMetrics(about['served_model_name'], self.stats)
    self._scheduler = Scheduler(
        core,
        max_queued=options.max_queued,
        eos_ids=self._limits.eos_ids,
        tokenizer=tokenizer,
        seed=options.seed,
        observe=metrics.observe,
    )
    self._routes = EngineRoutes(
        self._scheduler,
        self._limits,
        metrics,
        tokenizer,
        WeightFiles(config, lambda: self.params),
        about,
        options,
    )
    self._http: HttpThread | None = None
    self._waited_s = 0.0  # for compilations, when that was asked last
    self._started = False

  def start(self, host: str = '127.0.0.1', port: int = 0) -> str:
    """Starts both threads.

    Args:
      host: address to listen on.
      port: 0 takes a free one.

    Returns:
      The base URL.

    Raises:
      EngineError: it was started before, or the port cannot be bound.
    """
    if self._started:
      raise EngineError('The engine was started before; make a new one.')
    self._started = True
    self._scheduler.start()
    self._http = HttpThread(self._routes.app())
    try:
      port = self._http.start(host, port)
    except (OSError, OverflowError) as error:
      self._http = None  # has ended by itself
      self.stop()
      raise EngineError(
          f'The engine cannot listen on {addresses.listening(host, port)}:'
          f' {error}. Give another port, or 0 for a free one.'
      ) from error
    return addresses.base_url(host, port)

  def warm_up(self) -> concurrent.futures.Future[None]:
    """Compiles what requests of usual sizes need, whatever they ask for.

    Without it the first request of each kind waits until its programs are
    compiled. Until the future is done health checks are answered with 503, and
    requests wait; `stop` ends it after the program at hand.

    Raises:
      EngineError: the engine has not been started, or has stopped.
    """
    if self._http is None:
      raise EngineError('The engine does not run; start it before warm_up.')
    return self._scheduler.warm_up()

  def stop(self) -> None:
    """Ends both threads; open requests end with status 503. Idempotent."""
    self._started = True
    self._scheduler.stop()
    http, self._http = self._http, None
    if http is not None:
      http.stop()

  def free(self) -> None:
    """Drops weights and cache; only after `stop`.

    aiohttp keeps applications in a cache of its own, and so the whole engine.
    """
    self._scheduler.core.weights.free()

  def submit(self, request: Request) -> concurrent.futures.Future[Result]:
    """Queues a request without HTTP; see `Scheduler.submit`.

    Raises:
      ValueError: the engine cannot serve it.
      EngineError: the queue is full, or the engine has stopped.
    """
    return self._scheduler.submit(request_lib.fit(request, self._limits))

  def update_params(
      self, params: Any, version: str, *, flush: bool = True
  ) -> None:
    """Swaps the weights between two decode steps; returns when it is done.

    Requests that run go on behind what they have sampled; their spans report
    it. With `flush` their cache entries are computed anew, so that what follows
    has the log-probabilities of the new weights alone.

    Args:
      params: engine layout, of the same shapes and types, on the device. The
        engine keeps the arrays: pass a copy of what a train step will donate.
      version: reported as `weight_version` from now on.
      flush: no request may use an entry that the old weights computed.

    Raises:
      EngineError: they do not fit (the old ones stay), or it has stopped.
    """
    if flush:
      self.call(EngineCore.replace, params, version)
    else:
      self.call(EngineCore.swap, params, version, flush=False)

  def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """The result of a method of `EngineCore`, run between two dispatches.

        engine.call(EngineCore.pause, 'retract')

    Raises:
      EngineError: the engine has stopped.
    """
    return self._scheduler.call(function, *args, **kwargs).result()

  @property
  def params(self) -> Any:
    """The weights in use, without an adapter; not to be donated."""
    return self._scheduler.core.weights.base

  def stats(self) -> dict[str, Any]:
    """Load figures: requests, tokens, slots, compiled programs."""
    return self._scheduler.stats()

  def compilations(self) -> dict[str, float]:
    """Compilations of this engine, as metrics of a step.

    Returns:
      `sampler/compile_wait_s`, for which requests have waited since it was
      asked last, and `sampler/programs` so far.
    """
    stats = self.stats()
    waited, self._waited_s = self._waited_s, stats['compile_wait_s']
    return {
        'sampler/compile_wait_s': self._waited_s - waited,
        'sampler/programs': float(stats['num_compiled_programs']),
    }
