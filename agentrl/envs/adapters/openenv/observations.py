"""Observations of an OpenEnv server as texts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import EnvFault


def text(observation: Mapping[str, Any], fields: Sequence[str] | None) -> str:
  """An observation in words: its only field, or a line for each that is set.

  Args:
    observation: as a server gives it.
    fields: to be shown; None: all.

  Raises:
    EnvFault: a field to be shown is missing.
  """
  missing = [x for x in fields or () if x not in observation]
  if missing:
    raise EnvFault(
        f'env.options.fields: an observation has no field {missing[0]!r}; it'
        f' has {", ".join(observation) or "none"}.'
    )
  shown = {
      x: observation[x] for x in (observation if fields is None else fields)
  }
  if len(shown) == 1:
    return _word(*shown.values())
  return '\n'.join(
      f'{x}: {_word(value)}' for x, value in shown.items() if value is not None
  )


def text_of_tool(observation: Mapping[str, Any]) -> str:
  """The result of a call of a tool in words."""
  error = observation.get('error')
  if error is not None:
    words = error.get('message') if isinstance(error, dict) else error
    return f'Error: {words}'
  result = observation.get('result')
  if not isinstance(result, dict) or not isinstance(
      result.get('content'), list
  ):
    return _word(result)
  parts = [
      str(part['text']) if part.get('text') is not None else '[content]'
      for part in result['content']
      if isinstance(part, dict)
  ]
  words = '\n'.join(parts) or '(nothing)'
  return f'Error: {words}' if result.get('is_error') else words


def _word(value: Any) -> str:
  return (
      value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
  )
