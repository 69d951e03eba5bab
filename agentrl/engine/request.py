"""Requests and results of the engine, as plain values, and their limits."""

import dataclasses
import math
from typing import Any

from agentrl.engine import stops

# Finish reasons in SGLang's words.
STOP, LENGTH, ABORT = 'stop', 'length', 'abort'
# SGLang's limit on the stop strings of a request.
MAX_STOPS = 32
# Most alternatives reported for a token; SGLang has no limit, but a longer list
# costs every row of a dispatch.
MAX_TOP_LOGPROBS = 128
# A prompt must be shorter than the context less this; SGLang's number.
RESERVED = 6
# Size of a logit_bias that survives a division by the least temperature.
MAX_BIAS = 1e30

_RULES = {
    'temperature': (lambda x: 0 <= x < math.inf, 'at least 0'),
    'top_p': (lambda x: 0 < x <= 1, 'in (0, 1]'),
    'top_k': (lambda x: x == -1 or x >= 1, '-1 or at least 1'),
    'min_p': (lambda x: 0 <= x <= 1, 'in [0, 1]'),
    'frequency_penalty': (lambda x: -2 <= x <= 2, 'in [-2, 2]'),
    'presence_penalty': (lambda x: -2 <= x <= 2, 'in [-2, 2]'),
    'repetition_penalty': (lambda x: 0 < x <= 2, 'in (0, 2], where 1 is off'),
}

# The likeliest tokens at a position, as (log-probability, id), the first first.
Top = tuple[tuple[float, int], ...]


@dataclasses.dataclass(frozen=True)
class SamplingParams:
  """Sampling parameters of a request; names and defaults are SGLang's."""

  max_new_tokens: int | None = 128  # None: as many as fit
  temperature: float = 1.0  # below 1e-6 is greedy
  top_p: float = 1.0
  top_k: int = -1  # -1 is off
  min_p: float = 0.0
  # These five change the logits; see `logit_processors`.
  frequency_penalty: float = 0.0
  presence_penalty: float = 0.0
  repetition_penalty: float = 1.0
  min_new_tokens: int = 0
  logit_bias: tuple[tuple[int, float], ...] = ()  # (id, what to add)
  stop: tuple[str, ...] = ()
  stop_regex: tuple[str, ...] = ()  # see `stops.StopPatterns`
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
  top_logprobs: int = 0  # alternatives reported for each scored token
  salt: str | None = None  # requests with different salts share no prefix
  adapter: str | None = None  # name of a loaded one; None: the weights alone


@dataclasses.dataclass(frozen=True)
class Result:
  """The continuation. Aborted requests keep what they had by then."""

  rid: str
  output_ids: tuple[int, ...]  # the stop id included when one was sampled
  output_logprobs: tuple[float, ...]
  text: str | None  # None without a tokenizer, and before the end
  # {'type': 'stop', 'matched': 2} and so on; None before the end.
  finish_reason: dict[str, Any] | None
  prompt_tokens: int
  # Of the prompt, whose entries were not computed again; None: not reported, by
  # a deterministic engine.
  cached_tokens: int | None
  # One entry for each prompt token from `logprob_start` on; the first is None.
  input_logprobs: tuple[float | None, ...] | None
  weight_version: str  # when it ended
  # (version, start, end): which weights gave output_ids[start:end].
  spans: tuple[tuple[str, int, int], ...]
  num_retractions: int
  latency_s: float
  first_token_s: float | None = None  # from the start; None: sampled nothing
  output_tops: tuple[Top, ...] = ()  # one an output id, if asked for
  input_tops: tuple[Top | None, ...] = ()  # one an input log-probability


@dataclasses.dataclass(frozen=True)
class RequestLimits:
  """Limits that requests are checked against."""

  vocab_size: int
  max_len: int  # the context length reported to clients
  has_tokenizer: bool
  eos_ids: tuple[int, ...] = ()
  rows: int | None = None  # most tokens of a request; None: `max_len`


def room(size: int, limits: RequestLimits) -> int:
  """Most tokens that may follow a prompt: two positions stay empty."""
  return max(min(limits.max_len - 2, limits.rows or limits.max_len) - size, 0)


