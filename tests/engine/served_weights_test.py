"""Tests for agentrl.engine.served_weights: adapters of an engine, over HTTP."""

import asyncio

import aiohttp
import jax
import numpy as np
import pytest

from agentrl.engine.core import EngineCore
from agentrl.models import lora as lora_lib, transformer
from agentrl.models.lora import Base, Lora
from agentrl.weights import names, peft
from tests import tiny
from tests.engine.conftest import CONFIG, Model
from tests.engine.talking import Letters
from tests.waiting import until

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope='module')
def adapters(tmp_path_factory):
  """Two adapters: their directories and what they are."""
  shapes = names.shapes(CONFIG, np.float32)
  made = {}
  for seed, lora in enumerate(
      (Lora(rank=2, alpha=4.0), Lora(rank=3, targets=('v', 'down')))
  ):
    rng = np.random.default_rng(seed)
    adapter = jax.tree.map(
        lambda x, rng=rng: rng.normal(0, 0.3, x.shape).astype(np.float32),
        jax.eval_shape(
            lambda key, lora=lora: lora_lib.init(lora, shapes, key),
            jax.random.key(0),
        ),
    )
    path = tmp_path_factory.mktemp('adapters') / 'x'
    peft.save_adapter(path, CONFIG, adapter, lora, base='random')
    made['ab'[seed]] = str(path), adapter, lora
  return made


@pytest.fixture(scope='module')
def expected(model, adapters):
  """What the reference network says with each adapter, greedily."""
  params = tiny.stack_layers(model.params, model.config)
  said = {None: model.greedy(PROMPT, 12)}
  for name, (_, adapter, lora) in adapters.items():
    merged = lora_lib.merge(adapter, Base(params, lora.scale))
    merged = Model(transformer.unstack_layers(merged))
    said[name] = merged.greedy(PROMPT, 12)
  return said


def talk(url, body):
  """Runs `body(post)`, where `post(route, **fields)` gives status and JSON."""

  async def main():
    async with aiohttp.ClientSession() as session:

      async def post(route, **fields):
        async with session.post(f'{url}/{route}', json=fields) as reply:
          return reply.status, await reply.json()

      return await asyncio.wait_for(body(post), 300)

  return asyncio.run(main())


def greedy(count, **fields):
  params = {'max_new_tokens': count, 'temperature': 0.0}
  return dict(input_ids=PROMPT, sampling_params=params, **fields)


def load(post, name, made):
  return post('load_lora_adapter', lora_name=name, lora_path=made[0])


def test_each_request_is_answered_by_the_adapter_it_names(
    engine, adapters, expected
):
  async def body(post):
    for name in 'ab':
      status, reply = await load(post, name, adapters[name])
      assert status == 200 and reply['success'], reply
    assert reply['loaded_adapters'] == {n: adapters[n][0] for n in 'ab'}
    # All at once, and in one body: who needs other weights waits, and the
    # cache of one is of no use to another.
    one = [post('generate', **greedy(12, lora_path=n)) for n in (*'abab', None)]
    lists = greedy(12) | dict(
        input_ids=[PROMPT] * 3, lora_path=['b', None, 'a']
    )
    return await asyncio.gather(*one, post('generate', **lists))

  *ones, (_, many) = talk(engine.url, body)
  assert len(set(map(tuple, expected.values()))) == 3
  for name, (status, reply) in zip((*'abab', None), ones, strict=True):
    assert status == 200 and reply['output_ids'] == expected[name]
    # As SGLang: the version is that of the weights beneath.
    assert reply['meta_info']['weight_version'] == 'default'
  for name, reply in zip(('b', None, 'a'), many, strict=True):
    assert reply['output_ids'] == expected[name]


def test_openais_clients_name_an_adapter_after_the_model(
    make_engine, adapters, expected
):
  engine = make_engine(Letters(), served_name='my:policy')

  async def body(post):
    await load(post, 'a', adapters['a'])
    fields = dict(prompt=PROMPT, max_tokens=12, temperature=0)
    return [
        await post(
            'v1/completions', model=name, return_token_ids=True, **fields
        )
        for name in ('my:policy:a', 'other:a', 'my:policy', 'any', 'any:b')
    ]

  *served, (status, refused) = talk(engine.url, body)
  for name, (_, reply) in zip(('a', 'a', None, None), served, strict=True):
    assert reply['choices'][0]['token_ids'] == expected[name]
  assert status == 400 and "'b' is not loaded" in refused['message']


