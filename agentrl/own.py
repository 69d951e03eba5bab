"""Parts of a user's own, named `module:NAME` where a config takes a name."""

import importlib
from collections.abc import Mapping
from typing import Any, TypeVar

from agentrl.errors import ConfigError

T = TypeVar('T')


def is_own(name: Any) -> bool:
  """True for a name of the form `module:NAME`."""
  return isinstance(name, str) and ':' in name


def get(name: str, known: Mapping[str, T], kind: type, what: str) -> T:
  """The part called `name`.

  Args:
    name: a key of `known`, or `module:NAME`, such as `my_package.mine:PART`.
    known: the parts that come along.
    kind: type of one's own.
    what: in messages before the name, such as 'environment ' or 'algo.name='.

  Raises:
    ConfigError: no part has this name.
  """
  if name in known:
    return known[name]
  article = 'an' if kind.__name__[0] in 'AEIOU' else 'a'
  if not is_own(name):
    raise ConfigError(
        f'Unknown {what}{name!r}; known: {", ".join(known)}, or module:NAME'
        f' of {article} {kind.__name__} of your own.'
    )
  module, _, attribute = name.partition(':')
  try:
    found = getattr(importlib.import_module(module), attribute)
  except (ImportError, AttributeError, ValueError) as error:
    raise ConfigError(f'Cannot find {what}{name!r}: {error}') from error
  if not isinstance(found, kind):
    raise ConfigError(
        f'{name} is a {type(found).__name__}, not {article} {kind.__name__}.'
    )
  return found
