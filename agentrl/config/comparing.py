"""Sections of mode 'compare'."""

import dataclasses

from agentrl.errors import ConfigError
from agentrl.fields import field, when

_COMPARE = '--config=configs/compare.py'
_NO_PLAN = when(
    'compare.plan', False, reason='a plan draws nothing and compares nothing'
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared:
  """Evaluations that are compared, each `DIR` or `DIR:POLICY`."""

  a: tuple[str, ...] = field(
      (), 'evaluation; with unit=seed, runs of an algorithm', example=('E1',)
  )
  b: tuple[str, ...] = field(
      (), 'another; with unit=seed, runs of another', example=('E2',)
  )
  more: tuple[str, ...] = field(
      (),
      'further evaluations',
      example=('E3', 'E4'),
      acts_if=(_NO_PLAN, when('compare.unit', 'task')),
  )
  unit: str = field(
      'task',
      'what intervals are about: policies on other tasks, or algorithms, whose'
      ' runs a and b are, with other training seeds',
      one_of=('task', 'seed'),
      acts_if=_NO_PLAN,
  )
  seed: int = field(
      0, 'seed of permutation tests and bootstraps', acts_if=_NO_PLAN
  )
  plan: bool = field(False, 'plan the size of a panel; compare nothing')

  def check(self) -> None:
    runs = len(self.a), len(self.b)
    if self.unit == 'seed' and min(runs) < 2:
      raise ConfigError(
          'compare.unit=seed needs two evaluations a side, runs with different'
          f' training seeds, got {runs[0]} and {runs[1]}:'
          f" '{_COMPARE}:a=E1;E2,b=E3;E4,unit=seed'"
      )
    if self.unit == 'task' and max(runs) > 1:
      raise ConfigError(
          f'compare.a and compare.b have {runs[0]} and {runs[1]} evaluations:'
          ' runs of two algorithms are compared with unit=seed; further'
          f" policies are named by more: '{_COMPARE}:a=E1,b=E2,more=E3;E4'"
      )
    if not (self.a or self.plan):
      raise ConfigError(f'Name evaluations: {_COMPARE}:a=DIR,b=DIR')
    if self.b and not self.a:
      raise ConfigError('compare.b needs compare.a, an evaluation, beside it.')


_PLANNED = when('compare.plan', True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planned:
  """A difference in success that a panel is to show."""

  difference: float = field(
      0.1, 'difference in success', gt=0, le=1, acts_if=_PLANNED
  )
  rate: float | None = field(
      None,
      "success of the weaker policy; None: compare.a's",
      ge=0,
      lt=1,
      acts_if=_PLANNED,
      example=0.5,
  )
  icc: float | None = field(
      None,
      "share of the variance between tasks; None: compare.a's, else 0",
      ge=0,
      le=1,
      acts_if=_PLANNED,
      example=0.5,
  )
  agreement: float | None = field(
      None,
      "correlation of two policies' chances over tasks; None: that of compare.a"
      ' and compare.b, else 1',
      ge=-1,
      le=1,
      acts_if=_PLANNED,
      example=0.5,
  )
  samples: tuple[int, ...] = field(
      (1, 2, 4, 8), 'samples a task', acts_if=_PLANNED, example=(1, 16)
  )
  power: float = field(0.8, 'chance to show it', gt=0, lt=1, acts_if=_PLANNED)

  def check(self) -> None:
    if not self.samples or min(self.samples) < 1:
      raise ConfigError(
          f'plan.samples must be numbers from 1, got {self.samples}.'
      )


def check_plan(compare: Compared, plan: Planned) -> None:
  """Refuses a plan that lacks a number, or an evaluation that gives it none.

  Raises:
    ConfigError: says which, and the way out.
  """
  if not compare.plan:
    return
  if plan.rate is None and not compare.a:
    raise ConfigError(
        'A plan needs the success of the weaker policy, plan.rate, or an'
        f' evaluation that shows it: {_COMPARE}:plan,rate=0.6,difference=0.1'
        f' or {_COMPARE}:plan,a=DIR,difference=0.1'
    )
  if plan.agreement is not None and not compare.a and plan.icc is None:
    raise ConfigError(
        f'plan.agreement={plan.agreement} has no effect with icc 0: give'
        ' plan.icc, or an evaluation that shows it, compare.a.'
    )
  has_variance = None not in (plan.rate, plan.icc)
  agree = plan.agreement is not None or not compare.b
  if compare.a and has_variance and agree:
    raise ConfigError(
        'compare.a has no effect: plan.rate and plan.icc say all that it would'
        ' show. Leave it out, or one of them.'
    )
