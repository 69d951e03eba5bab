"""Tests for the engine's control routes, over real connections on loopback."""

import asyncio
import json
import time

import jax
import numpy as np
import pytest

from agentrl.engine.core import EngineCore
from agentrl.weights import hf
from tests import tiny
from tests.engine.talking import GREEDY, LONG, once, talk
from tests.waiting import until


def test_flush_refuses_while_requests_run_and_can_wait(
    engine, slow_decode, prompt_of
):
  async def body(call):
    request = {'input_ids': prompt_of(8), 'sampling_params': LONG}
    running = asyncio.ensure_future(call('generate', request))
    await until(lambda: engine.stats()['num_running_reqs'])
    engine.call(EngineCore.pause, 'in_place')
    busy = await call('flush_cache', {})
    slow_decode.set()
    engine.call(EngineCore.resume)
    patient = await call('flush_cache?timeout=120', method='POST')
    await running
    again = await call('flush_cache')
    request['sampling_params'] = {'max_new_tokens': 1}
    return busy, patient, again, await call('generate', request)

  busy, patient, again, (_, reply) = talk(engine, body)
  assert [status for status, _ in (busy, patient, again)] == [400, 200, 200]
  assert reply['meta_info']['cached_tokens'] == 0


def test_abort_ends_running_and_queued_requests(
    make_engine, slow_decode, prompt_of
):
  del slow_decode
  engine = make_engine(max_running=1, slots=2)

  async def body(call):
    ask = lambda rid: asyncio.ensure_future(
        call(
            'generate',
            {
                'input_ids': prompt_of(8),
                'sampling_params': LONG,
                'rid': rid,
                'return_logprob': True,
            },
        )
    )
    first = ask('a')
    await until(lambda: engine.stats()['num_sampled_tokens'])
    engine.call(EngineCore.pause, 'in_place')
    second = ask('a-2')
    await until(lambda: engine.stats()['num_waiting_reqs'])
    nothing = await call('abort_request', {'rid': ''})
    unknown = await call('abort_request', {'rid': 'zzz'})
    prefix = await call('abort_request', {'rid': 'a-'})
    assert not first.done() and not second.done() and prefix == unknown
    # A known id takes along those that begin so.
    await call('abort_request', {'rid': 'a'})
    return nothing, unknown, await first, await second

  nothing, unknown, (code, running), (_, queued) = talk(engine, body)
  assert nothing == unknown == (200, '')
  assert code == 200
  for reply in (running, queued):
    reason = reply['meta_info']['finish_reason']
    assert reason['type'] == 'abort' and reason['status_code'] is None
    assert len(reply['meta_info']['output_token_logprobs']) == len(
        reply['output_ids']
    )
  assert running['output_ids'] and not queued['output_ids']


@pytest.mark.parametrize('mode', ['abort', 'retract', 'in_place'])
def test_pause_holds_and_continue_releases(engine, model, prompt_of, mode):
  request = {'input_ids': prompt_of(5), 'sampling_params': GREEDY}

  async def body(call):
    paused = await call('pause_generation', {'mode': mode})
    ready = await call('ready')
    held = asyncio.ensure_future(call('generate', request))
    await asyncio.sleep(0.1)
    assert not held.done()
    resumed = await call('continue_generation', {})
    return paused, ready, resumed, await held

  paused, ready, resumed, (_, reply) = talk(engine, body)
  assert paused[1]['status'] == resumed[1]['status'] == 'ok'
  assert ready[0] == 503
  assert reply['output_ids'] == model.greedy(prompt_of(5), 6)


def test_an_unknown_pause_mode_is_refused(engine):
  status, reply = once(engine, 'pause_generation', {'mode': 'nap'})
  assert status == 400 and 'retract' in reply['message']


@pytest.fixture
def saved(tmp_path, other_model):
  """The other model as a Hugging Face directory."""
  stacked = jax.device_get(
      tiny.stack_layers(other_model.params, other_model.config)
  )
  hf.save(tmp_path / 'other', other_model.config, stacked)
  return str(tmp_path / 'other')


