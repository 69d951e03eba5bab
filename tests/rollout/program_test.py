"""An agent program of the openai package, played through its environment server."""

import asyncio
import json

import aiohttp
import pytest

from agentrl import envs
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.rollout.agent import make_agent
from agentrl.rollout.episode import run_episode
from agentrl.rollout.options import AgentOptions, Limits
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.types import Message
from tests.envs.adapters import program_agent, program_test
from tests.rollout import scripts

pytest.importorskip('openai')
OWN = program_test.OWN
CALL = (
    '<tool_call>\n{"name": "multiply", "arguments": {"a": 3, "b":'
    ' 7}}\n</tool_call>'
)


@pytest.fixture
def tasks(tmp_path):
  path = tmp_path / 'tasks.jsonl'
  path.write_text(
      ''.join(json.dumps({'a': a, 'b': 7}) + '\n' for a in range(9))
  )
  return str(path)


def played(tokenizer, function, tasks, *texts, task_id=3, template='chatml'):
  """The episode of a policy that says these texts, and the policy."""
  spec = envs.get('program')
  options = dict(function=function, tasks=tasks)
  agent = make_agent(
      spec.under(**options),
      tokenizer,
      AgentOptions(format='chat', instructions='compact', template=template),
  )
  policy = scripts.scripted(agent, *texts)

  async def main():
    async with (
        server.running('program', options) as url,
        aiohttp.ClientSession() as session,
    ):
      return await run_episode(
          EnvClient(session, url, env_name='program'),
          agent,
          policy,
          episode_id='e',
          env_name='program',
          task_id=task_id,
          split='train',
          seed=0,
          policy_version=0,
          horizon=9,
          limits=Limits(max_completion_tokens=200, max_context=4000),
      )

  episode = asyncio.run(main())
  scripts.check(episode, policy)
  return episode, policy


def test_what_an_agent_asks_goes_on_in_one_segment(chat, tasks):
  function = f'{program_agent.__name__}:solve'
  episode, policy = played(
      chat.tokenizer, function, tasks, f'I use it.\n{CALL}', 'It is 21.'
  )
  assert episode.error is None
  assert (episode.success, episode.episode_return) == (True, 1.0)
  assert len(episode.segments) == 1
  first, second = (
      chat.tokenizer.decode(x['input_ids'], skip_special=False)
      for x in policy.requests[:2]
  )
  assert '"description": "Multiplies two numbers."' in first
  assert 'What is 3 times 7?' in first
  # The answer of the tool follows the very ids that were sampled.
  assert second.startswith(f'{first}I use it.\n{CALL}')
  assert '<tool_response>\n21\n</tool_response>' in second


HARMONY_CALL = (
    '<|channel|>commentary to=functions.multiply <|constrain|>json<|message|>'
    '{"a": 3, "b": 7}<|call|>'
)


def harmony():
  """A tokenizer with harmony's control tokens, and what a policy says by it."""
  controls = 'start message channel end return call constrain'.split()
  tokenizer = tokenizer_lib.train_bpe(
      ['What is 3 times 7? It is 21.'] * 9,
      vocab_size=320,
      specials=(
          *(tokenizer_lib.START, tokenizer_lib.END, tokenizer_lib.PAD),
          *(f'<|{x}|>' for x in controls),
      ),
  )
  thought = '<think>\n3 times 7.\n</think>\n\n'
  return tokenizer, [f'{thought}{HARMONY_CALL}', 'It is 21.']


def test_what_an_agent_asks_goes_on_in_harmony_too(tasks):
  tokenizer, texts = harmony()
  function = f'{program_agent.__name__}:solve'
  episode, policy = played(
      tokenizer, function, tasks, *texts, template='harmony'
  )
  assert episode.error is None
  assert (episode.success, episode.episode_return) == (True, 1.0)
  assert len(episode.segments) == 1
  first, second = (
      tokenizer.decode(x['input_ids'], skip_special=False)
      for x in policy.requests[:2]
  )
  assert '// Multiplies two numbers.\ntype multiply = (_: {\n' in first
  assert second == (
      f'{first}<|channel|>analysis<|message|>3 times'
      ' 7.<|end|><|start|>assistant'
      f'{HARMONY_CALL}<|start|>functions.multiply'
      ' to=assistant<|channel|>commentary'
      '<|message|>21<|end|><|start|>assistant'
  )


def test_a_conversation_that_is_rewritten_is_a_segment_of_its_own(
    chat, tasks, tmp_path
):
  path = tmp_path / 'mine.py'
  path.write_text(OWN)
  episode, policy = played(
      chat.tokenizer, f'{path}:rewrites', tasks, 'a', 'b', 'c'
  )
  assert episode.error is None
  assert episode.prompt == (Message('user', 'one'),)
  assert [len(x.tokens) > 0 for x in episode.segments] == [True, True]
  assert sum(map(sum, (x.completion_mask for x in episode.segments))) == sum(
      turn.completion_tokens for turn in episode.turns
  )
  last = chat.tokenizer.decode(
      policy.requests[2]['input_ids'], skip_special=False
  )
  for said in ('user\nother', 'assistant\nB', 'user\nthree'):
    assert said in last
  assert 'one' not in last


def test_a_program_that_breaks_fails_its_episode_alone(chat, tasks, tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(OWN)
  episode, _ = played(chat.tokenizer, f'{path}:breaks', tasks, 'a')
  assert episode.stop_reason == 'env_error' and not episode.valid
  assert "KeyError: 'x'" in episode.error
