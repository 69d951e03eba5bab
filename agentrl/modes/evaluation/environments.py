"""The environments of an evaluation, and the panels that are played in them."""

import contextlib
import dataclasses
import json
from collections.abc import Sequence

from agentrl.config import evaluation
from agentrl.config.evaluation import Evaluated
from agentrl.config.modes import Evaluate
from agentrl.envs.options import EnvOptions
from agentrl.evaluation.results import Panel
from agentrl.modes import held_out
from agentrl.rollout.environment import Environment
from agentrl.runtime.event_loop import EventLoop


class Environments:
  """The environments that the policies of an evaluation play in."""

  def __init__(
      self,
      loop: EventLoop,
      stack: contextlib.ExitStack,
      evaluated: Sequence[Evaluated],
  ):
    """Starts or finds all of them.

    Policies share the servers of equal settings; they offer an expert only
    where it is a policy.

    Args:
      loop: runs their clients.
      stack: closes them.
      evaluated: the policies.

    Raises:
      AgentrlError: one cannot be started or found.
    """
    self._environments: dict[str, Environment] = {}
    self._configs = evaluated[0].configs
    expert = any(item.kind == evaluation.EXPERT for item in evaluated)
    for item in evaluated:
      for config in item.configs:
        if _key(config.env) not in self._environments:
          environment = Environment(loop, config.env, expert=expert)
          self._environments[_key(config.env)] = stack.enter_context(
              environment
          )

  def of(self, config: Evaluate) -> Environment:
    """The environment of a policy's config of a panel."""
    return self._environments[_key(config.env)]

  def panels(self) -> list[Panel]:
    """The panels, the same for all policies.

    Raises:
      ConfigError: there are fewer tasks.
      DataError: an item file is not of its environment.
    """
    return [
        held_out.make_panel(self.of(config), config) for config in self._configs
    ]


def _key(env: EnvOptions) -> str:
  return json.dumps(dataclasses.asdict(env), sort_keys=True)
