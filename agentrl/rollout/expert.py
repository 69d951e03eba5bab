"""The environment's own expert in the policy's seat.

Its episodes run through the same loop, template and mask as the policy's, so a
warm start is trained on exactly the tokens that sampling will later see:

    await run_episode(env, agent, Expert(env, agent), ...)

and `collect` plays many of them at a time.
"""

import time
from collections.abc import Sequence

from agentrl.envs.client import EnvClient
from agentrl.rollout.agent import Agent
from agentrl.types import Completion


class Expert:
  """Continues a transcript with the expert's action instead of a sample."""

  def __init__(self, env: EnvClient, agent: Agent):
    """Keeps the parts.

    Args:
      env: the client of this very episode, whose server offers its expert.
      agent: writes the action in the policy's format.
    """
    self._env = env
    self._agent = agent

  async def generate(
      self,
      input_ids: Sequence[int],
      *,
      max_new_tokens: int,
      seed: int,
      stop_token_ids: Sequence[int] = (),
      rid: str | None = None,
      routing_key: str | None = None,
  ) -> Completion:
    """Gives the expert's next action as if a policy had sampled it.

    Its log-probabilities are 0: the action is certain. An action longer than
    `max_new_tokens` is cut with finish reason 'length', as a policy's would be.
    Arguments for samplers are ignored.

    Raises:
      EnvError: the server has no expert or cannot be reached.
    """
    del seed, stop_token_ids, rid, routing_key
    start = time.perf_counter()
    ids = self._agent.write(await self._env.expert_action())
    kept = ids[:max_new_tokens]
    return Completion(
        tokens=tuple(kept),
        logprobs=(0.0,) * len(kept),
        finish_reason='stop' if len(kept) == len(ids) else 'length',
        weight_version='expert',
        prompt_tokens=len(input_ids),
        cached_tokens=0,
        latency_s=time.perf_counter() - start,
    )
