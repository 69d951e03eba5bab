"""Tests for agentrl.rollout.replay: words become what a rollout would make."""

import asyncio
import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from agentrl.data import collate
from agentrl.errors import DataError
from agentrl.rollout import replay
from agentrl.rollout.agent import Agent
from agentrl.rollout.episode import run_episode
from agentrl.rollout.options import Limits
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.types import Conversation, Group, Message
from tests import fakes, qwen3


def play(agent, words, *, steps=3, horizon=10):
  """An episode in which the policy says these words, one after the other."""
  policy = fakes.FakePolicy([agent.completion_ids(word) for word in words])
  return asyncio.run(
      run_episode(
          fakes.FakeEnv(),
          agent,
          policy,
          episode_id='e',
          env_name='fake',
          task_id=steps,
          split='train',
          seed=0,
          policy_version=0,
          horizon=horizon,
          limits=Limits(
              max_completion_tokens=30, max_context=2000, deadline_s=10.0
          ),
      )
  )


def talk(*texts, learn=None, start='Walk 3 steps.'):
  """A conversation of user and assistant in turn."""
  texts = (start, *texts)
  roles = ['user', 'assistant'] * len(texts)
  return Conversation(
      name='c',
      env='fake',
      task_id=3,
      messages=tuple(Message(r, t) for r, t in zip(roles, texts, strict=False)),
      learn=learn or tuple(i % 2 == 1 for i in range(len(texts))),
  )


@given(
    words=st.lists(
        st.text(
            st.characters(exclude_categories=('Cs',)), min_size=1, max_size=9
        ),
        min_size=1,
        max_size=4,
    ),
    horizon=st.integers(1, 5),
)
@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_tokens_and_mask_are_those_of_a_rollout_with_the_same_words(
    agent, words, horizon
):
  played = play(agent, [*words, 'go'], horizon=horizon)
  conversation = replay.to_conversation(played)
  made = replay.replay(agent, conversation)
  # What follows the last completion is not in the conversation.
  stop = len(made.tokens)
  assert made.tokens == played.tokens[:stop]
  assert made.completion_mask == played.completion_mask[:stop]
  assert not any(played.completion_mask[stop:])
  assert [t.action for t in made.turns] == [t.action for t in played.turns]


def test_a_batch_of_it_is_that_of_the_rollout(agent):
  played = play(agent, ['go'])
  made = replay.replay(agent, replay.to_conversation(played))
  a, b = (collate.collate([Group(0, 0, (e,))]) for e in (played, made))
  for name in ('tokens', 'segment_ids', 'completion_mask', 'turn_ids'):
    np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_what_is_not_to_be_learnt_is_read_but_has_no_mask(agent, chat):
  texts = ('go', '2 to go.', 'hm', '2 to go.', 'go')
  everything = replay.replay(agent, talk(*texts))
  some = replay.replay(
      agent, talk(*texts, learn=(False, True, False, False, False, True))
  )
  assert some.tokens == everything.tokens
  hm = len(chat.completion('hm'))
  assert sum(everything.completion_mask) - sum(some.completion_mask) == hm
  assert [t.completion for t in some.turns] == ['go', 'go']
  assert len(collate.turn_spans(some)) == 2


def test_a_canned_answer_before_the_first_lesson_is_part_of_the_prompt(agent):
  conversation = talk(
      'OK.', 'Walk on.', 'go', learn=(False, False, False, True)
  )
  made = replay.replay(agent, conversation)
  assert [m.content for m in made.prompt] == [
      'Walk 3 steps.',
      'OK.',
      'Walk on.',
  ]
  own = replay.replay(agent, conversation, own_opening=True)
  assert own.prompt == agent.first_messages('Walk on.')


def test_a_conversation_that_ends_with_an_observation_keeps_it(agent, chat):
  made = replay.replay(agent, talk('go', '2 to go.'))
  tail = tuple(chat.observation('2 to go.', ended=True))
  assert made.tokens[-len(tail) :] == tail and made.truncated
  assert not any(made.completion_mask[-len(tail) :])


