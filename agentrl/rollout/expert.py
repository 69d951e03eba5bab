"""The environment's own expert in the policy's seat.

Its episodes run through the same loop, template and mask as the policy's, so a
warm start is trained on exactly the tokens that sampling will later see:

    await run_episode(env, agent, Expert(env, agent), ...)

and `collect` plays many of them at a time.
"""

import dataclasses
import random

from agentrl.envs.client import EnvClient
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.text_agent import BaseAgent
from agentrl.types import Episode

_EXPERT, _STUMBLE = 'expert', 'stumble'  # versions of turns
_WORDS = (2, 4)  # one alone is too often an action that cannot be undone


class Expert(ActingPolicy):
  """Continues a conversation with the expert's action instead of a sample.

  The server of its environment must offer the expert. One that never errs shows
  nobody how to go on after an error, and a policy that imitates it is lost after
  its first. So some of its actions can be nonsense; what it then does can be
  imitated, and the nonsense should not be, see `without_stumbles`. Noise for the
  demonstrator is due to arXiv:1703.09327.
  """

  weight_version = _EXPERT

  def __init__(self, env: EnvClient, agent: BaseAgent, stumbles: float = 0.0):
    """Keeps the parts.

    Args:
      env: the client of this very episode.
      agent: writes the action in the policy's format.
      stumbles: the share of actions that are nonsense.
    """
    super().__init__(env, agent)
    self._stumbles = stumbles

  def recite(self, text: str) -> None:
    super().recite(text)
    self.weight_version = _EXPERT

  async def action(self, seed: int) -> str:
    """The expert's next action; whether it stumbles depends on the seed.

    Raises:
      EnvError: the server has no expert or cannot be reached.
    """
    action = await self._env.expert_action()
    rng = random.Random(seed)
    self.weight_version = _EXPERT
    if rng.random() >= self._stumbles:
      return action
    # The right verb, and words that stand somewhere in the observation.
    words = (await self._env.observation()).split()
    picks = rng.choices(words, k=rng.randint(*_WORDS)) if words else []
    nonsense = ' '.join([*action.split()[:1], *picks])
    try:
      self._agent.write_text(nonsense)
    except ValueError:  # the agent's format cannot say it
      return action
    self.weight_version = _STUMBLE
    return nonsense


def without_stumbles(episode: Episode) -> Episode:
  """The expert's episode, with no loss on what was nonsense.

  Nonsense that was rewarded was none.
  """
  turns = tuple(
      dataclasses.replace(turn, learn=False)
      if turn.weight_version == _STUMBLE and not turn.reward
      else turn
      for turn in episode.turns
  )
  return dataclasses.replace(episode, turns=turns)
