"""The function that plays an assignment as an episode: `make_play`."""

import dataclasses
from collections.abc import Callable

from agentrl import types
from agentrl.errors import ConfigError
from agentrl.rollout import seeds
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.collect import Assignment, Play
from agentrl.rollout.dialogue import AnyCompletion
from agentrl.rollout.environment import Environment
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import Limits
from agentrl.rollout.text_agent import AnyPolicy, BaseAgent
from agentrl.types import Episode, Turns


def make_play(
    environment: Environment,
    agent: BaseAgent[AnyPolicy, AnyCompletion],
    policy: AnyPolicy | None,
    rollout: Limits,
    *,
    acting: Callable[..., ActingPolicy] = Expert,
    name: str,
    split: str,
    horizon: int | Turns,
    policy_version: int,
) -> Play:
  """A function that plays one assignment.

  Args:
    environment: where.
    agent: how the policy talks.
    policy: continues the conversation; None: `acting` does.
    rollout: limits.
    acting: plays where there is no policy: `Expert` or `RandomPolicy`.
    name: begins the names of the episodes.
    split: of the tasks, for the record.
    horizon: most turns; of `Turns` each episode draws its own.
    policy_version: for the record.

  Raises:
    ConfigError: pictures are wanted of an environment that has none.
  """
  if rollout.save_views and not environment.spec.dialect.renders:
    raise ConfigError(
        f'rollout.save_views=True, and {environment.name} draws no pictures;'
        ' switch it off.'
    )

  async def play(assignment: Assignment) -> Episode:
    env, deaths = environment.client(), len(environment.deaths)
    which = f'{assignment.replica}'
    if assignment.attempt:
      which += f'.{assignment.attempt}'
    episode = await run_episode(
        env,
        agent,
        policy or acting(env, agent),
        episode_id=f'{name}-{assignment.ordinal}-{which}',
        env_name=environment.name,
        task_id=assignment.task_id,
        split=split,
        seed=assignment.seed,
        policy_version=policy_version,
        horizon=seeds.draw_turns(horizon, assignment.seed),
        limits=rollout,
        sample=assignment.replica,
        attempt=assignment.attempt,
        data_version=environment.spec.data_version,
        previous=assignment.previous,
    )
    if episode.stop_reason == types.ENV_ERROR and episode.retryable:
      await environment.revive()
      if died := environment.deaths[deaths:]:
        words = f'{died[-1]} ({episode.error})'
        episode = dataclasses.replace(episode, error=words)
    return episode

  return play
