"""Values of answers and requests, read by schema and compared.

The rules are those of webarena-verified, but for two of its holes: there, an
answer `^.*$` is a regular expression that matches everything, and an answer
with a list in place of a value is right if one of the list is. Here patterns
and alternatives are the task's alone.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.envs.webarena.public import addresses, quantities, texts
from agentrl.envs.webarena.public.addresses import Address, Places

_NO_SCHEMA: Mapping[str, Any] = {}


@dataclasses.dataclass(frozen=True)
class Value:
  """A value of a known kind.

  Attributes:
    kind: a name in KINDS.
    options: what it is; several: any of them.
  """

  kind: str
  options: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Kind:
  """How values of a kind are read and compared.

  Attributes:
    parse: of a JSON value; raises ValueError.
    same: of an expected and an actual value.
    first: only the first of the task's alternatives counts.
    verbatim: texts are read as they are, else in `texts.plain`'s form.
  """

  parse: Callable[[Any], Any]
  same: Callable[[Any, Any], bool] = lambda a, b: a == b
  first: bool = False
  verbatim: bool = False


def _string(value: Any) -> str:
  return str(value).lower().strip() if value else ''


def _name(value: Any) -> str:
  if value is None:
    raise ValueError('There is no name.')
  return _string(value)


def _same_string(expected: str, actual: str) -> bool:
  if texts.is_pattern(expected):
    try:
      if re.fullmatch(expected, actual, re.IGNORECASE):
        return True
    except re.error:
      pass  # there, such a text stands for itself
  return texts.same(expected, actual)


def _near(share: float, least: float) -> Callable[[Any, Any], bool]:
  """Equality up to a share of the larger value, and to `least` at any rate."""

  def same(a: Any, b: Any) -> bool:
    a, b = float(a), float(b)
    return abs(a - b) <= max(least, share * max(a, b))

  return same


def _same_point(a: Sequence[float], b: Sequence[float]) -> bool:
  return all(abs(x - y) <= 1e-5 for x, y in zip(a, b, strict=True))  # 1 m


def _of_text(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
  def checked(value: Any) -> Any:
    if not isinstance(value, str) or not value:
      raise ValueError(f'{value!r} is no text.')
    return parse(value)

  return checked


_NUMBER = Kind(quantities.number)
KINDS: Mapping[str, Kind] = {
    'string': Kind(_string, _same_string),
    'number': _NUMBER,
    'integer': _NUMBER,
    'boolean': Kind(quantities.boolean),
    'currency': Kind(
        quantities.amount, lambda a, b: abs(a - b) * 10 <= 1, first=True
    ),
    'date': Kind(quantities.day),
    'month': Kind(quantities.month),
    'duration': Kind(quantities.seconds, _near(0.1, 180)),
    'distance': Kind(quantities.metres, _near(0.02, 10)),
    'coordinates': Kind(quantities.point, _same_point, first=True),
    'location-name': Kind(_name, texts.alike),
    'string_list': Kind(lambda value: texts.items(str(value or ''))),
    'json': Kind(_of_text(texts.json_text)),
    'markdown': Kind(_of_text(texts.markdown), verbatim=True),
    'url': Kind(_of_text(str), verbatim=True),  # see `read`
}


def kind_of(schema: Mapping[str, Any]) -> str:
  """The kind of values under a schema: its format, else its type."""
  return schema.get('format') or schema.get('type') or 'string'


def read(kind: str, raw: Any, places: Places, *, expected: bool) -> Value:
  """Reads a value.

  Args:
    kind: a name in KINDS.
    raw: a JSON value.
    places: the sites of the task.
    expected: it is the task's: it may be a pattern, or a list of alternatives.

  Raises:
    ValueError: it is not of this kind.
  """
  how = KINDS[kind]
  if isinstance(raw, (list, tuple)):
    pair = kind == 'coordinates' and len(raw) == 2
    if not pair or not all(isinstance(x, (int, float, str)) for x in raw):
      if not expected or len(raw) < 2:
        raise ValueError(f'{raw!r} is a list, not one value.')
      options = [read(kind, x, places, expected=True).options[0] for x in raw]
      return Value(kind, tuple(options[:1] if how.first else options))
  if kind == 'url':
    return Value(
        kind, (addresses.parse(how.parse(raw), places, expected=expected),)
    )
  pattern = expected and texts.is_pattern(raw)
  if pattern and kind == 'string':
    return Value(kind, (raw,))
  if isinstance(raw, str) and not (how.verbatim or pattern):
    if 'http' in raw:
      raw = places.derendered(raw) or raw
    raw = texts.plain(raw)
  try:
    return Value(kind, (how.parse(raw),))
  except (TypeError, OverflowError) as error:
    raise ValueError(f'{raw!r} is no {kind}.') from error


def read_object(
    raw: Any, schema: Mapping[str, Any], places: Places, *, expected: bool
) -> Any:
  """Reads the properties of an object; what cannot be read stays as it is.

  Raises:
    ValueError: the task's cannot be read.
  """
  if isinstance(raw, str):
    raw = _from_json(raw, dict)
  if not isinstance(raw, dict):
    if expected:
      raise ValueError(f'{raw!r} is no object.')
    return raw
  properties = schema.get('properties', _NO_SCHEMA)
  return {
      name: _read_property(
          value, properties.get(name, _NO_SCHEMA), places, expected=expected
      )
      for name, value in raw.items()
  }


def _read_property(
    raw: Any, schema: Mapping[str, Any], places: Places, *, expected: bool
) -> Any:
  if raw is None:
    return None
  if schema.get('type') == 'object':
    return read_object(raw, schema, places, expected=expected)
  if schema.get('type') != 'array':
    return _read_or_keep(kind_of(schema), raw, places, expected=expected)
  if isinstance(raw, str):
    raw = _from_json(raw, list)
  if not isinstance(raw, (list, tuple)):
    if expected:
      raise ValueError(f'{raw!r} is no list.')
    return raw
  kind = kind_of(schema.get('items', _NO_SCHEMA))
  return tuple(_read_or_keep(kind, x, places, expected=expected) for x in raw)


def read_list(
    raw: Sequence[Any],
    schema: Mapping[str, Any],
    places: Places,
    *,
    expected: bool,
) -> tuple[Any, ...]:
  """Reads the items of an answer; what cannot be read stays as it is.

  Raises:
    ValueError: the schema is not of a list, or the task's cannot be read.
  """
  if schema.get('type', 'array') != 'array':
    raise ValueError('Nothing was asked for.')
  inner = schema.get('items', _NO_SCHEMA)
  if inner.get('type') == 'object':
    return tuple(read_object(x, inner, places, expected=expected) for x in raw)
  kind = kind_of(inner)
  return tuple(_read_or_keep(kind, x, places, expected=expected) for x in raw)


def _read_or_keep(
    kind: str, raw: Any, places: Places, *, expected: bool
) -> Any:
  try:
    return read(kind, raw, places, expected=expected)
  except ValueError:
    if expected:
      raise
    return raw


def _from_json(text: str, wanted: type) -> Any:
  """The list or object that a text holds, else the text."""
  try:
    value = json.loads(text)
  except (ValueError, RecursionError):
    return text
  return value if isinstance(value, wanted) else text


def same(
    expected: Any,
    actual: Any,
    places: Places,
    *,
    ordered: bool = False,
    more: bool = False,
) -> bool:
  """True if an actual value is the expected one.

  Args:
    expected: values, and lists and objects of them.
    actual: likewise.
    places: the sites of the task.
    ordered: the order of lists counts.
    more: objects may have more properties.
  """
  if expected is None or actual is None:
    return expected is actual

  def inner(a: Any, b: Any) -> bool:
    return same(a, b, places, ordered=ordered, more=more)

  if isinstance(expected, Value):
    return _same_value(expected, actual, places)
  if isinstance(expected, dict):
    return (
        isinstance(actual, dict)
        and (actual.keys() >= expected.keys())
        and (more or actual.keys() == expected.keys())
        and all(inner(x, actual[name]) for name, x in expected.items())
    )
  if not isinstance(expected, (list, tuple)):
    return not isinstance(actual, Value) and expected == actual
  if not isinstance(actual, (list, tuple)) or len(expected) != len(actual):
    return False
  if ordered:
    return all(map(inner, expected, actual))
  # As there: each takes the first that fits, not the best matching of all.
  left = list(actual)
  for item in expected:
    place = next((k for k, x in enumerate(left) if inner(item, x)), None)
    if place is None:
      return False
    del left[place]
  return True


def _same_value(expected: Value, actual: Any, places: Places) -> bool:
  if not isinstance(actual, Value) or actual.kind != expected.kind:
    return False
  (option,) = actual.options
  if expected.kind == 'url':
    return any(
        addresses.same_base(x, option, places) and same_query(x, option, places)
        for x in expected.options
    )
  kind = KINDS[expected.kind]
  return any(kind.same(x, option) for x in expected.options)


def same_query(expected: Address, actual: Address, places: Places) -> bool:
  """True if two queries have the same first values; none is an empty one."""
  for name in {*expected.query, *actual.query}:
    want, got = (
        next(iter(x.query.get(name) or ()), None) or ''
        for x in (expected, actual)
    )
    pattern = want.options[0] if isinstance(want, Value) else want
    if texts.is_pattern(pattern):
      text = got.options[0] if isinstance(got, Value) else got
      if not re.match(pattern, str(text)):
        return False
    elif isinstance(want, Value):
      if not _same_value(want, got, places):
        return False
    elif want != got:
      return False
  return True
