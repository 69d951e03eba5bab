"""Observations that are whole conversations, of programs that speak to an endpoint.

Such a program decides what its model sees. What it adds to a conversation is an
observation like any other; another conversation is written as JSON behind a mark, and
begins a new segment.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_MARK = 'messages: '

# `role` and `content`, or of an assistant `call`, the JSON of `functions.called`.
Said = Mapping[str, Any]


def write(messages: Sequence[Said]) -> str:
  """An observation that stands for a conversation."""
  return _MARK + json.dumps(list(messages), ensure_ascii=False)


def read(observation: str) -> list[Said] | None:
  """The conversation that an observation stands for; None: it is an answer."""
  if not observation.startswith(_MARK):
    return None
  try:
    return json.loads(observation.removeprefix(_MARK))
  except ValueError:
    return None
