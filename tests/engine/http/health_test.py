"""Tests for probes, metrics and limits of the engine's HTTP server."""

import asyncio
import threading
import urllib.error
import urllib.request

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentrl.engine.core import EngineCore
from agentrl.engine.http import routes
from agentrl.engine.model_runner import ModelRunner
from tests.engine.talking import JSON, LONG, PATIENCE_S, once, talk
from tests.waiting import until

ASK = {'input_ids': [1, 2, 3], 'sampling_params': {'max_new_tokens': 4}}


def test_probes_tell_a_pause_from_a_death(make_engine):
  engine = make_engine()
  names = ('health', 'health_generate', 'ready', 'ping')

  async def body(call):
    async def probe():
      return [(await call(name))[0] for name in names]

    alive = await probe()
    await call('pause_generation', {'mode': 'in_place'})
    paused = await probe()
    await call('continue_generation', {})
    engine._scheduler.stop()
    return alive, paused, await probe()

  alive, paused, dead = talk(engine, body)
  assert alive == [200] * 4
  assert paused == [200, 503, 503, 200]  # no token can be sampled
  assert dead == [503] * 4


def test_the_health_check_samples_a_token_when_idle(engine):
  before = engine.stats()['num_sampled_tokens']
  assert once(engine, 'health_generate')[0] == 200
  assert engine.stats()['num_sampled_tokens'] == before + 1


def test_the_health_check_fails_with_the_model(engine, monkeypatch):
  def fails(*args, **kwargs):
    raise RuntimeError('the device is gone')

  assert once(engine, 'health_generate')[0] == 200
  monkeypatch.setattr(ModelRunner, 'decode', fails)
  assert once(engine, 'health')[0] == 200  # the flags alone know nothing
  assert once(engine, 'health_generate')[0] == 503


def test_the_health_check_gives_up_on_a_dispatch_that_hangs(
    engine, monkeypatch
):
  hangs, ends, decode = threading.Event(), threading.Event(), ModelRunner.decode

  def hang(*args, **kwargs):
    hangs.set()
    assert ends.wait(PATIENCE_S)
    return decode(*args, **kwargs)

  monkeypatch.setattr(ModelRunner, 'decode', hang)
  monkeypatch.setattr(routes, '_HEALTH_S', 0.2)

  async def body(call):
    try:
      idle = await call('health_generate')
      # Its sample hangs; the next check finds the device busy with that.
      await until(hangs.is_set)
      return idle, await call('health_generate')
    finally:
      ends.set()

  (idle, _), (busy, _) = talk(engine, body)
  assert idle == busy == 503


def test_health_checks_leave_the_prefixes_of_episodes_alone(make_engine):
  engine = make_engine(max_running=1, slots=3)

  async def body(call):
    for first in (10, 20):
      await call('generate', ASK | {'input_ids': [first, 1, 2, 3, 4, 5]})
    for _ in range(12):
      assert (await call('health_generate'))[0] == 200
    replies = [
        await call('generate', ASK | {'input_ids': [first, 1, 2, 3, 4, 5, 6]})
        for first in (10, 20)
    ]
    return [reply['meta_info']['cached_tokens'] for _, reply in replies]

  assert all(cached >= 5 for cached in talk(engine, body))


def metrics(engine):
  status, text = once(engine, 'metrics')
  assert status == 200
  return {
      (sample.name, sample.labels.get('status')): sample.value
      for family in text_string_to_metric_families(text)
      for sample in family.samples
      if 'le' not in sample.labels
  }


