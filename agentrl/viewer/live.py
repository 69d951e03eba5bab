"""One live episode: somebody, or a policy, acts in a real environment."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.envs.client import EnvClient
from agentrl.envs.spec import EnvSpec
from agentrl.errors import DataError, EnvError
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import AgentOptions
from agentrl.rollout.random_policy import RandomPolicy
from agentrl.rollout.text_agent import BaseAgent, TextAgent, make_text_agent
from agentrl.types import Message, StepResult, Turn
from agentrl.viewer.policies import Said

_MOST_TURNS = 500
_PICTURES = 4  # that are kept
_MOST_ACTION = 20_000


@dataclasses.dataclass
class Spoken:
  """The tokens of a turn that a policy sampled here.

  Attributes:
    policy: which one, as the page names it.
    output: ids and the likeliest ones.
    texts: of each id that occurs.
  """

  policy: str
  output: Said
  texts: Mapping[int, str]


class Session:
  """An episode that goes on for as long as somebody looks at it.

  Attributes:
    spec: of the environment.
    task_id: of the task.
    run: whose environment's options it has.
    turns: so far.
    spoken: turn -> the tokens of it, where a policy sampled it.
    actors: who acted in each turn.
    over: 'terminated' or 'truncated'; '' while it goes on.
    pictures: the last ones of the environment, by the number of turns before
      them; empty: it draws none.
  """

  def __init__(
      self, spec: EnvSpec, task_id: int, seed: int, name: str, run: str | None
  ):
    """Opens nothing yet.

    Args:
      spec: of the environment.
      task_id: of the task.
      seed: of what policies draw.
      name: of the session.
      run: whose environment it is; None: one with default options.
    """
    self.spec, self.task_id, self.seed = spec, task_id, seed
    self.name, self.run = name, run
    self.lock = asyncio.Lock()
    self.opening = ''
    self.turns: list[Turn] = []
    self.spoken: dict[int, Spoken] = {}
    self.actors: list[str] = []
    self.over = ''
    self.success = False
    self.pictures: dict[int, bytes] = {}
    self.differences: list[int] = []
    self.last_used = time.monotonic()
    self._stack = contextlib.AsyncExitStack()
    self._client: EnvClient | None = None
    self._acting: dict[str, ActingPolicy] = {}

  async def open(
      self, client: contextlib.AbstractAsyncContextManager[EnvClient]
  ) -> None:
    """Resets the environment.

    Raises:
      EnvError: it cannot be.
    """
    self._client = await self._stack.enter_async_context(client)
    self.opening = await self._client.reset(self.task_id)
    await self._picture()

  @property
  def _env(self) -> EnvClient:
    """The client of the environment."""
    assert self._client is not None  # `open` was called
    return self._client

  async def close(self) -> None:
    """Gives the environment back."""
    await self._stack.aclose()

  async def follow(self, turns: Sequence[Turn]) -> None:
    """Does what other turns did; notes where the environment answers otherwise.

    Raises:
      EnvError: the environment failed.
    """
    for turn in turns:
      if self.over:
        return
      if turn.parse_error is None:
        result = await self._env.step(turn.action)
        if result.observation != turn.observation:
          self.differences.append(len(self.turns))
      else:
        result = StepResult(turn.observation, 0.0, False)
      await self._add(turn, result, 'the record')

  def prompt(self, agent: BaseAgent) -> tuple[Message, ...]:
    """The conversation before the first completion, as an agent has it."""
    return agent.first_messages(self.opening)

  async def suggest(self, actor: str) -> str:
    """The next action of 'expert' or 'random'.

    Raises:
      DataError: the episode is over.
      EnvError: it has none.
    """
    self._check('')
    if actor not in self._acting:
      # One for the whole session: the random policy draws from what it has seen.
      kind = {'expert': Expert, 'random': RandomPolicy}[actor]
      self._acting[actor] = kind(self._env, self.plain_agent())
    policy = self._acting[actor]
    return await policy.action(self.seed * 1009 + len(self.turns))

  async def available_actions(self) -> list[str]:
    """The actions that can be done now; empty where the server does not say."""
    try:
      return await self._env.available_actions()
    except EnvError:
      return []

  async def act(self, action: str, actor: str) -> None:
    """Does an action that was chosen and not sampled.

    Raises:
      DataError: the episode is over, or the action too long.
      EnvError: the environment failed.
    """
    self._check(action)
    start = time.perf_counter()
    result = await self._env.step(action)
    turn = self._turn(
        completion=action,
        action=action,
        parse_error=None,
        result=result,
        finish_reason='stop',
        weight_version=actor,
        env_s=time.perf_counter() - start,
    )
    await self._add(turn, result, actor)

  async def say(self, spoken: Spoken, agent: BaseAgent, text: str) -> None:
    """Does what a policy said, which may be no action.

    Raises:
      DataError: the episode is over.
      EnvError: the environment failed.
    """
    self._check('')
    reading = agent.read_text(text)
    start = time.perf_counter()
    if reading.parse_error is None:
      result = await self._env.step(reading.action)
    else:
      words = agent.correction(reading.parse_error)
      result = StepResult(words, 0.0, False)
    completion = spoken.output.completion
    turn = self._turn(
        completion=reading.text,
        action=reading.action,
        parse_error=reading.parse_error,
        result=result,
        finish_reason=completion.finish_reason,
        weight_version=completion.weight_version,
        env_s=time.perf_counter() - start,
        prompt_tokens=completion.prompt_tokens,
        cached_tokens=completion.cached_tokens,
        completion_tokens=len(completion.tokens),
        sampler_s=completion.latency_s,
    )
    self.spoken[len(self.turns)] = spoken
    await self._add(turn, result, spoken.policy)

  def plain_agent(self) -> TextAgent:
    """An agent whose words are its actions."""
    return make_text_agent(
        self.spec, AgentOptions(format='plain', instructions='compact')
    )

  def _turn(
      self,
      *,
      result: StepResult,
      prompt_tokens: int | None = None,
      cached_tokens: int | None = None,
      completion_tokens: int | None = None,
      sampler_s: float = 0.0,
      **fields: Any,
  ) -> Turn:
    return Turn(
        observation=result.observation,
        reward=result.reward,
        progress=result.progress,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        completion_tokens=completion_tokens,
        sampler_s=sampler_s,
        **fields,
    )

  def _check(self, action: str) -> None:
    if self.over:
      raise DataError(
          f'The episode is over ({self.over}); branch or begin anew.'
      )
    if len(self.turns) >= _MOST_TURNS:
      raise DataError(f'A live episode has at most {_MOST_TURNS} turns.')
    if len(action) > _MOST_ACTION:
      raise DataError(f'An action has at most {_MOST_ACTION} characters.')

  async def _add(self, turn: Turn, result: StepResult, actor: str) -> None:
    answered = dataclasses.replace(turn, observation=result.observation)
    self.turns.append(answered)
    self.actors.append(actor)
    if result.success is not None:
      self.success = result.success
    if result.terminated:
      self.over = 'terminated'
    elif result.truncated:
      self.over = 'truncated'
    await self._picture()

  async def _picture(self) -> None:
    if self.spec.dialect.renders:
      self.pictures[len(self.turns)] = await self._env.picture()
      self.pictures.pop(len(self.turns) - _PICTURES, None)
