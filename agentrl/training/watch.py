"""A watch for a policy that has stopped learning, which raises no error."""

import math
from collections.abc import Mapping

# One odd step may be chance; this many in a row are not.
PATIENCE = 5
# Means over thousands of tokens, in float32.
_ZERO = 1e-6  # nats
_ROUNDING = 1e-5  # relative


class DeadPolicyWatch:
  """Checks the metrics of each rl step for signs of a dead policy.

  Those are a gradient of exactly 0 although returns differed within a group,
  and an entropy of 0 or of a uniform choice: an update that was far too large
  leaves logits that are infinitely far apart, or all the same.
  """

  def __init__(self, vocab_size: int):
    self._most = math.log(vocab_size)
    self._in_row = 0

  def see(self, metrics: Mapping[str, float]) -> str | None:
    """A warning at the fifth such step in a row; else None.

    Args:
      metrics: of an rl step. Steps whose groups are all tied count for the
        entropy alone: nothing follows from them, so their gradient may be 0.
    """
    sign = self._sign(metrics)
    if sign is None:
      # A step of ties alone is no sign of life.
      if metrics.get('rollout/tied_groups') != 1.0:
        self._in_row = 0
      return None
    self._in_row += 1
    if self._in_row != PATIENCE:
      return None
    return (
        f'The policy has not learnt for {PATIENCE} steps: {sign}. It will'
        ' hardly recover; stop, and go on from an earlier checkpoint or model'
        ' with a lower learning rate.'
    )

  def _sign(self, metrics: Mapping[str, float]) -> str | None:
    entropy = metrics.get('policy/entropy')
    untied = metrics.get('rollout/tied_groups', 1.0) < 1.0
    if untied and metrics.get('train/grad_norm') == 0.0:
      return 'its gradient is exactly 0, though returns differ within groups'
    if entropy is not None and entropy <= _ZERO:
      return 'its entropy is 0, so it always says the same'
    if entropy is not None and entropy >= self._most * (1 - _ROUNDING):
      return 'its entropy is that of a uniform choice among all tokens'
    return None
