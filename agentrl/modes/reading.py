"""Reading a config: sections become dataclasses, and what is wrong is named."""

import dataclasses
from collections.abc import Callable, Sequence, Set
from typing import Any

from ml_collections import ConfigDict

from agentrl.errors import ConfigError


def read_config(config: ConfigDict, cls: type, **readers: Callable[[Any], Any]):
  """Makes `cls`, the whole of a mode's config, whose sections are its fields.

  Args:
    config: has `mode` and these sections, and nothing else; one that has a
      default may be missing.
    cls: a dataclass; a field that is one is read by `read`.
    **readers: of sections that are read otherwise.

  Raises:
    ConfigError: a section or a field is unknown or missing, or refused.
  """
  sections = {f.name: f.type for f in dataclasses.fields(cls)}
  optional = {
      f.name
      for f in dataclasses.fields(cls)
      if f.default is not dataclasses.MISSING
  }
  check_sections(config, ('mode', *sections), optional)
  values = {}
  for name, kind in sections.items():
    if name not in config:
      continue
    if name in readers:
      values[name] = readers[name](config[name])
    elif dataclasses.is_dataclass(kind):
      values[name] = read(kind, config[name], name)
    else:
      values[name] = config[name]
  return read(cls, values, 'config')


def read(cls: type, section: Any, name: str):
  """Makes the dataclass `cls` of a config section.

  Raises:
    ConfigError: a field is unknown or missing, or its value is refused.
  """
  values = (
      section.to_dict() if isinstance(section, ConfigDict) else dict(section)
  )
  fields = {f.name: f for f in dataclasses.fields(cls)}
  unknown = sorted(values.keys() - fields.keys())
  if unknown:
    raise ConfigError(
        f'Unknown field {name}.{unknown[0]}; known: {", ".join(fields)}.'
    )
  required = {
      key
      for key, field in fields.items()
      if field.default is dataclasses.MISSING
      and field.default_factory is dataclasses.MISSING
  }
  missing = sorted(required - values.keys())
  if missing:
    raise ConfigError(f'The config lacks {name}.{missing[0]}.')
  try:
    return cls(**values)
  except TypeError as error:  # compared with a number and is none
    raise ConfigError(
        f'A value of {name} has the wrong type: {error}'
    ) from error


def check_sections(
    config: ConfigDict, known: Sequence[str], optional: Set[str]
) -> None:
  """Refuses a config that has other top-level fields than the known ones.

  Or that lacks one of them which is not optional.
  """
  unknown = sorted(set(config.keys()) - set(known))
  if unknown:
    raise ConfigError(
        f'Unknown section config.{unknown[0]}; known: {", ".join(known)}.'
    )
  missing = sorted(set(known) - optional - set(config.keys()))
  if missing:
    raise ConfigError(f'The config lacks the section {missing[0]!r}.')


def at_least(name: str, value: float, least: float) -> None:
  """Refuses a smaller value."""
  if value < least:
    raise ConfigError(f'{name} must be at least {least}, got {value}.')


def above(name: str, value: float, bound: float) -> None:
  """Refuses a smaller or equal value."""
  if not value > bound:
    raise ConfigError(f'{name} must be above {bound}, got {value}.')


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
  """Refuses any other value."""
  if value not in known:
    raise ConfigError(f'Unknown {name}={value!r}; known: {", ".join(known)}.')


def idle(section: Any, prefix: str, names: Sequence[str], reason: str) -> None:
  """Refuses fields that were set although they cannot act.

  Args:
    section: a dataclass, whose defaults count as not set.
    prefix: its name in a config.
    names: of the fields.
    reason: why they cannot act.
  """
  defaults = {f.name: f.default for f in dataclasses.fields(section)}
  for name in names:
    value = getattr(section, name)
    if value != defaults[name]:
      raise ConfigError(f'{prefix}.{name}={value} has no effect: {reason}.')