def test_a_completion_that_was_cut_gets_no_end_to_learn(agent, chat):
  conversation = dataclasses.replace(talk('go', '2 to go.', 'go'), cut=(1,))
  made = replay.replay(agent, conversation)
  whole = replay.replay(agent, talk('go', '2 to go.', 'go'))
  assert made.tokens == whole.tokens  # the end is inserted then
  assert sum(made.completion_mask) == sum(whole.completion_mask) - 1


def test_an_episode_in_its_own_ids_is_kept_as_it_is(agent):
  played = play(agent, ['go'])
  assert replay.renew(agent, played) is played


def test_an_episode_in_other_ids_is_made_from_its_words(agent):
  texts = ['Walk on. You arrived', 'Say go']
  other = Agent(
      ChatFormat(tokenizer_lib.train_bpe(texts, vocab_size=280)),
      instructions='Say go.',
      format='plain',
  )
  played = play(agent, ['no', 'go'])
  made = replay.renew(other, played)
  assert made.tokens == play(other, ['no', 'go']).tokens
  assert made.episode_return == played.episode_return == 1.0
  assert made.success and made.stop_reason == 'terminated'
  bare = dataclasses.replace(
      played, tokens=(), completion_mask=(), sampler_logprobs=()
  )
  assert replay.renew(agent, bare).tokens == played.tokens


def test_cutting_ends_with_the_last_completion_that_fits(agent):
  made = replay.replay(agent, talk('go', '2 to go.', 'go', '1 to go.', 'go'))
  spans = collate.turn_spans(made)
  assert replay.cut_to(made, len(made.tokens)) is made
  for limit in range(len(made.tokens)):
    cut = replay.cut_to(made, limit)
    fit = [stop for _, stop in spans if stop <= limit]
    if not fit:
      assert cut is None
      continue
    assert len(cut.tokens) == fit[-1] <= limit
    assert len(cut.turns) == len(fit) == len(collate.turn_spans(cut))
    assert cut.stop_reason == 'context'


def test_an_opening_that_the_template_refuses_is_a_clear_error(agent):
  conversation = dataclasses.replace(
      talk('go'),
      messages=(
          Message('user', 'x'),
          Message('assistant', 'OK.'),
          Message('assistant', 'go'),
      ),
      learn=(False, False, True),
  )
  with pytest.raises(DataError, match='must end with a message to the policy'):
    replay.replay(agent, conversation)


def qwen3_agent(format, tokenizer=None):
  chat = ChatFormat(tokenizer or qwen3.tokenizer())
  return Agent(chat, instructions='Say go.', format=format)


def test_a_qwen3_rollout_has_the_tokens_of_its_recorded_conversation():
  agent = qwen3_agent('plain')
  words = ['<think>\nturn or go?\n</think>\n\ngo', 'go', '<think>\nno']
  episode = play(agent, [*words, 'go'], steps=3)
  assert [turn.action for turn in episode.turns] == ['go', 'go', '', 'go']
  # What was thought, stays: in the record and in the tokens.
  assert [turn.completion for turn in episode.turns] == [*words, 'go']
  conversation = replay.to_conversation(episode)
  assert replay.replay(agent, conversation).tokens == episode.tokens
  assert replay.renew(agent, episode) is episode
  whole = agent.prompt_ids(conversation.messages[:-1])
  assert tuple(whole) == episode.tokens[: len(whole)]
  assert len(episode.tokens) - len(whole) == episode.turns[-1].completion_tokens


@pytest.mark.parametrize(
    'format, answer', [('react', 'Thought:\n\nAction:\ngo'), ('raw', 'go')]
)
def test_no_action_is_read_from_a_thought(format, answer):
  agent = qwen3_agent(format)
  read = lambda text: agent.read(agent.completion_ids(text))
  thought = '<think>\nAction:\nstay\n</think>\n\n'
  assert read(thought + answer).action == 'go'
  assert read(thought + answer).text == thought + answer
  assert read(thought).parse_error is not None
  assert read('<think>\nAction:\ngo').parse_error is not None
