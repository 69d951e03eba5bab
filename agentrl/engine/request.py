"""What a caller asks of the engine, and what it answers: plain values."""

import dataclasses
from typing import Any

# Finish reasons in SGLang's words.
STOP, LENGTH, ABORT = 'stop', 'length', 'abort'


@dataclasses.dataclass(frozen=True)
class SamplingParams:
  """How to continue a prompt; names and defaults are SGLang's."""

  max_new_tokens: int = 128
  temperature: float = 1.0  # below 1e-6 is greedy
  top_p: float = 1.0
  top_k: int = -1  # -1 is off
  min_p: float = 0.0
  stop: tuple[str, ...] = ()
  stop_token_ids: tuple[int, ...] = ()
  ignore_eos: bool = False  # ignores `stop_token_ids` too, as SGLang does
  skip_special_tokens: bool = True
  no_stop_trim: bool = False
  sampling_seed: int | None = None  # None: the engine draws one


@dataclasses.dataclass(frozen=True)
class Request:
  """One continuation of one prompt."""

  rid: str
  tokens: tuple[int, ...]  # the prompt, at least one id
  params: SamplingParams
  # Score the prompt from this index on; -1 scores none of it. Entries before
  # it may come from the cache, the rest is computed again.
  logprob_start: int = -1
  salt: str | None = None  # requests with different salts share no prefix


@dataclasses.dataclass(frozen=True)
class Result:
  """The continuation. Aborted requests keep what they had by then."""

  rid: str
  output_ids: tuple[int, ...]  # the stop id included when one was sampled
  output_logprobs: tuple[float, ...]
  text: str | None  # None without a tokenizer
  finish_reason: dict[str, Any]  # {'type': 'stop', 'matched': 2} and so on
  prompt_tokens: int
  cached_tokens: int  # of the prompt, whose entries were not computed again
  # One entry for each prompt token from `logprob_start` on; the first is None.
  input_logprobs: tuple[float | None, ...] | None
  weight_version: str  # when it ended
  # (version, start, end): which weights gave output_ids[start:end].
  spans: tuple[tuple[str, int, int], ...]
  num_retractions: int
  latency_s: float
