"""JSON as SGLang's server reads it, which decodes bodies with orjson.

Python's own decoder takes more: NaN, other encodings, halves of surrogate pairs.
A client must not learn from the engine that a server would read these.
"""

import re
from typing import Any

import msgspec

# Rare, and the walk through the value takes time.
_LONG_NUMBER = re.compile(rb'\d{19}')


def loads(body: bytes) -> Any:
  """The decoded value.

  Integers beyond 64 bits are floats, as in orjson.

  Raises:
    ValueError: it is not JSON in UTF-8, has a number beyond any float or half
      of a surrogate pair, or is nested too deeply.
  """
  try:
    value = msgspec.json.decode(body)
    return _in_64_bits(value) if _LONG_NUMBER.search(body) else value
  except RecursionError as error:
    raise ValueError('it is nested too deeply') from error
  except OverflowError as error:
    raise ValueError('it has a number that is beyond any float') from error


def _in_64_bits(value: Any) -> Any:
  if isinstance(value, dict):
    return {key: _in_64_bits(item) for key, item in value.items()}
  if isinstance(value, list):
    return [_in_64_bits(item) for item in value]
  if type(value) is int and not -(2**63) <= value < 2**64:
    return float(value)
  return value
