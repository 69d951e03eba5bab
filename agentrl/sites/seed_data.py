"""Data that lies beside code as JSON or SQL."""

import json
import pathlib
from typing import Any


def read(module: str) -> Any:
  """The JSON file beside a module, named like it; lists are tuples.

  Args:
    module: its `__file__`.
  """
  file = pathlib.Path(module).with_suffix('.json')
  return _frozen(json.loads(file.read_text(encoding='utf-8')))


def sql(module: str) -> str:
  """The text of `schema.sql` beside a module; `module` is its `__file__`."""
  file = pathlib.Path(module).with_name('schema.sql')
  return file.read_text(encoding='utf-8')


def _frozen(value: Any) -> Any:
  if isinstance(value, list):
    return tuple(map(_frozen, value))
  if isinstance(value, dict):
    return {name: _frozen(each) for name, each in value.items()}
  return value
