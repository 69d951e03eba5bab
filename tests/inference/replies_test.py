"""Tests for agentrl.inference.replies: a server that lies, on loopback."""

import asyncio
import copy
import gzip
import json
import math
import random

import aiohttp
import pytest
from aiohttp import web

from agentrl.errors import EngineError
from agentrl.inference import compatibility, router_check
from agentrl.inference.compatibility import Needs
from agentrl.inference.sampler import Sampler
from tests import fakes

VOCAB, ASKED = 1024, 6
DEEP = '[' * 100_000 + ']' * 100_000

# What a server says where it tells the truth, and what is asked of it.
GOOD = {
    'generate': fakes.generate_reply([5, 6, 2], prompt_tokens=3),
    'server_info': {
        'version': '0.5.23',
        'max_req_input_len': 4096,
        'context_length': 4096,
    },
    'model_info': {
        'architectures': ['LlamaForCausalLM'],
        'weight_version': '1',
    },
    'loads': {'loads': [{'num_running_reqs': 1, 'num_waiting_reqs': 0}]},
    'workers': {'workers': [{'id': 'a', 'url': 'http://a:1'}]},
    'models': {'data': [{'id': 'policy', 'owned_by': 'us'}]},
    'get_weights_by_name': [[0.5, 1.5], [2.5, 3.0]],
    'weights_checker': {'success': True, 'ranks': [{'checksums': {'a': '1'}}]},
    'update_weights_from_disk': {'success': True, 'message': 'ok'},
    'load_lora_adapter': {'success': True, 'loaded_adapters': {'a': 'p'}},
    'pause_generation': {'status': 'ok'},
}


async def probe(sampler):
  needs = Needs(
      max_context=64, vocab_size=VOCAB, architecture='LlamaForCausalLM'
  )
  info = await sampler.server_info() | await sampler.model_info()
  compatibility.check(sampler.urls[0], info, needs)


def generate(sampler):
  return sampler.generate([1, 2, 3], max_new_tokens=ASKED, seed=1)


CALLS = {
    'generate': generate,
    'server_info': probe,
    'model_info': probe,
    'loads': lambda s: s.num_requests(),
    'workers': lambda s: s.workers(),
    'models': lambda s: s.models(),
    'get_weights_by_name': lambda s: s.get_weights_by_name('x'),
    'weights_checker': lambda s: s.weight_checksums([]),
    'update_weights_from_disk': lambda s: s.update_weights_from_disk('/w', '1'),
    'load_lora_adapter': lambda s: s.load_lora_adapter('a', '/p'),
    'pause_generation': lambda s: s.pause(),
}


class Liar:
  """Answers each route with what `says` has for it: bytes and headers."""

  def __init__(self):
    self.says = {}

  async def __aenter__(self):
    app = web.Application()
    app.router.add_route('*', '/{route:.*}', self._answer)
    self._runner = web.AppRunner(app, shutdown_timeout=0.1)
    await self._runner.setup()
    await web.TCPSite(self._runner, '127.0.0.1', 0).start()
    host, port = self._runner.addresses[0][:2]
    self.url = f'http://{host}:{port}'
    return self

  async def __aexit__(self, *exc_info):
    await self._runner.cleanup()

  async def _answer(self, request):
    route = request.match_info['route'].rpartition('/')[2]
    body, headers, status = self.says.get(
        route, (json.dumps(GOOD.get(route)).encode(), {}, 200)
    )
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    for piece in [body] if isinstance(body, bytes) else body:
      try:
        await response.write(piece)
      except ConnectionError:  # it has heard enough
        break
    return response


def with_liar(body):
  async def main():
    async with Liar() as liar, aiohttp.ClientSession() as session:
      sampler = Sampler(
          session,
          [liar.url],
          temperature=1.0,
          max_attempts=1,
          timeout_s=30.0,
          vocab_size=VOCAB,
      )
      return await asyncio.wait_for(body(liar, sampler), 600)

  return asyncio.run(main())


async def ask(liar, sampler, route, body, headers=None, status=200):
  """The result, or the EngineError, which is one line that names the URL."""
  liar.says = {route: (body, headers or {}, status)}
  try:
    return await CALLS[route](sampler)
  except EngineError as error:
    text = str(error)
    assert liar.url in text and '\n' not in text and len(text) < 1000
    return error


def edited(change, route='generate'):
  reply = copy.deepcopy(GOOD[route])
  change(reply)
  return json.dumps(reply).encode()


def triples(*values):
  """A change of the log-probabilities, with counts that fit."""

  def change(reply):
    reply['meta_info']['output_token_logprobs'] = list(values)
    reply['meta_info']['completion_tokens'] = len(values)

  return change


