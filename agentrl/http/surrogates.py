"""Half characters in JSON, which environments can say and decoders refuse."""

import json
import re
from typing import Any

# Escapes from left to right, so that `\\ud800` after a backslash is a text of six
# characters and no escape.
_ESCAPES = re.compile(
    rb'\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    rb'|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.',
    re.DOTALL,
)


def mend(line: bytes) -> bytes:
  """The JSON with U+FFFD in place of escaped halves of surrogate pairs."""
  return _ESCAPES.sub(
      lambda match: rb'\ufffd' if match['half'] else match[0], line
  )


def dumps(value: Any) -> str:
  """The JSON of a value, which every decoder takes: see `mend`."""
  text = json.dumps(value)
  return mend(text.encode()).decode() if '\\ud' in text else text
