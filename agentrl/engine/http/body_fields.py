"""JSON bodies and the types of their fields, refused as SGLang refuses them.

A server validates twice. FastAPI comes first and converts what reads like the
expected type ('1' for 1); the schema's gate comes second and converts nothing.
Each has its own shape of a refusal, so the engine needs both.
"""

import asyncio
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from agentrl.engine.http.errors import BodyError, ContractError
from agentrl.http import strict_json

# Fields that may be null unless they are in `_NEVER_NULL`, by the type of a
# value; those in `_LISTS` may have one in a list for each prompt.
_STRINGS = (
    'text rid extra_key cache_salt lora_path routing_key session_id'
    ' custom_logit_processor bootstrap_host'
)
_BOOLEANS = (
    'stream return_logprob return_text_in_logprobs return_prompt_token_ids'
    ' return_hidden_states return_routed_experts return_sampling_mask'
    ' log_metrics'
)
_INTEGERS = (
    'logprob_start_len top_logprobs_num priority routed_dp_rank'
    ' max_thinking_tokens'
)
_TYPES = (
    dict.fromkeys(_STRINGS.split(), str)
    | dict.fromkeys(_BOOLEANS.split(), bool)
    | dict.fromkeys(_INTEGERS.split(), int)
)
_LISTS = frozenset(
    'text rid return_logprob logprob_start_len top_logprobs_num'
    ' return_hidden_states return_sampling_mask extra_key cache_salt lora_path'
    ' custom_logit_processor'.split()
)
_NULL_IN_LISTS = frozenset(('lora_path', 'custom_logit_processor'))
_NEVER_NULL = frozenset(
    'stream return_text_in_logprobs return_prompt_token_ids'
    ' return_hidden_states return_routed_experts log_metrics'.split()
)
# Not in the gate's schema, so that conversions stay.
_NO_GATE = frozenset(('return_routed_experts', 'log_metrics'))
_TRUE = frozenset('1 on t true y yes'.split())
_TRUTHS = _TRUE | frozenset('0 off f false n no'.split())
_INTEGER = re.compile(r'\s*[+-]?\d+(?:\.0+)?\s*')

# Bytes of a body that takes milliseconds to read, and so too long for the loop.
LARGE = 2**15

# The default of a required field.
REQUIRED = object()


async def read_json(request: web.Request) -> Any:
  """The decoded body.

  A large one is decoded in another thread, after which the loop may run; while
  it is decoded, the interpreter is held: about a second per 64 MB of ids.

  Raises:
    BodyError: it is not JSON by content type or content; see `strict_json`.
  """
  kind, _, suffix = request.content_type.rpartition('/')[2].partition('+')
  if 'json' not in (kind, suffix):
    raise BodyError(
        f'The body is not JSON, but {request.content_type}; send it with the'
        ' content type application/json.'
    )
  body = await request.read()
  if len(body) < LARGE:
    return _decode(body)
  return await asyncio.to_thread(_decode, body)


def _decode(body: bytes) -> Any:
  try:
    return strict_json.loads(body)
  except ValueError as error:
    raise BodyError(f'The body is not JSON: {error}.') from error


async def read_object(request: web.Request) -> dict[str, Any]:
  """The body of an OpenAI route.

  Raises:
    BodyError: it is not an object.
  """
  body = await read_json(request)
  if not isinstance(body, dict):
    raise BodyError(f'The body must be an object, got {body!r:.80}.')
  return body


