"""Recorded control sequences: the same against the engine and against SGLang.

`sequences.json` holds requests, in their order, and what the replies must have.
They run against the embedded engine here, and against a real server in
`tests/sglang/sequences_test.py`. Requests and replies are checked with the
contract types of the sglang wheel too, where that is installed.
"""

import asyncio
import contextlib
import json
import pathlib

import aiohttp
import jax
import pytest

from agentrl.weights import hf
from tests import tiny

SEQUENCES = json.loads(
    pathlib.Path(__file__).with_name('sequences.json').read_text()
)
PROMPT = [11, 12, 13, 14, 15, 16, 17, 18]  # in every vocabulary
TIMEOUT = 300


class Player:
  """Plays one sequence against one server."""

  def __init__(self, session, url, *, weights, long, oracle):
    self._session = session
    self._url = url
    self._values = {'<prompt>': PROMPT, '<weights>': weights, '<long>': long}
    self._oracle = oracle
    self._running = {}
    self._first = {}
    self._last = {}

  async def play(self, step):
    if 'start' in step:
      name = step['start']
      self._first[name] = asyncio.get_running_loop().create_future()
      self._running[name] = asyncio.create_task(self._send(step))
    elif 'first_chunk' in step:
      self._check(step, await self._first[step['first_chunk']])
    elif 'still_waits' in step:
      await asyncio.sleep(0.2)
      assert not self._running[step['still_waits']].done()
    elif 'join' in step:
      name = step['join']
      status, self._last[name] = await self._running.pop(name)
      assert status == 200
      self._check(step, self._last[name])
    elif 'until_idle' in step:
      await self._until_idle()
    else:
      status, reply = await self._send(step)
      assert status == step['status'], (step, reply)
      self._check(step, reply)

  async def _until_idle(self):
    while True:
      _, reply = await self._send({'send': 'GET /v1/loads?include=core'})
      if not any(
          load['num_running_reqs'] or load['num_waiting_reqs']
          for load in reply['loads']
      ):
        return
      await asyncio.sleep(0.05)

  async def _send(self, step):
    """Gives status and body; of a stream, the last event before `[DONE]`."""
    method, _, route = step['send'].partition(' ')
    body = self._fill(step.get('body'))
    if self._oracle and route == '/generate' and body is not None:
      if not step.get('invalid'):
        self._oracle.GenerateRequest.from_json_value(body)
    kwargs = {'json': body} if 'raw' not in step else {
        'data': step['raw'], 'headers': {'Content-Type': 'application/json'}
    }  # fmt: skip
    async with self._session.request(
        method, self._url + route, **kwargs
    ) as response:
      if response.content_type == 'text/event-stream':
        return response.status, await self._events(step, response)
      text = await response.text()
      with contextlib.suppress(ValueError):
        return response.status, json.loads(text)
      return response.status, text

  async def _events(self, step, response):
    last = None
    async for line in response.content:
      if not line.strip():
        continue
      data = line.decode().removeprefix('data: ').strip()
      if data == '[DONE]':
        return last
      last = json.loads(data)
      first = self._first.get(step.get('start'))
      if first is not None and not first.done():
        first.set_result(last)
    raise AssertionError(f'The stream ended without [DONE] after {last}.')

  def _fill(self, value):
    if isinstance(value, dict):
      return {key: self._fill(item) for key, item in value.items()}
    if isinstance(value, str) and value.startswith('<prompt + '):
      name = value.removeprefix('<prompt + ').removesuffix('>')
      return PROMPT + self._last[name]['output_ids']
    return self._values.get(value, value) if isinstance(value, str) else value

  def _check(self, step, reply):
    if self._oracle and isinstance(reply, dict) and 'meta_info' in reply:
      self._oracle.GenerateResponse.from_json_value(reply)
    if 'reply' in step:
      problem = mismatch(self._fill(step['reply']), reply)
      assert problem is None, f'{problem} in {step}: {reply}'


