"""Tools of OpenAI's API, as requests have them and as replies call them."""

import json
import uuid
from collections.abc import Mapping
from typing import Any


def description(name: str, words: str | None) -> str:
  """The description of a tool on one line; without one its name explains it."""
  return ' '.join((words or '').split()) or name


def call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
  """A call of a tool, with an id of its own."""
  return {
      'id': f'call_{uuid.uuid4().hex[:24]}',
      'type': 'function',
      'function': {
          'name': name,
          'arguments': json.dumps(arguments, ensure_ascii=False),
      },
  }
