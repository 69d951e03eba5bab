"""Recorded words as an episode: the tokens that a rollout would have made.

No conversation is rendered here: prompt, completions and observations go
through the `Agent` and the `Transcript` that episodes are played with. A
policy that learns from a file is so trained on exactly the tokens of a rollout.
"""

import dataclasses

from agentrl import types
from agentrl.errors import ChatTemplateError, DataError
from agentrl.rollout.agent import Agent
from agentrl.rollout.contexts import base
from agentrl.rollout.episode import make_turn
from agentrl.rollout.transcript import Transcript
from agentrl.types import (
    Completion,
    Conversation,
    Episode,
    Message,
    StepResult,
)


def replay(
    agent: Agent, conversation: Conversation, *, own_opening: bool = False
) -> Episode:
  """The episode that has these words.

  Completions that are not to be learnt are part of the transcript with mask 0,
  and no turns. Rewards are unknown: they are 0, and success is False.

  Args:
    agent: how the policy talks.
    conversation: alternates from its first completion to learn on.
    own_opening: whether the agent's instructions take the place of all that
      comes before the first observation: the last message before the first
      completion to learn.

  Raises:
    DataError: it cannot be rendered; says why.
  """
  messages, learn = conversation.messages, conversation.learn
  first = learn.index(True)
  prompt = messages[:first]
  if own_opening:
    prompt = agent.first_messages(prompt[-1].content)
  transcript, turns = Transcript(), []
  try:
    transcript.append_inserted(agent.prompt_ids(prompt))
  except ChatTemplateError as error:
    raise DataError(str(error)) from error
  for index in range(first, len(messages), 2):
    before = len(transcript)
    ended = index not in conversation.cut
    ids = agent.completion_ids(messages[index].content, ended=ended)
    if not ids:
      raise DataError(f'message {index} is a completion without a token')
    completion = Completion(
        tokens=tuple(ids),
        logprobs=(0.0,) * len(ids),
        finish_reason='stop' if ended else 'length',
        weight_version='file',
        prompt_tokens=before,
        cached_tokens=0,
        latency_s=0.0,
    )
    answer = messages[index + 1].content if index + 1 < len(messages) else ''
    if learn[index]:
      transcript.append_sampled(completion)
      result = StepResult(answer, reward=0.0, terminated=False)
      reading = agent.read(completion.tokens)
      turns.append(make_turn(reading, completion, result, env_s=0.0))
    else:
      transcript.append_inserted(ids)
    if index + 1 < len(messages):
      transcript.append_inserted(agent.observation_ids(answer, ids))
  return Episode(
      episode_id=conversation.name,
      env=conversation.env,
      task_id=conversation.task_id,
      split='train',
      seed=0,
      policy_version=0,
      horizon=len(turns),
      stop_reason=(
          types.HORIZON if messages[-1].role == 'user' else types.TERMINATED
      ),
      success=False,
      prompt=tuple(prompt),
      turns=tuple(turns),
      tokens=transcript.tokens,
      completion_mask=transcript.completion_mask,
      sampler_logprobs=transcript.sampler_logprobs,
  )


def renew(agent: Agent, episode: Episode) -> Episode:
  """The episode in the ids of this agent; itself where it is in them already.

  Ids that this agent's tokenizer and template would have begun with are kept:
  tokens are the truth. Those of another policy, or none, are made from the
  words; rewards and outcome stay.

  Raises:
    DataError: it cannot be rendered; says why.
  """
  try:
    prompt = tuple(agent.prompt_ids(_opening(episode)))
  except ChatTemplateError as error:
    raise DataError(str(error)) from error
  ids, mask = episode.tokens, episode.completion_mask
  if ids[: len(prompt)] == prompt and not any(mask[: len(prompt)]):
    runs = episode.sampled_runs
    if len(runs) == len(episode.turns) and all(
        agent.read(ids[start:stop]).text == turn.completion
        for (start, stop), turn in zip(runs, episode.turns, strict=True)
    ):
      return episode
  _check_single(episode)
  result = replay(agent, to_conversation(episode))
  turns = tuple(
      dataclasses.replace(
          old,
          finish_reason=new.finish_reason,
          prompt_tokens=new.prompt_tokens,
          cached_tokens=new.cached_tokens,
          completion_tokens=new.completion_tokens,
          weight_version=new.weight_version,
      )
      for new, old in zip(result.turns, episode.turns, strict=True)
  )
  return dataclasses.replace(
      episode,
      turns=turns,
      tokens=result.tokens,
      completion_mask=result.completion_mask,
      sampler_logprobs=result.sampler_logprobs,
  )


def _check_single(episode: Episode) -> None:
  """Refuses an episode whose words are not one conversation.

  Raises:
    DataError: names it, and the way out.
  """
  if len(episode.segments) > 1:
    raise DataError(
        f'Episode {episode.episode_id!r} has {len(episode.segments)} segments'
        ' (agent.context), which neither another tokenizer nor a shorter'
        ' context can have; play it again.'
    )


def to_conversation(episode: Episode) -> Conversation:
  """The words of an episode; what follows its last completion is left out."""
  messages = list(_opening(episode))
  learn = [False] * len(messages)
  cut = []
  following = [turn.request for turn in episode.turns[1:]] + ['']
  for turn, request in zip(episode.turns, following, strict=True):
    answer = Message('user', turn.observation)
    if request:
      [answer] = base.with_text([answer], request)
    if turn.finish_reason == 'length':
      cut.append(len(messages))
    messages += [
        Message('assistant', turn.completion),
        answer,
    ]
    learn += [True, False]
  return Conversation(
      name=episode.episode_id,
      env=episode.env,
      task_id=episode.task_id,
      messages=tuple(messages[:-1]),
      learn=tuple(learn[:-1]),
      cut=tuple(cut),
  )


def _opening(episode: Episode) -> tuple[Message, ...]:
  """The messages before the first completion, with words that ask for it."""
  request = episode.turns[0].request if episode.turns else ''
  if not request:
    return episode.prompt
  return base.with_text(episode.prompt, request)


def cut_to(episode: Episode, max_context: int) -> Episode | None:
  """The episode without the turns that end beyond `max_context` tokens.

  It ends after the last completion that fits. None when no completion does.
  """
  if all(stop - start <= max_context for start, stop in episode.segment_spans):
    return episode
  _check_single(episode)
  ends = [stop for _, stop in episode.sampled_runs]
  turns = sum(stop <= max_context for stop in ends)
  if not turns:
    return None
  stop = ends[turns - 1]
  whole = turns == len(episode.turns)  # only the last observation went
  return dataclasses.replace(
      episode,
      turns=episode.turns[:turns],
      tokens=episode.tokens[:stop],
      completion_mask=episode.completion_mask[:stop],
      sampler_logprobs=episode.sampler_logprobs[:stop],
      stop_reason=episode.stop_reason if whole else types.CONTEXT,
  )
