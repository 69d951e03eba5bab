"""Tests for agentrl.inference.control, against a real server on loopback."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from agentrl.errors import EngineError
from agentrl.inference.compatibility import Needs
from agentrl.inference.control import ControlClient
from tests import fakes


def with_control(engines, body, **settings):
  """Runs `body(control)` against `engines`."""

  async def main():
    async with aiohttp.ClientSession() as session:
      for engine in engines:
        await engine.__aenter__()
      try:
        urls = [engine.url for engine in engines]
        return await asyncio.wait_for(
            body(ControlClient(session, urls, **settings)), 120
        )
      finally:
        for engine in engines:
          await engine.__aexit__()

  return asyncio.run(main())


def test_wait_ready_waits():
  answers = [web.Response(status=503), web.Response(status=503)]

  async def health(request):
    return answers.pop() if answers else web.Response()

  engine = fakes.FakeEngine(routes={'health': health})
  with_control([engine], lambda s: s.wait_ready(60))
  assert len(engine.calls) == 3


def test_a_paused_server_is_resumed_before_it_is_asked_for_health():
  paused = [True]

  async def health(request):
    return web.Response(status=503 if paused else 200)

  async def resume(request):
    paused.clear()
    return web.Response()

  routes = {'health': health, 'continue_generation': resume}
  engine = fakes.FakeEngine(routes=routes)
  with pytest.raises(EngineError, match='not ready within 0.3 s'):
    with_control([engine], lambda s: s.wait_ready(0.3))
  with_control([engine], lambda s: s.wait_ready(60, resume=True))


def test_a_server_that_may_not_be_resumed_is_told_at_once():
  async def forbidden(request):
    return web.Response(status=401, text='who are you?')

  engine = fakes.FakeEngine(routes={'continue_generation': forbidden})
  with pytest.raises(EngineError, match='check sampler.admin_key'):
    with_control([engine], lambda s: s.wait_ready(60, resume=True))


def test_weight_update_reaches_every_replica():
  routes = {
      'update_weights_from_disk': {'success': True, 'message': 'ok'},
      'pause_generation': {'status': 'ok'},
      'continue_generation': {'status': 'ok'},
  }
  engines = [fakes.FakeEngine(routes=routes) for _ in range(2)]

  async def body(sampler):
    await sampler.pause()
    await sampler.update_weights_from_disk('/weights/3', '3')
    await sampler.continue_()

  with_control(engines, body)
  for engine in engines:
    assert engine.calls == [
        ('pause_generation', {'mode': 'retract'}),
        (
            'update_weights_from_disk',
            {
                'model_path': '/weights/3',
                'weight_version': '3',
                'flush_cache': True,
            },
        ),
        ('continue_generation', {}),
    ]


def test_refused_weights_are_an_error():
  routes = {'update_weights_from_disk': {'success': False, 'message': 'shape'}}
  with pytest.raises(EngineError, match="did not take weights '3'.*shape"):
    with_control(
        [fakes.FakeEngine(routes=routes)],
        lambda s: s.update_weights_from_disk('/weights/3', '3'),
    )


def test_flush_asks_again_while_requests_run():
  answers = [web.Response(status=400, text='busy')]

  async def flush(request):
    return answers.pop() if answers else web.Response(text='flushed')

  engine = fakes.FakeEngine(routes={'flush_cache': flush})
  with_control([engine], lambda s: s.flush_cache())
  assert len(engine.calls) == 2


def test_flush_that_never_succeeds_is_an_error():
  routes = {'flush_cache': lambda _: busy()}

  async def busy():
    return web.Response(status=400, text='busy')

  with pytest.raises(EngineError, match='gave 400: busy'):
    with_control(
        [fakes.FakeEngine(routes=routes)],
        lambda s: s.flush_cache(timeout_s=0.3),
    )


@pytest.mark.parametrize('route', ['model_info', 'get_model_info'])
def test_model_info_knows_both_names(route):
  engine = fakes.FakeEngine(routes={route: {'weight_version': '4'}})
  info = with_control([engine], lambda s: s.model_info())
  assert info == {'weight_version': '4'}


def test_weights_are_read_back_by_name():
  engine = fakes.FakeEngine(routes={'get_weights_by_name': [[0.5, 1.5]]})
  rows = with_control(
      [engine], lambda s: s.get_weights_by_name('model.norm.weight')
  )
  assert rows == [[0.5, 1.5]]
  # In the body: SGLang refuses a query.
  body = {'name': 'model.norm.weight', 'truncate_size': 100}
  assert engine.calls == [('get_weights_by_name', body)]


def test_a_server_that_cannot_read_its_weights_by_name_says_none():
  answers = [
      ('Get parameter by name failed', 400), ('no such route', 404)
  ]  # fmt: skip

  async def weights(request):
    text, status = answers.pop(0)
    return web.json_response({'error': {'message': text}}, status=status)

  engine = fakes.FakeEngine(routes={'get_weights_by_name': weights})

  async def body(control):
    assert await control.get_weights_by_name('model.norm.weight') is None
    await control.get_weights_by_name('model.norm.weight')

  with pytest.raises(EngineError, match='no such route'):
    with_control([engine], body)


def needs(max_context=64):
  return Needs(
      max_context=max_context, vocab_size=32, architecture='LlamaForCausalLM'
  )


def server_of(vocab_size=32, **info):
  """A server that refuses a bias on ids that it does not know, as SGLang."""

  async def generate(request):
    params = (await request.json())['sampling_params']
    [token] = map(int, params['logit_bias'])
    if token >= vocab_size:
      return web.Response(status=400, text='logit_bias must has keys in')
    return fakes.generate_reply((1,))

  routes = {
      'server_info': {'version': '0.5.23', **info},
      'model_info': {'architectures': ['LlamaForCausalLM']},
  }
  return fakes.FakeEngine([generate] * 8, routes=routes)


def test_a_probe_asks_every_replica_and_names_the_one_that_will_not_do():
  engines = [server_of(context_length=length) for length in (100, 64)]
  infos = with_control(engines, lambda c: c.probe(needs()))
  assert [info['context_length'] for info in infos] == [100, 64]
  with pytest.raises(EngineError, match='64 tokens.*-length 71') as refused:
    with_control(engines, lambda c: c.probe(needs(65)))
  assert engines[1].url in str(refused.value)


@pytest.mark.parametrize('vocab_size', [31, 33])
def test_a_server_of_another_vocabulary_is_found_out_without_harm(vocab_size):
  engine = server_of(vocab_size)
  with pytest.raises(EngineError, match='does not have the 32 ids'):
    with_control([engine], lambda c: c.probe(needs()))
  assert all(body['input_ids'] == [0] for body in engine.requests)


def test_a_server_that_fails_is_not_said_to_have_another_vocabulary():
  engine = server_of()
  engine._script[0] = web.Response(status=500, text='broken')
  with pytest.raises(EngineError, match='gave 500: broken'):
    with_control([engine], lambda c: c.probe(needs()))


def test_checksums_of_all_ranks_are_read():
  ranks = [{'checksums': {'a': '1', 'b': '2'}}, {'checksums': {'a': '3'}}]
  engine = fakes.FakeEngine(routes={'weights_checker': {'ranks': ranks}})
  found = with_control([engine], lambda c: c.weight_checksums(['layers.0.']))
  assert found == {'a': ['1', '3'], 'b': ['2']}
  assert engine.calls[0][1] == {
      'action': 'checksum', 'skip_tensor_list': ['layers.0.']
  }  # fmt: skip
  engine = fakes.FakeEngine(routes={'weights_checker': {'success': True}})
  with pytest.raises(EngineError, match='missing required field `ranks`'):
    with_control([engine], lambda c: c.weight_checksums([]))


@pytest.mark.parametrize(
    'routes, count',
    [
        (
            {
                'loads': {
                    'loads': [
                        {'num_running_reqs': 2, 'num_waiting_reqs': 3},
                        {'num_running_reqs': 1, 'num_waiting_reqs': 0},
                    ]
                }
            },
            6,
        ),
        ({'get_load': [{'num_reqs': 4, 'num_waiting_reqs': 1}]}, 4),
    ],
)
def test_requests_are_counted_by_old_and_new_routes(routes, count):
  engine = fakes.FakeEngine(routes=routes)
  assert with_control([engine], lambda c: c.num_requests()) == count


def test_waiting_for_an_idle_server_ends_or_names_what_is_left():
  answers = [2, 1, 0]

  async def loads(request):
    left = answers.pop(0) if answers else 0
    return {'loads': [{'num_running_reqs': left, 'num_waiting_reqs': 0}]}

  engine = fakes.FakeEngine(routes={'loads': loads})
  with_control([engine], lambda c: c.wait_idle(60))
  assert not answers
  busy = {'loads': [{'num_running_reqs': 7, 'num_waiting_reqs': 0}]}
  engine = fakes.FakeEngine(routes={'loads': busy})
  with pytest.raises(EngineError, match="has 7 requests.*push='retract'"):
    with_control([engine], lambda c: c.wait_idle(0.2))


def test_a_routers_workers_are_listed():
  workers = {
      'workers': [{'id': 'a', 'url': 'http://h:1/'}, {'url': 'http://g'}]
  }
  engine = fakes.FakeEngine(routes={'workers': workers})
  assert with_control([engine], lambda c: c.workers()) == (
      'http://h:1',
      'http://g',
  )


@pytest.mark.parametrize(
    'answer, message',
    [
        ({'workers': []}, 'has no worker yet'),
        ({'error': 'what'}, 'is an SGLang router'),
        ([1], 'is an SGLang router'),
    ],
)
def test_no_router_and_no_worker_are_told_apart(answer, message):
  engine = fakes.FakeEngine(routes={'workers': answer})
  with pytest.raises(EngineError, match=message):
    with_control([engine], lambda c: c.workers())


def guarded(key, answer=None):
  """A handler that wants this key."""
  answer = answer or {'success': True, 'message': 'ok'}

  async def handle(request):
    if request.headers.get('Authorization') != f'Bearer {key}':
      return web.json_response({'error': 'Unauthorized'}, status=401)
    return answer

  return handle


def test_the_admin_key_opens_control_routes_and_only_those():
  routes = {
      'update_weights_from_disk': guarded('admin'),
      'get_weights_by_name': guarded('admin', web.json_response([0.5])),
      'pause_generation': guarded('admin'),
      'flush_cache': guarded('admin'),
      'model_info': guarded('key'),
  }

  async def body(control):
    await control.update_weights_from_disk('/w', '1')
    await control.one(control.urls[0]).pause()
    await control.get_weights_by_name('x')
    await control.flush_cache()
    await control.model_info()

  keys = dict(api_key='key', admin_key='admin')
  with_control([fakes.FakeEngine(routes=routes)], body, **keys)
  with pytest.raises(EngineError, match='401: Unauth.*check sampler.admin_key'):
    with_control([fakes.FakeEngine(routes=routes)], body, api_key='key')


def test_one_key_opens_everything_where_there_is_no_other():
  routes = {'pause_generation': guarded('key'), 'model_info': guarded('key')}

  async def body(control):
    await control.pause()
    await control.model_info()

  with_control([fakes.FakeEngine(routes=routes)], body, api_key='key')