def test_weights_come_from_disk(engine, other_model, saved, prompt_of):
  name = 'model.layers.1.mlp.down_proj.weight'
  request = {'input_ids': prompt_of(9), 'sampling_params': GREEDY}
  three = {'name': name, 'truncate_size': 3}

  async def body(call):
    before = await call('generate', request)
    update = await call(
        'update_weights_from_disk',
        {'model_path': saved, 'weight_version': '12'},
    )
    return (
        before,
        update,
        await call('generate', request),
        (await call('model_info'))[1],
        # With a GET too, what is asked for is in the body.
        (await call('get_weights_by_name', three, 'GET'))[1],
        (await call('get_weights_by_name', {'name': 'model.norm.weight'}))[1],
        # All but the last three, as of any list.
        (await call('get_weights_by_name', three | {'truncate_size': -3}))[1],
        await call('get_weights_by_name', {'name': 'nonsense'}),
        await call(f'get_weights_by_name?name={name}'),
    )

  _, update, (_, after), info, rows, norm, most, missing, query = talk(
      engine, body
  )
  assert update[0] == 200 and update[1]['success']
  assert after['output_ids'] == other_model.greedy(prompt_of(9), 6)
  assert after['meta_info']['weight_version'] == '12'
  assert after['meta_info']['cached_tokens'] == 0
  assert info['weight_version'] == '12' and info['model_path'] == saved
  kernel = other_model.params['layers_1']['mlp']['down']['kernel']
  np.testing.assert_allclose(rows, np.asarray(kernel)[:3], rtol=1e-6)
  assert len(norm) == 32
  np.testing.assert_allclose(most, np.asarray(kernel)[:-3], rtol=1e-6)
  assert query[0] == 400
  assert missing[0] == 400 and 'nonsense' in missing[1]['error']['message']


def test_bad_directories_leave_the_old_weights(
    engine, model, tmp_path, saved, prompt_of
):
  config = tmp_path / 'other' / 'config.json'
  shards = str(tmp_path / 'shards')
  stacked = jax.device_get(tiny.stack_layers(model.params, model.config))
  hf.save(shards, model.config, stacked, shard_bytes=10_000)
  *_, last = sorted((tmp_path / 'shards').glob('*.safetensors'))
  last.unlink()

  async def body(call):
    missing = await call(
        'update_weights_from_disk',
        {'model_path': str(tmp_path / 'none'), 'weight_version': '5'},
    )
    shape = json.loads(config.read_text()) | {'vocab_size': 98}
    config.write_text(json.dumps(shape))
    wrong = await call('update_weights_from_disk', {'model_path': saved})
    no_path = await call('update_weights_from_disk', {})
    torn = await call('update_weights_from_disk', {'model_path': shards})
    reply = await call(
        'generate', {'input_ids': prompt_of(4), 'sampling_params': GREEDY}
    )
    return missing, wrong, torn, no_path, reply

  missing, wrong, torn, no_path, (_, reply) = talk(engine, body)
  for status, answer in (missing, wrong, torn):
    assert status == 400 and answer['success'] is False
  assert 'none' in missing[1]['message']
  assert f"lacks '{last.name}'" in torn[1]['message']
  assert no_path[0] == 400
  assert reply['output_ids'] == model.greedy(prompt_of(4), 6)
  assert reply['meta_info']['weight_version'] == 'default'


def test_an_update_waits_for_what_runs_and_holds_what_comes(
    engine, slow_decode, saved, prompt_of
):
  async def body(call):
    ask = lambda: asyncio.ensure_future(
        call('generate', {'input_ids': prompt_of(8), 'sampling_params': LONG})
    )
    running = ask()
    await until(lambda: engine.stats()['num_sampled_tokens'])
    update = asyncio.ensure_future(
        call(
            'update_weights_from_disk',
            {'model_path': saved, 'weight_version': '1'},
        )
    )
    await until(lambda: engine._routes._weights_lock.closed)
    late = ask()
    slow_decode.set()
    return await running, await update, await late

  (_, running), (_, update), (_, late) = talk(engine, body)
  assert update['success']
  versions = lambda reply: [
      span['version'] for span in reply['meta_info']['weight_versions']
  ]
  assert versions(running) == ['default'] and versions(late) == ['1']


def test_an_update_while_frozen_is_done_at_once_and_says_what_it_kept(
    engine, slow_decode, saved, prompt_of
):
  async def body(call):
    running = asyncio.ensure_future(
        call('generate', {'input_ids': prompt_of(8), 'sampling_params': LONG})
    )
    await until(lambda: engine.stats()['num_sampled_tokens'])
    await call('pause_generation', {'mode': 'in_place'})
    update = lambda **more: call(
        'update_weights_from_disk', {'model_path': saved, **more}
    )
    flushed = await update(weight_version='1')
    kept = await update(weight_version='2', flush_cache=False)
    slow_decode.set()
    await call('continue_generation', {})
    return flushed, kept, await running

  flushed, kept, (_, reply) = talk(engine, body)
  assert flushed[0] == 400 and 'cache was not flushed' in flushed[1]['message']
  assert kept[0] == 200 and kept[1]['success']
  spans = [
      (span['version'], span['end'])
      for span in reply['meta_info']['weight_versions']
  ]
  assert [version for version, _ in spans] == ['default', '2']
  assert spans[-1][1] == 240


