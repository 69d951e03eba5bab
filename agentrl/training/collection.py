"""Episodes for training and evaluation: of the policy, and of the expert.

Each process of several plays its share of the tasks; all get all groups.
"""

import dataclasses
from collections.abc import Callable, Sequence

import rich.console

from agentrl import metrics as metrics_lib
from agentrl.data import conversations
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError
from agentrl.inference.sampler import Policy, Sampler
from agentrl.parallel import distributed
from agentrl.rollout import collect as collect_lib, seeds
from agentrl.rollout.agent import Agent
from agentrl.rollout.collect import Play
from agentrl.rollout.environment import Environment, make_play
from agentrl.rollout.options import Limits
from agentrl.runtime.event_loop import EventLoop
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import ranks
from agentrl.types import Episode, Group

# Expert episodes whose texts train a tiny policy's tokenizer.
_TOKENIZER_EPISODES = 64
# Longer than any episode: texts for a tokenizer are never cut.
_UNBOUNDED = 1 << 20


@dataclasses.dataclass(frozen=True)
class Collector:
  """Plays groups of episodes in one environment, with a progress bar.

  Attributes:
    loop: runs the episodes.
    console: shows the bar.
    environment: where they are played.
    agent: how the policy talks.
    limits: of an episode, and of episodes at a time.
  """

  loop: EventLoop
  console: rich.console.Console
  environment: Environment
  agent: Agent
  limits: Limits

  def collect(
      self,
      tasks: Sequence[tuple[int, int]],
      group_size: int,
      policy: Policy | None,
      *,
      name: str,
      horizon: int,
      seed: int,
      policy_version: int = 0,
      split: str = 'train',
      title: str | None = None,
      wrap: Callable[[Play], Play] = lambda play: play,
  ) -> list[Group]:
    """Groups in the order of `tasks`.

    Args:
      tasks: (ordinal, task id) of each group.
      group_size: episodes of a task.
      policy: continues the transcript; None: the environment's expert.
      name: prefix of the episodes' ids.
      horizon: turns of an episode, at most.
      seed: of this collection.
      policy_version: for the record.
      split: of the tasks, for the record.
      title: of the progress bar; None: `name`.
      wrap: changes how an assignment is played, see `evaluate.seeded`.

    Raises:
      AgentrlError: as `rollout.collect`; as that of the first process that
        failed, in all.
      Interrupted: the user asked to stop.
    """
    own = distributed.own(tasks)
    play = make_play(
        self.environment,
        self.agent,
        policy,
        self.limits,
        name=name,
        split=split,
        horizon=horizon,
        policy_version=policy_version,
    )

    def work() -> list[Group]:
      with metrics_lib.progress(self.console) as bar:
        task = bar.add_task(title or name, total=len(own) * group_size)
        return self.loop.run(
            collect_lib.collect(
                own,
                group_size,
                wrap(play),
                seed=seed,
                concurrency=self.limits.concurrency,
                attempts=self.limits.attempts,
                max_failed_share=self.limits.max_failed_share,
                on_episode=lambda _: bar.advance(task),
            )
        )

    return sorted(ranks.gather(work), key=lambda group: group.ordinal)

  def play_expert(
      self, count: int, *, horizon: int, seed: int, max_context: int
  ) -> list[Episode]:
    """Episodes of the expert on the first `count` tasks of its own order.

    Args:
      count: episodes.
      horizon: turns of an episode, at most.
      seed: of the run.
      max_context: tokens of an episode. An action of the expert is as long as
        it is: no limit of completions applies.
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
    )
    return [episode for group in groups for episode in group.episodes]


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
    played: Sequence[Episode], console: rich.console.Console, *, horizon: int
) -> list[Episode]:
  """The successful episodes.

  Raises:
    ConfigError: there are none.
  """
  good = [episode for episode in played if episode.success]
  if not good:
    raise ConfigError(
        f'The expert solved none of {len(played)} episodes within'
        f' {horizon} turns; allow more (warmstart.horizon or'
        ' data.expert_horizon).'
    )
  rest = len(played) - len(good)
  console.print(
      f'{len(good)} episodes of the expert'
      + (f'; {rest} more failed or were cut' if rest else ''),
      highlight=False,
  )
  return good


def sampler_metrics(
    sampler: Sampler, groups: Sequence[Group]
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
