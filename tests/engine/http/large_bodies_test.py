"""Tests for large bodies: refused early, read beside what others ask."""

import asyncio
import json
import time

import aiohttp
import pytest

from tests.engine.talking import PATIENCE_S, WORDS, once

# Longer than any context, quick to tokenize or not.
TEXT = 'the cat sat on the mat ' * (10_000_000 // 23)
CHAT = [{'role': 'user', 'content': TEXT[:100_000]}] * 30


def slowest_health(engine, route, body):
  """The reply to a body, and the longest that /health took meanwhile."""
  data = json.dumps(body).encode()
  headers = {'Content-Type': 'application/json'}

  async def main():
    async with aiohttp.ClientSession() as session:

      async def large():
        url = f'{engine.url}/{route}'
        async with session.post(url, data=data, headers=headers) as response:
          return response.status, await response.json()

      async def probe():
        start = time.perf_counter()
        async with session.get(f'{engine.url}/health') as response:
          assert response.status == 200
        return time.perf_counter() - start

      asking, slowest, probes = asyncio.create_task(large()), 0.0, 0
      while not asking.done():
        slowest = max(slowest, await probe())
        probes += 1
        await asyncio.sleep(0.02)
      return await asking, slowest, probes

  return asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@pytest.mark.parametrize(
    'route, body',
    [
        ('generate', {'text': TEXT}),
        ('generate', {'text': ['the cat', TEXT]}),
        ('v1/completions', {'prompt': TEXT}),
        ('v1/chat/completions', {'messages': CHAT}),
    ],
)
def test_a_text_that_cannot_fit_is_refused_unread(
    words_engine, route, body, monkeypatch
):
  encode = type(WORDS).encode

  def only_short(self, text, **kwargs):
    assert len(text) < 1000
    return encode(self, text, **kwargs)

  monkeypatch.setattr(type(WORDS), 'encode', only_short)
  (status, reply), slowest, _ = slowest_health(words_engine, route, body)
  assert status == 400
  message = (reply.get('error') or reply)['message']
  assert f'of at most {WORDS.bound.most} bytes each' in message
  assert '256 tokens' in message and ' characters has at least' in message
  assert slowest < 2


@pytest.mark.parametrize(
    'route, body, count',
    [
        ('generate', {'text': TEXT}, 'tokens'),
        ('v1/chat/completions', {'messages': CHAT}, 'tokens'),
    ],
)
def test_health_answers_while_a_long_text_is_tokenized(
    words_engine, route, body, count, monkeypatch
):
  monkeypatch.setattr(WORDS, 'bound', None)
  (status, reply), slowest, probes = slowest_health(words_engine, route, body)
  assert status == 400
  assert 'is not shorter than 250' in (reply.get('error') or reply)['message']
  assert probes > 5 and slowest < 2


def test_a_text_that_fits_is_not_refused(words_engine):
  longest = '<|im_start|>'
  assert len(longest) == WORDS.bound.most
  for count, text in ((249, longest * 249), (256, longest * 255 + '<')):
    ask = {'text': text, 'sampling_params': {'max_new_tokens': 1}}
    status, reply = once(words_engine, 'generate', ask)
    if count < 256:
      assert status == 200, reply
      assert reply['meta_info']['prompt_tokens'] == count
    else:
      assert status == 400
      assert 'at least 256 tokens' in reply['error']['message']


def test_large_bodies_of_ids_and_junk_are_answered(words_engine):
  large = {'input_ids': [[1]] * 20_000, 'sampling_params': {}}
  status, reply = once(words_engine, 'generate', large)
  assert status == 400 and 'max_queued' in reply['error']['message']
  status, reply = once(
      words_engine, 'generate', data=b'{"text": ' + b'1' * 70000
  )
  assert status == 400 and 'not JSON' in reply['message']
  stream = {'text': TEXT, 'stream': True}
  status, reply = once(words_engine, 'generate', stream)
  assert status == 200 and 'Shorten the prompt' in reply
