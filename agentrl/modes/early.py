"""Environment servers that start while jax is imported. Imports no jax."""

from agentrl.config import mixture
from agentrl.config.modes import Learning, Train
from agentrl.rollout.env_server import Starting


def servers(config: Learning) -> Starting:
  """The servers that a run starts, begun now.

  Args:
    config: of the run; it begins servers of the same environments and options.
  """
  wanted: list[tuple[Learning, float]] = [(config, 1.0)]
  if isinstance(config, Train):
    wanted = [(one.config, one.weight) for one in mixture.members(config)]
  starting = Starting()
  for one, weight in wanted:
    env = one.env
    expert = (config.plays_expert and weight > 0) or one.plays_chance
    for _ in range(0 if env.urls else env.workers):
      starting.begin(
          env.name, env.options, expert=expert, timeout_s=env.timeout_s
      )
  return starting
