"""The prefill budget: how long prompts may delay sequences that decode."""

import math

# Delay by one prompt of one sequence that decodes, in units of a decode
# dispatch; below 1, since the host's work between two of them counts too.
_SHARE = 0.8


class PrefillBudget:
  """The budget of the next prefill, from the times of earlier dispatches."""

  def __init__(self):
    self._decode_s = self._token_s = 0.0  # 0: not timed yet

  def limit_s(self, *, decoding: int, waiting: int) -> float:
    """Seconds by which a round may delay the sequences that decode.

    Args:
      decoding: number of sequences that decode.
      waiting: number of sequences with prompts to fill.
    """
    if not decoding:
      return math.inf
    return _SHARE * self._decode_s * max(1, waiting / decoding)

  def tokens(self, limit_s: float) -> float:
    """Padded prompt tokens that fit into `limit_s`; infinite while unknown."""
    return limit_s / self._token_s if self._token_s else math.inf

  def add_decode(self, took_s: float) -> None:
    """Notes the time of a round's decoding."""
    self._decode_s = _steadied(self._decode_s, took_s)

  def add_prefill(self, took_s: float, tokens: int) -> None:
    """Notes the time of a prefill of so many padded prompt tokens."""
    self._token_s = _steadied(self._token_s, took_s / tokens)


def _steadied(before: float, now: float) -> float:
  """The next estimate: a fall at once, a rise (compilation) by a quarter."""
  return min(now, 1.25 * before) if before else now
