"""Episodes for training and evaluation: of the policy, and of the expert.

Each process of several plays its share of the tasks; all get all groups.
"""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import rich.console

from agentrl import metrics as metrics_lib, plugins
from agentrl.data import conversations
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError, of_member
from agentrl.inference.sampler import Policy, Sampler
from agentrl.rollout import (
    collect as collect_lib,
    expert as expert_lib,
    reward as reward_lib,
    seeds,
)
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.agent import Agent
from agentrl.rollout.collect import Play
from agentrl.rollout.environment import Environment
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import Limits
from agentrl.rollout.play import make_play
from agentrl.runtime.event_loop import EventLoop
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Episode, Group, Turns

# Expert episodes whose texts train a tiny policy's tokenizer.
_TOKENIZER_EPISODES = 64
# Longer than any episode: texts for a tokenizer are never cut.
_UNBOUNDED = 1 << 20

T = TypeVar('T')


class Ranks(Protocol):
  """The processes of a run that share work, see `parallel.ranks`."""

  def own(self, items: Sequence[T]) -> Sequence[T]:
    """The part of the items that this process does."""

  def gather(self, work: Callable[[], list[T]]) -> list[T]:
    """Results of the work of all processes; raises in all what one raises."""


class Alone:
  """The ranks of a run of one process."""

  def own(self, items: Sequence[T]) -> Sequence[T]:
    return items

  def gather(self, work: Callable[[], list[T]]) -> list[T]:
    return work()


class Job(NamedTuple):
  """Groups that are to be played in one environment.

  Attributes:
    collector: of the environment.
    tasks: (ordinal, task id) of each group.
    group_size: episodes of a task, or chains of attempts.
    play: plays an assignment.
    seed: of the collection.
    chain: attempts of a chain.
  """

  collector: 'Collector'
  tasks: Sequence[tuple[int, int]]
  group_size: int
  play: Play
  seed: int
  chain: int = 1

  async def run(
      self,
      tasks: Sequence[tuple[int, int]],
      advance: Callable[[], None] = lambda: None,
      *,
      max_failed_share: float | None = None,
  ) -> list[Group]:
    """Groups of some of the tasks.

    Args:
      tasks: those that this process plays.
      advance: called after each episode.
      max_failed_share: in place of the limits'.

    Raises:
      AgentrlError: as `rollout.collect`; names the member of a mixture.
    """
    limits = self.collector.limits
    if max_failed_share is None:
      max_failed_share = limits.max_failed_share
    with of_member(self.collector.member):
      return await collect_lib.collect(
          tasks,
          self.group_size,
          self.play,
          seed=self.seed,
          concurrency=limits.concurrency,
          attempts=limits.attempts,
          chain=self.chain,
          max_failed_share=max_failed_share,
          on_episode=lambda _: advance(),
      )


def run_jobs(jobs: Sequence[Job], title: str) -> list[list[Group]]:
  """The groups of each job, in the order of its tasks; all play at one time.

  Args:
    jobs: at least one; of one run.
    title: of the progress bar.

  Raises:
    AgentrlError: as `rollout.collect`; as that of the first process that
      failed, in all.
    Interrupted: the user asked to stop.
  """
  everything = [(i, task) for i, job in enumerate(jobs) for task in job.tasks]
  collector = jobs[0].collector
  own = collector.ranks.own(everything)

  def work() -> list[tuple[int, Group]]:
    with metrics_lib.progress(collector.console) as bar:
      total = sum(jobs[i].group_size * jobs[i].chain for i, _ in own)
      task = bar.add_task(title, total=total)
      parts = [
          job.run([t for j, t in own if j == i], lambda: bar.advance(task))
          for i, job in enumerate(jobs)
      ]
      played = collector.loop.run(_together(parts))
    return [(i, group) for i, part in enumerate(played) for group in part]

  found = collector.ranks.gather(work)
  return [
      sorted((g for j, g in found if j == i), key=lambda g: g.ordinal)
      for i in range(len(jobs))
  ]


async def _together(
    parts: Sequence[Coroutine[Any, Any, list[Group]]],
) -> list[list[Group]]:
  """Results of all; the first that fails cancels the others."""
  try:
    async with asyncio.TaskGroup() as group:
      tasks = [group.create_task(part) for part in parts]
  except BaseExceptionGroup as failed:
    raise failed.exceptions[0] from None
  return [task.result() for task in tasks]


