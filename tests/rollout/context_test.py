"""Tests for agentrl.rollout.context, and of episodes that it cuts."""

import dataclasses
import functools

import pytest
from hypothesis import given, settings, strategies as st

from agentrl import envs
from agentrl.data import collate
from agentrl.errors import ConfigError, DataError
from agentrl.rollout import context, replay
from agentrl.rollout.agent import Agent
from agentrl.rollout.contexts import base, summary, window
from agentrl.rollout.contexts.base import EpisodeView, Request
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import (
    CONTEXTS,
    AgentOptions,
    ContextOptions,
)
from agentrl.rollout.text_agent import make_text_agent
from agentrl.types import Group, Message
from tests import fakes
from tests.rollout import scripts

PROMPT = (Message('system', 'Walk.'), Message('user', 'Walk 9 steps.'))


def turns(count):
  return tuple(
      fakes.make_turn(completion=f'c{i}', action=f'a{i}', observation=f'o{i}')
      for i in range(count)
  )


@pytest.fixture(name='talker')
def _talker(chat):
  """Makes an agent with a context policy."""

  def make(**options):
    return scripts.make_agent(chat, context=ContextOptions(**options))

  return make


play = functools.partial(scripts.play, max_completion_tokens=8, max_context=400)


def test_every_kind_of_the_config_is_there():
  assert tuple(context.CONTEXTS) == CONTEXTS


def test_a_full_context_never_ends_its_segment():
  assert window.full(EpisodeView(PROMPT, turns(99), 10**6)).opening is None


@pytest.mark.parametrize('count', [1, 2, 3, 7])
def test_a_window_shows_the_task_and_the_last_observations(count):
  found = window.window(2)(EpisodeView(PROMPT, turns(count), None))
  if count <= 2:
    assert found.opening is None
    return
  assert found.request is None
  first, task, *rest = found.opening('')
  assert first == PROMPT[0]
  assert task == Message('user', f'Walk 9 steps.\n\n{base.LEFT_OUT}')
  assert [message.content for message in rest] == [
      f'c{count - 2}', f'o{count - 2}', f'c{count - 1}', f'o{count - 1}',
  ]  # fmt: skip
  assert [m.role for m in rest] == ['assistant', 'user'] * 2


def test_a_summary_is_asked_for_beyond_the_budget():
  asked = Request('summary', summary.REQUEST, 8, False)
  policy = summary.summary(100, 8, learn=False)
  assert policy(EpisodeView(PROMPT, turns(3), 100)).opening is None
  found = policy(EpisodeView(PROMPT, turns(3), 101))
  assert found.request == asked
  first, task = found.opening('two done')
  assert first == PROMPT[0] and task.role == 'user'
  assert task.content.startswith('Walk 9 steps.\n\n')
  assert 'two done' in task.content and task.content.endswith('o2')


def sampled(episode):
  """Ids of each turn."""
  return [episode.tokens[a:b] for a, b in episode.sampled_runs]


def test_a_window_of_an_episode(talker):
  agent = talker(kind='window', window=2)
  go = tuple(agent.write('go'))
  policy = fakes.FakePolicy([go])
  episode = play(agent, policy)
  assert episode.success and len(episode.turns) == 6
  # Two observations fit the first segment, beside the task: three turns. Each
  # further turn has one of its own.
  assert len(episode.segments) == 4
  assert [sum(s.completion_mask) for s in episode.segments] == [
      3 * len(go), len(go), len(go), len(go)
  ]  # fmt: skip
  assert sampled(episode) == [go] * 6
  # What the policy was asked is the segment up to its completion.
  for request, (start, _) in zip(
      policy.requests, episode.sampled_runs, strict=True
  ):
    begin = max(s for s in episode.segment_starts if s <= start)
    assert request['input_ids'] == episode.tokens[begin:start]
  last = agent.prompt_ids([
      *episode.prompt[:-1],
      Message('user', f'{episode.prompt[-1].content}\n\n{base.LEFT_OUT}'),
      Message('assistant', 'go'), Message('user', '2 to go.'),
      Message('assistant', 'go'), Message('user', '1 to go.'),
  ])  # fmt: skip
  assert policy.requests[-1]['input_ids'] == tuple(last)


