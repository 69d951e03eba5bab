"""Which faults hit which run when: drawn from a seed."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.faults.faults import FAULTS
from tests.faults.runs import PHASES
from tests.faults.scenarios import SCENARIOS

RANDOM = 'random'  # a moment of any phase
FAULTS_A_RUN = 3
# How often each scenario is drawn.
_WEIGHTS = {
    'babyai': 4,
    'babyai-ahead': 4,
    'textcraft-served': 3,
    'babyai-proxied': 2,
    'babyai-proxied-ahead': 1,
    'sciworld': 1,
    'miniwob': 1,
    'babyai-ranks': 1,
    'babyai-sglang': 1,
}


@dataclasses.dataclass(frozen=True)
class Blow:
  """One fault.

  Attributes:
    fault: of `FAULTS`.
    target: process that it hits; '': none.
    phase: of `PHASES`, or `RANDOM`.
    occurrence: of the phase, from 0, since the blow before or the start after it;
      -1: it is drawn.
  """

  fault: str
  target: str
  phase: str
  occurrence: int = -1


@dataclasses.dataclass(frozen=True)
class Trial:
  """Faults of one run; all that is drawn later comes from `seed`.

  Attributes:
    number: in the order of a seed's trials.
    seed: of the harness.
    scenario: of `SCENARIOS`.
    blows: one after the other.
    broken: see `Run`.
  """

  number: int
  seed: int
  scenario: str
  blows: tuple[Blow, ...]
  broken: str = ''


def from_line(line: Mapping[str, Any]) -> Trial:
  """The trial of a line of the log."""
  blows = tuple(
      Blow(*(x[name] for name in ('fault', 'target', 'phase', 'occurrence')))
      for x in line['blows']
  )
  names = ('number', 'seed', 'scenario')
  return Trial(*(line[x] for x in names), blows, line.get('broken', ''))


def draw(
    number: int,
    seed: int,
    names: Sequence[str],
    kinds: Sequence[str],
    phases: Sequence[str] = (*PHASES, RANDOM),
) -> Trial:
  """A trial of a seed, always the same.

  Args:
    number: of the trial.
    seed: of the harness.
    names: of scenarios to draw from.
    kinds: of faults; each is the first of a trial once before any is again.
    phases: of `PHASES` or `RANDOM`, for the first of them.
  """
  kinds = [
      x
      for x in kinds
      if any(_fits(x, name) for name in names) and _phases(x, phases)
  ]
  turn, index = divmod(number, len(kinds))
  first = str(np.random.default_rng([seed, turn]).permutation(kinds)[index])
  rng = np.random.default_rng([seed, number, 1])
  fits = [x for x in names if _fits(first, x)]
  weights = np.array([_WEIGHTS[x] for x in fits], float)
  scenario = str(rng.choice(fits, p=weights / weights.sum()))
  others = [x for x in kinds if _fits(x, scenario)]
  more = rng.choice(others, FAULTS_A_RUN - 1)
  blows: list[Blow] = []
  for kind in (first, *more):
    blows.append(_blow(str(kind), scenario, rng, phases))
    # A warm start that is over does not come again.
    over = blows[-1].phase != PHASES[0]
    phases = (*PHASES[over:], RANDOM)
  return Trial(number, seed, scenario, tuple(blows))


def _blow(
    name: str,
    scenario: str,
    rng: np.random.Generator,
    phases: Sequence[str],
) -> Blow:
  fault = FAULTS[name]
  targets = [x for x in fault.targets if x in SCENARIOS[scenario].targets]
  target = str(rng.choice(targets)) if targets else ''
  return Blow(name, target, str(rng.choice(_phases(name, phases))))


def _phases(name: str, phases: Sequence[str]) -> list[str]:
  """Those of some phases that a fault can hit."""
  fault = FAULTS[name]
  return [
      x
      for x in phases
      if (fault.early or x != PHASES[0]) and not (fault.between and x == RANDOM)
  ]


def _fits(fault: str, name: str) -> bool:
  kind, scenario = FAULTS[fault], SCENARIOS[name]
  if kind.targets and not set(kind.targets) & set(scenario.targets):
    return False
  if kind.only == 'own':
    return 'engine' in scenario.targets and not scenario.found
  if kind.only == 'found':
    return scenario.found
  return not fault.startswith('episodes ahead') or scenario.staleness > 0
