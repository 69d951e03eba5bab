"""How long prompts may delay the sequences that decode."""

import math

# How long one prompt may delay one sequence that decodes, in units of a decode
# dispatch; below one, as the host's work between two of them counts too.
_SHARE = 0.8


class PrefillBudget:
  """What dispatches took so far, and so what the next prefill may take."""

  def __init__(self):
    self._decode_s = self._token_s = 0.0  # 0: none was timed

  def limit_s(self, *, decoding: int, waiting: int) -> float:
    """How long a round may delay so many sequences that decode.

    Args:
      decoding: sequences that wait for it.
      waiting: sequences whose prompts it is about.
    """
    if not decoding:
      return math.inf
    return _SHARE * self._decode_s * max(1, waiting / decoding)

  def tokens(self, limit_s: float) -> float:
    """Padded prompt tokens that take so long; infinite if nobody knows."""
    return limit_s / self._token_s if self._token_s else math.inf

  def add_decode(self, took_s: float) -> None:
    """Notes what a round's decoding took."""
    self._decode_s = _steadied(self._decode_s, took_s)

  def add_prefill(self, took_s: float, tokens: int) -> None:
    """Notes what so many padded prompt tokens took."""
    self._token_s = _steadied(self._token_s, took_s / tokens)


def _steadied(before: float, now: float) -> float:
  """An estimate that follows `now`, but a dispatch that compiles only a bit."""
  return min(now, 1.25 * before) if before else now
