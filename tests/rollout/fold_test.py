"""Tests for agentrl.rollout.contexts.fold, and of episodes that it folds."""

import dataclasses

import pytest
from hypothesis import given, strategies as st

from agentrl import types
from agentrl.data import collate
from agentrl.rollout.agent import Agent
from agentrl.rollout.contexts import fold
from agentrl.rollout.contexts.base import EpisodeView
from agentrl.rollout.options import ContextOptions
from agentrl.types import Group, Message
from tests import fakes
from tests.rollout import scripts

PROMPT = (Message('system', 'Walk.'), Message('user', 'Walk 9 steps.'))
FOLD = ContextOptions(kind='fold', branches=2)


def turn(kind, words, observation=''):
  return fakes.make_turn(
      kind=kind, completion=words, action=words, observation=observation
  )


ACT = turn('act', 'go', '8 to go.')
INSIDE = turn('act', 'go', '7 to go.')
BRANCH = turn('branch', 'branch: walk', 'Sub-task: walk')
RETURN = turn('return', 'return: walked')


def contents(messages):
  return [message.content for message in messages]


def test_a_result_stands_in_place_of_a_sub_task():
  turns = [ACT, BRANCH, INSIDE, INSIDE, RETURN]
  policy = fold.fold(2)
  for stop in range(1, 5):
    assert (
        policy.next_segment(EpisodeView(PROMPT, turns[:stop], 9)).opening
        is None
    )
  opening = policy.next_segment(EpisodeView(PROMPT, turns, 9)).opening('')
  assert opening[:2] == PROMPT
  assert contents(opening[2:]) == [
      'go', '8 to go.', 'branch: walk',
      'Result of the sub-task: walked\n\n7 to go.',
  ]  # fmt: skip
  # Of a sub-task without an action, the environment has nothing to say.
  opening = fold.main_line(PROMPT, [BRANCH, RETURN, ACT])
  assert contents(opening[2:]) == [
      'branch: walk', 'Result of the sub-task: walked', 'go', '8 to go.',
  ]  # fmt: skip


def test_plans_stay_in_the_main_line_with_what_asked_for_them():
  plan = dataclasses.replace(
      turn('plan', 'left', 'Now act.'), request='Plan.', action=''
  )
  lesson = turn('lesson', 'hurry')
  opening = fold.main_line(PROMPT, [lesson, plan, ACT, plan, BRANCH, RETURN])
  assert contents(opening[1:]) == [
      'Walk 9 steps.\n\nPlan.', 'left', 'Now act.', 'go', '8 to go.\n\nPlan.',
      'left', 'Now act.', 'branch: walk', 'Result of the sub-task: walked',
  ]  # fmt: skip


@pytest.mark.parametrize(
    ('turns', 'action', 'error'),
    [
        ([], 'return: x', 'no sub-task to return from'),
        ([BRANCH, RETURN], 'return: x', 'no sub-task to return from'),
        ([BRANCH], 'branch: x', 'has no sub-tasks'),
        ([BRANCH, RETURN] * 2, 'branch: x', 'all 2 sub-tasks are used up'),
        ([], 'branch:', 'nothing follows "branch:"'),
        ([BRANCH], 'return:  ', 'nothing follows "return:"'),
    ],
)
def test_commands_that_are_refused(turns, action, error):
  assert error in fold.fold(2).command(turns, action, len).error


def test_actions_are_for_the_environment():
  for action in ('go', 'go branch: x', 'branch', 'returns: x'):
    assert fold.fold(2).command([], action, len) is None


@given(st.lists(st.sampled_from(['go', 'branch: a', 'return: b']), max_size=30))
def test_commands_are_bounded_and_openings_alternate(words):
  policy, turns = fold.fold(3), []
  for text in words:
    command = policy.command(turns, text, len)
    kind = 'act' if command is None or command.error else command.kind
    turns.append(turn(kind, text, 'o'))
    found = policy.next_segment(EpisodeView(PROMPT, turns, None))
    assert (found.opening is not None) == (kind == 'return')
    if found.opening:
      roles = [message.role for message in found.opening('')]
      assert roles == ['system'] + ['user', 'assistant'] * (
          len(roles) // 2 - 1
      ) + ['user']
  commands = len(turns) - len(types.acts(turns))
  assert commands <= 6


def test_an_episode_with_a_sub_task(chat):
  agent = scripts.make_agent(chat, context=FOLD)
  policy = scripts.scripted(
      agent, 'go', 'branch: two steps', 'go', 'go', 'return: done', 'go'
  )
  env = fakes.FakeEnv()
  episode = scripts.play(agent, policy, env=env, steps=6)
  assert episode.success and env.actions == ['go'] * 6
  assert scripts.kinds(episode) == [
      'act', 'branch', 'act', 'act', 'return', 'act', 'act', 'act',
  ]  # fmt: skip
  assert len(episode.acts) == 6 and len(episode.segments) == 2
  scripts.check(episode, policy)
  before, after = scripts.prompts(chat, policy)[4:6]
  # Within the sub-task the main line is seen, and goes on being seen.
  assert fold.INSTRUCTIONS in before and 'Sub-task: two steps' in before
  assert '5 to go.' in before and '4 to go.' in before
  assert 'Result of the sub-task: done\n\n3 to go.' in after
  assert '5 to go.' in after and '4 to go.' not in after
  batch = collate.collate([Group(0, 0, (episode,))])
  assert batch.completion_mask.sum() == sum(
      turn.completion_tokens for turn in episode.turns
  )
  assert batch.rewards.sum() == 1.0


def test_a_policy_that_only_folds_comes_to_an_end(chat):
  agent = scripts.make_agent(chat, context=FOLD)
  policy = scripts.scripted(agent, *['branch: a', 'return: b'] * 20)
  episode = scripts.play(agent, policy, horizon=5)
  assert episode.stop_reason == 'horizon'
  assert scripts.kinds(episode) == ['branch', 'return'] * 2 + ['act'] * 5
  errors = [turn.parse_error for turn in episode.acts]
  assert all(errors) and 'used up' in errors[0]


def test_a_sub_task_does_not_outlive_the_horizon(chat):
  agent = scripts.make_agent(chat, context=FOLD)
  policy = scripts.scripted(agent, 'branch: all of it', 'go')
  episode = scripts.play(agent, policy, steps=9, horizon=4)
  assert episode.stop_reason == 'horizon' and len(episode.acts) == 4
  assert len(episode.segments) == 1


@pytest.mark.parametrize(
    'format', ['react', 'tags', 'function_calling', 'code']
)
def test_commands_are_written_in_the_format_of_actions(chat, format):
  agent = Agent(chat, instructions='Walk.', format=format, context=FOLD)
  for action in ('branch: walk to the door', 'return: I am there'):
    reading = agent.read_text(agent.write_text(action))
    assert (reading.action, reading.parse_error) == (action, None)
  prompt = agent.first_messages('Walk 9 steps.')[0].content
  calls = format in ('function_calling', 'code')
  assert ('return_result(result: str)' in prompt) == calls