def test_a_listed_adapter_is_a_model_of_its_own(
    make_engine, adapters, expected
):
  engine = make_engine(Letters(), served_name='policy')

  async def body(post):
    await load(post, 'a', adapters['a'])
    reply = await post(
        'v1/completions',
        model='a',
        return_token_ids=True,
        **dict(prompt=PROMPT, max_tokens=12, temperature=0),
    )
    cards = []
    async with aiohttp.ClientSession() as session:
      for path in ('', '/policy', '/a', '/b'):
        async with session.get(f'{engine.url}/v1/models{path}') as found:
          cards.append((found.status, await found.json()))
    return reply, cards

  (_, reply), [(_, listed), policy, adapter, missing] = talk(engine.url, body)
  assert reply['model'] == 'a'
  assert reply['choices'][0]['token_ids'] == expected['a']
  assert listed['data'] == [policy[1], adapter[1]]
  assert (adapter[1]['id'], adapter[1]['parent']) == ('a', 'policy')
  assert missing[0] == 404


def test_an_adapter_in_use_is_unloaded_when_its_requests_have_ended(
    engine, adapters, expected
):
  async def body(post):
    await load(post, 'a', adapters['a'])
    # So that the first request cannot end.
    engine.call(EngineCore.pause, 'in_place')
    first = asyncio.create_task(post('generate', **greedy(12, lora_path='a')))
    await until(lambda: engine.stats()['num_waiting_reqs'])
    unload = asyncio.create_task(post('unload_lora_adapter', lora_name='a'))
    await until(lambda: 'a' in engine._scheduler.core.weights._leaving)
    late = await post('generate', **greedy(4, lora_path='a'))
    done = unload.done()
    engine.call(EngineCore.resume)
    _, reply = await first
    status, unloaded = await unload
    again = await load(post, 'a', adapters['b'])
    other = await post('generate', **greedy(12, lora_path='a'))
    return late, done, reply, (status, unloaded), again, other

  late, done, reply, unloaded, again, other = talk(engine.url, body)
  assert late[0] == 400 and "'a' is not loaded" in late[1]['error']['message']
  assert not done and reply['output_ids'] == expected['a']
  assert unloaded == (
      200,
      dict(success=True, error_message=None, loaded_adapters={}),
  )
  # Under a name that another had before: nothing of that one is left.
  assert again[0] == 200
  assert other[1]['output_ids'] == expected['b']


def test_what_cannot_be_done_is_refused_and_changes_nothing(
    engine, adapters, expected, tmp_path
):
  async def body(post):
    assert (await load(post, 'a', adapters['a']))[0] == 200
    refused = [
        await load(post, 'a', adapters['b']),
        await post('load_lora_adapter', lora_name='b', lora_path=str(tmp_path)),
        await post('load_lora_adapter', lora_name='b'),
        await post('unload_lora_adapter', lora_name='b'),
        await post('generate', **greedy(4, lora_path='b')),
        await post('generate', **greedy(4, lora_path=7)),
    ]
    return refused, await post('generate', **greedy(12, lora_path='a'))

  refused, (_, reply) = talk(engine.url, body)
  for (status, answer), message in zip(
      refused,
      (
          'loaded already',
          'adapter_config.json',
          'needs a lora_path',
          "'b' is not loaded",
          "'b' is not loaded; loaded: a",
          'lora_path must be str',
      ),
      strict=True,
  ):
    assert status == 400 and message in str(answer), answer
  assert reply['output_ids'] == expected['a']


def test_new_weights_are_refused_while_an_adapter_of_the_old_is_loaded(
    engine, other_model, adapters
):
  talk(engine.url, lambda post: load(post, 'a', adapters['a']))
  with pytest.raises(Exception, match='loaded: a. Unload them first'):
    engine.update_params(other_model.params, '7')
  unload = lambda post: post('unload_lora_adapter', lora_name='a')
  assert talk(engine.url, unload)[0] == 200
  engine.update_params(other_model.params, '7')


def test_requests_with_adapters_follow_the_contract(contract):
  for name in ('a', ['a', None]):
    body = {'input_ids': [[1], [2]], 'lora_path': name}
    found = contract.GenerateRequest.from_json_value(body)
    assert found.lora_path is not None
