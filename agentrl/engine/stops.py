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

from collections.abc import Mapping, Sequence
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


# Bytes of a character in UTF-8, at most.
_MAX_CHARACTER = 4
# Tokens of a window that is not cut yet.
_WINDOW = 64


class _Window:
  """The end of the output's text, long enough for any match.

  Without it the time would be quadratic in the length of the output.

  Attributes:
    before: the last character before the window, '' at the beginning.
  """

  def __init__(self, tokenizer: Tokenizer, skip_special: bool, keep: int):
    """An empty window that comes to hold at least `keep` characters."""
    self.before = ''
    self._decode = lambda ids: tokenizer.decode(ids, skip_special=skip_special)
    self._skipped = tokenizer.control_ids if skip_special else frozenset()
    self._keep = keep
    # Half of these tokens hold `keep` characters if each has a byte of one.
    self._most = max(_WINDOW, 2 * _MAX_CHARACTER * keep)
    self._ids: list[int] = []

  def add(self, token: int) -> str:
    """Takes one token; gives the text."""
    if token not in self._skipped:
      self._ids.append(token)
    return self._decode(self._ids)

  def shorten(self) -> None:
    """Cuts the first half off where what stays can still begin any match.

    That is not within a character, unless there is none far and wide: bytes that
    are not UTF-8 could make the window as long as the output.
    """
    size = len(self._ids)
    if size < _WINDOW:
      return
    gone, rest = self._ids[: size // 2], self._ids[size // 2 :]
    before = self._decode(gone)[-1:]
    whole = before != '\ufffd' and len(self._decode(rest)) >= self._keep
    if whole or size >= self._most:
      self._ids, self.before = rest, before or self.before


class StopStrings:
  """Finds the first token after which a stop string stands in the text."""

  def __init__(
      self, stops: Sequence[str], tokenizer: Tokenizer, skip_special: bool
  ):
    self._stops = stops
    self._window = _Window(tokenizer, skip_special, max(map(len, stops)))

  def feed(self, token: int) -> str | None:
    """Takes one token; gives the stop string that it completes, if any."""
    text = self._window.add(token)
    for stop in self._stops:
      if stop in text:
        return stop
    self._window.shorten()
    return None


class StopPatterns:
  """Finds the first token after which a pattern matches the text."""

  def __init__(
      self, patterns: Sequence[str], tokenizer: Tokenizer, skip_special: bool
  ):
    self._patterns = [_compile(pattern) for pattern in patterns]
    self._window = _Window(tokenizer, skip_special, MAX_MATCH)

  def feed(self, token: int) -> str | None:
    """Takes one token; gives the pattern whose match it completes, if any."""
    # The character before counts: `^` is the beginning of the output and `\b` a
    # boundary in it, wherever the window begins. An incomplete UTF-8 sequence must
    # not match, not even `.`.
    before = self._window.before
    text = before + self._window.add(token).rstrip('\ufffd')
    for pattern in self._patterns:
      if pattern.search(text, len(before)):
        return pattern.pattern
    self._window.shorten()
    return None


def trim(text: str, finish_reason: Mapping[str, Any], *, keep: bool) -> str:
  """The text of a completion up to the stop string that ended it.

  The match of a pattern stays, since only the pattern is known here: SGLang's rule.

  Args:
    text: of the completion.
    finish_reason: its `matched` is a stop string, or something else.
    keep: whether the stop string stays; what the last token has behind it does not.
  """
  matched = finish_reason.get('matched')
  if isinstance(matched, str) and matched in text:
    return text[: text.find(matched) + keep * len(matched)]
  return text


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
