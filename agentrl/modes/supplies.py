"""Where the collections of a run come from, if not from playing each in its turn."""

import asyncio
import dataclasses
import math
import pathlib

from agentrl.errors import ConfigError
from agentrl.inference.sampler import Policy, Sampler
from agentrl.modes.build import Run
from agentrl.parallel import distributed, ranks
from agentrl.rollout.ahead import Admission, Ahead, Settings
from agentrl.rollout.collect import Assignment
from agentrl.rollout.collector import Job
from agentrl.rollout.recorded import (
    PacedPolicy,
    Recorded,
    Replay,
    Resampled,
)
from agentrl.rollout.sources import Share, Sources
from agentrl.rollout.supply import Supply
from agentrl.types import Episode, Group


def make(
    run: Run, sources: Sources, sampler: Sampler, version: int
) -> Supply | None:
  """The supply that `config.rollout` asks for; None: `rl.train` plays in turns.

  Args:
    run: of mode train.
    sources: of its tasks.
    sampler: of its policy.
    version: of the policy, now.

  Raises:
    ConfigError: it is not built for such a run.
    DataError: a record has not so many steps.
  """
  return _ahead(run, sources, sampler) or _recorded(
      run, sources, sampler, version
  )


def job(
    run: Run, sampler: Policy, number: int, share: Share, policy_version: int
) -> Job:
  """The groups of a source in a collection, by the collection's number."""
  session = run.session
  return run.collectors[share.name].job(
      share.tasks,
      session.config.rollout.group_size,
      sampler,
      name=f'train-{number}',
      horizon=share.horizon,
      policy_version=policy_version,
      reward=session.config.rollout.reward,
      seed=session.seed('train', number, *filter(None, [share.name])),
  )


def _job_of(run: Run, sampler: Policy, admission: Admission) -> Job:
  """The job of one group."""
  tasks = [(admission.ordinal, admission.task_id)]
  share = Share(admission.name, tasks, admission.horizon)
  return job(run, sampler, admission.round, share, admission.policy_version)


def _recorded(
    run: Run, sources: Sources, sampler: Sampler, version: int
) -> Recorded | None:
  """The collections of another run, if this one is to train on them.

  Raises:
    ConfigError: they are those of one environment and one process.
    DataError: the record has not so many steps.
  """
  session, config = run.session, run.session.config
  if config.rollout.recorded is None:
    return None
  if config.mixture or distributed.count() > 1:
    raise ConfigError(
        f'rollout.recorded={config.rollout.recorded!r} is built for one'
        ' environment and one process: leave it out, or the mixture.'
    )
  folder = pathlib.Path(config.rollout.recorded)
  if not config.rollout.resample:
    return Recorded(folder, sources)
  paced = PacedPolicy(sampler, version)
  size = config.rollout.group_size
  collector = run.collector
  # All at one time: those that wait for later weights are in nobody's way. They
  # may wait for long; each was in time in the record.
  limits = dataclasses.replace(
      collector.limits,
      concurrency=size,
      attempts=1,
      max_failed_share=1.0,
      deadline_s=math.inf,
  )
  collector = dataclasses.replace(collector, limits=limits)
  replayed = dataclasses.replace(run, collectors={run.arena.name: collector})

  async def play(admission: Admission, replay: Replay) -> Group:
    group_job = _job_of(replayed, paced, admission)

    async def once(assignment: Assignment) -> Episode:
      index = assignment.attempt * size + assignment.replica
      return await replay(index, lambda: group_job.play(assignment))

    [group] = await group_job._replace(play=once).run(group_job.tasks)
    return group

  recorded = Resampled(
      folder,
      sources,
      play=play,
      policy=paced,
      loop=session.loop,
      steps=config.num_steps,
      attempts=config.agent.reflect.attempts,
  )
  session.stack.callback(recorded.close)
  return recorded


def _ahead(run: Run, sources: Sources, sampler: Sampler) -> Ahead | None:
  """The groups that are played ahead of the learner, if some are."""
  session, config = run.session, run.session.config
  if not config.rollout.ahead:
    return None
  free = {
      name: asyncio.Semaphore(collector.limits.concurrency)
      for name, collector in run.collectors.items()
  }

  async def play(admission: Admission) -> Group:
    group_job = _job_of(run, sampler, admission)

    async def in_turn(assignment: Assignment) -> Episode:
      async with free[admission.name]:  # the eldest waits first
        return await group_job.play(assignment)

    # Failures are counted over all groups.
    [group] = await group_job._replace(play=in_turn).run(
        group_job.tasks, max_failed_share=1.0
    )
    return group

  ahead = Ahead(
      sources,
      play,
      session.loop,
      Settings(
          depth=config.rollout.ahead,
          bound=config.rollout.staleness_bound,
          groups=config.rollout.tasks_per_step,
          episodes=config.episodes_per_step,
          rounds=config.num_steps,
          max_failed_share=config.rollout.max_failed_share,
          replaced=config.algo.refills * config.rollout.tasks_per_step,
      ),
      session.directory if distributed.is_first() else None,
      ranks,
  )
  session.stack.callback(ahead.close)
  return ahead
