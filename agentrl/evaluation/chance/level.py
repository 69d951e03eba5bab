"""Success of random actions, or of the expert, on a panel.

What a success is read beside: what it takes nothing to reach, and what can be
reached. Neither has weights, so a panel has one such level of each kind.
"""

import collections
import hashlib
import json
import pathlib
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

import msgspec

from agentrl.evaluation.compare import recorded
from agentrl.evaluation.compare.recorded import Played, Recorded
from agentrl.evaluation.results import Panel, PolicyRecord
from agentrl.evaluation.stats import intervals
from agentrl.types import Episode

RANDOM, EXPERT = 'random', 'expert'
KINDS = (RANDOM, EXPERT)
_SHARE = (0.0, 1.0)  # bounds of a success
# Counted up when episodes of the same settings come out differently.
_VERSION = 1


class Outcome(msgspec.Struct, frozen=True, array_like=True):
  """Outcome of one episode.

  Attributes:
    task: its id.
    sample: which episode of the task.
    attempt: at the task, by this sample.
    success: None where the infrastructure failed it, as the next two.
    ret: return.
    progress: None, too, where the environment reports none.
    turns: actions.
    stop: why it stopped.
  """

  task: int
  sample: int
  attempt: int
  success: bool | None
  ret: float | None
  progress: float | None
  turns: int
  stop: str

  @property
  def key(self) -> tuple[int, int, int]:
    """The place in a panel: task, sample and attempt."""
    return self.task, self.sample, self.attempt


class Level(msgspec.Struct, frozen=True, kw_only=True):
  """Every episode of random actions or of the expert on a panel.

  Attributes:
    kind: one of `KINDS`.
    key: by `key_of`; levels of one key are equal.
    panel: which tasks, how often.
    outcomes: in the panel's order; empty: the environment offers no such policy.
    small: tasks of the panel that a run plays more often.
  """

  kind: str
  key: str
  panel: Panel
  outcomes: tuple[Outcome, ...]
  small: tuple[int, ...] = ()

  def only(self, tasks: Collection[int]) -> 'Level':
    """The part with these tasks."""
    return msgspec.structs.replace(
        self,
        panel=self.panel.only(tasks),
        outcomes=tuple(x for x in self.outcomes if x.task in tasks),
    )


def key_of(
    kind: str, panel: Panel, *, format: str, machine_options: Collection[str]
) -> str:
  """SHA-256 of all that decides the episodes of a level.

  Args:
    kind: one of `KINDS`.
    panel: which tasks, how often.
    format: in which actions are written: some cannot say all of them.
    machine_options: options of the environment that change no episode.
  """
  options = {
      name: value
      for name, value in panel.options.items()
      if name not in machine_options
  }
  identity = [_VERSION, kind, panel.hash, panel.horizon, options, format]
  text = json.dumps(identity, sort_keys=True, default=str)
  return hashlib.sha256(text.encode()).hexdigest()


def places(panel: Panel) -> list[tuple[int, int, int]]:
  """Task, sample and attempt of each episode of a panel, in its order."""
  return [
      (task, sample, attempt)
      for task in panel.task_ids
      for attempt in range(panel.attempts)
      for sample in range(panel.samples)
  ]


def outcome_of(episode: Episode) -> Outcome:
  """The outcome of an episode."""
  valid = episode.valid
  return Outcome(
      task=episode.task_id,
      sample=episode.sample,
      attempt=episode.attempt,
      success=episode.success if valid else None,
      ret=episode.episode_return if valid else None,
      progress=episode.progress if valid else None,
      turns=len(episode.acts),
      stop=episode.stop_reason,
  )


