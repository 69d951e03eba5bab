"""Tests for agentrl.rollout.plan, and of episodes with plans."""

import dataclasses

import pytest

from agentrl.data import collate, episodes as episodes_lib
from agentrl.rollout import plan, replay
from agentrl.rollout.agent import Agent
from agentrl.rollout.contexts import base
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import ContextOptions, PlanOptions
from agentrl.types import Group
from tests import fakes
from tests.rollout import scripts


def act(observation='o', **fields):
  return fakes.make_turn(observation=observation, **fields)


PLAN = fakes.make_turn(kind='plan', action='', observation=plan.ACT_NOW)
LESSON = fakes.make_turn(kind='lesson', action='', observation='')
NOTE = fakes.make_turn(kind='note', action='note: x')


def asked(kind, turns, **options):
  found = plan.due(PlanOptions(kind=kind, **options), turns)
  return found and found.words


def test_no_kind_plans_without_being_asked_to():
  assert plan.due(PlanOptions(), []) is None


@pytest.mark.parametrize('kind', ['start', 'failure', 'every'])
def test_all_kinds_begin_with_a_plan(kind):
  assert asked(kind, []) == asked(kind, [LESSON]) == plan.START
  assert asked(kind, [PLAN, NOTE]) is None


def test_plans_are_revised_every_k_actions():
  turns, found = [PLAN], []
  for number in range(1, 7):
    turns.append(act(f'{number}'))
    found.append(asked('every', turns, every=3))
    assert asked('start', turns) is asked('failure', turns) is None
  assert found == [None, None, plan.REVISE] * 2


@pytest.mark.parametrize(
    'last',
    [act('b', parse_error='no'), act('b', reward=-0.1), act('a')],
)
def test_plans_are_revised_after_a_failure(last):
  assert asked('failure', [PLAN, act('a'), last]) == plan.REVISE
  summary = fakes.make_turn(kind='summary', action='', observation='')
  assert asked('failure', [PLAN, act('a'), last, summary]) == plan.REVISE
  # Only once: whatever comes next is an action.
  assert asked('failure', [PLAN, act('a'), last, NOTE]) is None


@pytest.mark.parametrize('learn', [True, False])
def test_an_episode_with_plans(chat, learn):
  options = PlanOptions(kind='every', every=2, tokens=6, learn=learn)
  agent = scripts.make_agent(chat, plan=options)
  policy = scripts.scripted(agent, 'a very long plan', 'go', 'go', 'on', 'go')
  episode = scripts.play(agent, policy, steps=4, horizon=4)
  assert episode.success and len(episode.segments) == 1
  assert scripts.kinds(episode) == [
      'plan', 'act', 'act', 'plan', 'act', 'act'
  ]  # fmt: skip
  first, second = (turn for turn in episode.turns if turn.kind == 'plan')
  assert (first.finish_reason, first.completion_tokens) == ('length', 6)
  assert (first.request, second.request) == (plan.START, plan.REVISE)
  assert {turn.parse_error for turn in episode.turns} == {None}
  scripts.check(episode, policy)
  seen = scripts.prompts(chat, policy)
  assert plan.START in seen[0] and plan.ACT_NOW in seen[1]
  assert f'2 to go.\n\n{plan.REVISE}' in seen[3]
  assert [request['max_new_tokens'] for request in policy.requests] == [
      6, 40, 40, 6, 40, 40
  ]  # fmt: skip
  batch = collate.collate([Group(0, 0, (episode,))])
  assert batch.completion_mask.sum() == sum(
      turn.completion_tokens
      for turn in episode.turns
      if learn or turn.kind == 'act'
  )
  assert episodes_lib.from_line(episodes_lib.to_line(episode)) == episode


def test_actions_after_a_plan_answer_what_the_environment_said(chat):
  agent = scripts.make_agent(chat, plan=PlanOptions(kind='every', every=1))
  plain = scripts.make_agent(chat)
  groups = [
      Group(0, 0, tuple(
          scripts.play(talks, scripts.scripted(talks, 'go'), steps=3)
          for talks in (agent, plain)
      ))
  ]  # fmt: skip
  batch = collate.collate(groups)
  planned, other = (
      [
          batch.anchor_ids[row, a]
          for (a, _), turn in zip(
              episode.sampled_runs, episode.turns, strict=True
          )
          if turn.kind == 'act'
      ]
      for row, episode in enumerate(groups[0].episodes)
  )
  assert planned == other and len(set(planned)) == 3


def test_segments_repeat_the_last_plan(chat):
  agent = scripts.make_agent(
      chat,
      plan=PlanOptions(kind='start'),
      context=ContextOptions(kind='window', window=1),
  )
  policy = scripts.scripted(agent, 'step by step', 'go')
  episode = scripts.play(agent, policy, steps=4)
  assert episode.success and len(episode.segments) == 3
  scripts.check(episode, policy)
  for text in scripts.prompts(chat, policy)[3:]:
    assert 'Your plan: step by step' in text and plan.START not in text


def test_an_expert_recounts_and_spends_no_action_on_it(chat):
  agent = scripts.make_agent(chat, plan=PlanOptions(kind='every', every=1))
  env = fakes.FakeEnv()
  episode = scripts.play(agent, Expert(env, agent), env=env, steps=3)
  assert episode.success and env.actions == ['go'] * 3
  plans = [turn.completion for turn in episode.turns if turn.kind == 'plan']
  assert plans == ['Nothing yet.', 'go', 'go x2']


def test_a_context_without_room_for_an_action_is_no_episode_to_learn_from(chat):
  agent = scripts.make_agent(chat, plan=PlanOptions(kind='start', tokens=40))
  policy = scripts.scripted(agent, 'word ' * 30)
  asked = base.with_text(agent.first_messages('Walk 6 steps.'), plan.START)
  room = len(agent.prompt_ids(asked)) + 40
  episode = scripts.play(agent, policy, max_context=room)
  assert episode.stop_reason == 'context' and not episode.valid
  assert scripts.kinds(episode) == ['plan']
  assert 'leaves no room in a context of' in episode.error


def test_another_tokenizer_reads_the_same_words(chat):
  agent = scripts.make_agent(chat, plan=PlanOptions(kind='every', every=2))
  episode = scripts.play(agent, scripts.scripted(agent, 'go'), steps=3)
  assert replay.renew(agent, episode) is episode
  other = Agent(chat, instructions='Other.', format='plain')
  lost = dataclasses.replace(
      episode, tokens=(), completion_mask=(), sampler_logprobs=()
  )
  made = replay.renew(other, lost)
  assert made.tokens == episode.tokens
  assert made.completion_mask == episode.completion_mask
  for new, old in zip(made.turns, episode.turns, strict=True):
    for name in ('kind', 'request', 'observation', 'reward', 'action'):
      assert getattr(new, name) == getattr(old, name)
