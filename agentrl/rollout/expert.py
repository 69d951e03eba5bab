"""The environment's own expert in the policy's seat.

Its episodes run through the same loop, template and mask as the policy's, so a
warm start is trained on exactly the tokens that sampling will later see:

    await run_episode(env, agent, Expert(env, agent), ...)

and `collect` plays many of them at a time.
"""

from agentrl.rollout.acting import ActingPolicy


class Expert(ActingPolicy):
  """Continues a conversation with the expert's action instead of a sample.

  The server of its environment must offer the expert.
  """

  weight_version = 'expert'

  async def action(self, seed: int) -> str:
    """The expert's next action, which depends on no seed.

    Raises:
      EnvError: the server has no expert or cannot be reached.
    """
    del seed
    return await self._env.expert_action()