def test_a_version_can_be_named_anew(engine, slow_decode, prompt_of):
  async def body(call):
    ask = lambda: asyncio.ensure_future(
        call('generate', {'input_ids': prompt_of(8), 'sampling_params': LONG})
    )
    rename = lambda **body: call('update_weight_version', body)
    first = ask()
    await until(lambda: engine.stats()['num_sampled_tokens'])
    renamed = await rename(new_version='7')
    second = ask()
    await until(lambda: engine.stats()['num_running_reqs'])
    kept = await rename(new_version='8', abort_all_requests=False)
    slow_decode.set()
    refused = [
        await rename(),
        await rename(new_version=3),
        await rename(new_version='9', abort_all_requests='nobody'),
    ]
    return renamed, kept, await first, await second, refused

  renamed, kept, (_, first), (_, second), refused = talk(engine, body)
  assert renamed[0] == 200 and renamed[1].pop('message')
  assert renamed[1] == {'success': True, 'new_version': '7'}
  assert kept[1]['new_version'] == '8'
  # Running requests are aborted by default, and tell of both names if not.
  assert first['meta_info']['finish_reason']['type'] == 'abort'
  assert second['meta_info']['finish_reason']['type'] == 'length'
  spans = second['meta_info']['weight_versions']
  assert [span['version'] for span in spans] == ['7', '8']
  for status, reply in refused:
    assert status == 400 and reply['object'] == 'error'


def test_two_updates_at_once_never_mix(
    engine, model, other_model, saved, tmp_path, prompt_of
):
  stacked = jax.device_get(tiny.stack_layers(model.params, model.config))
  hf.save(tmp_path / 'own', model.config, stacked)
  own = str(tmp_path / 'own')
  ask = {'input_ids': prompt_of(9), 'sampling_params': GREEDY}
  expected = {saved: other_model, own: model}

  async def body(call):
    seen = []
    for round_ in range(4):
      if round_ == 2:  # from here on without the lock
        await call('pause_generation', {'mode': 'retract'})
      updates = [
          call('update_weights_from_disk', {
              'model_path': path, 'weight_version': path
          })
          for path in (saved, own)
      ]  # fmt: skip
      replies = await asyncio.gather(*updates)
      assert [reply['success'] for _, reply in replies] == [True, True]
      _, info = await call('model_info')
      if round_ == 3:
        await call('continue_generation', {})
      if round_ != 2:
        seen.append((info, (await call('generate', ask))[1]))
    return seen

  for info, reply in talk(engine, body):
    # Path, version and weights are of one and the same update.
    assert info['model_path'] == info['weight_version']
    assert reply['meta_info']['weight_version'] == info['model_path']
    model_now = expected[info['model_path']]
    assert reply['output_ids'] == model_now.greedy(prompt_of(9), 6)


def test_an_update_keeps_the_version_of_the_one_before_it(
    engine, saved, tmp_path, model, monkeypatch
):
  stacked = jax.device_get(tiny.stack_layers(model.params, model.config))
  hf.save(tmp_path / 'own', model.config, stacked)
  own, load = str(tmp_path / 'own'), hf.load

  def slow(path, **kwargs):
    time.sleep(0.3 if path == own else 0)  # so that it would end last
    return load(path, **kwargs)

  monkeypatch.setattr(hf, 'load', slow)

  async def body(call):
    update = lambda **body: call('update_weights_from_disk', body)
    await call('pause_generation', {'mode': 'retract'})  # no lock from here on
    await asyncio.gather(
        update(model_path=saved, weight_version='1'), update(model_path=own)
    )
    return await call('model_info')

  # Whichever came first; without a version of its own, an update keeps it.
  _, info = talk(engine, body)
  assert info['weight_version'] == '1'


@pytest.mark.parametrize(
    'route, payload',
    [
        ('update_weights_from_disk', {}),
        ('get_weights_by_name', {}),
        ('get_weights_by_name', {'name': 'x', 'truncate_size': 'all'}),
        ('pause_generation', [1]),
        ('pause_generation', {'mode': None}),
        ('abort_request', {'rid': 5}),
        ('abort_request', {'abort_all': 'x'}),
        ('update_weight_version', {'new_version': 5}),
        ('continue_generation', {'torch_empty_cache': 'x'}),
        ('flush_cache?timeout=soon', {}),
        ('flush_cache?timeout=-1', {}),
    ],
)
def test_a_control_body_that_breaks_its_schema_is_refused(
    engine, route, payload
):
  status, reply = once(engine, route, payload)
  assert status == 400
  assert reply.pop('message')
  assert reply == {
      'object': 'error',
      'type': 'Bad Request',
      'param': None,
      'code': 400,
  }


def test_a_number_of_rows_without_end_is_refused(engine):
  body = b'{"name": "lm_head.weight", "truncate_size": 1e999}'
  status, reply = once(engine, 'get_weights_by_name', data=body)
  assert status == 400 and 'out of range' in reply['message']
