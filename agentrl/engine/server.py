"""The embedded inference engine: a model, its cache, and an HTTP server.

    engine = Engine(config, params, tokenizer, eos_ids=tokenizer.eos_ids, ...)
    url = engine.start('127.0.0.1')
    engine.update_params(new_params, '7')
    engine.stop()

It speaks SGLang's native HTTP contract, so a sampler client cannot tell the two
apart, and OpenAI's routes, so any agent library can talk to the policy; whoever
shares the process may `submit` without HTTP.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from aiohttp import web

from agentrl.engine import request as request_lib
from agentrl.engine.batcher import Batcher
from agentrl.engine.cache import SlotTable
from agentrl.engine.http.auth import Keys
from agentrl.engine.http.metrics import EngineMetrics
from agentrl.engine.http.routes import Routes
from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.request import Limits, Request, Result
from agentrl.engine.scheduler import Scheduler
from agentrl.errors import EngineError, WeightsError
from agentrl.models import lora as lora_lib, transformer
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.text.tokenizer import Tokenizer
from agentrl.weights import families, hf, names, peft

VERSION = 'agentrl-1'
# Binding a port takes milliseconds; ending the open connections a little more.
_SERVER_S = 30.0
_SHUTDOWN_S = 2.0


class Engine:
  """Serves one decoder; owns two threads, one for the device, one for HTTP."""

  def __init__(
      self,
      config: TransformerConfig,
      params: Any,
      tokenizer: Tokenizer | None,
      *,
      eos_ids: Sequence[int],
      model_path: str,
      served_name: str | None = None,
      max_running: int,
      max_len: int,
      slots: int,
      dtype: Any = jnp.float32,
      seed: int = 0,
      weight_version: str = 'default',
      max_queued: int = 4096,
      keys: Keys = Keys(),  # noqa: B008  (frozen)
      chat_template: str | None = None,
      max_body: int = 64 * 2**20,
      stream_interval: int = 1,
      incremental_streaming_output: bool = False,
      deterministic: bool = False,
      context_length: int | None = None,
  ):
    """Allocates the cache; `start` starts the threads.

    Args:
      config: shape of the decoder.
      params: engine layout. The engine keeps the arrays, so nobody else may
        donate them.
      tokenizer: for text prompts, stop strings and text in replies; None
        serves ids only.
      eos_ids: ids that end a completion.
      model_path: what /model_info names.
      served_name: the model's on the OpenAI routes; None: `model_path`.
      max_running: requests that decode at once; more wait.
      max_len: most tokens of prompt and completion together.
      slots: rows of the cache; those over `max_running` keep what ended
        requests computed, for the next turn of their episodes. The cache takes
        slots * max_len * 2 * layers * kv_heads * head_dim numbers.
      dtype: of activations and cache; parameters keep their own.
      seed: of the seeds drawn for requests that bring none.
      weight_version: of `params`.
      max_queued: requests that may wait; more are refused with 503.
      keys: what HTTP requests must carry.
      chat_template: of /v1/chat/completions; see `text.chat.ChatFormat`.
      max_body: bytes of a request; a larger one is refused with 413. Prompts
        are lists of ids: 64 MB hold several million of them.
      stream_interval: tokens between two chunks of a stream, at least; a
        dispatch gives up to `decode.MAX_STEPS` at once.
      incremental_streaming_output: whether a chunk of /generate tells what is
        new, instead of all so far.
      deterministic: the same requests get the same tokens and log-probabilities
        to the last bit, whatever is served beside them; see `ModelRunner`. A weight
        update in the middle of a request ends that promise for this request.
      context_length: what clients are told, and refused by as SGLang does, which
        keeps some of it; None: `max_len`. A prompt of max_len - 1 tokens needs
        `max_len + request.RESERVED`.

    Raises:
      ValueError: a size is impossible.
    """
    if not 1 <= max_running <= slots:
      raise ValueError(
          f'Need 1 <= max_running <= slots, got {max_running=} and {slots=}.'
      )
    if not 2 <= max_len <= config.max_positions:
      raise ValueError(
          f'max_len must be in [2, {config.max_positions}], the positions of'
          f' the model; got {max_len}.'
      )
    if max_body < 1 or stream_interval < 1:
      raise ValueError(
          f'max_body and stream_interval must be at least 1, got {max_body=}'
          f' and {stream_interval=}.'
      )
    self._config = config
    self._param_dtype = jax.tree.leaves(params)[0].dtype
    self._limits = Limits(
        vocab_size=config.vocab_size,
        max_len=context_length or max_len,
        has_tokenizer=tokenizer is not None,
        eos_ids=tuple(eos_ids),
        rows=max_len,
    )
    self._model_runner = ModelRunner(
        Transformer(config, dtype=dtype),
        params,
        slots=slots,
        max_len=max_len,
        max_rows=max_running,
        deterministic=deterministic,
    )
    self._table = SlotTable(
        slots, max_len, alignment=self._model_runner.alignment
    )
    batcher = Batcher(
        self._model_runner,
        self._table,
        max_running=max_running,
        weight_version=weight_version,
    )
    served_name = served_name or model_path
    metrics = EngineMetrics(served_name, self.stats)
    self._scheduler = Scheduler(
        batcher,
        max_queued=max_queued,
        eos_ids=tuple(eos_ids),
        tokenizer=tokenizer,
        seed=seed,
        observe=metrics.observe,
    )
    self._routes = Routes(
        self._scheduler,
        self._limits,
        metrics,
        tokenizer=tokenizer,
        chat_template=chat_template,
        info={
            'model_path': model_path,
            'served_model_name': served_name,
            'tokenizer_path': model_path if tokenizer is not None else None,
            'is_generation': True,
            'preferred_sampling_params': None,
            'load_format': 'auto',
            'reasoning_parser': None,
            'tool_call_parser': None,
            'disaggregation_mode': 'null',
            'has_image_understanding': False,
            'has_audio_understanding': False,
            'model_type': config.family,
            'architectures': [families.FAMILIES[config.family].architecture],
            'version': VERSION,
            'skip_tokenizer_init': tokenizer is None,
            'context_length': self._limits.max_len,
            'max_req_input_len': self._limits.max_len - request_lib.RESERVED,
            'max_running_requests': max_running,
            'max_queued_requests': max_queued,
            'stream_interval': stream_interval,
            'incremental_streaming_output': incremental_streaming_output,
            'max_total_num_tokens': slots * max_len,
            'dtype': jnp.dtype(dtype).name,
            'random_seed': seed,
            'enable_deterministic_inference': deterministic,
            'device': jax.devices()[0].platform,
            'accelerator': _accelerator(),
        },
        load_params=self._load_params,
        load_adapter=self._load_adapter,
        read_weight=self._read_weight,
        keys=keys,
        max_body=max_body,
        stream_interval=stream_interval,
        incremental_streaming_output=incremental_streaming_output,
    )
    self._loop: asyncio.AbstractEventLoop | None = None
    self._server: threading.Thread | None = None
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
    bound: concurrent.futures.Future[int] = concurrent.futures.Future()
    self._loop = asyncio.new_event_loop()
    self._server = threading.Thread(
        target=self._serve,
        args=(self._loop, host, port, bound),
        name='engine-http',
        daemon=True,
    )
    self._server.start()
    try:
      port = bound.result(_SERVER_S)
    except (OSError, OverflowError) as error:
      self._server = None  # has ended by itself
      self.stop()
      raise EngineError(
          f'The engine cannot listen on {host}:{port}: {error}. Give another'
          ' port, or 0 for a free one.'
      ) from error
    return f'http://{f"[{host}]" if ":" in host else host}:{port}'

  def warm_up(self) -> concurrent.futures.Future[None]:
    """Compiles what requests of usual sizes need, whatever they ask for.

    Without it the first request of each kind waits until its programs are
    compiled. Until the future is done health checks are answered with 503, and
    requests wait; `stop` ends it after the program at hand.

    Raises:
      EngineError: the engine has not been started, or has stopped.
    """
    if self._server is None:
      raise EngineError('The engine does not run; start it before warm_up.')
    return self._scheduler.warm_up()

  def stop(self) -> None:
    """Ends both threads; open requests end with status 503. Idempotent."""
    self._started = True
    self._scheduler.stop()
    server, self._server = self._server, None
    if server is None:
      return
    if server.is_alive():
      self._loop.call_soon_threadsafe(self._loop.stop)
    server.join(_SERVER_S)
    if server.is_alive():
      logging.error('The HTTP thread of the engine did not end; leaving it.')

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

    Running requests go on with the new weights over the cache entries of the
    old ones, and tell so in their spans.

    Args:
      params: engine layout, of the same shapes and types, on the device. The
        engine keeps the arrays: pass a copy of what a train step will donate.
      version: reported as `weight_version` from now on.
      flush: no later request may use an entry that the old weights computed.

    Raises:
      EngineError: they do not fit (the old ones stay), or it has stopped.
    """
    self._scheduler.call(Batcher.swap, params, version, flush=flush).result()

  def abort(self, rid: str | None) -> int:
    """Aborts requests, all for None; counts them. See `Batcher.abort`."""
    return self._scheduler.call(Batcher.abort, rid).result()

  def pause(self, mode: str) -> None:
    """Stops decoding; see `batcher.PAUSE_MODES`. New requests wait."""
    self._scheduler.call(Batcher.pause, mode).result()

  def resume(self) -> None:
    """Ends a pause."""
    self._scheduler.call(Batcher.resume).result()

  def flush(self) -> bool:
    """Empties the prefix cache; False, and nothing done, if requests exist."""
    return self._scheduler.call(Batcher.flush).result()

  @property
  def params(self) -> Any:
    """The weights in use, without an adapter; not to be donated."""
    return self._scheduler.batcher.adapters.base

  def stats(self) -> dict[str, Any]:
    """Load figures: requests, tokens, slots, compiled programs."""
    return self._scheduler.stats()

  def _serve(self, loop, host: str, port: int, bound) -> None:
    """The HTTP thread."""
    asyncio.set_event_loop(loop)
    # A client that goes away cancels its handler, which aborts its requests.
    runner = web.AppRunner(
        self._routes.app(),
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_S,
        access_log=None,
        auto_decompress=False,  # as SGLang, which looks at no encoding
    )

    async def listen() -> int:
      await runner.setup()
      site = web.TCPSite(runner, host, port, backlog=1024)
      await site.start()
      return runner.addresses[0][1]

    def close() -> None:
      loop.run_until_complete(runner.cleanup())
      loop.run_until_complete(loop.shutdown_default_executor())
      loop.close()

    try:
      port = loop.run_until_complete(listen())
    except (OSError, OverflowError) as error:  # in use, or no port at all
      close()
      bound.set_exception(error)
      return
    bound.set_result(port)
    try:
      loop.run_forever()
    finally:
      close()

  def _load_params(self, path: str) -> Any:
    """Reads a model for the engine; WeightsError unless it is the same shape."""
    config, params = hf.load(path, dtype=self._param_dtype)
    if config != self._config:
      raise WeightsError(
          f'{path} has the shape {config}; the engine serves {self._config}.'
      )
    return transformer.unstack_layers(params)

  def _load_adapter(self, path: str) -> Any:
    """The weights in use with an adapter of peft's format merged into them."""
    lora, adapter = peft.load_adapter(path, self._config)
    return lora_lib.merge(
        transformer.unstack_layers(adapter),
        lora_lib.Base(self.params, lora.scale),
        out_first=True,
    )

  def _read_weight(self, name: str, rows: int) -> Any:
    """The first `rows` rows of a tensor by its Hugging Face name, as lists."""
    table = {
        file_name: (tensor, index)
        for tensor, index, file_name in names.file_names(
            self._config, lambda tensor: tensor.hf
        )
    }
    if name == 'lm_head.weight' and self._config.tie_embeddings:
      name = 'model.embed_tokens.weight'  # as SGLang, which has it by both
    if name not in table:
      raise ValueError(
          f'No weight is called {name!r}; one that is: {next(iter(table))!r}.'
      )
    tensor, index = table[name]
    value = self.params
    for key in tensor.path:
      value = value[f'layers_{index[0]}' if key == 'layers' else key]
    # The engine's matrices lie as the file's, but for those of experts.
    if tensor.per_expert:
      value = value[index[1]].T
    return np.asarray(value, np.float32)[:rows].tolist()


def _accelerator() -> str | None:
  """Its marketing name; None on a CPU."""
  device = jax.devices()[0]
  return None if device.platform == 'cpu' else device.device_kind
