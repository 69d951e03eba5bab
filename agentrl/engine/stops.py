"""Stopping at a regular expression.

Patterns come from requests and Python's `re` has no time limit, so `check`
takes none whose search may grow exponentially, and a match spans at most
MAX_MATCH characters.
"""

import re
from collections.abc import Sequence

from agentrl.text.tokenizer import Tokenizer

# SGLang's limits.
MAX_PATTERNS = 32
MAX_PATTERN_BYTES = 256
# Characters that a match is looked for in, at least.
MAX_MATCH = 256
# Each repeat is one more power of MAX_MATCH, each option a factor of two.
_MAX_REPEATS = 2
_MAX_OPTIONS = 8
_REPEAT = re.compile(r'(?:[*+]|\{\d*,?\d*\})[?+]?')


class StopPatterns:
  """Finds the first token after which a pattern matches the text."""

  def __init__(
      self, patterns: Sequence[str], tokenizer: Tokenizer, skip_special: bool
  ):
    self._patterns = [re.compile(pattern) for pattern in patterns]
    self._decode = lambda ids: tokenizer.decode(ids, skip_special=skip_special)
    self._window: list[int] = []
    self._cut = False

  def feed(self, token: int) -> str | None:
    """Takes one token; gives the pattern whose match it completes, if any."""
    self._window.append(token)
    # A character that is not complete is none yet, not even for `.`.
    text = self._decode(self._window).rstrip('\ufffd')
    # `^` is the beginning of the output, never that of the window.
    start = int(self._cut)
    for pattern in self._patterns:
      if pattern.search('\0' * start + text, start):
        return pattern.pattern
    half = len(self._window) // 2
    if len(self._window) >= 64 and not self._decode(
        self._window[:half]
    ).endswith('\ufffd'):
      rest = self._window[half:]
      if len(self._decode(rest)) >= MAX_MATCH:
        self._window, self._cut = rest, True
    return None


def check(patterns: Sequence[str]) -> None:
  """Raises ValueError for patterns that cannot be served."""
  if len(patterns) > MAX_PATTERNS:
    raise ValueError(
        f'stop_regex has {len(patterns)} patterns; {MAX_PATTERNS} are allowed.'
    )
  for pattern in patterns:
    size = len(pattern.encode('utf-8', 'replace'))
    if not 0 < size <= MAX_PATTERN_BYTES:
      raise ValueError(
          f'A stop_regex must have 1 to {MAX_PATTERN_BYTES} bytes, got {size}.'
      )
    try:
      compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
      raise ValueError(
          f'stop_regex {pattern!r} is no regular expression: {error}.'
      ) from error
    if compiled.search('') is not None:
      raise ValueError(
          f'stop_regex {pattern!r} matches nothing at all and so would stop'
          ' every request; give it a character that must be there.'
      )
    _check_cost(pattern)


def _check_cost(pattern: str) -> None:
  """Refuses repeats of groups, of references, and too many repeats."""
  # Escapes and sets count as one character each, whatever is in them.
  plain = re.sub(r'\\.', 'x', pattern, flags=re.DOTALL)
  plain = re.sub(r'\[\^?\]?[^\]]*\]', 'x', plain)
  # The `?` of (?:...) is no repeat.
  plain = re.sub(r'\(\?[^)]?', '(', plain)
  if re.search(r'\)[*+{]', plain):
    raise ValueError(
        f'stop_regex {pattern!r} repeats a group, whose search may take for'
        ' ever; write the repeated characters as a set, as in [ab]+.'
    )
  rest, repeats = _REPEAT.subn('', plain)
  options = rest.count('?')
  refers = re.search(r'\\[1-9]|\(\?P=', pattern)
  if repeats > _MAX_REPEATS or options > _MAX_OPTIONS or refers:
    raise ValueError(
        f'stop_regex {pattern!r} may take too long to search for: at most'
        f' {_MAX_REPEATS} of * + {{}}, {_MAX_OPTIONS} of ? and no reference to'
        ' a group are allowed.'
    )
