"""One episode: the policy and the environment take turns."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Sequence
from typing import Generic

from agentrl import types
from agentrl.envs.client import EnvClient
from agentrl.errors import EngineError, EnvError
from agentrl.inference.chat import ChatPolicy
from agentrl.inference.sampler import Policy
from agentrl.rollout import plan, reflection
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.contexts import base
from agentrl.rollout.contexts.base import Command, EpisodeView, Request
from agentrl.rollout.dialogue import AnyCompletion, Dialogue, Reading
from agentrl.rollout.options import Limits
from agentrl.rollout.text_agent import AnyPolicy, BaseAgent
from agentrl.types import (
    Completion,
    Episode,
    Message,
    StepResult,
    TextCompletion,
    Turn,
)


async def run_episode(
    env: EnvClient,
    agent: BaseAgent[AnyPolicy, AnyCompletion],
    policy: AnyPolicy,
    *,
    episode_id: str,
    env_name: str,
    task_id: int,
    split: str,
    seed: int,
    policy_version: int,
    horizon: int,
    limits: Limits,
    sample: int = 0,
    attempt: int = 0,
    data_version: int = 1,
    previous: Episode | None = None,
) -> Episode:
  """Plays one task and records it; a failure is a record too, not an exception.

  Args:
    env: a client that is not yet open; it is opened and closed here, so that a
      server which refuses to create an episode gives an `env_error` record.
    agent: how the policy talks: an `Agent` in ids, a `TextAgent` in messages.
    policy: continues the conversation: of an `Agent` a `Policy`, usually a
      `Sampler`; of a `TextAgent` a `ChatPolicy`, whose episodes have no tokens.
    episode_id: name of the record; also the sampler's sticky routing key.
    env_name: name of the environment, for the record.
    task_id: which task to play.
    split: 'train', 'dev' or 'test', for the record.
    seed: turn t is sampled with a seed derived from this and t.
    policy_version: weight pushes so far, for the record.
    horizon: most actions, at least 1; other turns do not count.
    limits: of its tokens and its time.
    sample: which of the task's episodes this is, for the record.
    attempt: its place in a sequence of attempts, for the record.
    data_version: of the environment's tasks, for the record.
    previous: the attempt before, a valid episode, from which the policy draws a
      lesson first; None: it draws none.

  Returns:
    The record, whose `stop_reason` says how it ended. After a truncation the
    transcript ends with the last observation and the generation prompt, with
    mask 0, where a critic's value is the bootstrap; when they do not fit the
    context they are left out. After termination nothing follows the last
    completion. The context of a chat policy is full when its endpoint says so.

  Raises:
    ValueError: a limit is below 1.
  """
  if min(horizon, limits.max_completion_tokens, limits.max_context) < 1:
    raise ValueError(
        f'An episode needs limits of at least 1, got {horizon=}, {limits}.'
    )
  record = _Record()
  dialogue = agent.dialogue(policy, limits, episode_id=episode_id, seed=seed)
  error, retryable = None, True
  # The environment is closed outside the deadline: an episode that ended in
  # time is not lost to a slow goodbye.
  async with contextlib.AsyncExitStack() as stack:
    try:
      async with asyncio.timeout(limits.deadline_s) as deadline:
        await stack.enter_async_context(env)
        stop_reason = await _play(
            record,
            env,
            agent,
            _Deliberation(record, agent, policy, dialogue),
            task_id=task_id,
            horizon=horizon,
            previous=previous,
            save_views=limits.save_views,
        )
    except EnvError as failure:
      stop_reason, error = types.ENV_ERROR, str(failure)
      retryable = failure.retryable
    except EngineError as failure:
      stop_reason, error = types.ENGINE_ERROR, str(failure)
      retryable = failure.retryable
    except TimeoutError:
      if not deadline.expired():
        raise  # not our deadline: a bug in a client
      stop_reason = types.TIMEOUT
      error = (
          f'Not finished within {limits.deadline_s:g} s;'
          f' {len(record.turns)} turns were.'
      )
  if stop_reason == types.CONTEXT and not types.acts(record.turns):
    addition = ' with what the policy wrote before it acted' * bool(
        record.turns
    )
    error = (
        f'The first prompt of {env_name} task {task_id}{addition}'
        f' {dialogue.overflow}'
    )
  return Episode(
      episode_id=episode_id,
      env=env_name,
      task_id=task_id,
      split=split,
      seed=seed,
      policy_version=policy_version,
      horizon=horizon,
      stop_reason=stop_reason,
      success=record.success,
      prompt=record.prompt,
      turns=tuple(record.turns),
      tokens=dialogue.transcript.tokens,
      completion_mask=dialogue.transcript.completion_mask,
      sampler_logprobs=dialogue.transcript.sampler_logprobs,
      segment_starts=dialogue.transcript.segment_starts,
      error=error,
      sample=sample,
      attempt=attempt,
      data_version=data_version,
      views=tuple(record.views),
      retryable=retryable,
  )


@dataclasses.dataclass
class _Record:
  """The part of an episode that was played when something interrupts it."""

  prompt: tuple[Message, ...] = ()
  turns: list[Turn] = dataclasses.field(default_factory=list)
  success: bool = False
  views: list[bytes] = dataclasses.field(default_factory=list)

  def add(self, turn: Turn, picture: bytes | None) -> None:
    """Adds a turn, and the picture of the environment after it."""
    self.turns.append(turn)
    if picture is not None:
      self.views.append(picture)


@dataclasses.dataclass(frozen=True)
class _Deliberation(Generic[AnyCompletion]):
  """Writes the turns that are no actions: plans, lessons, summaries, commands.

  Attributes:
    record: of the episode.
    agent: says when there are some.
    policy: writes them.
    dialogue: with the policy.
  """

  record: _Record
  agent: BaseAgent
  policy: Policy | ChatPolicy
  dialogue: Dialogue[AnyCompletion]

  def read(self, completion: AnyCompletion) -> tuple[Reading, Command | None]:
    """A completion, and the command that it is, if it is one."""
    reading = self.dialogue.read(completion)
    if reading.parse_error is not None:
      return reading, None
    command = self.agent.context.command(
        self.record.turns, reading.action, self.dialogue.count
    )
    if command is not None and command.error is not None:
      return Reading(reading.text, '', command.error), None
    return reading, command

  async def begin(self, previous: Episode | None) -> bool:
    """Opens the episode, with a lesson from an earlier attempt if there is one.

    Returns:
      False if the context has no room for what the policy is asked.
    """
    opening = self.record.prompt
    if previous is not None:
      request = reflection.due(
          self.agent.reflect, opening, previous, self.dialogue.fits
      )
      await self.dialogue.open(base.with_text(opening, request.words))
      lesson = await self._write(request, previous.turns)
      if lesson is None:
        return False
      opening = reflection.with_lesson(opening, lesson)
    return await self._show(opening)

  async def go_on(self) -> bool:
    """Shows the last observation, in this segment or the next.

    Returns:
      False if the context has no room for what the policy is asked.
    """
    turns = self.record.turns
    observation = turns[-1].observation
    opening = self.agent.conversation(observation)
    if opening is not None:
      return await self._show(opening)
    following = self.agent.context.next_segment(
        EpisodeView(
            self._prompt(), turns, await self.dialogue.used(observation)
        )
    )
    if following.opening is None:
      return await self._show(observation)
    text = ''
    if following.request:
      await self.dialogue.observe(following.request.words)
      written = await self._write(following.request, turns)
      if written is None:
        return False
      text = written
    return await self._show(following.opening(text))

  def _prompt(self) -> tuple[Message, ...]:
    """The prompt with the lesson of this attempt."""
    prompt = self.record.prompt
    for turn in self.record.turns[:1]:
      if turn.kind == types.LESSON:
        prompt = reflection.with_lesson(prompt, turn.completion)
    return prompt

  async def _show(self, message: str | tuple[Message, ...]) -> bool:
    """Shows an observation or an opening, and asks for the plan that is due."""
    request = plan.due(self.agent.plan, self.record.turns)
    if isinstance(message, str):
      await self.dialogue.observe(
          f'{message}\n\n{request.words}' if request else message
      )
    else:
      await self.dialogue.open(
          base.with_text(message, request.words) if request else message
      )
    return (
        request is None
        or await self._write(request, self.record.turns) is not None
    )

  async def _write(
      self, request: Request, so_far: Sequence[Turn]
  ) -> str | None:
    """The text that was asked for; None if the context has no room for it.

    Args:
      request: which; its words stand at the end of the conversation.
      so_far: the turns that it is about.
    """
    record, dialogue = self.record, self.dialogue
    if isinstance(self.policy, ActingPolicy):
      self.policy.recite(base.recount(so_far))
    began = time.time()
    completion = await dialogue.ask(len(record.turns), most=request.tokens)
    if completion is None:
      return None
    text = dialogue.read(completion).text
    dialogue.append(completion)
    if request.answer:
      await dialogue.observe(request.answer)
    result = StepResult(request.answer, reward=0.0, terminated=False)
    turn = make_turn(Reading(text, '', None), completion, result, env_s=0.0)
    turn = dataclasses.replace(
        turn,
        kind=request.kind,
        learn=request.learn,
        request=request.words,
        began=began,
    )
    # The environment has not moved.
    record.add(turn, record.views[-1] if record.views else None)
    return text


async def _play(
    record: _Record,
    env: EnvClient,
    agent: BaseAgent,
    writer: _Deliberation[AnyCompletion],
    *,
    task_id: int,
    horizon: int,
    previous: Episode | None,
    save_views: bool,
) -> str:
  """The stop reason, after the episode was played and written to `record`."""
  dialogue = writer.dialogue
  # Without a seed of its own: a group plays one task under one seed.
  record.prompt = agent.first_messages(await env.reset(task_id))
  if save_views:
    record.views.append(await env.picture())
  if not await writer.begin(previous):
    return types.CONTEXT
  while True:
    began = time.time()
    completion = await dialogue.ask(len(record.turns))
    if completion is None:
      return types.CONTEXT
    reading, command = writer.read(completion)
    start = time.perf_counter()
    if reading.parse_error is not None:
      correction = agent.correction(reading.parse_error)
      result = StepResult(correction, reward=0.0, terminated=False)
    elif command is not None:
      result = StepResult(command.answer, reward=0.0, terminated=False)
    else:
      result = await env.step(reading.action)
    env_s = time.perf_counter() - start
    picture = await env.picture() if save_views else None

    # Only now, in one go: when the environment fails, the completion that it
    # did not answer is no turn and must not be trained on.
    dialogue.append(completion)
    turn = make_turn(reading, completion, result, env_s)
    turn = dataclasses.replace(turn, began=began)
    if command is not None:
      turn = dataclasses.replace(turn, kind=command.kind)
    record.add(turn, picture)
    if result.success is not None:
      record.success = result.success
    if result.terminated:
      return types.TERMINATED
    # The environment's own limit on steps is a horizon, too.
    if result.truncated or len(types.acts(record.turns)) == horizon:
      await dialogue.observe(result.observation)
      return types.HORIZON
    if not await writer.go_on():
      return types.CONTEXT


def make_turn(
    reading: Reading,
    completion: Completion | TextCompletion,
    result: StepResult,
    env_s: float,
) -> Turn:
  """The record of a completion, its reading and the environment's answer."""
  return Turn(
      completion=reading.text,
      action=reading.action,
      parse_error=reading.parse_error,
      observation=result.observation,
      reward=result.reward,
      finish_reason=completion.finish_reason,
      prompt_tokens=completion.prompt_tokens,
      cached_tokens=completion.cached_tokens,
      completion_tokens=completion.completion_tokens,
      weight_version=completion.weight_version,
      sampler_s=completion.latency_s,
      env_s=env_s,
      progress=result.progress,
      spans=completion.spans if isinstance(completion, Completion) else (),
  )
