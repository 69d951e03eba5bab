"""Talking to an engine over real connections on loopback; two tokenizers."""

import asyncio
import json

import aiohttp

from agentrl.text import tokenizer as tokenizer_lib

# For what takes no second where nothing else runs; it may compile.
PATIENCE_S = 300
JSON = {'Content-Type': 'application/json'}


def talk(engine, body, headers=None):
  """Runs `body(call)`; `call(route, payload)` gives (status, decoded body)."""

  async def main():
    async with aiohttp.ClientSession(headers=headers) as session:

      async def call(route, payload=None, method=None, data=None):
        request = session.request(
            method or ('GET' if payload is None and data is None else 'POST'),
            f'{engine.url}/{route}',
            json=payload,
            data=data,
            headers=None if data is None else JSON,
        )
        async with request as response:
          text = await response.text()
          try:
            return response.status, json.loads(text)
          except ValueError:
            return response.status, text

      return await asyncio.wait_for(body(call), PATIENCE_S)

  return asyncio.run(main())


def once(engine, route, payload=None, *, headers=None, **kwargs):
  return talk(engine, lambda call: call(route, payload, **kwargs), headers)


# Byte-level, with ChatML's control tokens.
WORDS = tokenizer_lib.train_bpe(
    ['the cat sat on the mat', 'naïve café \N{SNOWMAN} \N{HAMMER}'], 320
)
GREEDY = {'temperature': 0, 'max_new_tokens': 6}
LONG = {'max_new_tokens': 240}


class Letters:
  """A tokenizer of one character an id; id 0 is its control token `$`."""

  eos_ids = (0,)
  control_ids = frozenset(eos_ids)
  bound = None

  def encode(self, text, *, allow_special=False, whole=False):
    del whole  # it puts nothing around a prompt
    assert allow_special, 'a prompt may have control tokens'
    return [0 if c == '$' else ord(c) - 31 for c in text]

  def decode(self, ids, *, skip_special=True):
    text = ''.join('$' if i == 0 else chr(31 + i) for i in ids)
    return text.replace('$', '') if skip_special else text

  def settled(self, ids, *, skip_special=True):
    del skip_special
    return len(ids)


async def events(url, payload):
  """Yields the decoded events of a stream; the last is '[DONE]'."""
  async with aiohttp.ClientSession() as session:
    async with session.post(url, json=payload) as response:
      assert response.status == 200, await response.text()
      assert response.content_type == 'text/event-stream'
      async for line in response.content:
        if line.strip():
          data = line.decode().removeprefix('data: ').rstrip('\n')
          yield data if data == '[DONE]' else json.loads(data)


def stream(engine, payload, route='generate'):
  """All chunks of a stream that ends as it should."""

  async def main():
    url = f'{engine.url}/{route}'
    return [event async for event in events(url, payload)]

  *chunks, last = asyncio.run(asyncio.wait_for(main(), 300))
  assert last == '[DONE]'
  return chunks
