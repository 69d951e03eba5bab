"""Random actions and the expert on the panel of an arm, where both were played.

A success is read beside them: what it takes nothing to reach, and what can be.
"""

import functools
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agentrl.errors import AgentrlError, PanelError
from agentrl.evaluation import results
from agentrl.evaluation.chance import level as level_lib, store
from agentrl.evaluation.compare import matrix, sides as sides_lib
from agentrl.evaluation.compare.matrix import Standing
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.studies import columns
from agentrl.evaluation.studies.arms import LEVELS, Arm
from agentrl.evaluation.studies.columns import Load
from agentrl.evaluation.workdirs import folders

Levels = Mapping[str, Standing]  # by kind of policy


def references(
    root: pathlib.Path, runs: Iterable[str], load: Load
) -> list[Side]:
  """Levels that runs have played beside their evaluations, and evaluations.

  Of levels of one key, as those of the seeds of an experiment, the first;
  evaluations of random actions and experts as often as there are some.

  Args:
    root: folder of all.
    runs: that may have some.
    load: reads an evaluation.
  """
  found: list[Side] = []
  keys: set[str] = set()
  for run in runs:
    folder = root / run
    for entry in _entries(folder, _stamp(folder)):
      if entry.key not in keys:
        keys.add(entry.key)
        found += _side(folder, entry.name, entry.key)
    if not (folder / results.FILE).is_file():
      continue
    try:
      for policy in results.read(folder).policies:
        if policy.kind in LEVELS:
          recorded = load(root, f'{run}:{policy.name}')
          found.append(Side(policy.kind, [recorded]))
    except AgentrlError:  # damaged: the page of comparisons says how
      continue
  return found


def levels(side: Side, found: Sequence[Side]) -> dict[str, dict[str, Standing]]:
  """By environment, the levels on exactly the tasks that a side has played.

  Args:
    side: what they are to stand beside.
    found: by `references`; of two of a kind, the first with as many turns.
  """
  own = {
      env: set.intersection(*(set(r.panels[env].task_ids) for r in side.runs))
      for env in side.runs[0].panels
      if all(env in run.panels for run in side.runs)
  }
  other_turns = lambda reference: any(
      reference.runs[0].panels[env].horizon != side.runs[0].panels[env].horizon
      for env in own.keys() & reference.runs[0].panels.keys()
  )
  by_env: dict[str, dict[str, Standing]] = {}
  for reference in sorted(found, key=other_turns):  # stable
    try:
      shared, _ = sides_lib.common_panels(side, reference)
    except PanelError:  # other tasks
      continue
    whole = {
        env: panel
        for env, panel in shared.items()
        if set(panel.task_ids) == own[env]
        and reference.label not in by_env.get(env, {})
    }
    if not whole:
      continue
    for each in matrix.standings(sides_lib.paired(reference, whole)):
      if each.env in whole:
        by_env.setdefault(each.env, {})[reference.label] = each
  return {
      env: {kind: each[kind] for kind in LEVELS if kind in each}
      for env, each in by_env.items()
  }


def of_arm(
    root: pathlib.Path, arm: Arm, found: Sequence[Side], load: Load
) -> dict[str, Levels]:
  """The levels of an arm by member of a mixture; '' without one.

  Those that its first run has played itself, or else others on the panel of its
  last evaluation: the runs of an arm play one panel.

  Args:
    root: folder of all.
    arm: that was evaluated, or not.
    found: by `references`.
    load: reads an evaluation.
  """
  folder = root / arm.runs[0]
  own = _standings(folder, _stamp(folder))
  if own or not found:
    return dict(own)
  by_member: dict[str, Levels] = {}
  for each in columns.last(root, arm.runs[0]):
    member = each.panel.partition('/')[2]
    try:
      side = Side(arm.name, [load(root, each.spec)])
    except AgentrlError:
      continue
    for of_env in levels(side, found).values():
      by_member[member] = of_env
  return by_member


class _Entry(NamedTuple):
  """The name of a level in a run, and its key."""

  name: str
  key: str


class _Figures(msgspec.Struct):
  """Figures of a level that a `Standing` has."""

  env: str
  mean: float | None
  low: float | None
  high: float | None
  tasks: int


def _stamp(folder: pathlib.Path) -> tuple[Any, ...]:
  """Changes when the levels of a run do; (): it has none."""
  return folders.stamp_of(folder, [store.FILE])


# Of thousands of runs, the names alone: their seeds share the episodes.
@functools.lru_cache(8192)
def _entries(
    folder: pathlib.Path, stamp: tuple[Any, ...]
) -> tuple[_Entry, ...]:
  if not stamp:
    return ()
  return tuple(
      _Entry(name, level.key)
      for name, level in store.read_levels(folder).items()
      if level.outcomes
  )


@functools.lru_cache(256)
def _side(folder: pathlib.Path, name: str, key: str) -> tuple[Side, ...]:
  level = store.read_levels(folder).get(name)
  if level is None or level.key != key:  # replaced meanwhile
    return ()
  return (Side(level.kind, [level_lib.recorded_of(folder, level)]),)


@functools.lru_cache(4096)
def _standings(
    folder: pathlib.Path, stamp: tuple[Any, ...]
) -> Mapping[str, Levels]:
  """The levels of a run by member."""
  if not stamp:
    return {}
  by_member: dict[str, dict[str, Standing]] = {}
  found = store.read_summaries(folder)
  for kind, (name, summary) in itertools.product(LEVELS, found.items()):
    own, _, member = name.partition('/')
    if own != kind or summary is None:
      continue
    try:
      figures = msgspec.convert(summary, _Figures)
    except msgspec.ValidationError:  # damaged
      continue
    by_member.setdefault(member, {})[kind] = Standing(
        label=kind, runs=1, **msgspec.structs.asdict(figures)
    )
  return by_member