@dataclasses.dataclass(frozen=True)
class Collector:
  """Plays groups of episodes in one environment, with a progress bar.

  Attributes:
    loop: runs the episodes.
    console: shows the bar.
    environment: where they are played.
    agent: how the policy talks.
    limits: of an episode, and of episodes at a time.
    member: of a mixture; stands in ids of episodes and in messages.
    ranks: the processes that share the groups.
  """

  loop: EventLoop
  console: rich.console.Console
  environment: Environment
  agent: Agent
  limits: Limits
  member: str = ''
  ranks: Ranks = Alone()

  def collect(
      self,
      tasks: Sequence[tuple[int, int]],
      group_size: int,
      policy: Policy | None,
      *,
      name: str,
      title: str | None = None,
      **how: Any,
  ) -> list[Group]:
    """Groups in the order of `tasks`.

    Args:
      tasks: as `job` has them, and so what is not listed here.
      group_size: as `job` has it.
      policy: continues the transcript; None: the environment's expert.
      name: prefix of the episodes' ids.
      title: of the progress bar; None: `name`.
      **how: other arguments of `job`.

    Raises:
      AgentrlError: as `run_jobs`.
      Interrupted: the user asked to stop.
    """
    job = self.job(tasks, group_size, policy, name=name, **how)
    return run_jobs([job], title or name)[0]

  def job(
      self,
      tasks: Sequence[tuple[int, int]],
      group_size: int,
      policy: Policy | None,
      *,
      seed: int,
      **how: Any,
  ) -> Job:
    """A job for `run_jobs`.

    Args:
      tasks: (ordinal, task id) of each group.
      group_size: episodes of a task; of a policy that reflects on its attempts,
        chains of them.
      policy: as `play` has it.
      seed: of this collection.
      **how: other arguments of `play`.

    Raises:
      ConfigError: as `play`.
    """
    chain = self.agent.reflect.attempts if policy else 1
    play = self.play(policy, **how)
    return Job(self, tasks, group_size, play, seed, chain)

  def play(
      self,
      policy: Policy | None,
      *,
      name: str,
      horizon: int | Turns,
      policy_version: int = 0,
      split: str = 'train',
      acting: Callable[..., ActingPolicy] = Expert,
      reward: str = 'environment',
  ) -> Play:
    """A function that plays one assignment.

    Args:
      policy: continues the transcript; None: the environment's expert, which
        has nothing to learn.
      name: prefix of the episodes' ids.
      horizon: turns of an episode, at most; of `Turns` each draws its own.
      policy_version: for the record.
      split: of the tasks, for the record.
      acting: plays where there is no policy.
      reward: of training, see `rollout.options.Rollout.reward`.

    Raises:
      ConfigError: pictures are wanted of an environment that has none, or there
        is no such reward.
    """
    play = make_play(
        self.environment,
        self.agent,
        policy,
        self.limits,
        acting=acting,
        name=f'{name}-{self.member}' if self.member else name,
        split=split,
        horizon=horizon,
        policy_version=policy_version,
    )
    if plugins.is_own(reward):
      return reward_lib.rewarded(play, reward)
    return play

  def play_expert(
      self,
      count: int,
      *,
      horizon: int,
      seed: int,
      max_context: int,
      stumbles: float = 0.0,
  ) -> list[Episode]:
    """Episodes of the expert on the first `count` tasks of its own order.

    Args:
      count: episodes.
      horizon: turns of an episode, at most.
      seed: of the run.
      max_context: tokens of an episode. An action of the expert is as long as
        it is: no limit of completions applies.
      stumbles: share of its actions that are nonsense, from which nothing is
        learnt.
    """
    limits = dataclasses.replace(
        self.limits,
        max_completion_tokens=max_context - 1,
        max_context=max_context,
    )
    seed = expert_seed(seed)
    tasks = TaskIterator(self.environment.tasks('train'), seed=seed)
    groups = dataclasses.replace(self, limits=limits).collect(
        tasks.next_tasks(count),
        1,
        None,
        name='expert',
        title='expert episodes',
        horizon=horizon,
        seed=seed,
        acting=functools.partial(Expert, stumbles=stumbles),
    )
    return [
        expert_lib.without_stumbles(episode)
        for group in groups
        for episode in group.episodes
    ]


def expert_seed(seed: int) -> int:
  """The seed of the expert's task order, from the run's seed."""
  return seeds.derive_seed(seed, 'expert')


def expert_texts(
    collector: Callable[[Tokenizer], Collector], *, horizon: int, seed: int
) -> list[str]:
  """Texts of expert episodes, to train a tokenizer on.

  Args:
    collector: makes one whose agent writes with a tokenizer.
    horizon: turns of an episode, at most.
    seed: of the run.
  """
  # Bytes alone are enough to play; what counts here is the text.
  plain = tokenizer_lib.train_bpe([], 256 + 3)
  played = collector(plain).play_expert(
      _TOKENIZER_EPISODES, horizon=horizon, seed=seed, max_context=_UNBOUNDED
  )
  return [
      text for episode in played for text in conversations.texts_of(episode)
  ]


def solved(
    played: Sequence[Episode],
    console: rich.console.Console,
    *,
    horizon: int,
    member: str = '',
) -> list[Episode]:
  """The successful episodes.

  Args:
    played: by the expert.
    console: shows how many there are.
    horizon: turns that they had, at most.
    member: of a mixture, for messages.

  Raises:
    ConfigError: there are none.
  """
  good = [episode for episode in played if episode.success]
  start = f'mixture.{member}: ' if member else ''
  if not good:
    raise ConfigError(
        f'{start}The expert solved none of {len(played)} episodes within'
        f' {horizon} turns; allow more (warmstart.horizon or'
        ' data.expert_horizon).'
    )
  rest = len(played) - len(good)
  console.print(
      f'{start}{len(good)} episodes of the expert'
      + (f'; {rest} more failed or were cut' if rest else ''),
      highlight=False,
  )
  return good


def sampler_metrics(
    sampler: Sampler, groups: Sequence[Group], ranks: Ranks
) -> dict[str, float]:
  """Failures of the sampler that were mended while these groups were played.

  Its counts begin anew.
  """
  names = ('retries', 'aborts', 'aborted_tokens')
  # Each process has asked for its share of the episodes.
  shares = ranks.gather(
      lambda: [{name: sampler.counts[name] for name in names}]
  )
  sampler.counts.clear()
  return {
      f'sampler/{name}': float(sum(share[name] for share in shares))
      for name in names
  } | {
      # Turns under other weights than the push before the step handed over.
      'sampler/stale_turns': float(
          sum(
              turn.weight_version != str(episode.policy_version)
              for group in groups
              for episode in group.episodes
              for turn in episode.turns
          )
      )
  }
