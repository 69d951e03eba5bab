"""Reading the JSON of SGLang's /generate.

Keys, defaults and refusals follow SGLang 0.5.23. A feature of the contract that
this engine lacks is refused when it is asked for, never ignored; at its default
it may be named.
"""

import dataclasses
import uuid
from typing import Any

import numpy as np

from agentrl.engine import request as request_lib
from agentrl.engine.request import Limits, Request, SamplingParams

# sampling_params that are SGLang's and not ours -> what has no effect.
_UNSUPPORTED_PARAMS = {
    'json_schema': (None,),
    'regex': (None,),
    'ebnf': (None,),
    'structural_tag': (None,),
    'spaces_between_special_tokens': (None, True),
    'custom_params': (None,),
    'beam_width': (None,),
    'watermark': (None,),
    'choice': (None, []),
}
_UNSUPPORTED_KEYS = {
    'input_embeds': (None,),
    'token_ids_logprob': (None, []),
    'return_hidden_states': (None, False),
    'return_routed_experts': (None, False),
    'return_sampling_mask': (None, False),
    'image_data': (None,),
    'video_data': (None,),
    'audio_data': (None,),
    'session_params': (None,),
    'custom_logit_processor': (None,),
}
# Ours, with the types that their values may have.
_PARAMS = {
    'max_new_tokens': int,
    'temperature': float,
    'top_p': float,
    'top_k': int,
    'min_p': float,
    'frequency_penalty': float,
    'presence_penalty': float,
    'repetition_penalty': float,
    'min_new_tokens': int,
    'logit_bias': None,
    'ignore_eos': bool,
    'skip_special_tokens': bool,
    'no_stop_trim': bool,
    'sampling_seed': int,
    'stop': None,
    'stop_regex': None,
    'stop_token_ids': None,
    'n': int,
    'stream_interval': int,
}
# Of a prompt. A large n would take the memory before the queue refused it.
_MAX_COPIES = 4096


class ContractError(ValueError):
  """The request breaks the schema; SGLang's gate answers with a plain text."""


@dataclasses.dataclass(frozen=True)
class Call:
  """One /generate: its requests, and how to write the answer."""

  requests: tuple[Request, ...]
  single: bool  # one object rather than a list
  return_logprob: tuple[bool, ...]
  return_prompt_token_ids: bool
  text_in_logprobs: bool  # the third of each triple
  stream: bool
  # Of each request: tokens between two chunks; None: the engine's.
  stream_intervals: tuple[int | None, ...]


def parse(body: Any, limits: Limits, encode) -> Call:
  """Reads the body of a /generate.

  Args:
    body: decoded JSON.
    limits: of the engine.
    encode: text -> ids, or None without a tokenizer.

  Raises:
    ValueError: with what is wrong and the way out; ContractError among them.
  """
  if not isinstance(body, dict):
    raise ContractError(f'The body must be an object, got {_kind(body)}.')
  _refuse(body, _UNSUPPORTED_KEYS, '')
  prompts, single = _prompts(body, encode)
  count = len(prompts)
  params = _each(body.get('sampling_params'), count, 'sampling_params')
  rids = _rids(body.get('rid'), count, single)
  starts = _each(body.get('logprob_start_len'), count, 'logprob_start_len')
  wanted = _each(body.get('return_logprob'), count, 'return_logprob')
  tops = _tops(body, count)
  salts = [
      _salt(extra, salt)
      for extra, salt in zip(
          _each(body.get('extra_key'), count, 'extra_key'),
          _each(body.get('cache_salt'), count, 'cache_salt'),
          strict=True,
      )
  ]
  adapters = _each(body.get('lora_path'), count, 'lora_path')
  if not all(name is None or isinstance(name, str) for name in adapters):
    raise ContractError(
        'lora_path must be a name, or a list with one a prompt.'
    )
  requests, logprobs, intervals, many = [], [], [], False
  for i, prompt in enumerate(prompts):
    sampling, copies, interval = _sampling_params(params[i] or {}, limits)
    many = many or copies > 1
    start = starts[i] if wanted[i] and starts[i] is not None else -1
    if type(start) is not int:
      raise ContractError(
          f'logprob_start_len must be integers, got {_kind(start)}.'
      )
    for copy in range(copies):
      request = Request(
          rid=rids[i] if copies == 1 else f'{rids[i]}_{copy}',
          tokens=prompt,
          params=_reseed(sampling, copy),
          logprob_start=start,
          top_logprobs=tops[i] if wanted[i] else 0,
          salt=salts[i],
          adapter=adapters[i] or None,
      )
      request_lib.check(request, limits)
      requests.append(request)
      logprobs.append(bool(wanted[i]))
      intervals.append(interval)
  return Call(
      requests=tuple(requests),
      single=single and not many,
      return_logprob=tuple(logprobs),
      return_prompt_token_ids=bool(body.get('return_prompt_token_ids')),
      text_in_logprobs=bool(body.get('return_text_in_logprobs')),
      stream=bool(body.get('stream')),
      stream_intervals=tuple(intervals),
  )