def meta(**values):
  return lambda reply: reply['meta_info'].update(values)


@pytest.mark.parametrize(
    'change, said',
    [
        (triples([-1, 5000, None]), 'id 5000 at index 0, .*vocabulary of 1024'),
        (triples([-1, -1, None]), 'the id -1 at index 0'),
        (
            triples(*[[-1, 5, None]] * 60),
            '60 tokens where max_new_tokens was 6',
        ),
        (triples([5.0, 5, None]), 'log-probability 5.0 for id 5 at index 0'),
        (
            triples([-1, 50.7, None]),
            r'Expected `int`, got `float` - at `\$.meta',
        ),
        (triples([-1, '50', None]), 'Expected `int`, got `str`'),
        (triples(['-1', 5, None]), 'Expected `float .*got `str`'),
        (triples([-1, True, None]), 'Expected `int`, got `bool`'),
        (triples([-1, 5]), 'length 3'),
        (meta(prompt_tokens=None), 'meta_info has no prompt_tokens'),
        (meta(cached_tokens=-1), r'>= 0 - at `\$.meta_info.cached_tokens'),
        (meta(completion_tokens=None), 'counted None'),
        (meta(weight_version=None), r'at `\$.meta_info.weight_version'),
        (meta(finish_reason='stop'), r'at `\$.meta_info.finish_reason'),
    ],
)
def test_a_completion_outside_the_contract_is_refused_by_its_field(
    change, said
):
  error = with_liar(lambda l, s: ask(l, s, 'generate', edited(change)))
  with pytest.raises(EngineError, match=said):
    raise error


@pytest.mark.parametrize('logprob', [0.0, 1.2e-7, 1e-6, -0.0, -80])
def test_what_rounding_makes_of_a_probability_of_one_passes(logprob):
  body = edited(triples([logprob, 1023, None]))
  found = with_liar(lambda l, s: ask(l, s, 'generate', body))
  assert found.logprobs == (logprob,) and found.tokens == (1023,)


def endless():
  for _ in range(200):
    yield b' ' * 2**20


@pytest.mark.parametrize(
    'route, body, headers, said',
    [
        ('generate', DEEP.encode(), {}, 'got `array`'),
        ('generate', b'{"a":' + DEEP.encode() + b'}', {}, 'nested too deeply'),
        (
            'server_info',
            b'{"a":' + DEEP.encode() + b'}',
            {},
            'nested too deeply',
        ),
        (
            'generate',
            edited(meta(prompt_tokens=10**400)),
            {},
            r'<= 9007199254740992 - at `\$.meta_info.prompt_tokens',
        ),
        (
            'server_info',
            b'{"context_length": ' + b'9' * 400 + b'}',
            {},
            r'<= 9007199254740992',
        ),
        (
            'get_weights_by_name',
            b'[[' + b'9' * 400 + b']]',
            {},
            r'out of range - at `\$',
        ),
        (
            'get_weights_by_name',
            b'[[1.0], [1.0, 2.0]]',
            {},
            'different lengths',
        ),
        (
            'get_weights_by_name',
            b'[1.0, []]',
            {},
            'different lengths',
        ),
        (
            'update_weights_from_disk',
            b'{"success": "no"}',
            {},
            r'update_weights_from_disk .*Expected `bool`.*at `\$.success`',
        ),
        ('load_lora_adapter', b'{"success": "no"}', {}, r'at `\$.success`'),
        (
            'load_lora_adapter',
            b'{"success": false, "error_message": "no room"}',
            {},
            'failed: no room',
        ),
        ('loads', b'{"loads": [{"num_reqs": null}]}', {}, 'neither num_reqs'),
        ('loads', b'[{"num_waiting_reqs": 1}]', {}, r'numbers - at `\$\[0\]'),
        ('loads', b'{"loads": [{"num_reqs": "1"}]}', {}, r'\.num_reqs'),
        ('model_info', b'{"architectures": 3}', {}, r'at `\$.architectures'),
        ('server_info', b'[]', {}, 'Expected `object`, got `array`'),
        (
            'generate',
            json.dumps(GOOD['generate']).encode(),
            {'Content-Type': 'text/plain; charset=utf-99'},
            None,
        ),
        ('generate', b'\xff\xfe{', {}, 'is an SGLang server there'),
        ('generate', b'', {}, 'is an SGLang server there'),
        ('generate', b'junk', {'Content-Encoding': 'gzip'}, 'failed'),
        (
            'generate',
            gzip.compress(b' ' * 2**27),
            {'Content-Encoding': 'gzip'},
            'more than 64 MiB',
        ),
        ('generate', endless(), {}, 'more than 64 MiB'),
    ],
)
def test_a_body_that_breaks_readers_is_one_line(route, body, headers, said):
  found = with_liar(lambda l, s: ask(l, s, route, body, headers))
  if said is None:
    assert not isinstance(found, EngineError)
  else:
    with pytest.raises(EngineError, match=said):
      raise found


