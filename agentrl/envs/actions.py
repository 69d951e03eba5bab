"""How a completion says its action: formats by name, read by pure functions."""

import re
from collections.abc import Callable

_MARK = 'Action:'


def parse(format: str, text: str) -> tuple[str, str | None]:
  """The action that `text` says, or '' and why none was found.

  Args:
    format: a name in FORMATS.
    text: a whole completion.

  Returns:
    `(action, None)` or `('', error)`; the error is a sentence for the policy.

  Raises:
    ValueError: the format is not known.
  """
  if format not in FORMATS:
    raise ValueError(
        f'Unknown action format {format!r}; known: {", ".join(FORMATS)}.'
    )
  return FORMATS[format](text)


def parse_react(text: str) -> tuple[str, str | None]:
  """ReAct (arXiv:2210.03629): the line after the only "Action:"."""
  count = text.count(_MARK)
  if count == 0:
    return '', f'there is no "{_MARK}" in it.'
  if count > 1:
    return '', f'it has {count} times "{_MARK}"; only one action is allowed.'
  return _first_line(text.partition(_MARK)[2], f'nothing follows "{_MARK}".')


def parse_plain(text: str) -> tuple[str, str | None]:
  """The completion is the action; of several lines, the first that is one."""
  return _first_line(text, 'it is empty.')


def parse_raw(text: str) -> tuple[str, str | None]:
  """The whole completion, for an environment that finds the action itself."""
  action = text.strip()
  return (action, None) if action else ('', 'it is empty.')


def _first_line(text: str, error: str) -> tuple[str, str | None]:
  line = re.sub(r'\s*\n.*', '', text.strip(), flags=re.DOTALL)
  return (line, None) if line else ('', error)


FORMATS: dict[str, Callable[[str], tuple[str, str | None]]] = {
    'react': parse_react,
    'plain': parse_plain,
    'raw': parse_raw,
}
