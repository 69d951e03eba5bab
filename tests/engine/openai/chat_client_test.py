"""The chat client and its episodes against the embedded engine's OpenAI routes."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from agentrl.errors import EngineRefusal
from agentrl.inference.chat import ChatClient
from agentrl.inference.chat_replies import ContextExceeded
from agentrl.inference.options import ChatOptions
from agentrl.inference.sampler import Sampler
from agentrl.rollout.agent import Agent
from agentrl.rollout.episode import run_episode
from agentrl.rollout.options import Limits
from agentrl.rollout.text_agent import TextAgent
from agentrl.text.chat import ChatFormat
from agentrl.types import Message
from tests import fakes
from tests.engine.talking import WORDS, once

HELLO = [Message('user', 'the cat sat')]
# The engine's context has 256 tokens.
STYLE = dict(instructions='go', format='raw')


@pytest.fixture
def key(tmp_path):
  """Writes a token file and gives its path."""

  def write(text):
    path = tmp_path / text
    path.write_text(text)
    return str(path)

  return write


@contextlib.asynccontextmanager
async def proxy(url, troubles=()):
  """Forwards requests to an engine, after it has answered with `troubles`."""
  troubles, log = list(troubles), []

  async def forward(request):
    if troubles:
      status, headers = troubles.pop(0)
      log.append(status)
      return web.Response(status=status, headers=headers, text='trouble')
    headers = {
        name: value
        for name, value in request.headers.items()
        if name in ('Authorization', 'Content-Type')
    }
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            request.method,
            f'{url}{request.path}',
            data=await request.read(),
            headers=headers,
        ) as reply,
    ):
      log.append(reply.status)
      return web.Response(
          status=reply.status,
          body=await reply.read(),
          content_type=reply.content_type,
      )

  app = web.Application()
  app.router.add_route('*', '/{path:.*}', forward)
  runner = web.AppRunner(app, shutdown_timeout=0.1)
  await runner.setup()
  await web.TCPSite(runner, '127.0.0.1', 0).start()
  try:
    yield f'http://127.0.0.1:{runner.addresses[0][1]}', log
  finally:
    await runner.cleanup()


def ask(url, *, seed=0, limit=12, troubles=(), **options):
  async def main():
    async with (
        proxy(url, troubles) as (address, log),
        aiohttp.ClientSession() as session,
    ):
      values = dict(model='words', backoff_s=0.01) | options
      client = ChatClient(session, ChatOptions(url=f'{address}/v1', **values))
      completion = await client.complete(
          HELLO, max_completion_tokens=limit, seed=seed
      )
      return completion, client.usage, log

  return asyncio.run(main())


def test_a_completion_is_what_the_engine_samples(words_engine):
  ids = ChatFormat(WORDS).prompt(HELLO)
  _, native = once(
      words_engine,
      'generate',
      {
          'input_ids': ids,
          'sampling_params': {'sampling_seed': 5, 'max_new_tokens': 12},
      },
  )
  completion, usage, _ = ask(words_engine.url, seed=5)
  assert completion.text == native['text']
  assert (
      completion.finish_reason == native['meta_info']['finish_reason']['type']
  )
  assert completion.prompt_tokens == usage.prompt_tokens == len(ids)
  said = native['meta_info']['completion_tokens']
  assert completion.completion_tokens == usage.completion_tokens == said
  assert completion.cached_tokens is not None
  assert completion.weight_version == 'default'


def test_older_servers_limit_is_the_same(words_engine):
  new, *_ = ask(words_engine.url, limit=2)
  old, *_ = ask(words_engine.url, limit=2, limit_name='max_tokens')
  assert new.text == old.text and new.completion_tokens <= 2


def test_trouble_on_the_way_changes_nothing(words_engine):
  troubles = [(429, {'Retry-After': '0.2'}), (500, {}), (502, {})]
  calm, _, _ = ask(words_engine.url, seed=3)
  completion, usage, log = ask(words_engine.url, seed=3, troubles=troubles)
  assert log == [429, 500, 502, 200]
  assert completion.text == calm.text
  assert (usage.requests, usage.retries, usage.completions) == (4, 3, 1)


def test_the_engines_key(keyed_words_engine, key):
  url = keyed_words_engine.url
  completion, *_ = ask(url, token_file=key('right'))
  assert completion.completion_tokens
  with pytest.raises(EngineRefusal, match='gave 401.*wrong'):
    ask(url, token_file=key('wrong'))
  with pytest.raises(EngineRefusal, match='gave 401.*No key was sent'):
    ask(url)


def test_a_full_context_of_the_engine_is_told_apart(words_engine):
  with pytest.raises(ContextExceeded, match='context length is 256'):
    ask(words_engine.url, limit=250)


def play(agent, policy, *, seed, horizon, limit=16):
  return run_episode(
      fakes.FakeEnv(),
      agent,
      policy,
      episode_id=f'e-{seed}',
      env_name='fake',
      task_id=9,
      split='test',
      seed=seed,
      policy_version=0,
      horizon=horizon,
      limits=Limits(
          max_completion_tokens=limit, max_context=256, deadline_s=60.0
      ),
  )


def both_ways(engine, *, seed, **limits):
  """One episode in token ids and one in messages, of the same engine."""

  async def main():
    async with aiohttp.ClientSession() as session:
      sampler = Sampler(session, [engine.url], temperature=1.0)
      options = ChatOptions(url=f'{engine.url}/v1', model='words')
      client = ChatClient(session, options)
      tokens = await play(
          Agent(ChatFormat(WORDS), **STYLE), sampler, seed=seed, **limits
      )
      text = await play(TextAgent(**STYLE), client, seed=seed, **limits)
      return tokens, text, client.usage

  return asyncio.run(main())


def test_messages_and_ids_meet_the_same_policy(words_engine):
  """The engine renders messages as the agent does, and samples by the seed.

  They part after a half of a character, which no message can hold.
  """
  words = lambda turn: (turn.completion, turn.observation, turn.reward)
  counts = lambda turn: (turn.prompt_tokens, turn.completion_tokens)
  compared = 0
  for seed in (0, 3, 5):
    tokens, text, usage = both_ways(words_engine, seed=seed, horizon=3, limit=1)
    assert text.prompt == tokens.prompt and tokens.tokens and not text.tokens
    assert usage.completion_tokens == sum(
        turn.completion_tokens for turn in text.turns
    )
    for ours, theirs in zip(text.turns, tokens.turns, strict=True):
      assert words(ours) == words(theirs) and counts(ours) == counts(theirs)
      compared += 1
      if '\ufffd' in ours.completion:
        break
  assert compared > 5


def test_a_conversation_ends_when_the_engines_context_is_full(words_engine):
  tokens, text, _ = both_ways(words_engine, seed=1, horizon=99)
  assert tokens.stop_reason == text.stop_reason == 'context'
  assert text.valid and len(text.turns) > 2
