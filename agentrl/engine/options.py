"""Settings of an engine."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from agentrl.http.auth import Keys


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineOptions:
  """Settings of an engine.

  Attributes:
    model_path: what /model_info names.
    served_name: the model's on the OpenAI routes; None: `model_path`.
    trained_with: how the policy was asked in training, which /server_info and
      the model's card on the OpenAI routes tell until other weights are loaded
      from disk; None: unknown. See `weights.model_card.trained_with`.
    eos_ids: ids that end a completion.
    max_running: requests that decode at once; more wait.
    max_len: most tokens of prompt and completion together.
    slots: rows of the cache; those over `max_running` keep what ended requests
      computed, for the next turn of their episodes. The cache takes
      slots * max_len * 2 * layers * kv_heads * head_dim numbers.
    dtype: of activations and cache; parameters keep their own.
    seed: of the seeds drawn for requests without one.
    weight_version: of the first parameters.
    max_queued: requests that may wait; more are refused with 503.
    keys: secrets that HTTP requests must carry.
    chat_template: of /v1/chat/completions; see `text.chat.ChatFormat`.
    chat_date: its `date`.
    max_body: bytes of a request; a larger one is refused with 413. Prompts are
      lists of ids: 64 MB hold several million of them.
    stream_interval: tokens between two chunks of a stream, at least; a dispatch
      gives up to `decode.MAX_STEPS` at once.
    incremental_streaming_output: a chunk of /generate holds what is new,
      instead of all so far.
    deterministic: the same requests get the same tokens and log-probabilities
      to the last bit, whatever is served beside them; see `ModelRunner`.
      Results do not report `cached_tokens`, which depend on what is served. A
      weight update in the middle of a request ends that promise for this
      request.
    context_length: the limit reported to clients and enforced as SGLang does,
      which keeps some of it; None: `max_len`. A prompt of max_len - 1 tokens
      needs `max_len + request.RESERVED`.
  """

  model_path: str
  served_name: str | None = None
  trained_with: Mapping[str, Any] | None = None
  eos_ids: Sequence[int] = ()
  max_running: int
  max_len: int
  slots: int
  dtype: Any = jnp.float32
  seed: int = 0
  weight_version: str = 'default'
  max_queued: int = 4096
  keys: Keys = dataclasses.field(default=Keys(), repr=False)
  chat_template: str | None = None
  chat_date: str | None = None
  max_body: int = 64 * 2**20
  stream_interval: int = 1
  incremental_streaming_output: bool = False
  deterministic: bool = False
  context_length: int | None = None

  def __post_init__(self):
    if not 1 <= self.max_running <= self.slots:
      raise ValueError(
          'Need 1 <= max_running <= slots, got'
          f' max_running={self.max_running} and slots={self.slots}.'
      )
    if self.max_body < 1 or self.stream_interval < 1:
      raise ValueError(
          'max_body and stream_interval must be at least 1, got'
          f' max_body={self.max_body} and'
          f' stream_interval={self.stream_interval}.'
      )
