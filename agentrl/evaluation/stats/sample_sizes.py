"""Plans of a comparison: how many tasks show a difference, at which k.

What a plan assumes of the policies is given, or estimated from evaluations.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from agentrl.errors import ConfigError
from agentrl.evaluation.compare import pairing
from agentrl.evaluation.compare.recorded import Recorded
from agentrl.evaluation.compare.sides import Side, common_panels
from agentrl.evaluation.stats import power

GIVEN, ESTIMATED, ASSUMED = 'given', 'estimated', 'assumed'
# What `power.plan` takes where nothing is known.
_UNKNOWN = {'icc': 0.0, 'agreement': 1.0}


class Assumption(msgspec.Struct, frozen=True):
  """A number that a plan rests on, and its origin."""

  value: float
  origin: str  # GIVEN, ESTIMATED or ASSUMED


class PlannedSize(msgspec.Struct, frozen=True):
  """Tasks to play, each `samples` times, by both policies."""

  samples: int
  tasks: int
  episodes: int  # of each policy


class SizePlan(msgspec.Struct, frozen=True, kw_only=True):
  """Sizes of a panel that show a difference in success.

  Attributes:
    env: name of the environment; '' without an evaluation.
    difference: what is to be shown.
    power: chance to show it at the 5% level.
    rate: success of the weaker policy.
    icc: see `power`.
    agreement: likewise.
    sizes: by number of samples.
  """

  env: str
  difference: float
  power: float
  rate: Assumption
  icc: Assumption
  agreement: Assumption
  sizes: tuple[PlannedSize, ...]


class SizePlans(msgspec.Struct, frozen=True, kw_only=True):
  """The file `plan.json`: a plan of each environment."""

  plans: tuple[SizePlan, ...]
  format: int = 1


def plan(
    parameters: dict[str, float | None],
    estimates: dict[str, float],
    *,
    env: str,
    difference: float,
    samples: Sequence[int],
    power_wanted: float,
) -> SizePlan:
  """A plan from what is given, else estimated, else assumed.

  Args:
    parameters: `rate`, `icc` and `agreement`; None: not given.
    estimates: those that evaluations show, see `estimate`.
    env: for the record.
    difference: to be shown.
    samples: k, samples a task.
    power_wanted: chance to show it.

  Raises:
    ConfigError: the numbers contradict each other, or no panel is enough.
  """
  assumptions = {}
  for name, value in parameters.items():
    if value is not None:
      assumptions[name] = Assumption(value, GIVEN)
    elif name in estimates:
      assumptions[name] = Assumption(estimates[name], ESTIMATED)
    else:
      assumptions[name] = Assumption(_UNKNOWN[name], ASSUMED)
  numbers = {name: assumption.value for name, assumption in assumptions.items()}
  if numbers['rate'] + difference > 1:
    raise ConfigError(
        f'A success of {numbers["rate"]:.3f} cannot grow by'
        f' plan.difference={difference}: give a smaller difference or rate.'
    )
  try:
    sizes = power.plan(
        difference=difference, samples=samples, power=power_wanted, **numbers
    )
  except ValueError as error:
    raise ConfigError(f'There is no plan: {error}') from error
  return SizePlan(
      env=env,
      difference=difference,
      power=power_wanted,
      **assumptions,
      sizes=tuple(
          PlannedSize(size.samples, size.tasks, size.episodes) for size in sizes
      ),
  )


def estimate(a: Recorded, b: Recorded | None, env: str) -> dict[str, float]:
  """Estimates of `rate`, `icc` and, from two evaluations, `agreement`.

  The rate is the lower one of two; `icc` is the mean of theirs, and needs
  several samples a task. The covariance over tasks of two policies' mean success
  is that of their chances, since their samples are independent; divided by the
  deviations of those chances, which follow from `icc`, it is the agreement.

  Args:
    a: a policy.
    b: another, on the same panel; None: there is none.
    env: the environment.

  Raises:
    ConfigError: an evaluation has no valid episode.
  """
  runs = [a] if b is None else [a, b]
  tasks = [_by_task(run, env) for run in runs]
  for run, values in zip(runs, tasks, strict=True):
    if not values:
      raise ConfigError(
          f'{run.policy.name!r} of {run.directory} has no valid episode in'
          f' {env}: give plan.rate and plan.icc.'
      )
  rates = [float(np.mean([np.mean(x) for x in t.values()])) for t in tasks]
  estimates = {'rate': min(rates)}
  if any(all(len(x) < 2 for x in t.values()) or len(t) < 2 for t in tasks):
    return estimates
  iccs = [power.intraclass_correlation(list(t.values())) for t in tasks]
  estimates['icc'] = float(np.mean(iccs))
  if b is None:
    return estimates
  both = [task for task in tasks[0] if task in tasks[1]]
  between = [
      icc * rate * (1 - rate) for icc, rate in zip(iccs, rates, strict=True)
  ]
  if len(both) > 1 and min(between) > 0:
    means = [[float(np.mean(t[task])) for task in both] for t in tasks]
    agreement = np.cov(means[0], means[1])[0, 1] / np.sqrt(np.prod(between))
    estimates['agreement'] = float(np.clip(agreement, -1, 1))
  return estimates


def plans_of(
    a: Recorded,
    b: Recorded | None,
    parameters: dict[str, float | None],
    *,
    difference: float,
    samples: Sequence[int],
    power_wanted: float,
) -> list[SizePlan]:
  """A plan of each environment that was evaluated.

  Raises:
    ConfigError: as `plan` and `estimate`.
    PanelError: the two were evaluated on different panels.
  """
  envs = list(a.panels)
  if b is not None:
    envs = list(common_panels(Side('a', [a]), Side('b', [b]))[0])
  return [
      plan(
          parameters,
          estimate(a, b, env),
          env=env,
          difference=difference,
          samples=samples,
          power_wanted=power_wanted,
      )
      for env in envs
  ]


def describe(size_plan: SizePlan) -> str:
  """One line: what is to be shown, and what is assumed."""
  better = size_plan.rate.value + size_plan.difference
  assumptions = ', '.join(
      f'{name} {getattr(size_plan, name).value:.3f}'
      f' ({getattr(size_plan, name).origin})'
      for name in ('rate', 'icc', 'agreement')
  )
  line = (
      f'{size_plan.env + ": " if size_plan.env else ""}success'
      f' {size_plan.rate.value:.3f} against {better:.3f}, shown with chance'
      f' {size_plan.power}; {assumptions}'
  )
  if size_plan.icc.origin == ASSUMED:
    line += (
        '. Without icc the samples of a task count as independent: right for'
        ' k = 1, too few tasks for more'
    )
  return line


def _by_task(run: Recorded, env: str) -> dict[int, list[float]]:
  """Success of each valid episode, by task."""
  successes = defaultdict(list)
  for key, value in pairing.values_of(Side('', [run]), env, 'success').items():
    if value is not None:
      successes[key[0]].append(value)
  return dict(successes)
