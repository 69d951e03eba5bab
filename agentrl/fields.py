"""Fields of a config's sections: type, default, meaning and constraint.

A section is a frozen dataclass whose fields are made by `field`, beside the code
that they are about. `agentrl.config` turns sections into a ConfigDict and back,
and checks them. Only the standard library and errors are imported here and
where sections stand: flags are parsed before jax is.
"""

import dataclasses
import datetime
import functools
import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agentrl import plugins
from agentrl.errors import ConfigError

_MEANING = 'agentrl'  # the key of a dataclass field's metadata


@dataclasses.dataclass(frozen=True)
class ActsIf:
  """The condition under which a field has an effect (invariant 11).

  Attributes:
    test: of the whole config of a mode.
    witness: settings under which the field acts, dotted paths to values.
    reason: the way out, after "PATH=VALUE has no effect: ".
  """

  test: Callable[[Any], bool]
  witness: Mapping[str, Any]
  reason: str


def when(
    path: str, *values: Any, reason: str = '', own: bool = False
) -> ActsIf:
  """Acts where the field at `path` has one of these values, or one's own."""
  ways = ' or '.join(f'{path}={value!r}' for value in values)

  def test(config: Any) -> bool:
    value = get(config, path)
    return value in values or (own and plugins.is_own(value))

  return ActsIf(test, {path: values[0]}, reason or f'it acts with {ways}')


def when_set(path: str, example: Any, reason: str) -> ActsIf:
  """Acts where the field at `path` is neither 0, False, empty nor None."""
  return ActsIf(lambda config: bool(get(config, path)), {path: example}, reason)


def unless_set(path: str, unset: Any, reason: str) -> ActsIf:
  """Acts where the field at `path` is 0, False, empty or None."""
  return ActsIf(lambda config: not get(config, path), {path: unset}, reason)


_BOUNDS = {
    'ge': ('at least', operator.ge),
    'gt': ('above', operator.gt),
    'le': ('at most', operator.le),
    'lt': ('below', operator.lt),
}


@dataclasses.dataclass(frozen=True)
class Meaning:
  """Purpose and values of a field; bounds are named as in pydantic."""

  text: str
  ge: float | None = None
  gt: float | None = None
  le: float | None = None
  lt: float | None = None
  one_of: tuple[Any, ...] = ()  # the value, or each element of a tuple
  own: bool = False  # or `module:NAME`, or `FILE.py:NAME`
  file: bool = False  # or a text: what a file of this name has
  acts_if: tuple[ActsIf, ...] = ()  # all of them
  example: Any = None  # another value, where none follows from the rest

  def bounds(self) -> Iterator[tuple[str, float, Callable[..., bool]]]:
    """Words, bound and operator of each bound there is."""
    for name, (words, holds) in _BOUNDS.items():
      if (bound := getattr(self, name)) is not None:
        yield words, bound, holds

  @property
  def constraint(self) -> str:
    """In words; empty without one."""
    words = [f'{word} {bound}' for word, bound, _ in self.bounds()]
    if self.one_of:
      rest = (
          ', or module:NAME or FILE.py:NAME' * self.own
          + ', or a file' * self.file
      )
      words.append(f'one of {", ".join(map(str, self.one_of))}{rest}')
    for act in self.acts_if:
      ways = ', '.join(f'{path}={x!r}' for path, x in act.witness.items())
      words.append(f'acts with {ways}')
    return '; '.join(words)


def check_day(path: str, value: str | None) -> None:
  """Refuses a text that is no day as YYYY-MM-DD; None is none.

  Raises:
    ConfigError: says which field.
  """
  try:
    datetime.date.fromisoformat(value or '2026-01-31')
  except ValueError as error:
    raise ConfigError(
        f'{path}={value!r} is no day as YYYY-MM-DD, such as 2026-01-31.'
    ) from error


def field(
    default: Any,
    text: str,
    *,
    acts_if: ActsIf | tuple[ActsIf, ...] = (),
    **meaning: Any,
) -> Any:
  """A dataclass field; arguments as `Meaning` has them."""
  acts_if = (acts_if,) if isinstance(acts_if, ActsIf) else acts_if
  metadata = {_MEANING: Meaning(text, acts_if=acts_if, **meaning)}
  if isinstance(default, dict):  # which each instance has of its own
    return dataclasses.field(default_factory=default.copy, metadata=metadata)
  return dataclasses.field(default=default, metadata=metadata)


def section(cls: type) -> Any:
  """A dataclass field that is a section itself, with that section's defaults."""
  return dataclasses.field(default_factory=cls)


def meaning(field: dataclasses.Field) -> Meaning:
  """The purpose and values of a field."""
  return field.metadata[_MEANING]