def test_a_short_episode_is_the_same_with_any_context(talker):
  go = tuple(talker().write('go'))
  whole = play(talker(), fakes.FakePolicy([go]), steps=2)
  for options in (
      dict(kind='window', window=2),
      dict(kind='summary', budget=300, summary_tokens=8),
  ):
    found = play(talker(**options), fakes.FakePolicy([go]), steps=2)
    assert (found.tokens, found.segments) == (whole.tokens, whole.segments)


@pytest.mark.parametrize('learn', [True, False])
def test_a_summary_of_an_episode(talker, learn):
  agent = talker(
      kind='summary', budget=160, summary_tokens=4, learn_summary=learn
  )
  go = tuple(agent.write('go'))
  policy = fakes.FakePolicy([go])
  episode = play(agent, policy, steps=24)
  kinds = [turn.kind for turn in episode.turns]
  assert kinds.count('act') == 24 and kinds.count('summary') >= 2
  assert len(episode.segments) == 1 + kinds.count('summary')
  assert episode.success and kinds[-1] == 'act'
  longest = max(stop - start for start, stop in episode.segment_spans)
  request = len(agent.observation_ids(summary.REQUEST, go))
  assert longest <= 160 + request + 4
  for turn, request in zip(episode.turns, policy.requests, strict=True):
    is_summary = turn.kind == 'summary'
    assert request['max_new_tokens'] == (4 if is_summary else 8)
    assert turn.learn == (learn or not is_summary)
    assert not is_summary or (turn.observation, turn.reward) == ('', 0.0)
  # Each sampled token is in one segment, and those of summaries are learnt
  # from only where that is asked for.
  batch = collate.collate([Group(0, 0, (episode,))])
  expected = sum(turn.completion_tokens for turn in episode.turns if turn.learn)
  assert batch.completion_mask.sum() == expected
  assert batch.rewards.sum() == episode.episode_return == 1.0


def test_an_episode_outlives_its_context(talker):
  agent = talker(kind='summary', budget=160, summary_tokens=8)
  go = tuple(agent.write('go'))
  limits = dict(steps=60, max_context=320)
  assert play(talker(), fakes.FakePolicy([go]), **limits).stop_reason == (
      'context'
  )
  for talks in (agent, talker(kind='window', window=2)):
    episode = play(talks, fakes.FakePolicy([go]), **limits)
    assert episode.success and episode.stop_reason == 'terminated'
    assert all(b - a <= 320 for a, b in episode.segment_spans)


def test_a_summary_that_is_cut_is_used_as_it_is(talker):
  agent = talker(kind='summary', budget=160, summary_tokens=2)
  long = tuple(agent.write('go')) * 2
  episode = play(agent, fakes.FakePolicy([long]), steps=1, horizon=12)
  summaries = [turn for turn in episode.turns if turn.kind == 'summary']
  assert summaries
  assert {turn.finish_reason for turn in summaries} == {'length'}
  assert {turn.completion_tokens for turn in summaries} == {2}


def test_only_actions_count_towards_the_horizon(talker):
  agent = talker(kind='summary', budget=160, summary_tokens=4)
  policy = fakes.FakePolicy([tuple(agent.write('go'))])
  episode = play(agent, policy, steps=99, horizon=10)
  assert episode.stop_reason == 'horizon'
  assert len(episode.acts) == 10 < len(episode.turns)


def test_no_room_for_a_summary_ends_the_episode(talker):
  # 160 tokens of the context may be used, and its end comes before the
  # request is asked.
  agent = talker(kind='summary', budget=160, summary_tokens=4)
  policy = fakes.FakePolicy([tuple(agent.write('go'))])
  episode = play(agent, policy, steps=60, max_context=165)
  assert episode.stop_reason == 'context' and episode.truncated
  assert all(turn.kind == 'act' for turn in episode.turns)


def test_an_opening_beyond_the_context_ends_the_episode(talker):
  agent = talker(kind='window', window=12)
  policy = fakes.FakePolicy([tuple(agent.write('go'))])
  episode = play(agent, policy, steps=60, max_context=160)
  assert episode.stop_reason == 'context'


