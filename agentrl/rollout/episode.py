"""One episode: the policy and the environment take turns."""

import asyncio
import contextlib
import dataclasses
import time

from agentrl import types
from agentrl.envs.client import EnvClient
from agentrl.errors import EngineError, EnvError
from agentrl.inference.chat import ChatPolicy
from agentrl.inference.sampler import Policy
from agentrl.rollout import context as context_lib
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.context import ContextPolicy, Going
from agentrl.rollout.dialogue import Dialogue, Reading
from agentrl.rollout.options import Limits
from agentrl.rollout.text_agent import TextAgent
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
    agent: TextAgent,
    policy: Policy | ChatPolicy,
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
    horizon: most turns, at least 1.
    limits: of its tokens and its time.
    sample: which of the task's episodes this is, for the record.

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
  error = None
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
            policy,
            dialogue,
            task_id=task_id,
            horizon=horizon,
            save_views=limits.save_views,
        )
    except EnvError as failure:
      stop_reason, error = types.ENV_ERROR, str(failure)
    except EngineError as failure:
      stop_reason, error = types.ENGINE_ERROR, str(failure)
    except TimeoutError:
      if not deadline.expired():
        raise  # not our deadline: a bug in a client
      stop_reason = types.TIMEOUT
      error = (
          f'Not finished within {limits.deadline_s:g} s;'
          f' {len(record.turns)} turns were.'
      )
  if stop_reason == types.CONTEXT and not record.turns:
    error = f'The first prompt of {env_name} task {task_id} {dialogue.overflow}'
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
      views=tuple(record.views),
  )


@dataclasses.dataclass
class _Record:
  """The part of an episode that was played when something interrupts it."""

  prompt: tuple[Message, ...] = ()
  turns: list[Turn] = dataclasses.field(default_factory=list)
  success: bool = False
  views: list[bytes] = dataclasses.field(default_factory=list)


async def _play(
    record: _Record,
    env: EnvClient,
    agent: TextAgent,
    policy: Policy | ChatPolicy,
    dialogue: Dialogue,
    *,
    task_id: int,
    horizon: int,
    save_views: bool,
) -> str:
  """The stop reason, after the episode was played and written to `record`."""
  # Without a seed of its own: a group plays one task under one seed.
  record.prompt = agent.first_messages(await env.reset(task_id))
  if save_views:
    record.views.append(await env.picture())
  dialogue.open(record.prompt)
  context = context_lib.make(agent.context)
  while True:
    completion = await dialogue.ask(len(record.turns))
    if completion is None:
      return types.CONTEXT
    reading = dialogue.read(completion)
    start = time.perf_counter()
    if reading.parse_error is None:
      result = await env.step(reading.action)
    else:
      correction = agent.correction(reading.parse_error)
      result = StepResult(correction, reward=0.0, terminated=False)
    env_s = time.perf_counter() - start
    if save_views:
      record.views.append(await env.picture())

    # Only now, in one go: when the environment fails, the completion that it
    # did not answer is no turn and must not be trained on.
    dialogue.append(completion)
    record.turns.append(make_turn(reading, completion, result, env_s))
    if result.success is not None:
      record.success = result.success
    if result.terminated:
      return types.TERMINATED
    # The environment's own limit on steps is a horizon, too.
    if result.truncated or context_lib.acts(record.turns) == horizon:
      dialogue.observe(result.observation)
      return types.HORIZON
    if not await _go_on(record, policy, dialogue, context):
      return types.CONTEXT


async def _go_on(
    record: _Record,
    policy: Policy | ChatPolicy,
    dialogue: Dialogue,
    context: ContextPolicy,
) -> bool:
  """Shows the last observation, in this segment or the next.

  Returns:
    False if the context has no room for the summary that it asks for.
  """
  observation = record.turns[-1].observation
  following = context(
      Going(record.prompt, record.turns, dialogue.used(observation))
  )
  if following.opening is None:
    dialogue.observe(observation)
    return True
  text = ''
  if following.summary:
    if isinstance(policy, ActingPolicy):
      policy.recite(context_lib.recount(record.turns))
    dialogue.observe(context_lib.SUMMARY_REQUEST)
    asked = following.summary
    completion = await dialogue.ask(len(record.turns), most=asked.tokens)
    if completion is None:
      return False
    text = dialogue.read(completion).text
    dialogue.append(completion)
    # It answers no observation and gets none: what comes next is in the opening.
    nothing = StepResult('', reward=0.0, terminated=False)
    turn = make_turn(Reading(text, '', None), completion, nothing, env_s=0.0)
    record.turns.append(
        dataclasses.replace(turn, kind=types.SUMMARY, learn=asked.learn)
    )
  dialogue.open(following.opening(text))
  return True


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
  )
