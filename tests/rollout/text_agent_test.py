"""Tests for episodes over messages: the loop of episode_test, without tokens."""

import asyncio
import dataclasses
import re

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings, strategies as st

from agentrl import envs
from agentrl.data import collate, episodes as episodes_lib
from agentrl.envs import formats, server
from agentrl.envs.client import EnvClient
from agentrl.envs.functions import Function
from agentrl.errors import ConfigError, DataError, EnvError
from agentrl.inference.chat import ChatClient
from agentrl.inference.options import ChatOptions
from agentrl.rollout import replay, seeds
from agentrl.rollout.agent import Agent
from agentrl.rollout.collect import collect, rollout_metrics
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import AgentOptions, Limits
from agentrl.rollout.text_agent import TextAgent, make_text_agent
from agentrl.types import Group, Message
from tests import fakes
from tests.fakes import FakeChat, chat_reply


@pytest.fixture
def talker():
  return TextAgent(instructions='Say go.', format='plain')


def play(env, agent, chat, *, task_id=3, horizon=10, options=(), **limits):
  limits = dict(max_completion_tokens=8, deadline_s=20) | limits

  async def main():
    async with chat, aiohttp.ClientSession() as session:
      values = dict(url=chat.url, model='m', backoff_s=0.0) | dict(options)
      return await run_episode(
          env,
          agent,
          ChatClient(session, ChatOptions(**values)),
          episode_id='e-0-0',
          env_name='fake',
          task_id=task_id,
          split='test',
          seed=11,
          policy_version=0,
          horizon=horizon,
          limits=Limits(**limits),
      )

  return asyncio.run(main())


def played(episode):
  """What does not depend on tokens or the clock."""
  return [
      (t.completion, t.action, t.parse_error, t.observation, t.reward)
      for t in episode.turns
  ]


def outcome(episode):
  return episode.stop_reason, episode.success, episode.prompt, played(episode)


def test_episode_that_arrives(talker):
  env, chat = fakes.FakeEnv(), FakeChat()
  episode = play(env, talker, chat)
  assert episode.stop_reason == 'terminated'
  assert episode.success and episode.valid and episode.episode_return == 1.0
  assert env.actions == ['go', 'go', 'go']
  assert [m.role for m in episode.prompt] == ['system', 'user']
  assert not (episode.tokens or episode.completion_mask)
  assert not episode.sampler_logprobs
  for turn in episode.turns:
    assert (turn.prompt_tokens, turn.completion_tokens) == (5, 2)
    assert turn.cached_tokens == 1 and turn.weight_version == 'm'
  # Each request has the whole conversation, and a seed of its own.
  opening = [
      {'role': 'system', 'content': 'Say go.'},
      {'role': 'user', 'content': 'Walk 3 steps.'},
  ]
  answers = [
      {'role': 'assistant', 'content': 'go'},
      {'role': 'user', 'content': '2 to go.'},
      {'role': 'assistant', 'content': 'go'},
      {'role': 'user', 'content': '1 to go.'},
  ]
  assert [r['messages'] for r in chat.requests] == [
      opening + answers[: 2 * turn] for turn in range(3)
  ]
  assert [r['seed'] for r in chat.requests] == [
      seeds.derive_seed(11, turn) for turn in range(3)
  ]
  assert {r['max_completion_tokens'] for r in chat.requests} == {8}


@given(data=st.data())
@settings(max_examples=15)
def test_a_chat_plays_what_the_same_words_play_as_tokens(chat, data):
  """Unreadable completions and cuts by the horizon included."""
  words = st.sampled_from(['go', 'stay', '', '   ', '<think>x</think>go'])
  said = data.draw(st.lists(words, min_size=1, max_size=6))
  settings = dict(
      task_id=data.draw(st.integers(1, 4)),
      horizon=data.draw(st.integers(1, 8)),
  )
  cut_after = data.draw(st.none() | st.integers(1, 5))
  talk = dict(instructions='Say go.', format='plain')
  tokens = asyncio.run(
      run_episode(
          fakes.FakeEnv(cut_after=cut_after),
          Agent(chat, **talk),
          fakes.FakePolicy([chat.completion(text) for text in said]),
          episode_id='e',
          env_name='fake',
          split='test',
          seed=11,
          policy_version=0,
          limits=Limits(max_completion_tokens=99, max_context=9000),
          **settings,
      )
  )
  turn_of = lambda messages: sum(m['role'] == 'assistant' for m in messages)
  text = play(
      fakes.FakeEnv(cut_after=cut_after),
      TextAgent(**talk),
      FakeChat(then=lambda messages: said[turn_of(messages) % len(said)]),
      **settings,
  )
  assert tokens.tokens and not text.tokens
  assert outcome(text) == outcome(tokens)


