"""Which fault hits which run when: drawn from a seed."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tests.faults.faults import FAULTS
from tests.faults.runs import PHASES
from tests.faults.scenarios import SCENARIOS

RANDOM = 'random'  # a moment of any phase
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
class Trial:
  """One fault of one run; all that is drawn later comes from `seed`.

  Attributes:
    number: in the order of a seed's trials.
    seed: of the harness.
    scenario: of `SCENARIOS`.
    fault: of `FAULTS`.
    target: process that it hits; '': none.
    phase: of `PHASES`, or `RANDOM`.
    broken: see `Run`.
    occurrence: of the phase, from 0; -1: it is drawn.
  """

  number: int
  seed: int
  scenario: str
  fault: str
  target: str
  phase: str
  broken: str = ''
  occurrence: int = -1


def draw(
    number: int, seed: int, names: Sequence[str], kinds: Sequence[str]
) -> Trial:
  """A trial of a seed, always the same.

  Args:
    number: of the trial.
    seed: of the harness.
    names: of scenarios to draw from.
    kinds: of faults, each once before any comes again.
  """
  faults = [x for x in kinds if any(_fits(x, name) for name in names)]
  turn, index = divmod(number, len(faults))
  np.random.default_rng([seed, turn]).shuffle(faults)
  name = faults[index]
  fault = FAULTS[name]
  rng = np.random.default_rng([seed, number, 1])
  fits = [x for x in names if _fits(name, x)]
  weights = np.array([_WEIGHTS[x] for x in fits], float)
  scenario = str(rng.choice(fits, p=weights / weights.sum()))
  targets = [x for x in fault.targets if x in SCENARIOS[scenario].targets]
  target = str(rng.choice(targets)) if targets else ''
  phases = PHASES[1:] if fault.between else (*PHASES, RANDOM)
  return Trial(number, seed, scenario, name, target, str(rng.choice(phases)))


def _fits(fault: str, name: str) -> bool:
  kind, scenario = FAULTS[fault], SCENARIOS[name]
  if kind.targets and not set(kind.targets) & set(scenario.targets):
    return False
  if kind.only == 'own':
    return 'engine' in scenario.targets and not scenario.found
  if kind.only == 'found':
    return scenario.found
  return not fault.startswith('episodes ahead') or scenario.staleness > 0