def summarise(level: Level) -> dict[str, Any] | None:
  """The figures of a level as a run keeps them; None: there is no such policy.

  Equal to those that `held_out.summary` has of the same episodes: `mean` success
  with its 95% interval `low` to `high`, `n` episodes of `tasks` tasks,
  `invalid`, `return_mean`, `turns_mean`, `subtasks`, and of the panel its `env`,
  hash, `split` and `horizon`; `key` names the level.
  """
  if not level.outcomes:
    return None
  panel, names = level.panel, sorted(set(level.panel.subtasks))
  by_task: dict[int, list[Outcome]] = {task: [] for task in panel.task_ids}
  for outcome in level.outcomes:
    by_task[outcome.task].append(outcome)
  tasks = [by_task[task] for task in panel.task_ids]
  valid = [[x for x in task if x.success is not None] for task in tasks]
  mean = lambda name: _mean_of_means(
      [[getattr(x, name) for x in task] for task in valid]
  )
  whole = _success(tasks, panel.clusters_of(range(len(tasks))))
  return whole | {
      'invalid': len(level.outcomes) - whole['n'],
      'return_mean': mean('ret'),
      'turns_mean': mean('turns'),
      'subtasks': {
          name: _success(
              [tasks[i] for i in indexes], panel.clusters_of(indexes)
          )
          for name in names
          for indexes in [
              [i for i, x in enumerate(panel.subtasks) if x == name]
          ]
      },
      'env': panel.env,
      'panel': panel.hash,
      'split': panel.split,
      'horizon': panel.horizon,
      'key': level.key,
  }


def mean_success(level: Level, tasks: Container[int]) -> float | None:
  """The mean over some tasks of each one's mean; None: none was played."""
  by_task: dict[int, list[float]] = {}
  for outcome in level.outcomes:
    if outcome.success is not None and outcome.task in tasks:
      by_task.setdefault(outcome.task, []).append(float(outcome.success))
  return _mean_of_means(list(by_task.values()))


def recorded_of(directory: pathlib.Path, level: Level) -> Recorded:
  """A level as an evaluation that can be compared.

  Args:
    directory: workdir of the run that has it.
    level: not an empty one.
  """
  panel = level.panel
  return Recorded(
      directory=directory,
      policy=PolicyRecord(name=level.kind, kind=level.kind, source=level.kind),
      config={},
      panels={panel.env: panel},
      episodes={
          panel.env: {
              recorded.pair_key(panel, x.key): Played(
                  f'{level.kind}-{x.task}-{x.sample}',
                  None if x.success is None else float(x.success),
                  x.ret,
                  x.progress,
              )
              for x in level.outcomes
          }
      },
  )


def beside(
    summaries: Mapping[str, Mapping[str, Any] | None], member: str = ''
) -> str:
  """Words such as 'random actions 0.441, expert 1.000'; '' without a level.

  Args:
    summaries: by kind, or in a mixture by `KIND/MEMBER`.
    member: of a mixture.
  """
  words = []
  for kind in KINDS:
    summary = summaries.get(entry_of(kind, member))
    if summary is not None and summary['mean'] is not None:
      words.append(f'{NAMES[kind]} {summary["mean"]:.3f}')
  return ', '.join(words)


# Of the kinds, in lines for people.
NAMES = {RANDOM: 'random actions', EXPERT: 'expert'}


def entry_of(kind: str, member: str) -> str:
  """The name of a level in a run; '' as member: the run has no mixture."""
  return f'{kind}/{member}' if member else kind


def _success(
    tasks: Sequence[Sequence[Outcome]], clusters: Sequence[str] | None
) -> dict[str, Any]:
  samples = [
      [float(x.success) for x in task if x.success is not None]
      for task in tasks
  ]
  played = sum(map(bool, samples))
  values: dict[str, Any] = {'mean': None, 'low': 0.0, 'high': 1.0}
  if played:
    found = intervals.mean_interval(samples, clusters=clusters, bounds=_SHARE)
    values = {'mean': found.mean, 'low': found.low, 'high': found.high}
  lacking = collections.Counter(
      task[0].stop
      for task, own in zip(tasks, samples, strict=True)
      if task and not own
  )
  not_played = {'not_played': dict(sorted(lacking.items()))} if lacking else {}
  counts = {'n': sum(map(len, samples)), 'tasks': played}
  return values | counts | not_played


def _mean_of_means(tasks: Sequence[Sequence[float]]) -> float | None:
  """The mean over tasks of each task's mean; None of nothing."""
  means = [sum(task) / len(task) for task in tasks if task]
  return sum(means) / len(means) if means else None