@pytest.mark.parametrize(
    'options', [dict(kind='window', window=1), dict(kind='summary', budget=160)]
)
def test_an_expert_plays_and_recounts(talker, options):
  agent, env = talker(**options), fakes.FakeEnv()
  episode = play(agent, Expert(env, agent), steps=14, env=env)
  # No action of the expert is spent on summaries.
  assert episode.success and env.actions == ['go'] * 14
  for index, turn in enumerate(episode.turns):
    if turn.kind == 'summary':
      assert turn.completion == base.recount(episode.turns[:index])


def test_an_expert_counts_what_it_repeats():
  acts = [fakes.make_turn(action=x) for x in ('go', 'go', 'stop', 'go')]
  assert base.recount(acts) == 'go x2; stop; go'
  assert base.recount(()) == 'Nothing yet.'


@given(
    window=st.integers(1, 4),
    steps=st.integers(1, 14),
    horizon=st.integers(1, 14),
)
@settings(max_examples=25)
def test_every_sampled_id_is_in_one_segment(chat, window, steps, horizon):
  agent = Agent(
      chat,
      instructions='Walk.',
      format='plain',
      context=ContextOptions(kind='window', window=window),
  )
  go = tuple(agent.write('go'))
  episode = play(agent, fakes.FakePolicy([go]), steps=steps, horizon=horizon)
  played = min(steps, horizon)
  assert sampled(episode) == [go] * played
  # The last observation of an episode that we cut opens no segment.
  assert len(episode.segments) == max(1, played - window)


def test_words_of_several_segments_are_no_conversation(talker):
  agent = talker(kind='window', window=1)
  episode = play(agent, fakes.FakePolicy([tuple(agent.write('go'))]))
  assert replay.cut_to(episode, 400) is episode
  with pytest.raises(DataError, match='5 segments .* play it again'):
    replay.cut_to(episode, 10)
  other = dataclasses.replace(
      episode, prompt=(Message('user', 'something else'),)
  )
  with pytest.raises(DataError, match='segments'):
    replay.renew(agent, other)
  assert replay.renew(agent, episode) is episode


def test_options_that_contradict_each_other():
  with pytest.raises(ConfigError, match='is no summary of .*make it smaller'):
    ContextOptions(kind='summary', budget=64, summary_tokens=64).check()


def test_a_later_opening_that_does_not_fit_is_no_segment(talker):
  agent = talker(kind='window', window=12)
  policy = fakes.FakePolicy([tuple(agent.write('go'))])
  episode = play(agent, policy, steps=60, max_context=230)
  assert episode.stop_reason == 'context' and episode.valid
  assert all(
      any(s.completion_mask) and len(s.tokens) <= 230 for s in episode.segments
  )


def test_pictures_are_of_all_turns(talker):
  agent = talker(kind='summary', budget=160, summary_tokens=4)
  policy = fakes.FakePolicy([tuple(agent.write('go'))])
  episode = play(agent, policy, steps=12, save_views=True)
  assert any(turn.kind == 'summary' for turn in episode.turns)
  assert len(episode.views) == 1 + len(episode.turns)
  for number, turn in enumerate(episode.turns):
    if turn.kind == 'summary':  # the environment has not moved
      assert episode.views[number + 1] == episode.views[number]


@pytest.mark.parametrize('kind', context.COUNTING)
def test_a_policy_over_messages_counts_no_tokens(kind):
  options = AgentOptions(context=ContextOptions(kind=kind))
  with pytest.raises(ConfigError, match='counts tokens, .* a policy over mes'):
    make_text_agent(envs.get('textcraft'), options)


OWN = """
from agentrl.rollout.contexts import window
from agentrl.rollout.contexts.base import Context

one = lambda options: Context(window.window(1))
none = lambda options: None
breaks = lambda options: 1 / 0
"""


def test_a_context_policy_of_ones_own(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(OWN)
  found = context.make(ContextOptions(kind=f'{path}:one'))
  view = EpisodeView(PROMPT, turns(3), None)
  assert found.next_segment(view).opening('') == (
      window.window(1)(view).opening('')
  )
  with pytest.raises(ConfigError, match='none gives NoneType, not a Context'):
    context.make(ContextOptions(kind=f'{path}:none'))
  with pytest.raises(ConfigError, match='breaks: ZeroDivisionError'):
    context.make(ContextOptions(kind=f'{path}:breaks'))