def mismatch(expected, got):
  """What in `got` is not as `expected`, or None; objects may have more keys."""
  if isinstance(expected, dict):
    if not isinstance(got, dict):
      return f'{got!r} is no object'
    for key, value in expected.items():
      if key not in got:
        return f'{key} is missing'
      problem = mismatch(value, got[key])
      if problem is not None:
        return f'{key}: {problem}'
    return None
  if isinstance(expected, str) and expected.startswith('<'):
    kind, *args = expected.strip('<>').split()
    fits = MATCHERS[kind](got, args)
  else:
    fits = expected == got
  return None if fits else f'{got!r} is not {expected!r}'


def _are_ids(got, size):
  return all(type(i) is int for i in got) and size in (None, len(got))


MATCHERS = {
    'str': lambda got, args: isinstance(got, str) and got,
    'above': lambda got, args: got > int(args[0]),
    'ids': lambda got, args: _are_ids(got, int(args[0])),
    'some': lambda got, args: got and _are_ids(got, None),
    'triples': lambda got, args: (
        all(len(t) == 3 and t[0] <= 0 and type(t[1]) is int for t in got)
        and len(got) == int((args or [len(got)])[0])
    ),
    # Half-open spans of output tokens, one after the other from 0.
    'spans': lambda got, args: (
        [span['version'] for span in got] == args
        and got[0]['start'] == 0
        and all(
            a['end'] == b['start'] for a, b in zip(got, got[1:], strict=False)
        )
        and all(span['start'] < span['end'] for span in got)
    ),
}


@pytest.fixture
def oracle(request):
  """The contract types, or None where they are not installed."""
  try:
    return request.getfixturevalue('contract')
  except pytest.skip.Exception:
    return None


def play(sequence, url, oracle, *, weights, long, key=None):
  headers = {} if key is None else {'Authorization': f'Bearer {key}'}

  async def main():
    async with aiohttp.ClientSession(headers=headers) as session:
      if weights is None:
        async with session.get(f'{url}/model_info') as reply:
          path = (await reply.json())['model_path']
      else:
        path = weights
      player = Player(session, url, weights=path, long=long, oracle=oracle)
      try:
        async with asyncio.timeout(TIMEOUT):
          for step in sequence['steps']:
            await player.play(step)
      finally:  # a server outlives a test that fails
        for route, body in (
            ('continue_generation', {}),
            ('abort_request', {'abort_all': True}),
        ):
          async with session.post(f'{url}/{route}', json=body) as reply:
            await reply.read()

  asyncio.run(main())


name_of = lambda sequence: sequence['name']


@pytest.mark.parametrize('sequence', SEQUENCES, ids=name_of)
def test_the_engine_plays_the_sequence(
    engine, slow_decode, other_model, tmp_path, oracle, sequence
):
  del slow_decode
  stacked = jax.device_get(
      tiny.stack_layers(other_model.params, other_model.config)
  )
  hf.save(tmp_path / 'other', other_model.config, stacked)
  play(sequence, engine.url, oracle, weights=str(tmp_path / 'other'), long=120)


@pytest.mark.parametrize(
    'expected, got, problem',
    [
        ({'a': {'b': 1}}, {'a': {'b': 1, 'c': 2}}, None),
        ({'a': {'b': 1}}, {'a': {'b': 2}}, 'a: b: 2 is not 1'),
        ({'a': 1}, {}, 'a is missing'),
        ('<ids 2>', [1], 'is not'),
        ('<some ids>', [], 'is not'),
        ('<str>', {}, 'is not'),
        ('<triples>', [[0.5, 1, None]], 'is not'),
        ('<spans a>', [{'version': 'a', 'start': 1, 'end': 2}], 'is not'),
        ('<spans a>', [{'version': 'a', 'start': 0, 'end': 2}], None),
    ],
)
def test_a_mismatch_is_seen(expected, got, problem):
  found = mismatch(expected, got)
  assert found is None if problem is None else problem in found
