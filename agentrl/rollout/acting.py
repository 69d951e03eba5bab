"""Policies that choose actions rather than tokens: an expert, a random one."""

import abc
import time
from collections.abc import Sequence

from agentrl.envs.client import EnvClient
from agentrl.rollout.agent import Agent
from agentrl.rollout.text_agent import BaseAgent
from agentrl.types import Completion, Message, TextCompletion


class ActingPolicy(abc.ABC):
  """Plays one episode in the policy's seat, in ids or in messages.

  Through an `Agent` it is a `Policy`: its episodes have the tokens that sampling
  its completions would have given. Through a `TextAgent` it is a `ChatPolicy`,
  which needs no tokenizer; its episodes have no tokens then.

  Attributes:
    weight_version: of its turns.
  """

  weight_version: str

  def __init__(self, env: EnvClient, agent: BaseAgent):
    """Keeps the parts.

    Args:
      env: the client of this very episode.
      agent: writes the action in the policy's format.
    """
    self._env = env
    self._agent = agent
    self._words: str | None = None

  def recite(self, text: str) -> None:
    """Makes `text` the next completion: a turn that is no action."""
    self._words = text

  async def _text(self, seed: int) -> str:
    """The next completion."""
    words, self._words = self._words, None
    if words is not None:
      return words
    return self._agent.write_text(await self.action(seed))

  @abc.abstractmethod
  async def action(self, seed: int) -> str:
    """The next action.

    Args:
      seed: of this turn.

    Raises:
      EnvError: the environment does not help to find one.
    """

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
    """Gives the next action as if a policy had sampled it.

    Its log-probabilities are 0: the action is certain. An action longer than
    `max_new_tokens` is cut with finish reason 'length', as a policy's would be.
    Arguments for samplers are ignored.

    Raises:
      EnvError: see `action`.
    """
    del stop_token_ids, rid, routing_key
    assert isinstance(self._agent, Agent)  # a `TextAgent` completes messages
    start = time.perf_counter()
    ids = self._agent.completion_ids(await self._text(seed))
    kept = ids[:max_new_tokens]
    return Completion(
        tokens=tuple(kept),
        logprobs=(0.0,) * len(kept),
        finish_reason='stop' if len(kept) == len(ids) else 'length',
        weight_version=self.weight_version,
        prompt_tokens=len(input_ids),
        cached_tokens=0,
        latency_s=time.perf_counter() - start,
    )

  async def complete(
      self,
      messages: Sequence[Message],
      *,
      max_completion_tokens: int,
      seed: int,
  ) -> TextCompletion:
    """Gives the next action as a message; no token is counted.

    Raises:
      EnvError: see `action`.
    """
    del messages, max_completion_tokens
    start = time.perf_counter()
    text = await self._text(seed)
    return TextCompletion(
        text=text,
        finish_reason='stop',
        weight_version=self.weight_version,
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        latency_s=time.perf_counter() - start,
    )
