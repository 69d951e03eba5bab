"""Reading the JSON of SGLang's /generate.

Keys, defaults and refusals follow SGLang 0.5.23. A feature of the contract that
this engine lacks is refused when it is asked for, never ignored; at its default
it may be named.
"""

import dataclasses
import functools
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentrl.engine import request as request_lib
from agentrl.engine.http import body_fields, unsupported
from agentrl.engine.http.errors import ContractError
from agentrl.engine.request import Request, RequestLimits, SamplingParams

# sampling_params of SGLang that are not implemented -> the type of a value
# (None: any) and the values that are accepted, beside null.
_UNSUPPORTED_PARAMS = {
    'json_schema': (str, ('',)),
    'regex': (str, ('',)),
    'ebnf': (str, ('',)),
    'structural_tag': (str, ('',)),
    'spaces_between_special_tokens': (bool, (True,)),
    'custom_params': (None, ({},)),
    'beam_width': (int, ()),
    'watermark': (dict, ()),
    'choice': (list, ([],)),
}
# Ours, with the types of their values.
_PARAMS: dict[str, Any] = {
    field.name: int if field.type == int | None else field.type
    for field in dataclasses.fields(SamplingParams)
} | {'n': int, 'stream_interval': int}
# Fields with a value for each prompt, or one for all.
_FOR_EACH = (
    'logprob_start_len', 'return_logprob', 'top_logprobs_num', 'extra_key',
    'cache_salt', 'lora_path',
)  # fmt: skip
# Fields that may be no list where there are several completions of a prompt.
_ONE_FOR_COPIES = ('return_logprob', 'logprob_start_len', 'top_logprobs_num')
# Completions of a prompt. A larger n would take the memory before the queue
# refused it.
_MAX_COPIES = 4096


@dataclasses.dataclass(frozen=True)
class Call:
  """One /generate: its requests, and how to write the answer."""

  requests: tuple[Request, ...]
  single: bool  # one object rather than a list
  return_logprob: tuple[bool, ...]
  return_prompt_token_ids: bool
  text_in_logprobs: bool  # the third of each triple
  stream: bool
  # Tokens between two chunks, of each request; None: the engine's.
  stream_intervals: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class _Params:
  """One object of sampling_params."""

  sampling: SamplingParams
  copies: int  # n
  stream_interval: int | None
  default_length: bool  # max_new_tokens is left out


def parse(body: Any, limits: RequestLimits, encode) -> Call:
  """The call that the body of a /generate describes.

  Args:
    body: decoded JSON.
    limits: of the engine.
    encode: text -> ids, or None without a tokenizer.

  Raises:
    ValueError: names the fault and the way out; includes the errors of
      `body_fields`.
  """
  body_fields.check(body)
  raw = body.get('sampling_params')
  many = raw if isinstance(raw, list) else [raw or {}]
  read = [_sampling_params(item, limits) for item in many]
  unsupported.refuse(body, unsupported.GENERATE)
  prompts, single = _prompts(body, encode)
  count = len(prompts)
  each = functools.partial(_each, count=count, single=single)
  params = each(
      read if isinstance(raw, list) else read[0], name='sampling_params'
  )
  copies = _copies(body, params)
  rids = _rids(body.get('rid'), count, single)
  starts, wanted, tops, extras, salts, adapters = (
      each(body.get(name), name=name) for name in _FOR_EACH
  )
  requests, logprobs, intervals = [], [], []
  for i, prompt in enumerate(prompts):
    own = params[i]
    sampling = own.sampling
    if own.default_length:  # then a prompt is never refused for its sake
      most = min(sampling.max_new_tokens, request_lib.room(len(prompt), limits))
      sampling = dataclasses.replace(sampling, max_new_tokens=most)
    start = starts[i] if wanted[i] and starts[i] is not None else -1
    for copy in range(copies):
      request = Request(
          # In SGLang too, copies of a prompt are requests of their own.
          rid=rids[i] if copies == 1 else uuid.uuid4().hex,
          tokens=prompt,
          params=_reseed(sampling, copy),
          logprob_start=start,
          top_logprobs=(tops[i] or 0) if wanted[i] else 0,
          salt=_salt(extras[i], salts[i]),
          adapter=adapters[i] or None,
      )
      requests.append(request_lib.fit(request, limits))
      logprobs.append(bool(wanted[i]))
      intervals.append(own.stream_interval)
  return Call(
      requests=tuple(requests),
      single=single and copies == 1,
      return_logprob=tuple(logprobs),
      return_prompt_token_ids=bool(body.get('return_prompt_token_ids')),
      text_in_logprobs=bool(body.get('return_text_in_logprobs')),
      stream=bool(body.get('stream')),
      stream_intervals=tuple(intervals),
  )


def _prompts(body, encode) -> tuple[list[tuple[int, ...]], bool]:
  """The prompts as ids, and whether there is one outside a list."""
  # SGLang ignores text beside ids.
  name = next((k for k in ('input_ids', 'text') if body.get(k) is not None), '')
  if not name:
    raise ValueError('Give text or input_ids; got neither.')
  value = body[name]
  if name == 'text':
    single = isinstance(value, str)
    if encode is None:
      raise ValueError(
          'The engine has no tokenizer, so it takes input_ids and no text.'
      )
    prompts = [tuple(encode(text)) for text in ([value] if single else value)]
  else:
    single = not (value and isinstance(value[0], list))
    prompts = [tuple(ids) for ids in ([value] if single else value)]
  if not prompts or not all(prompts):
    raise ValueError(f'{name} has an empty prompt; give at least one token.')
  return prompts, single


