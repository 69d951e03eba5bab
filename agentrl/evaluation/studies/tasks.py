"""Tasks by columns: how often each task was solved, and by whom."""

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.workdirs import panels

# Orders of a table of tasks; 'task' is by number or name.
ORDERS = ('hardest', 'easiest', 'task')


class Total(NamedTuple):
  """Valid episodes of a task, or of a kind of task, in all columns together.

  Attributes:
    key: number of the task, or name of the kind.
    subtask: kind of the task.
    played: episodes.
    solved: of them.
    last_played: of the last column.
    last_solved: likewise.
    since_solved: solved in the column from which losses count; None: in any.
  """

  key: int | str
  subtask: str
  played: int
  solved: int
  last_played: int
  last_solved: int
  since_solved: int | None = None

  @property
  def failed_by_all(self) -> bool:
    """True if no column has solved it."""
    return self.played > 0 and not self.solved

  @property
  def lost(self) -> bool:
    """True if the last column fails what another one, or that one, has solved."""
    before = self.solved if self.since_solved is None else self.since_solved
    return self.last_played > 0 and not self.last_solved and before > 0


def ordered(totals: Iterable[Total], order: str = 'hardest') -> list[Total]:
  """By the share solved; equal ones, and all with 'task', by number or name.

  Args:
    totals: of tasks alone, or of kinds alone.
    order: one of `ORDERS`.
  """
  by_key = sorted(totals, key=lambda total: total.key)
  if order == 'task':
    return by_key
  sign = -1 if order == 'easiest' else 1
  share = lambda total: sign * total.solved / max(total.played, 1)
  return sorted(by_key, key=share)  # stable


def frame(sides: Sequence[Side]) -> Iterator[dict[str, Any]]:
  """A plain row for each task and column that has played it, hardest task first.

  Runs whose ids mean other tasks than those of most are left out.

  Args:
    sides: the columns.
  """
  for env in dict.fromkeys(
      env for side in sides for run in side.runs for env in run.panels
  ):
    counts: dict[int, dict[str, tuple[int, int]]] = {}
    subtasks: dict[int, str] = {}
    meanings = collections.Counter(
        panels.meaning(run.panels[env])
        for side in sides
        for run in side.runs
        if env in run.panels
    )
    ((common, _),) = meanings.most_common(1)
    for side in sides:
      for run in side.runs:
        panel = run.panels.get(env)
        if panel is None or panels.meaning(panel) != common:
          continue
        subtasks |= dict(zip(panel.task_ids, panel.subtasks, strict=True))
        for (task, _), episode in run.episodes[env].items():
          if episode.success is None:
            continue
          of_task = counts.setdefault(task, {})
          played, solved = of_task.get(side.label, (0, 0))
          of_task[side.label] = played + 1, solved + int(episode.success)
    last = sides[-1].label
    totals = [
        Total(
            task,
            subtasks[task],
            sum(played for played, _ in of_task.values()),
            sum(solved for _, solved in of_task.values()),
            *of_task.get(last, (0, 0)),
        )
        for task, of_task in counts.items()
    ]
    for total in ordered(totals):
      assert isinstance(total.key, int)  # of tasks
      for side in sides:
        if found := counts[total.key].get(side.label):
          played, solved = found
          yield {
              'env': env,
              'task': total.key,
              'subtask': total.subtask,
              'column': side.label,
              'n': played,
              'solved': solved,
              'success': solved / played,
              'failed_by_all': total.failed_by_all,
          }