def check(body: Any) -> None:
  """Refuses fields of the wrong type.

  Args:
    body: decoded JSON.

  Raises:
    BodyError: FastAPI refuses it.
    ContractError: only the gate does.
  """
  if not isinstance(body, dict):
    raise BodyError(f'The body must be an object, got {kind(body)}.')
  gated = []
  for name, wanted in _TYPES.items():
    value = body.get(name)
    if value is None:
      if name in body and name in _NEVER_NULL:
        raise BodyError(f'{name} must be {wanted.__name__}, got null.')
      continue
    many = name in _LISTS and isinstance(value, list)
    for item in value if many else [value]:
      if type(item) is wanted or (item is None and name in _NULL_IN_LISTS):
        continue
      message = (
          f'{name} must be {wanted.__name__}'
          f'{", or a list with one a prompt" if name in _LISTS else ""}, got'
          f' {kind(item)}.'
      )
      if not _converts(item, wanted):
        raise BodyError(message)
      if name not in _NO_GATE:
        gated.append(message)
  gated += _check_ids(body.get('input_ids'))
  _check_objects(body)
  if gated:
    raise ContractError(gated[0])


def _converts(value: Any, wanted: type) -> bool:
  """True if pydantic makes a `wanted` of it."""
  if wanted is bool:
    if isinstance(value, str):
      return value.lower() in _TRUTHS
    return isinstance(value, (int, float)) and value in (0, 1)
  if wanted is int:
    if isinstance(value, str):
      return _INTEGER.fullmatch(value) is not None
    return isinstance(value, (bool, int)) or (
        isinstance(value, float) and value.is_integer()
    )
  return False


def _check_ids(value: Any) -> list[str]:
  """The gate's objection to input_ids."""
  rule = 'input_ids must be a list of integers or a list of such.'
  if value is None:
    return []
  if not isinstance(value, list):
    raise BodyError(f'{rule[:-1]}, got {kind(value)}.')
  batch = bool(value) and isinstance(value[0], list)
  gated = []
  for ids in value if batch else [value]:
    if not isinstance(ids, list) or not all(
        isinstance(i, int) and -(2**63) <= i < 2**63 for i in ids
    ):
      raise BodyError(rule)
    if any(isinstance(i, bool) for i in ids):
      gated.append(rule)
  return gated


def _check_objects(body: Mapping[str, Any]) -> None:
  params = body.get('sampling_params')
  params = {} if params is None else params
  many = params if isinstance(params, list) else [params]
  if not all(isinstance(item, dict) for item in many):
    raise BodyError(
        'sampling_params must be an object, or a list with one a prompt.'
    )
  for name, wanted in (
      ('session_params', dict),
      ('custom_labels', dict),
      ('token_ids_logprob', list),
  ):
    value = body.get(name)
    if value is not None and not isinstance(value, wanted):
      raise BodyError(f'{name} must be {wanted.__name__}, got {kind(value)}.')
  labels = body.get('custom_labels') or {}
  if not all(isinstance(label, str) for label in labels.values()):
    raise BodyError('custom_labels must be texts.')


@dataclasses.dataclass(frozen=True)
class Field:
  """One field of a control route's body.

  Attributes:
    type: of its value.
    default: value of a missing field; `REQUIRED` refuses a body without it.
  """

  type: type
  default: Any = REQUIRED


async def read_fields(request: web.Request, **wanted: Field) -> dict[str, Any]:
  """A value for each of the `wanted` fields; others are passed over.

  Control routes have no gate, so what FastAPI converts is taken. A field may be
  null if that is its default.

  Raises:
    BodyError: the body is no object, or a field is missing or of another type.
  """
  body = await read_object(request)
  return {name: _read(body, name, field) for name, field in wanted.items()}


def _read(body: dict[str, Any], name: str, field: Field) -> Any:
  value = body.get(name, field.default)
  if value is REQUIRED:
    raise BodyError(f'The body needs a {name}.')
  if type(value) is field.type or (value is None and field.default is None):
    return value
  if not _converts(value, field.type):
    raise BodyError(f'{name} must be {field.type.__name__}, got {kind(value)}.')
  if field.type is bool and isinstance(value, str):
    return value.lower() in _TRUE
  text = value.partition('.')[0] if isinstance(value, str) else value
  return field.type(text)


def kind(value: Any) -> str:
  """The name of a JSON value's type in Python."""
  return type(value).__name__