def test_metrics_count_what_happened(engine):
  async def body(call):
    for _ in range(2):
      await call('generate', ASK)
    await call('generate', {'input_ids': [97]})
    await call('no_such_route')
    await call('pause_generation', {'mode': 'in_place'})
    waiting = asyncio.ensure_future(call('generate', ASK))
    await until(lambda: engine.stats()['num_waiting_reqs'])
    _, load = await call('metrics')
    await call('abort_request', {'abort_all': True})
    await waiting
    return load

  text = talk(engine, body)
  assert 'sglang:num_queue_reqs{model_name="random"} 1.0' in text
  engine.update_params(engine.params, '2')
  counts = metrics(engine)
  value = lambda name, status=None: counts[name, status]
  assert value('sglang:num_requests_total') == 3
  assert value('sglang:num_aborted_requests_total') == 1
  assert value('sglang:generation_tokens_total') == 8
  assert value('sglang:prompt_tokens_total') == 6
  assert value('sglang:cached_tokens_total') == 2  # the last is recomputed
  assert value('sglang:e2e_request_latency_seconds_count') == 2
  assert value('sglang:time_to_first_token_seconds_count') == 2
  whole = value('sglang:e2e_request_latency_seconds_sum')
  assert 0 < value('sglang:time_to_first_token_seconds_sum') <= whole
  assert value('agentrl_engine_refusals_total', '400') == 1
  assert value('agentrl_engine_refusals_total', '404') == 1
  assert value('agentrl_engine_weight_swaps_total') == 1
  assert value('agentrl_engine_resident_bytes') > 1e7
  assert value('sglang:num_running_reqs') == 0


def test_a_body_over_the_limit_is_refused_with_its_reason(make_engine):
  engine = make_engine(max_body=2**20)

  async def body(call):
    large = await call('generate', {'input_ids': [1] * 5_000_000})
    return large, await call('generate', ASK)

  (status, reply), (after, _) = talk(engine, body)
  assert status == reply['code'] == 413
  assert '1048576 bytes' in reply['message'] and 'max_body' in reply['message']
  assert after == 200


def test_ten_megabytes_under_the_limit_are_read_and_refused(engine):
  status, reply = once(engine, 'generate', {'input_ids': [1] * 3_500_000})
  assert status == 400
  assert '3500000 tokens' in reply['error']['message']


def test_a_deep_body_is_no_crash(engine):
  data = b'[' * 100_000
  status, reply = once(engine, 'generate', data=data, method='POST')
  assert status == 400 and 'not JSON' in reply['message']


def test_ten_thousand_requests_wait_and_one_more_is_told_when_to_come(
    make_engine,
):
  engine = make_engine(max_queued=10_000)
  before = psutil.Process().memory_info().rss
  many = {'input_ids': [[1]] * 10_000, 'rid': 'many', 'sampling_params': LONG}

  async def body(call):
    await call('pause_generation', {'mode': 'in_place'})
    waiting = asyncio.ensure_future(call('generate', many))
    await until(lambda: engine.stats()['num_waiting_reqs'] == 10_000)
    grown = psutil.Process().memory_info().rss - before
    assert grown < 100e6  # three times what it takes, the client included
    refused = await call('generate', ASK)
    await call('abort_request', {'abort_all': True})
    await call('continue_generation', {})
    return await waiting, refused, await call('generate', ASK)

  (status, replies), (full, refusal), (after, _) = talk(engine, body)
  assert status == 200 and len(replies) == 10_000
  assert {r['meta_info']['finish_reason']['type'] for r in replies} == {'abort'}
  assert full == 503 and '10000 requests wait' in refusal['error']['message']
  assert after == 200


def test_a_full_queue_names_a_time_to_come_back(make_engine, ask):
  engine = make_engine(max_queued=1)
  engine.call(EngineCore.pause, 'in_place')
  ask(engine, [1])
  request = urllib.request.Request(
      f'{engine.url}/generate',
      data=b'{"input_ids": [1]}',
      headers=JSON,
      method='POST',
  )
  with pytest.raises(urllib.error.HTTPError) as refused:
    urllib.request.urlopen(request, timeout=PATIENCE_S)
  assert refused.value.code == 503
  assert refused.value.headers['Retry-After'] == '1'


def test_a_call_that_does_not_fit_takes_no_place_in_the_queue(make_engine, ask):
  engine = make_engine(max_queued=4)
  engine.call(EngineCore.pause, 'in_place')
  ask(engine, [1]), ask(engine, [2])

  async def body(call):
    many = lambda n, **more: call('generate', {'input_ids': [[1]] * n, **more})
    return [
        await many(3),
        await many(3, stream=True),
        await many(5),
        await many(5, stream=True),
        engine.stats()['num_waiting_reqs'],
    ]

  *replies, waiting = talk(engine, body)
  # A stream tells a refused value in an event.
  assert [status for status, _ in replies] == [503, 503, 400, 200]
  assert all('send fewer at a time' in str(reply) for _, reply in replies[2:])
  assert waiting == 2  # once, the whole queue, until each was aborted singly
