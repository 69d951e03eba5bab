"""Success on the fixed panel of a run that learns, before, between and after."""

import pathlib

from agentrl.config import sections
from agentrl.data import episodes as episodes_lib
from agentrl.evaluation.evaluate import Evaluation, seeded, summarise
from agentrl.inference.sampler import Sampler
from agentrl.rollout.environment import Environment
from agentrl.training.collection import Collector


def panel(environment: Environment, config: sections.Eval) -> tuple[int, ...]:
  """The tasks that evaluations compare on.

  Raises:
    ConfigError: there are fewer.
    DataError: the item file is not of this environment.
  """
  return environment.panel(config.split, config.num_tasks, config.task_file)


def run_panel(
    collector: Collector,
    sampler: Sampler,
    config: sections.Eval,
    *,
    name: str,
    title: str,
    policy_version: int,
) -> Evaluation:
  """Plays the fixed panel.

  Args:
    collector: plays the episodes.
    sampler: of the policy.
    config: which panel, and how it is played.
    name: prefix of the episodes' ids.
    title: of the progress bar.
    policy_version: for the record.

  Raises:
    AgentrlError: as `panel` and `Collector.collect`.
    Interrupted: the user asked to stop.
  """
  environment = collector.environment
  groups = collector.collect(
      list(enumerate(panel(environment, config))),
      config.samples,
      sampler,
      name=name,
      title=title,
      split=config.split,
      horizon=config.horizon,
      policy_version=policy_version,
      seed=config.seed,
      wrap=lambda play: seeded(play, config.seed),
  )
  return Evaluation(
      summarise(groups, seed=config.seed, subtask=environment.subtasks()),
      groups,
  )


def write_episodes(
    directory: pathlib.Path, stem: str, result: Evaluation, *, tokens: bool
) -> None:
  """Writes the episodes of an evaluation to `episodes/eval/STEM.jsonl`."""
  episodes_lib.write(
      directory / 'episodes' / 'eval' / f'{stem}.jsonl',
      [e for group in result.groups for e in group.episodes],
      tokens=tokens,
  )
