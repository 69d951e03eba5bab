"""Success on a fixed list of tasks, with its interval."""

import statistics as stdlib_statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.evaluation import statistics
from agentrl.rollout import seeds
from agentrl.rollout.collect import Assignment, Play
from agentrl.types import Episode, Group


class Evaluation(NamedTuple):
  """A summary for people and files, and the episodes that it is made of."""

  summary: dict[str, Any]
  groups: list[Group]


def seeded(play: Play, seed: int) -> Play:
  """`play` under seeds that two evaluations have in common.

  An episode's seed is derived from (seed, task, replica) alone, so two policies
  meet the same tasks under the same seeds, and a shorter list of tasks plays a
  part of what a longer one does.

  Args:
    play: plays one assignment.
    seed: of the evaluation; keep it over the runs that are to be compared.
  """

  def play_seeded(assignment: Assignment) -> Awaitable[Episode]:
    own = seeds.derive_seed(seed, assignment.task_id, assignment.replica)
    return play(assignment._replace(seed=own))

  return play_seeded


def summarise(
    groups: Sequence[Group],
    *,
    seed: int,
    subtask: Callable[[int], str] | None = None,
) -> dict[str, Any]:
  """Success over tasks; invalid episodes are left out and counted, never zeros.

  Args:
    groups: the episodes of each task.
    seed: of the bootstrap.
    subtask: names the kind of a task.

  Returns:
    `mean` success with its 95% interval `low` to `high`, from `n` episodes of
    `tasks` tasks; `invalid` episodes beside them; `return_mean`, `turns_mean`.
    With one episode a task the interval is Wilson's, else a bootstrap over
    tasks, and `pass_at_k` has each k up to the fewest valid episodes of a task.
    With `subtask`, `subtasks` has `mean low high n tasks` by name. Means of
    nothing are None.
  """
  valid = [e for group in groups for e in group.episodes if e.valid]
  invalid = sum(not e.valid for group in groups for e in group.episodes)
  mean_of = lambda values: stdlib_statistics.fmean(values) if valid else None
  summary = _success(groups, seed) | {
      'invalid': invalid,
      'return_mean': mean_of([e.episode_return for e in valid]),
      'turns_mean': mean_of([len(e.turns) for e in valid]),
  }
  counts = _counts(groups)
  fewest = min((trials for trials, _ in counts), default=0)
  if fewest > 1:
    summary['pass_at_k'] = {
        str(k): stdlib_statistics.fmean(
            statistics.pass_at_k(trials, successes, k)
            for trials, successes in counts
        )
        for k in range(1, fewest + 1)
    }
  if subtask is not None:
    by_name = defaultdict(list)
    for group in groups:
      by_name[subtask(group.task_id)].append(group)
    summary['subtasks'] = {
        name: _success(by_name[name], seed) for name in sorted(by_name)
    }
  return summary


def as_metrics(summary: Mapping[str, Any], prefix: str) -> dict[str, float]:
  """The numbers of a summary under the names of metrics; no None.

  Args:
    summary: by `summarise`.
    prefix: of the names, without the slash.

  Returns:
    `PREFIX/success`, `success_low`, `success_high`, `episodes`, `invalid`,
    `return_mean`, `turns_mean`, `pass_at_K` and, of each kind of task,
    `PREFIX/KIND/success`.
  """
  numbers = {
      'success': summary['mean'],
      'success_low': summary['low'],
      'success_high': summary['high'],
      'episodes': summary['n'],
      **{
          name: summary[name]
          for name in ('invalid', 'return_mean', 'turns_mean')
      },
      **{
          f'pass_at_{k}': rate
          for k, rate in summary.get('pass_at_k', {}).items()
      },
      **{
          f'{kind}/success': part['mean']
          for kind, part in summary.get('subtasks', {}).items()
      },
  }
  return {
      f'{prefix}/{name}': float(value)
      for name, value in numbers.items()
      if value is not None
  }


def _counts(groups: Sequence[Group]) -> list[tuple[int, int]]:
  """(valid episodes, successes) of each task with a valid episode."""
  counts = []
  for group in groups:
    outcomes = [e.success for e in group.episodes if e.valid]
    if outcomes:
      counts.append((len(outcomes), sum(outcomes)))
  return counts


def _success(groups: Sequence[Group], seed: int) -> dict[str, Any]:
  counts = _counts(groups)
  trials = sum(t for t, _ in counts)
  successes = sum(s for _, s in counts)
  if trials == len(counts):  # independent: at most one episode a task
    mean = successes / trials if trials else None
    low, high = statistics.wilson_interval(successes, trials)
  else:
    rates = [s / t for t, s in counts]
    mean = stdlib_statistics.fmean(rates)
    low, high = statistics.bootstrap_interval(rates, seed=seed)
  return {
      'mean': mean,
      'low': low,
      'high': high,
      'n': trials,
      'tasks': len(counts),
  }