@pytest.mark.parametrize(
    'body', [DEEP.encode(), b'9' * 5000, b'\xff', b'{"error": {"message": 1}}']
)
def test_the_words_of_a_refusal_may_be_anything(body):
  found = with_liar(lambda l, s: ask(l, s, 'generate', body, status=400))
  assert 'gave 400: ' in str(found)


# In the place of a value, anywhere.
_WRONG = (
    *(
        None,
        True,
        False,
        'no',
        '',
        '50',
        50.7,
        -1,
        0,
        1e308,
        10**400,
        -(10**30),
    ),
    *(
        [],
        {},
        [[]],
        {'': None},
        [1, 2, 3],
        ['a'] * 5,
        '\ud800',
        '\0',
        'x' * 9999,
    ),
)


def mutated(reply, rng):
  """A body that has one or two faults, and headers."""
  whole, headers = [copy.deepcopy(reply)], {}
  for _ in range(rng.choice((1, 1, 2))):
    places = list(_places(whole)) or [(whole, 0)]
    container, key = rng.choice(places)
    kind = rng.randrange(4)
    if kind == 0 and isinstance(container, dict):
      del container[key]
    elif kind == 1 and isinstance(container, list):
      container.insert(key, copy.deepcopy(rng.choice(_WRONG)))
    else:
      container[key] = copy.deepcopy(rng.choice(_WRONG))
  body = bytearray(b','.join(json.dumps(x).encode() for x in whole))
  if not rng.randrange(4):
    for _ in range(rng.randrange(1, 6)):
      body[rng.randrange(len(body))] = rng.randrange(256)
  if not rng.randrange(8):
    del body[rng.randrange(len(body)) :]
  if not rng.randrange(8):
    headers['Content-Type'] = rng.choice(
        ('application/json; charset=klingon', 'text/html', 'x', 'a/b; charset=')
    )
  if not rng.randrange(16):
    headers['Content-Encoding'] = rng.choice(('gzip', 'deflate', 'none'))
  return bytes(body), headers


def _places(value):
  if isinstance(value, dict):
    keys = list(value)
  elif isinstance(value, list):
    keys = range(len(value))
  else:
    return
  for key in keys:
    yield value, key
    yield from _places(value[key])


def check_many(count, seed):
  """Asks of mutated replies; gives how many passed and were refused."""

  async def body(liar, sampler):
    rng = random.Random(seed)
    passed = refused = 0
    for number in range(count):
      # Half of them of completions, which are what is trained on.
      route = 'generate' if number % 2 else rng.choice(list(GOOD))
      reply, headers = mutated(GOOD[route], rng)
      status = 200 if rng.randrange(10) else rng.choice((400, 500, 503))
      found = await ask(liar, sampler, route, reply, headers, status)
      if isinstance(found, EngineError):
        refused += 1
        continue
      passed += 1
      if route == 'generate':
        assert 1 <= len(found.tokens) == len(found.logprobs) <= ASKED
        assert all(type(t) is int and 0 <= t < VOCAB for t in found.tokens)
        assert all(
            type(p) is float and math.isfinite(p) and p <= 1e-3
            for p in found.logprobs
        )
        assert type(found.prompt_tokens) is int
        # A deterministic engine reports none.
        assert type(found.cached_tokens) in (int, type(None))
        assert type(found.weight_version) is str
    return passed, refused

  return with_liar(body)


def test_mutated_replies_are_refused_or_harmless():
  passed, refused = check_many(500, seed=0)
  assert passed > 50 and refused > 150


@pytest.mark.slow
def test_many_more_mutated_replies_are_refused_or_harmless():
  passed, refused = check_many(20_000, seed=1)
  assert passed > 2000 and refused > 6000


def test_a_router_that_lies_is_refused():
  async def body(liar, sampler):
    reply = {'output_ids': [1], 'meta_info': {'id': 3}}
    liar.says = {'generate': (json.dumps(reply).encode(), {}, 200)}
    await router_check.check(sampler, vocab_size=VOCAB, lora=False)

  with pytest.raises(EngineError, match=r'got `int` - at `\$.meta_info.id`'):
    with_liar(body)