def _prompts(body, encode) -> tuple[list[tuple[int, ...]], bool]:
  """The prompts as ids, and whether there is one outside a list."""
  given = [k for k in ('text', 'input_ids') if body.get(k) is not None]
  if len(given) != 1:
    raise ValueError(
        'Give exactly one of text and input_ids; got'
        f' {" and ".join(given) or "neither"}.'
    )
  value = body[given[0]]
  if given[0] == 'text':
    single = isinstance(value, str)
    texts = [value] if single else value
    if not isinstance(texts, list) or not all(
        isinstance(text, str) for text in texts
    ):
      raise ContractError('text must be a string or a list of strings.')
    if encode is None:
      raise ValueError(
          'The engine has no tokenizer, so it takes input_ids and no text.'
      )
    prompts = [tuple(encode(text)) for text in texts]
  else:
    if not isinstance(value, list):
      raise ContractError(f'input_ids must be a list, got {_kind(value)}.')
    single = not (value and isinstance(value[0], list))
    rule = 'input_ids must be a list of integers or a list of such.'
    prompts = [_ids(ids, rule) for ids in ([value] if single else value)]
  if not prompts or not all(prompts):
    raise ValueError(
        f'{given[0]} has an empty prompt; give at least one token.'
    )
  return prompts, single


def _ids(value: Any, rule: str) -> tuple[int, ...]:
  # type() and not isinstance: a boolean is no token id.
  if not isinstance(value, list) or any(type(i) is not int for i in value):
    raise ContractError(rule)
  return tuple(value)


def _each(value: Any, count: int, name: str) -> list[Any]:
  """One value for each of `count` prompts."""
  if not isinstance(value, list):
    return [value] * count
  if len(value) != count:
    raise ValueError(f'{name} has {len(value)} entries for {count} prompts.')
  return value


def _tops(body: dict[str, Any], count: int) -> list[int]:
  # An empty list asks for none, as null does.
  tops = _each(body.get('top_logprobs_num') or 0, count, 'top_logprobs_num')
  if not all(type(top) is int for top in tops):
    raise ContractError(
        'top_logprobs_num must be an integer, or a list with one a prompt.'
    )
  return tops


def _rids(rid: Any, count: int, single: bool) -> list[str]:
  if rid is None:
    return [uuid.uuid4().hex for _ in range(count)]
  if isinstance(rid, str):
    return [rid] if single else [f'{rid}_{i}' for i in range(count)]
  rids = _each(rid, count, 'rid')
  if not all(isinstance(r, str) for r in rids) or len(set(rids)) != count:
    raise ValueError(f'rid must be distinct strings, one a prompt; got {rid}.')
  return rids


def _salt(extra_key: Any, cache_salt: Any) -> str | None:
  if extra_key is None and cache_salt is None:
    return None
  return repr((extra_key, cache_salt))


def _reseed(params: SamplingParams, copy: int) -> SamplingParams:
  """Copies of one prompt (n > 1) differ: each seed is derived from the first."""
  if not copy or params.sampling_seed is None:
    return params
  entropy = [params.sampling_seed % 2**64, copy]
  seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
  return dataclasses.replace(params, sampling_seed=seed)


def _sampling_params(
    raw: Any, limits: Limits
) -> tuple[SamplingParams, int, int | None]:
  """The parameters, n, and the stream_interval."""
  if not isinstance(raw, dict):
    raise ContractError(f'sampling_params must be an object, got {_kind(raw)}.')
  for key in raw:
    if key not in _PARAMS and key not in _UNSUPPORTED_PARAMS:
      known = ', '.join(sorted(_PARAMS | _UNSUPPORTED_PARAMS))
      raise ContractError(
          f'sampling_params: unknown field {key!r}; known: {known}.'
      )
  _refuse(raw, _UNSUPPORTED_PARAMS, 'sampling_params.')
  values = {key: raw[key] for key in _PARAMS if raw.get(key) is not None}
  for key, value in values.items():
    values[key] = _typed(key, value)
  copies = values.pop('n', 1)
  if not 1 <= copies <= _MAX_COPIES:
    raise ValueError(f'n must be in [1, {_MAX_COPIES}], got {copies}.')
  interval = values.pop('stream_interval', None)
  if interval is not None and interval < 1:
    raise ValueError(f'stream_interval must be at least 1, got {interval}.')
  if values.get('top_k', -1) >= limits.vocab_size:
    values['top_k'] = -1  # SGLang's own default is 2**30
  return SamplingParams(**values), copies, interval


def _typed(key: str, value: Any) -> Any:
  if key in ('stop', 'stop_regex'):
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(
        isinstance(stop, str) for stop in value
    ):
      raise ContractError(f'{key} must be a string or a list of strings.')
    return tuple(value)
  if key == 'stop_token_ids':
    rule = 'sampling_params.stop_token_ids must be a list of integers.'
    return _ids(value, rule)
  if key == 'logit_bias':
    return _logit_bias(value)
  wanted = _PARAMS[key]
  fits = type(value) is wanted or (wanted is float and type(value) is int)
  if not fits:
    raise ContractError(
        f'sampling_params.{key} must be {wanted.__name__}, got {_kind(value)}.'
    )
  try:
    return wanted(value)
  except OverflowError as error:  # an integer that no float holds
    raise ValueError(f'sampling_params.{key} is too large.') from error


def _logit_bias(value: Any) -> tuple[tuple[int, float], ...]:
  if not isinstance(value, dict) or any(
      type(bias) not in (int, float) for bias in value.values()
  ):
    raise ContractError('logit_bias must be an object of numbers by token id.')
  try:
    return tuple((int(token), float(bias)) for token, bias in value.items())
  except (ValueError, OverflowError) as error:  # no id, or beyond any float
    raise ValueError(
        f'logit_bias must be numbers by token id: {error}.'
    ) from error


def _refuse(given: dict, unsupported: dict, prefix: str) -> None:
  for key, neutral in unsupported.items():
    if key in given and given[key] not in neutral:
      raise ValueError(
          f'{prefix}{key} is not supported by the embedded engine; leave it out'
          ' or use an SGLang server.'
      )


def _kind(value: Any) -> str:
  return type(value).__name__
