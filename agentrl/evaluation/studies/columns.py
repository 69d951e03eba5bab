"""Policies side by side: arms by their last evaluations, steps of a run, policies."""

import dataclasses
import pathlib
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from agentrl.errors import AgentrlError
from agentrl.evaluation.compare.recorded import Recorded
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.studies.arms import LEVELS, Arm
from agentrl.evaluation.workdirs import files, panels
from agentrl.evaluation.workdirs.panels import Evaluated

# (folder of all, RUN:NAME) -> the evaluation.
Load = Callable[[pathlib.Path, str], Recorded]
_WHOLE = 'eval'  # the folder of a run's evaluations on its whole panel


class Column(NamedTuple):
  """A policy, or an arm by one evaluation of each of its runs.

  Attributes:
    label: in words, unique among columns.
    runs: the evaluations of each run; several of a mixture, one a member.
  """

  label: str
  runs: tuple[tuple[Evaluated, ...], ...]

  @property
  def specs(self) -> list[str]:
    """`RUN:NAME` of each evaluation."""
    return [each.spec for run in self.runs for each in run]


class LeftOut(NamedTuple):
  """A column that cannot be read, and why."""

  label: str
  why: str


def last(root: pathlib.Path, run: str) -> tuple[Evaluated, ...]:
  """The last evaluation of a run on its whole panel; of each member."""
  found = _whole(root, run)
  step = max((each.step or 0 for each in found), default=0)
  return tuple(each for each in found if each.step == step)


def of_arms(root: pathlib.Path, arms: Iterable[Arm]) -> list[Column]:
  """A column for each arm that was evaluated.

  Where a run was evaluated after steps, those that were not yet do not count.
  """
  found = []
  for arm in arms:
    runs = [own for own in (last(root, x) for x in arm.runs) if own]
    learnt = [own for own in runs if (own[0].step or 0) > 0]
    if runs:
      found.append(Column(arm.name, tuple(learnt or runs)))
  return found


def of_run(root: pathlib.Path, run: str) -> list[Column]:
  """A column for each evaluation of a run that learns, in order of steps."""
  steps: dict[int, list[Evaluated]] = {}
  for each in _whole(root, run):
    assert each.step is not None  # of a run
    steps.setdefault(each.step, []).append(each)
  label = lambda step: 'untrained' if step < 0 else f'step {step}'
  return [
      Column(label(step), (tuple(found),))
      for step, found in sorted(steps.items())
  ]


def of_folder(
    root: pathlib.Path, arms: Iterable[Arm], runs: Iterable[str]
) -> list[Column]:
  """A column for each arm that was evaluated and each policy of an evaluation.

  Random actions and the expert are none beside others, at which they stand as
  what it takes nothing to reach and what can be.

  Args:
    root: folder of all.
    arms: of the runs that learn.
    runs: all of the folder.
  """
  policies = of_policies(root, runs)
  rated = [x for x in policies if x.runs[0][0].kind not in LEVELS]
  return of_arms(root, arms) + rated or policies


def of_policies(root: pathlib.Path, runs: Iterable[str]) -> list[Column]:
  """A column for each policy of the evaluations among some runs."""
  return [
      Column(each.spec, ((each,),))
      for run in runs
      for each in panels.find(root, run)
      if each.step is None
  ]


def named(
    root: pathlib.Path, specs: Sequence[str], runs: Container[str]
) -> list[Column]:
  """A column for each `RUN:NAME`, and for all evaluations of each `RUN`.

  Args:
    root: folder of all.
    specs: in the order of the columns.
    runs: names of all.

  Raises:
    Missing: there is no such run or evaluation; names it.
  """
  found: list[Column] = []
  for spec in specs:
    if spec in runs:
      steps = of_run(root, spec)
      if len(specs) > 1:  # or it would not be said whose steps they are
        steps = [Column(f'{spec} {each.label}', each.runs) for each in steps]
      found += steps or of_policies(root, [spec])
      continue
    run = spec.rpartition(':')[0]
    evaluated = panels.find(root, run) if run in runs else []
    own = [Column(spec, ((each,),)) for each in evaluated if each.spec == spec]
    if not own:
      raise files.Missing(f'There is no run or evaluation {spec!r} here.')
    found += own
  return list({column.label: column for column in found}.values())


def read(
    root: pathlib.Path, columns: Sequence[Column], load: Load
) -> tuple[list[Side], list[LeftOut]]:
  """The sides of a comparison, and the columns that cannot be read."""
  sides, left_out = [], []
  for column in columns:
    try:
      runs = [
          _merged([load(root, each.spec) for each in run])
          for run in column.runs
      ]
    except AgentrlError as error:  # a damaged file is no reason for the others
      left_out.append(LeftOut(column.label, str(error)))
    else:
      sides.append(Side(column.label, runs))
  return sides, left_out


def _whole(root: pathlib.Path, run: str) -> list[Evaluated]:
  return [
      each
      for each in panels.find(root, run)
      if each.step is not None and each.panel.partition('/')[0] == _WHOLE
  ]


def _merged(parts: Sequence[Recorded]) -> Recorded:
  """The evaluations of a mixture's members as one of several environments."""
  first = parts[0]
  return dataclasses.replace(
      first,
      panels={env: p for part in parts for env, p in part.panels.items()},
      episodes={env: e for part in parts for env, e in part.episodes.items()},
  )