def _copies(body: dict[str, Any], params: Sequence[_Params]) -> int:
  """Completions of each prompt."""
  counts = {own.copies for own in params}
  if len(counts) > 1:
    raise ValueError(
        f'n must be the same for all prompts of a call, got {sorted(counts)}.'
    )
  [copies] = counts
  for name in _ONE_FOR_COPIES:
    if copies > 1 and isinstance(body.get(name), list):
      raise ValueError(
          f'{name} must be one value where n is {copies}, not a list.'
      )
  return copies


def _each(value: Any, count: int, name: str, *, single: bool) -> list[Any]:
  """One value for each of `count` prompts."""
  if not isinstance(value, list):
    return [value] * count
  if single:
    raise ValueError(f'{name} is a list, and there is one prompt, in no list.')
  if len(value) != count:
    raise ValueError(f'{name} has {len(value)} entries for {count} prompts.')
  return value


def _rids(rid: Any, count: int, single: bool) -> list[str]:
  if rid is None:
    return [uuid.uuid4().hex for _ in range(count)]
  if isinstance(rid, str):
    return [rid] if single else [f'{rid}_{i}' for i in range(count)]
  rids = _each(rid, count, 'rid', single=single)
  if len(set(rids)) != count:
    raise ValueError(f'rid must be distinct strings, one a prompt; got {rid}.')
  return rids


def _salt(extra_key: str | None, cache_salt: str | None) -> str | None:
  if not extra_key and not cache_salt:
    return None
  return repr((extra_key, cache_salt))


def _reseed(params: SamplingParams, copy: int) -> SamplingParams:
  """Copies of one prompt (n > 1) differ: seeds are derived from the first."""
  if not copy or params.sampling_seed is None:
    return params
  entropy = [params.sampling_seed % 2**64, copy]
  seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
  return dataclasses.replace(params, sampling_seed=seed)


def _sampling_params(raw: dict[str, Any], limits: RequestLimits) -> _Params:
  for key in raw:
    if key not in _PARAMS and key not in _UNSUPPORTED_PARAMS:
      names = ', '.join(sorted(_PARAMS | _UNSUPPORTED_PARAMS))
      raise ContractError(
          f'sampling_params: unknown field {key!r}; known: {names}.'
      )
  for key, (wanted, _) in _UNSUPPORTED_PARAMS.items():
    if wanted and raw.get(key) is not None and type(raw[key]) is not wanted:
      raise ContractError(_mistyped(key, wanted, raw[key]))
  values = {key: raw[key] for key in _PARAMS if raw.get(key) is not None}
  for key, value in values.items():
    values[key] = _typed(key, value)
  neutral = {key: values for key, (_, values) in _UNSUPPORTED_PARAMS.items()}
  unsupported.refuse(raw, neutral, 'sampling_params.')
  if 'max_new_tokens' in raw:  # null: as many as fit
    values['max_new_tokens'] = raw['max_new_tokens']
  copies = values.pop('n', 1)
  if not 1 <= copies <= _MAX_COPIES:
    raise ValueError(f'n must be in [1, {_MAX_COPIES}], got {copies}.')
  interval = values.pop('stream_interval', None)
  if interval is not None and interval < 1:
    raise ValueError(f'stream_interval must be at least 1, got {interval}.')
  if values.get('top_k', -1) >= limits.vocab_size:
    values['top_k'] = -1  # SGLang's own default is 2**30
  return _Params(
      SamplingParams(**values),
      copies=copies,
      stream_interval=interval,
      default_length='max_new_tokens' not in raw,
  )


def _typed(key: str, value: Any) -> Any:
  if key in ('stop', 'stop_regex'):
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(
        isinstance(stop, str) for stop in value
    ):
      raise ContractError(f'{key} must be a string or a list of strings.')
    return tuple(value)
  if key == 'stop_token_ids':
    # type() and not isinstance: a boolean is no token id.
    if not isinstance(value, list) or any(type(i) is not int for i in value):
      raise ContractError(
          'sampling_params.stop_token_ids must be a list of integers.'
      )
    return tuple(value)
  if key == 'logit_bias':
    return _logit_bias(value)
  wanted = _PARAMS[key]
  fits = type(value) is wanted or (wanted is float and type(value) is int)
  if not fits:
    raise ContractError(_mistyped(key, wanted, value))
  return wanted(value)


def _mistyped(key: str, wanted: type, value: Any) -> str:
  return (
      f'sampling_params.{key} must be {wanted.__name__}, got'
      f' {body_fields.kind(value)}.'
  )


def _logit_bias(value: Any) -> tuple[tuple[int, float], ...]:
  if not isinstance(value, dict) or any(
      type(bias) not in (int, float) for bias in value.values()
  ):
    raise ContractError('logit_bias must be an object of numbers by token id.')
  try:
    return tuple((int(token), float(bias)) for token, bias in value.items())
  except ValueError as error:  # no id
    raise ValueError(
        f'logit_bias must be numbers by token id: {error}.'
    ) from error
