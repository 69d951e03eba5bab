"""Watches for a policy that has stopped learning, or is about to collapse.

Neither raises an error: a run goes on, and a person decides.
"""

import math
import operator
from collections.abc import Mapping
from typing import NamedTuple

from agentrl.training.options import Gauges

# One odd step may be chance; this many in a row are not.
PATIENCE = 5
GAUGE_PATIENCE = 3  # values of a gauge; a warning should come early
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


class Gauge(NamedTuple):
  """A figure of each step, and what it says beyond a limit.

  Attributes:
    metric: that is held against it.
    meaning: in words, of a value beyond it.
    relative: whether the value is a multiple of the run's first one.
  """

  metric: str
  meaning: str
  relative: bool = False


# By field of `Gauges`.
GAUGES = {
    'min_entropy': Gauge(
        'gauges/conditional_entropy',
        'the policy hardly varies its first completion',
    ),
    'max_entropy_rise': Gauge(
        'policy/entropy',
        'the policy says more and more at random',
        relative=True,
    ),
    'max_update_kl': Gauge(
        'policy/approx_kl',
        'an update takes the policy far from what it sampled',
    ),
    'min_information': Gauge(
        'gauges/mutual_information',
        'the first completion hardly depends on what the task shows',
    ),
    'max_repeated': Gauge(
        'rollout/repeated_action_share',
        'episodes repeat the same action',
    ),
    'max_parse_errors': Gauge(
        'rollout/parse_error_share',
        'completions lack a valid action',
    ),
    'max_failed_groups': Gauge(
        'rollout/failed_groups',
        'whole groups fail alike, and nothing follows from them',
    ),
}


class CollapseWatch:
  """Holds the gauges of each rl step against their limits.

  It has to see all steps of a run, those before a resume as well.
  """

  def __init__(self, limits: Gauges):
    self._limits = limits
    self._in_row = dict.fromkeys(GAUGES, 0)
    self._first: dict[str, float] = {}
    self._best = 0.0  # share of episodes that succeeded, of any step

  def see(self, metrics: Mapping[str, float]) -> list[str]:
    """A warning for each gauge that `beyond` names.

    Args:
      metrics: of an rl step.
    """
    warnings = []
    self._best = max(self._best, metrics.get('rollout/success', 0.0))
    for name in self.beyond(metrics):
      gauge = GAUGES[name]
      times = ' times its first value' if gauge.relative else ''
      warnings.append(
          f'{gauge.metric} is {self._value(gauge, metrics):.3g}{times} in each'
          f' of {GAUGE_PATIENCE} steps, beyond'
          f' gauges.{name}={getattr(self._limits, name):g}: {gauge.meaning}.'
          f' {self._advice(name, metrics)}'
      )
    return warnings

  def _advice(self, name: str, metrics: Mapping[str, float]) -> str:
    """The expected course of a run beyond a limit, and its remedy."""
    if name == 'max_failed_groups' and not self._best:
      return (
          'No episode has succeeded since the first step: the policy starts too'
          ' weak for RL to begin. Imitate longer first (warmstart.episodes,'
          ' warmstart.epochs), or make the tasks easier, allow more turns'
          ' (horizon.turns) or start from a larger model.'
      )
    return 'Returns often fall some steps later.'

  def beyond(self, metrics: Mapping[str, float]) -> list[str]:
    """Names of limits exceeded for exactly GAUGE_PATIENCE steps: each warns once.

    A step without a gauge is neither beyond its limit nor within.

    Args:
      metrics: of an rl step.
    """
    for gauge in GAUGES.values():
      if gauge.metric in metrics:
        self._first.setdefault(gauge.metric, metrics[gauge.metric])
    return [
        name
        for name, gauge in GAUGES.items()
        if self._counts(name, self._value(gauge, metrics)) == GAUGE_PATIENCE
    ]

  def _value(self, gauge: Gauge, metrics: Mapping[str, float]) -> float | None:
    """The figure that a limit is for; None where this step has none."""
    value = metrics.get(gauge.metric)
    if value is None or not gauge.relative:
      return value
    first = self._first[gauge.metric]
    return value / first if first > 0 else None

  def _counts(self, name: str, value: float | None) -> int:
    """Values in a row beyond the limit; 0 where this step has none."""
    limit = getattr(self._limits, name)
    if value is None or limit is None:
      return 0
    beyond = operator.lt if name.startswith('min_') else operator.gt
    self._in_row[name] = self._in_row[name] + 1 if beyond(value, limit) else 0
    return self._in_row[name]
