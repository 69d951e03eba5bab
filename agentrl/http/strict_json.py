"""JSON as SGLang's server reads it, which decodes bodies with orjson.

Python's own decoder takes more: NaN, other encodings, integers of any size. A
client must not learn from the engine that a server would read these.
"""

import json
import math
from typing import Any


def loads(body: bytes) -> Any:
  """The decoded value.

  Integers beyond 64 bits are floats, as in orjson.

  Raises:
    ValueError: it is not JSON in UTF-8, has a number beyond any float or half
      of a surrogate pair, or is nested too deeply.
  """
  try:
    value = _DECODER.decode(body.decode('utf-8'))
  except RecursionError as error:
    raise ValueError('it is nested too deeply') from error
  if b'\\ud' in body.lower():  # rare, and the walk takes time
    _refuse_halves(value)
  return value


def _refuse(constant: str) -> None:
  raise ValueError(f'{constant} is not JSON')


def _number(digits: str) -> float:
  value = float(digits)
  if math.isinf(value):
    raise ValueError(f'{digits:.20}... is beyond any float')
  return value


def _integer(digits: str) -> int | float:
  # Twenty digits and a sign: longer ones are out of range, and Python takes
  # quadratic time for thousands.
  if len(digits) <= 21:
    value = int(digits)
    if -(2**63) <= value < 2**64:
      return value
  return _number(digits)


def _refuse_halves(value: Any) -> None:
  """Raises for texts that have no UTF-8."""
  left = [value]
  while left:
    item = left.pop()
    if isinstance(item, str):
      try:
        item.encode()
      except UnicodeEncodeError as error:
        raise ValueError(f'it has half a surrogate pair: {error}') from error
    elif isinstance(item, dict):
      left += [*item.keys(), *item.values()]
    elif isinstance(item, list):
      left += item


_DECODER = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_number, parse_int=_integer
)