def fit(request: Request, limits: RequestLimits) -> Request:
  """The request with a max_new_tokens that it has room for.

  As SGLang, which refuses what exceeds the context, and cuts what then would
  reach its last two positions.

  Raises:
    ValueError: the engine cannot serve it.
  """
  check(request, limits)
  most, wanted = (
      room(len(request.tokens), limits),
      request.params.max_new_tokens,
  )
  if wanted is not None and wanted <= most:
    return request
  params = dataclasses.replace(request.params, max_new_tokens=most)
  return dataclasses.replace(request, params=params)


def check(request: Request, limits: RequestLimits) -> None:
  """Raises ValueError if the engine cannot serve `request`."""
  params, size = request.params, len(request.tokens)
  if not size:
    raise ValueError('input_ids is empty; give at least one token.')
  for what, ids in (
      ('Token', request.tokens),
      ('Stop', params.stop_token_ids),
  ):
    if ids and (min(ids) < 0 or max(ids) >= limits.vocab_size):
      bad = next(t for t in ids if not 0 <= t < limits.vocab_size)
      raise ValueError(
          f'{what} id {bad} is outside the vocabulary of {limits.vocab_size}.'
      )
  if size >= limits.max_len - RESERVED:
    raise ValueError(
        f'The prompt of {size} tokens is not shorter than'
        f' {limits.max_len - RESERVED}: the context length is'
        f' {limits.max_len} tokens, and {RESERVED} of them are kept.'
    )
  wanted = params.max_new_tokens
  if wanted is not None and size + wanted > limits.max_len:
    raise ValueError(
        f'Requested {size + wanted} tokens: {size} of the prompt'
        f' and max_new_tokens={wanted}; the context length is'
        f' {limits.max_len} tokens. Lower max_new_tokens or shorten the prompt.'
    )
  if not -1 <= request.logprob_start <= size:
    raise ValueError(
        f'logprob_start_len must be in [-1, {size}], got'
        f' {request.logprob_start}.'
    )
  if not 0 <= request.top_logprobs <= MAX_TOP_LOGPROBS:
    raise ValueError(
        f'top_logprobs_num must be in [0, {MAX_TOP_LOGPROBS}], got'
        f' {request.top_logprobs}.'
    )
  for name, valid, rule in (
      ('max_new_tokens', wanted is None or wanted >= 0, 'at least 0'),
      (
          'min_new_tokens',
          0 <= params.min_new_tokens
          and (wanted is None or params.min_new_tokens <= wanted),
          f'in [0, max_new_tokens={wanted}]',
      ),
      (
          'sampling_seed',
          params.sampling_seed is None
          or -(2**63) <= params.sampling_seed < 2**63,
          'a number of 64 bits',
      ),
      *(
          (name, valid(getattr(params, name)), rule)
          for name, (valid, rule) in _RULES.items()
      ),
  ):
    if not valid:
      raise ValueError(f'{name} must be {rule}, got {getattr(params, name)}.')
  for token, bias in params.logit_bias:
    if not 0 <= token < limits.vocab_size or not abs(bias) <= MAX_BIAS:
      raise ValueError(
          f'logit_bias must have ids in [0, {limits.vocab_size - 1}] and values'
          f' in [-{MAX_BIAS:g}, {MAX_BIAS:g}], got {{{token}: {bias}}}.'
      )
  ends = {*limits.eos_ids, *params.stop_token_ids}
  if params.min_new_tokens and ends.issuperset(range(limits.vocab_size)):
    raise ValueError(
        'min_new_tokens leaves nothing to sample: every id of the vocabulary'
        ' is in stop_token_ids.'
    )
  if (params.stop or params.stop_regex) and not limits.has_tokenizer:
    raise ValueError(
        'Stop strings and patterns need a tokenizer, and the engine has none;'
        ' use stop_token_ids.'
    )
  if len(params.stop) > MAX_STOPS or not all(params.stop):
    raise ValueError(
        f'stop must be at most {MAX_STOPS} strings, none of them empty; got'
        f' {len(params.stop)}.'
    )
  stops.check(params.stop_regex)
