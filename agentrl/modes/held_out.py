"""Fixed panels of held-out tasks, and the figures that a run keeps of them."""

import statistics
from collections.abc import Collection, Sequence
from typing import Any

from agentrl.config import evaluation
from agentrl.config.modes import Evaluate, Learning, Train
from agentrl.evaluation import results, rows
from agentrl.evaluation.evaluate import summarise
from agentrl.evaluation.results import Panel
from agentrl.rollout.task_lists import TaskLists
from agentrl.types import Group


def make_panels(
    environment: TaskLists, config: Learning
) -> tuple[Panel | None, Panel | None]:
  """The panel of a run's evaluations, and its part that is played more often.

  None stands for one that is not played. Raises as `make_panel`.
  """
  if not config.eval.num_tasks:
    return None, None
  panel = make_panel(environment, config)
  # The other modes evaluate too rarely for a part.
  small = config.eval.small.num_tasks if isinstance(config, Train) else 0
  if not small:
    return panel, None
  return panel, make_panel(environment, config, small)


def make_panel(
    environment: TaskLists,
    config: Learning | Evaluate,
    num_tasks: int | None = None,
) -> Panel:
  """The tasks that evaluations compare on, and how they are played.

  Args:
    environment: where.
    config: of the mode.
    num_tasks: how many; None: as many as `config.eval` says.

  Raises:
    ConfigError: there are fewer.
    DataError: the item file is not of this environment.
    EnvError: a package that tells their templates is missing.
  """
  eval, spec = config.eval, environment.spec
  task_ids = environment.panel(
      eval.split,
      eval.num_tasks if num_tasks is None else num_tasks,
      eval.task_file,
  )
  clusters = environment.clusters()
  task_options = evaluation.task_options(config)
  return Panel(
      env=spec.name,
      options=config.env.options,
      split=eval.split,
      task_file=eval.task_file,
      task_ids=task_ids,
      subtasks=tuple(map(environment.subtasks(), task_ids)),
      clusters=clusters and tuple(map(clusters, task_ids)),
      samples=eval.samples,
      attempts=config.agent.reflect.attempts,
      data_version=spec.data_version,
      task_options=task_options,
      seed=eval.seed,
      horizon=eval.horizon,
      success=spec.success,
      hash=results.panel_hash(
          spec.name,
          task_options=task_options,
          task_ids=task_ids,
          samples=eval.samples,
          seed=eval.seed,
          attempts=config.agent.reflect.attempts,
          data_version=spec.data_version,
      ),
  )


def summary(
    panel: Panel,
    groups: Sequence[Group],
    *,
    temperature: float,
    checkpoint: int | None,
    within: Sequence[int] = (),
    trained_on: Collection[int] = (),
) -> dict[str, Any]:
  """The figures of a panel as a run keeps them.

  Args:
    panel: what was played.
    groups: its episodes, or those of a panel that it is a part of.
    temperature: of the sampler.
    checkpoint: number of the checkpoint with these weights; None: there is
      none.
    within: numbers of turns, fewer than the panel's horizon, within which
      success counts as well.
    trained_on: tasks to train on.

  Returns:
    As `evaluate.summarise`, with `evaluate.SETTINGS`, `split` and `checkpoint`;
    with `within`, `success_within` has the share of each number of turns.
    `trained_on` counts tasks of a panel that are to train on too, unless it is
    of the training split.
  """
  own = [group for group in groups if group.task_id in set(panel.task_ids)]
  figures = summarise(rows.of_panel('policy', panel, own)) | {
      'panel': panel.hash,
      'split': panel.split,
      'horizon': panel.horizon,
      'temperature': temperature,
      'checkpoint': checkpoint,
  }
  if seen := overlap(panel, trained_on):
    figures['trained_on'] = seen
  if within:
    figures['success_within'] = {t: _success_within(own, t) for t in within}
  return figures


def overlap(panel: Panel, trained_on: Collection[int]) -> int:
  """How many tasks of a panel are to train on too; 0 for one of that split."""
  if panel.split == 'train' and not panel.task_file:
    return 0
  return len(set(panel.task_ids) & set(trained_on))


def _success_within(groups: Sequence[Group], turns: int) -> float | None:
  """Share of the valid episodes that succeed in as many turns, or fewer.

  That is success at this horizon: the policy is not told how many turns it has.
  """
  solved = [
      e.success and len(e.acts) <= turns
      for group in groups
      for e in group.episodes
      if e.valid
  ]
  return statistics.fmean(solved) if solved else None