def default(field: dataclasses.Field) -> Any:
  """The value that it has where a config is silent."""
  if field.default_factory is not dataclasses.MISSING:
    return field.default_factory()
  return field.default


def get(config: Any, path: str) -> Any:
  """The value at a dotted path of nested dataclasses."""
  return functools.reduce(getattr, path.split('.'), config)


def is_optional(kind: Any) -> bool:
  """True if None is a value of this type."""
  return kind is Any or type(None) in typing.get_args(kind)


def base_type(kind: Any) -> Any:
  """`int` of `int | None`, `tuple` of `tuple[str, ...]`, else `object`."""
  rest = [k for k in typing.get_args(kind) if k is not type(None)]
  if isinstance(kind, types.UnionType):
    return base_type(rest[0]) if len(rest) == 1 else object
  kind = typing.get_origin(kind) or kind
  return kind if kind in (bool, int, float, str, tuple) else object


_WORDS = {bool: 'True or False', int: 'a whole number', float: 'a number'}
_WORDS |= {str: 'a text', types.NoneType: 'None'}


def describe(kind: Any) -> str:
  """A type in words."""
  if isinstance(kind, types.UnionType):
    return ' or '.join(map(describe, typing.get_args(kind)))
  if typing.get_origin(kind) is tuple:
    inner = describe(typing.get_args(kind)[0])
    return f'a list of {inner.removeprefix("a ")}s'
  if typing.get_origin(kind) is dict:
    return 'a dict'
  return _WORDS.get(kind, 'any value')


def convert(
    path: str, value: Any, kind: Any, meaning: Meaning = Meaning('')
) -> Any:
  """`value` as this type: integers may stand for floats, lists for tuples.

  Raises:
    ConfigError: it is of another type.
  """
  for option in _options(kind):
    conversion = _as(value, option)
    if conversion is not _NOT:
      return conversion
  raise ConfigError(mistyped(path, value, kind, meaning))


def mistyped(path: str, value: Any, kind: Any, meaning: Meaning) -> str:
  """The message about a value of another type."""
  message = f'{path} is {describe(kind)}, got {value!r}'
  for option in _options(kind):
    if _as((value,), option) is not _NOT:  # one in place of a list
      example = meaning.example or meaning.one_of[:1] or (value,)
      return f'{message}; a list is written as in {example!r}.'
  return f'{message}.'


def no_section(path: str, value: Any, names: Iterable[str]) -> str:
  """The message about a value where a section belongs."""
  return (
      f'{path} is a section with the fields {", ".join(names)}, got {value!r}.'
  )


def _options(kind: Any) -> tuple[Any, ...]:
  return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


_NOT = object()  # of this type


def _as(value: Any, kind: Any) -> Any:
  if kind is Any:
    return value
  if kind is type(None):
    return None if value is None else _NOT
  origin, inner = typing.get_origin(kind), typing.get_args(kind)
  if origin is tuple:
    if not isinstance(value, (tuple, list)):
      return _NOT
    values = tuple(_as(item, inner[0]) for item in value)
    return _NOT if _NOT in values else values
  if origin is dict:
    return dict(value) if isinstance(value, Mapping) else _NOT
  if kind is float and type(value) is int:
    return float(value)
  return value if type(value) is kind else _NOT


def check(path: str, value: Any, meaning: Meaning) -> None:
  """Refuses a value out of bounds or not among the known ones.

  Raises:
    ConfigError: names the field, the bound and the value.
  """
  if value is None:
    return
  _check_finite(path, value)
  for item in value if isinstance(value, tuple) else (value,):
    if meaning.own and plugins.is_own(item):
      continue
    if meaning.file and not item.isidentifier():
      continue  # `config.reading` has put a file's text here
    if meaning.one_of and item not in meaning.one_of:
      choices = ', '.join(map(str, meaning.one_of))
      choices += ', or module:NAME of your own' * meaning.own
      choices += ', or a file' * meaning.file
      raise ConfigError(f'Unknown {path}={item!r}; known: {choices}.')
    if isinstance(item, (int, float)):
      for words, bound, holds in meaning.bounds():
        if not holds(item, bound):
          raise ConfigError(f'{path} must be {words} {bound}, got {value}.')


def _check_finite(path: str, value: Any) -> None:
  """Refuses NaN and infinities, in lists and dicts too."""
  if isinstance(value, Mapping):
    for name, inner in value.items():
      _check_finite(f'{path}.{name}', inner)
  elif isinstance(value, (tuple, list)):
    for inner in value:
      _check_finite(path, inner)
  elif isinstance(value, float) and not math.isfinite(value):
    raise ConfigError(f'{path} must be a finite number, got {value}.')