@pytest.mark.parametrize('env_name', ['textcraft', 'babyai'])
def test_the_expert_plays_alike_in_messages_and_in_tokens(chat, env_name):
  spec = envs.get(env_name)
  options = AgentOptions(format='react')
  text = make_text_agent(spec, options)
  tokens = Agent(
      chat,
      instructions=spec.instructions('react', 'full'),
      format='react',
      functions=spec.functions,
  )
  task_ids = spec.tasks('test')[:3]

  async def main():
    async with (
        server.running(env_name, expert=True) as url,
        aiohttp.ClientSession() as session,
    ):

      def playing(agent, policy_of):
        async def play(assignment):
          env = EnvClient(session, url, env_name=env_name)
          return await run_episode(
              env,
              agent,
              policy_of(env),
              episode_id=f'e-{assignment.ordinal}-0',
              env_name=env_name,
              task_id=assignment.task_id,
              split='test',
              seed=assignment.seed,
              policy_version=0,
              horizon=60,
              limits=Limits(max_completion_tokens=200, max_context=90_000),
          )

        return play

      async def run(agent, policy_of):
        tasks = list(enumerate(task_ids))
        groups = await collect(
            tasks, 1, playing(agent, policy_of), seed=0, concurrency=2
        )
        return [group.episodes[0] for group in groups]

      by_tokens = await run(tokens, lambda env: Expert(env, tokens))
      by_text = await run(text, lambda env: Expert(env, text))
      # And a server that says what the expert said, request by request.
      lines = {e.prompt[-1].content: played(e) for e in by_tokens}
      assert len(lines) == len(task_ids)

      def again(messages):
        said = lines[messages[1]['content']]
        return said[sum(m['role'] == 'assistant' for m in messages)][0]

      async with FakeChat(then=again) as endpoint:
        options = ChatOptions(url=endpoint.url, model='m')
        client = ChatClient(session, options)
        by_chat = await run(text, lambda env: client)
      return by_tokens, by_text, by_chat

  by_tokens, by_text, by_chat = asyncio.run(main())
  assert all(episode.success for episode in by_tokens)
  assert list(map(outcome, by_text)) == list(map(outcome, by_tokens))
  assert list(map(outcome, by_chat)) == list(map(outcome, by_tokens))
  assert not any(e.tokens for e in by_text + by_chat)
  # An expert uses no tokens that anybody counted.
  assert by_text[0].turns[0].prompt_tokens is None


# --- reading and writing


def test_reply_without_an_action_costs_a_turn_and_no_env_step():
  functions = (Function('go', ('go',)),)
  for format in (name for name, x in formats.FORMATS.items() if x.marked):
    agent = TextAgent(instructions='', format=format, functions=functions)
    chat = FakeChat([chat_reply('I do not know')], then=agent.write_text('go'))
    env = fakes.FakeEnv()
    episode = play(env, agent, chat, task_id=1)
    assert env.actions == ['go']
    confused, arrived = episode.turns
    assert confused.parse_error in confused.observation
    assert arrived.parse_error is None and episode.success
    # The policy reads the correction as the answer to its reply.
    *_, said, correction = chat.requests[1]['messages']
    assert said['content'] == 'I do not know'
    assert correction == {'role': 'user', 'content': confused.observation}


def test_reasoning_is_kept_and_holds_no_action(talker):
  thought = '<think>\nstay or go?\n</think>\n\ngo'
  env, chat = fakes.FakeEnv(), FakeChat(then=thought)
  episode = play(env, talker, chat, task_id=2)
  assert env.actions == ['go', 'go']
  assert episode.turns[0].completion == thought
  assert chat.requests[1]['messages'][2]['content'] == thought


