"""A policy that acts at random: the floor that an evaluation is read against.

    await run_episode(env, agent, RandomPolicy(env, agent), ...)

Each turn the environment's rule (`EnvSpec.random_rule`) draws from what its server
offers at GET /available_actions, under the turn's seed: the same episode is the
same actions again.
"""

import random

from agentrl.envs.client import EnvClient
from agentrl.errors import EnvError
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.text_agent import BaseAgent

# Tries to draw an action that the agent's format can say.
_TRIES = 100


class RandomPolicy(ActingPolicy):
  """Draws actions by its environment's rule; see the module."""

  weight_version = 'random'

  def __init__(self, env: EnvClient, agent: BaseAgent):
    """Keeps the parts.

    Args:
      env: the client of this very episode, whose server is one of ours.
      agent: writes the action in the policy's format.
    """
    super().__init__(env, agent)
    self._rule = env.spec.random_rule
    self._seen: list[str] = []  # observations of the episode

  async def action(self, seed: int) -> str:
    """Draws an action.

    Raises:
      EnvError: the server offers none, or none that the format can say.
    """
    rng = random.Random(seed)
    self._seen.append(await self._env.observation())
    offered = await self._env.available_actions()
    for _ in range(_TRIES):
      action = self._rule(rng, offered, self._seen)
      try:
        self._agent.write_text(action)
      except ValueError:  # no function stands for it
        continue
      return action
    raise EnvError(
        f'{self._env.name} offers no action that the format of the agent can'
        f' say, such as {action!r:.80}; set another agent.format.'
    )
