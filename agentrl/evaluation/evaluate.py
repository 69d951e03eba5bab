"""Evaluations that training keeps: seeds, summaries, the best of several."""

from collections.abc import Awaitable, Container, Mapping, Sequence
from typing import Any

from agentrl.evaluation.results import ALL, Row
from agentrl.rollout import seeds
from agentrl.rollout.collect import Assignment, Play
from agentrl.types import Episode

# Keys of a kept summary: evaluations that agree in them compare.
SETTINGS = ('panel', 'horizon', 'temperature')


def seeded(play: Play, seed: int) -> Play:
  """`play` under seeds that two evaluations have in common.

  An episode's seed is derived from (seed, task, replica, attempt) alone, so two
  policies meet the same tasks under the same seeds, and a shorter list of tasks
  plays a part of what a longer one does.

  Args:
    play: plays one assignment.
    seed: of the evaluation; keep it over the runs that are to be compared.
  """

  def play_seeded(assignment: Assignment) -> Awaitable[Episode]:
    own = seeds.of_attempt(
        seed,
        assignment.task_id,
        assignment.replica,
        attempt=assignment.attempt,
    )
    return play(assignment._replace(seed=own))

  return play_seeded


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
  """The figures of one policy on one panel, as JSON has them.

  Args:
    rows: by `rows.of_panel`, whose estimates these are: invalid episodes are
      left out and counted, never zeros.

  Returns:
    `mean` success with its 95% interval `low` to `high`, from `n` episodes of
    `tasks` tasks, and where some have none, `not_played`, how many by why;
    `invalid` episodes beside them; `return_mean`, `turns_mean`, and
    `progress_mean` where the environment reports it. With several episodes a
    task `pass_at_k` has each k up to the fewest valid episodes of a task. With
    several attempts at a task, `success_attempt_K` and `return_attempt_K` are
    those of each, from 1. `subtasks` has `mean low high n tasks not_played` by
    name. Means of nothing are None.
  """
  [whole] = [row for row in rows if row.subtask == ALL]
  summary = _success(whole) | {
      'invalid': whole.errors,
      'return_mean': whole.ret and whole.ret.mean,
      'turns_mean': whole.turns,
  }
  if whole.progress:
    summary['progress_mean'] = whole.progress.mean
  if len(whole.pass_at_k) > 1:
    summary['pass_at_k'] = {k: x.mean for k, x in whole.pass_at_k.items()}
  for k, attempt in whole.attempts.items():
    summary[f'success_attempt_{k}'] = attempt.success.mean
    summary[f'return_attempt_{k}'] = attempt.ret.mean
  summary['subtasks'] = {
      row.subtask: _success(row) for row in rows if row.subtask != ALL
  }
  return summary


def _success(row: Row) -> dict[str, Any]:
  figure = row.success
  not_played = {'not_played': row.not_played} if row.not_played else {}
  return {
      'mean': figure and figure.mean,
      'low': figure.low if figure else 0.0,
      'high': figure.high if figure else 1.0,
      'n': row.n,
      'tasks': row.tasks,
  } | not_played


def best(
    evals: Mapping[str, Mapping[str, Any]], checkpoints: Container[int]
) -> str | None:
  """The name of the evaluation with the best success, the first of equal ones.

  Evaluations of another panel than the last one's, or at other settings, do not
  compare with it and are left out.

  Args:
    evals: summaries by name, in their order, with `SETTINGS` and the number of
      the `checkpoint` that has the weights, None without one.
    checkpoints: the numbers that count.
  """
  names = [
      name
      for name, summary in evals.items()
      if summary['mean'] is not None
      # Runs of earlier versions have no numbers.
      and summary.get('checkpoint') in checkpoints
  ]
  settings = lambda name: [evals[name][key] for key in SETTINGS]
  names = [name for name in names if settings(name) == settings(names[-1])]
  return max(names, key=lambda name: evals[name]['mean'], default=None)


# Figures that some environments or policies have.
_OPTIONAL = ('progress_mean', 'success_attempt_', 'return_attempt_')


def as_metrics(summary: Mapping[str, Any], prefix: str) -> dict[str, float]:
  """The numbers of a summary under the names of metrics; no None.

  Args:
    summary: by `summarise`; `success_within`, where it has that, becomes
      `PREFIX/success_within_TURNS`.
    prefix: of the names, without the slash.

  Returns:
    `PREFIX/success`, `success_low`, `success_high`, `episodes`, `invalid`,
    `return_mean`, `turns_mean`, `progress_mean`, `pass_at_K`,
    `success_attempt_K`, `return_attempt_K` and, of each kind of task,
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
          name: value
          for name, value in summary.items()
          if name.startswith(_OPTIONAL)
      },
      **{
          f'pass_at_{k}': rate
          for k, rate in summary.get('pass_at_k', {}).items()
      },
      **{
          f'success_within_{turns}': share
          for turns, share in summary.get('success_within', {}).items()
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
