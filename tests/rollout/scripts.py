"""Episodes of scripted completions, for tests of what a policy may write."""

import asyncio

from agentrl.rollout.agent import Agent
from agentrl.rollout.episode import run_episode
from agentrl.rollout.options import (
    FULL_CONTEXT,
    NO_PLAN,
    ONE_ATTEMPT,
    Limits,
)
from tests import fakes


def make_agent(
    chat, *, context=FULL_CONTEXT, plan=NO_PLAN, reflect=ONE_ATTEMPT
):
  return Agent(
      chat,
      instructions='Walk.',
      format='plain',
      context=context,
      plan=plan,
      reflect=reflect,
  )


def scripted(agent, *texts):
  """A policy that says these texts, and then the last one for ever."""
  said = [tuple(agent.completion_ids(text)) for text in texts]
  return fakes.FakePolicy(said + [said[-1]] * 200)


def play(
    agent, policy, *, steps=6, env=None, horizon=60, previous=None, **limits
):
  limits = dict(max_completion_tokens=40, max_context=4000) | limits
  return asyncio.run(
      run_episode(
          env or fakes.FakeEnv(),
          agent,
          policy,
          episode_id='e',
          env_name='fake',
          task_id=steps,
          split='train',
          seed=11,
          policy_version=2,
          horizon=horizon,
          limits=Limits(**limits),
          attempt=int(previous is not None),
          previous=previous,
      )
  )


def kinds(episode):
  return [turn.kind for turn in episode.turns]


def prompts(chat, policy):
  """The text that each completion continued."""
  return [chat.tokenizer.decode(x['input_ids']) for x in policy.requests]


def check(episode, policy):
  """Each sampled token is trained on once, in the segment it was asked in."""
  sampled = [episode.tokens[a:b] for a, b in episode.sampled_runs]
  assert [len(ids) for ids in sampled] == [
      turn.completion_tokens for turn in episode.turns
  ]
  requests = policy.requests[: len(episode.turns)]
  for request, (start, _) in zip(requests, episode.sampled_runs, strict=True):
    begin = max(s for s in episode.segment_starts if s <= start)
    assert request['input_ids'] == episode.tokens[begin:start]
