r"""Stopping at a string or a regular expression.

Patterns come from requests and are searched for in the scheduler's thread, so
they are RE2's, whose search takes time linear in the text whatever the pattern
is. RE2 is the judge of what a pattern may be. Where Python's `re`, which SGLang
uses, takes more or means something else:

- refused: lookaround, backreferences, possessive and atomic groups, `(?x)`,
  `(?#...)`, `(?a)`; the end of the text is `\z` and not `\Z`; a character by its
  code point is `\x{2603}` and not `\u2603`; a repeat counts to 1000 at most;
- `\w`, `\d`, `\s` and `\b` know ASCII only (`\pL` is a letter of any script), and
  `$` matches at the very end, not before a last line break.

A match spans at most MAX_MATCH characters.
"""

from collections.abc import Sequence
from typing import Any

import re2

from agentrl.text.tokenizer import Tokenizer

# SGLang's limits.
MAX_PATTERNS = 32
MAX_PATTERN_BYTES = 256
# Characters that a match is looked for in, at least.
MAX_MATCH = 256
# Instructions of all compiled patterns of a request. Each token costs at most
# so many steps a character of the window: some 20 ms, and microseconds where
# RE2's automaton fits into its memory, as it does for ordinary patterns.
MAX_INSTRUCTIONS = 4000
# Bytes of a compiled pattern with its automaton. re2 keeps the last 128.
_MAX_BYTES = 2**20


class StopStrings:
  """Finds the first token after which a stop string stands in the text."""

  def __init__(
      self, stops: Sequence[str], tokenizer: Tokenizer, skip_special: bool
  ):
    self._stops = stops
    self._decode = lambda ids: tokenizer.decode(ids, skip_special=skip_special)
    self._keep = max(len(stop) for stop in stops)
    self._window: list[int] = []

  def feed(self, token: int) -> str | None:
    """Takes one token; gives the stop string that it completes, if any."""
    self._window.append(token)
    text = self._decode(self._window)
    for stop in self._stops:
      if stop in text:
        return stop
    # A window keeps this linear in the length of the output. It is cut where
    # no character is torn, and what stays can still begin any stop string.
    half = len(self._window) // 2
    if len(self._window) >= 64 and not self._decode(
        self._window[:half]
    ).endswith('\ufffd'):
      rest = self._window[half:]
      if len(self._decode(rest)) >= self._keep:
        self._window = rest
    return None


class StopPatterns:
  """Finds the first token after which a pattern matches the text."""

  def __init__(
      self, patterns: Sequence[str], tokenizer: Tokenizer, skip_special: bool
  ):
    self._patterns = [_compile(pattern) for pattern in patterns]
    self._decode = lambda ids: tokenizer.decode(ids, skip_special=skip_special)
    self._window: list[int] = []
    # The last character before the window: `^` is the beginning of the output
    # and `\b` a boundary in it, wherever the window begins.
    self._before = ''

  def feed(self, token: int) -> str | None:
    """Takes one token; gives the pattern whose match it completes, if any."""
    self._window.append(token)
    # An incomplete UTF-8 sequence must not match, not even `.`.
    text = self._before + self._decode(self._window).rstrip('\ufffd')
    for pattern in self._patterns:
      if pattern.search(text, len(self._before)):
        return pattern.pattern
    half = len(self._window) // 2
    if len(self._window) >= 64:
      gone, rest = self._window[:half], self._window[half:]
      before = self._decode(gone)[-1:]
      if before != '\ufffd' and len(self._decode(rest)) >= MAX_MATCH:
        self._window, self._before = rest, before or self._before
    return None


def check(patterns: Sequence[str]) -> None:
  """Raises ValueError for patterns that cannot be served."""
  if len(patterns) > MAX_PATTERNS:
    raise ValueError(
        f'stop_regex has {len(patterns)} patterns; {MAX_PATTERNS} are allowed.'
    )
  instructions = 0
  for pattern in patterns:
    size = len(pattern.encode('utf-8', 'replace'))
    if not 0 < size <= MAX_PATTERN_BYTES:
      raise ValueError(
          f'A stop_regex must have 1 to {MAX_PATTERN_BYTES} bytes, got {size}.'
      )
    try:
      compiled = _compile(pattern)
    except re2.error as error:
      reason = error.args[0].decode('utf-8', 'replace')
      raise ValueError(
          f'stop_regex {pattern!r} is no regular expression of RE2: {reason}.'
          ' It has neither lookaround nor references to groups, nor (?x); write'
          ' the pattern without them, or stop at a plain string with stop.'
      ) from error
    except UnicodeEncodeError as error:
      raise ValueError(
          f'stop_regex {pattern!r} is no text: {error}; no reply can match it.'
      ) from error
    if compiled.search('') is not None:
      raise ValueError(
          f'stop_regex {pattern!r} matches nothing at all and so would stop'
          ' every request; give it a character that must be there.'
      )
    instructions += compiled.programsize
    if instructions > MAX_INSTRUCTIONS:
      raise ValueError(
          f'stop_regex {pattern!r} is too large: with those before it'
          f' {instructions} instructions, and {MAX_INSTRUCTIONS} are allowed.'
          ' Repeat less often, or name fewer characters than \\pL has.'
      )


def _compile(pattern: str) -> Any:
  options = re2.Options()
  options.log_errors = False  # the client gets them
  options.max_mem = _MAX_BYTES
  return re2.compile(pattern, options)