@pytest.mark.parametrize(
    'text',
    [
        'I could stay.\nOr go.\n</think>\n\ngo',
        '\n</think>\n\ngo',
        '<think>stay</think>\n<think>\nor go\n</think>\n\ngo',
        'stay </think> no, stay </think>\ngo',
        '<think>a <think>stay</think> or not</think>go',
        'go\n<think>or stay?</think>',
        'go\n<think>or stay?',
        '<thinking>\nstay\n</thinking>\n\ngo',
        'stay\n</thinking>\ngo',
        '<seed:think>stay</seed:think>go',
        '[THINK]stay[/THINK]go',
        '\u25c1think\u25b7stay\u25c1/think\u25b7go',
    ],
)
@pytest.mark.parametrize(
    'format, written',
    [
        ('plain', '{}'),
        ('raw', '{}'),
        ('react', 'Action: {}'),
        ('tags', '<action>{}</action>'),
        ('fenced', '```\n{}\n```'),
    ],
)
def test_an_answer_is_what_stands_outside_of_reasoning(format, written, text):
  agent = TextAgent(instructions='', format=format)
  words = re.sub(r'\b(stay|go)\b', lambda m: written.format(m[0]), text)
  reading = agent.read_text(words)
  assert (reading.action, reading.parse_error) == ('go', None)
  assert reading.text == words


@pytest.mark.parametrize(
    'text',
    ['<think>go', 'go\n</think>', '<think>go</think>', 'a </think><think>go'],
)
@pytest.mark.parametrize('format', ['plain', 'raw', 'react'])
def test_reasoning_alone_is_no_answer(format, text):
  agent = TextAgent(instructions='', format=format)
  text = text.replace('go', 'Action: go' if format == 'react' else 'go')
  reading = agent.read_text(text)
  assert reading.action == '' and reading.parse_error


def test_a_completion_that_its_reasoning_used_up_costs_a_turn(talker):
  empty = chat_reply('', finish='length')
  episode = play(fakes.FakeEnv(), talker, FakeChat([empty]), task_id=1)
  assert episode.turns[0].finish_reason == 'length'
  assert episode.turns[0].parse_error and episode.success


def test_without_a_system_role_the_instructions_open_the_first_message():
  agent = make_text_agent(
      envs.get('textcraft'), AgentOptions(format='plain'), has_system=False
  )
  [message] = agent.first_messages('Goal')
  assert message.role == 'user' and message.content.endswith('\n\nGoal')
  assert message.content.startswith('You are crafting')
  plain = TextAgent(instructions='', format='plain')
  assert plain.first_messages('Goal') == (Message('user', 'Goal'),)


def test_a_template_for_messages_is_refused():
  with pytest.raises(ConfigError, match="agent.template='chatml' has no effe"):
    make_text_agent(envs.get('textcraft'), AgentOptions(template='chatml'))


# --- ends


def full(message='maximum context length is 64 tokens'):
  return web.json_response({'error': {'message': message}}, status=400)


def test_a_context_that_is_full_truncates(talker):
  chat = FakeChat([chat_reply('go'), chat_reply('go'), full()])
  episode = play(fakes.FakeEnv(), talker, chat)
  assert episode.stop_reason == 'context' and episode.truncated
  assert episode.valid and len(episode.turns) == 2 and episode.error is None


def test_a_prompt_longer_than_the_context_says_so(talker):
  episode = play(fakes.FakeEnv(), talker, FakeChat([full()]))
  assert episode.stop_reason == 'context' and not episode.valid
  assert 'first prompt of fake task 3 does not fit' in episode.error
  assert 'maximum context length is 64 tokens' in episode.error


def test_horizons_of_ours_and_of_the_environment(talker):
  ours = play(fakes.FakeEnv(), talker, FakeChat(), horizon=2)
  theirs = play(fakes.FakeEnv(cut_after=2), talker, FakeChat())
  for episode in (ours, theirs):
    assert episode.stop_reason == 'horizon' and len(episode.turns) == 2


