"""Episodes in which gpt-oss's template tells functions, and names who answers."""

import pytest

from agentrl import envs
from agentrl.rollout import replay
from agentrl.rollout.agent import make_agent
from agentrl.rollout.options import AgentOptions, ContextOptions
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.types import StepResult
from tests import fakes
from tests.rollout import scripts

SPECIALS = (
    *(tokenizer_lib.START, tokenizer_lib.END, tokenizer_lib.PAD),
    *('<|start|>', '<|message|>', '<|channel|>', '<|end|>', '<|return|>'),
    *('<|call|>', '<|constrain|>'),
)
ANSWER = (
    '<|start|>functions.{}'
    ' to=assistant<|channel|>commentary<|message|>{}<|end|><|start|>assistant'
)


class Crafting(fakes.FakeEnv):
  """Answers actions by repeating them; the third is the last."""

  async def step(self, action):
    self.actions.append(action)
    done = len(self.actions) == 3
    return StepResult(f'Did {action}.', reward=0.0, terminated=done)


def written(name, arguments):
  return (
      f'<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>'
      f'{arguments}<|call|>'
  )


GET = written('get', '{"count": 2, "item": "oak logs"}')
SAID = (
    GET,  # an expert's: without a thought
    f'<think>\nMore?\n</think>\n\n{GET}',
    'I do not know.',
    written('fly', '{}'),
    written('get', '{"count": '),
    GET,
)


@pytest.fixture(scope='module')
def tokenizer():
  texts = ['get 2 oak logs. Your reply was not understood: {"item": "a"}'] * 30
  return tokenizer_lib.train_bpe(texts, vocab_size=360, specials=SPECIALS)


def agent_of(tokenizer, **options):
  options = AgentOptions(
      format='tools', template='harmony', date='2026-12-01', **options
  )
  return make_agent(envs.get('textcraft'), tokenizer, options)


def test_calls_are_answered_by_the_function_they_name(tokenizer):
  agent, env = agent_of(tokenizer), Crafting()
  assert agent.write('get 2 oak logs') == agent.completion_ids(GET)
  policy = scripts.scripted(agent, *SAID)
  episode = scripts.play(agent, policy, env=env, max_completion_tokens=200)
  scripts.check(episode, policy)
  assert env.actions == ['get 2 oak logs'] * 3
  assert [turn.completion for turn in episode.turns] == [*SAID]
  text = tokenizer.decode(episode.tokens, skip_special=False)
  assert '// get COUNT ITEM\ntype get = (_: {\ncount: number,\n' in text
  wrong = 'Your reply was not understood: {}'
  user = '<|start|>user<|message|>{}<|end|><|start|>assistant'
  no_call = 'there is no "<|channel|>commentary to=functions." in it.'
  broken = 'its JSON is broken: Expecting value.'
  functions = ', '.join(x.name for x in envs.get('textcraft').functions)
  unknown = f"unknown function 'fly'; known: {functions}."
  did = ANSWER.format('get', 'Did get 2 oak logs.')
  assert text.partition('Walk 6 steps.<|end|><|start|>assistant')[2] == (
      f'{GET}{did}'
      '<|channel|>analysis<|message|>More?<|end|><|start|>assistant'
      f'{GET}{did}'
      '<|channel|>final<|message|>I do not know.<|return|>'
      + user.format(wrong.format(no_call))
      + SAID[3]
      + ANSWER.format('fly', wrong.format(unknown))
      + SAID[4]
      + ANSWER.format('get', wrong.format(broken))
      + GET
  )
  # Its words alone give the same tokens.
  conversation = replay.to_conversation(episode)
  assert replay.replay(agent, conversation).tokens == episode.tokens


def test_a_call_that_is_cut_is_ended_and_answered(tokenizer):
  agent, env = agent_of(tokenizer), Crafting()
  cut = agent.completion_ids(GET.removesuffix('"}<|call|>'), ended=False)
  policy = fakes.FakePolicy([cut, *[agent.completion_ids(GET)] * 3])
  episode = scripts.play(agent, policy, env=env, max_completion_tokens=200)
  scripts.check(episode, policy)
  reason = 'Your reply was not understood: there is no "<|call|>" in it.'
  text = tokenizer.decode(episode.tokens, skip_special=False)
  assert f'oak logs<|call|>{ANSWER.format("get", reason)}{GET}' in text
  ids = episode.tokens
  masked = [
      tokenizer.id_to_token(i)
      for i, is_sampled in zip(ids, episode.completion_mask, strict=True)
      if is_sampled
  ]
  assert masked.count('<|call|>') == len(episode.turns) - 1


def test_later_segments_begin_with_calls_and_their_answers(tokenizer):
  agent = agent_of(tokenizer, context=ContextOptions(kind='window', window=1))
  policy = scripts.scripted(agent, SAID[1])
  episode = scripts.play(
      agent, policy, env=Crafting(), max_completion_tokens=200
  )
  scripts.check(episode, policy)
  assert len(episode.segments) == 3 - 1
  last = tokenizer.decode(policy.requests[2]['input_ids'], skip_special=False)
  did = ANSWER.format('get', 'Did get 2 oak logs.')
  assert last.endswith(
      '<|end|><|start|>assistant<|channel|>analysis<|message|>More?<|end|>'
      f'<|start|>assistant{GET}{did}'
  )