def test_a_refusal_keeps_the_turns_so_far(talker):
  refusal = web.json_response({'error': {'message': 'bad key'}}, status=401)
  chat = FakeChat([chat_reply('go'), refusal])
  live = set()
  episode = play(fakes.FakeEnv(live=live), talker, chat)
  assert episode.stop_reason == 'engine_error' and not episode.valid
  assert 'bad key' in episode.error and len(episode.turns) == 1
  assert len(chat.requests) == 2 and not live


def test_an_endpoint_that_never_answers_meets_the_deadline(talker):
  async def silent(request):
    del request
    await asyncio.sleep(60)

  live = set()
  env = fakes.FakeEnv(live=live)
  episode = play(env, talker, FakeChat([silent]), deadline_s=0.3)
  assert episode.stop_reason == 'timeout' and 'within 0.3 s' in episode.error
  assert not live


@pytest.mark.parametrize('method', ['create', 'reset', 'step'])
def test_environment_failure_is_recorded(talker, method):
  env = fakes.FakeEnv(fails={method: EnvError(f'no {method}')})
  episode = play(env, talker, FakeChat())
  assert episode.stop_reason == 'env_error' and not episode.turns
  assert episode.error == f'no {method}'


def test_failures_of_the_moment_leave_no_trace(talker):
  busy = web.Response(status=429, headers={'Retry-After': '0'})
  failed = web.Response(status=500)
  troubled = FakeChat([busy, chat_reply('go'), failed, failed])
  episode = play(fakes.FakeEnv(), talker, troubled)
  assert outcome(episode) == outcome(play(fakes.FakeEnv(), talker, FakeChat()))
  assert len(troubled.requests) == 6


def test_pictures_are_of_the_reset_and_of_each_turn(talker):
  episode = play(fakes.FakeEnv(), talker, FakeChat(), save_views=True)
  assert episode.views == tuple(b'PNG after %d' % n for n in range(4))


# --- records


@pytest.fixture
def unknown(talker):
  """An episode of an endpoint that reports no usage."""
  script = [chat_reply('go', usage=None) for _ in range(3)]
  return play(fakes.FakeEnv(), talker, FakeChat(script))


def test_unknown_token_counts_are_not_zero(unknown):
  for turn in unknown.turns:
    counts = turn.prompt_tokens, turn.cached_tokens, turn.completion_tokens
    assert counts == (None, None, None)
  line = episodes_lib.to_line(unknown)
  assert '"completion_tokens": null' in line
  assert episodes_lib.from_line(line) == unknown


def test_metrics_leave_out_what_is_not_known(talker, unknown):
  known = play(fakes.FakeEnv(), talker, FakeChat())
  metrics = lambda *episodes: rollout_metrics([Group(3, 0, episodes)], 10)
  token_names = {
      'rollout/completion_tokens_mean',
      'rollout/completion_tokens',
      'rollout/cached_share',
  }
  assert metrics(known)['rollout/completion_tokens'] == 6.0
  assert metrics(known)['rollout/cached_share'] == 0.2
  # A mean over some of the turns would look like one over all.
  assert not token_names & set(metrics(known, unknown))
  assert set(metrics(known)) - set(metrics(unknown)) == token_names
  assert metrics(unknown)['rollout/success'] == 1.0


def test_collate_refuses_an_episode_of_words_by_name(unknown):
  group = lambda *episodes: [Group(3, 0, episodes)]
  with pytest.raises(DataError, match="'e-0-0' has 3 turns and no tokens.*API"):
    collate.collate(group(fakes.make_episode(), unknown))
  # One that failed before its first turn has none anyway.
  failed = dataclasses.replace(unknown, turns=(), stop_reason='env_error')
  assert collate.collate(group(fakes.make_episode(), failed)).valid[0]


def test_the_words_of_an_api_can_be_learnt_from(agent, unknown):
  """Distillation: mode 'sft' gives them the ids of its own model."""
  made = replay.renew(agent, unknown)
  words = lambda episode: [(t.completion, t.action) for t in episode.turns]
  assert words(made) == words(unknown)
  assert made.episode_return == 1.0 and made.success
  assert [stop - start for start, stop in made.sampled_runs] == [
      turn.completion_tokens for turn in made.turns
  ]
  collate.collate([Group(3, 0, (made,))])
