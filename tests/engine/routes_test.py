"""Tests for the engine's HTTP routes, over real connections on loopback."""

import asyncio
import json
import re

import aiohttp
import jax
import numpy as np
import pytest

from agentrl.engine.server import Engine
from agentrl.errors import EngineError
from agentrl.models import transformer
from agentrl.weights import hf


def talk(engine, body):
  """Runs `body(call)`; `call(route, payload)` gives (status, decoded body)."""

  async def main():
    async with aiohttp.ClientSession() as session:

      async def call(route, payload=None, method=None, data=None):
        request = session.request(
            method or ('GET' if payload is None and data is None else 'POST'),
            f'{engine.url}/{route}',
            json=payload,
            data=data,
        )
        async with request as response:
          text = await response.text()
          try:
            return response.status, json.loads(text)
          except ValueError:
            return response.status, text

      return await asyncio.wait_for(body(call), 60)

  return asyncio.run(main())


def once(engine, route, payload=None, **kwargs):
  return talk(engine, lambda call: call(route, payload, **kwargs))


async def until(condition):
  while True:
    if condition():
      return
    await asyncio.sleep(0.005)


GREEDY = {'temperature': 0, 'max_new_tokens': 6}
LONG = {'max_new_tokens': 240}


class Letters:
  """A tokenizer of one character an id; id 0 is its control token `$`."""

  eos_ids = (0,)

  def encode(self, text, *, allow_special=False):
    assert allow_special, 'a prompt may have control tokens'
    return [0 if c == '$' else ord(c) - 31 for c in text]

  def decode(self, ids, *, skip_special=True):
    text = ''.join('$' if i == 0 else chr(31 + i) for i in ids)
    return text.replace('$', '') if skip_special else text


@pytest.mark.parametrize('method', ['POST', 'PUT'])
def test_generate_answers_one_prompt(engine, model, prompt_of, method):
  prompt = prompt_of(10)
  status, reply = once(
      engine,
      'generate',
      {
          'input_ids': prompt,
          'sampling_params': GREEDY,
          'return_logprob': True,
          'rid': 'mine',
          'return_prompt_token_ids': True,
          'a_key_of_the_future': 1,
      },
      method=method,
  )
  assert status == 200
  assert reply['output_ids'] == model.greedy(prompt, 6)
  assert reply['prompt_token_ids'] == prompt
  assert 'text' not in reply  # no tokenizer
  meta = reply['meta_info']
  triples = meta.pop('output_token_logprobs')
  assert [[token, text] for _, token, text in triples] == [
      [token, None] for token in reply['output_ids']
  ]
  assert all(logprob <= 0 for logprob, _, _ in triples)
  assert meta.pop('e2e_latency') > 0
  assert meta == {
      'id': 'mine',
      'finish_reason': {'type': 'length', 'length': 6},
      'prompt_tokens': 10,
      'completion_tokens': 6,
      'cached_tokens': 0,
      'reasoning_tokens': 0,
      'num_retractions': 0,
      'weight_version': 'default',
      'weight_versions': [{'version': 'default', 'start': 0, 'end': 6}],
      'output_token_logprobs_length': 6,
      'input_token_logprobs': [],
  }


def test_input_logprobs_come_with_their_ids(engine, model, prompt_of):
  prompt = prompt_of(9)
  _, reply = once(
      engine,
      'generate',
      {
          'input_ids': prompt,
          'sampling_params': {'max_new_tokens': 0},
          'return_logprob': True,
          'logprob_start_len': 0,
      },
  )
  triples = reply['meta_info']['input_token_logprobs']
  assert [token for _, token, _ in triples] == prompt
  assert triples[0][0] is None
  table = model.logprobs(prompt)
  np.testing.assert_allclose(
      [logprob for logprob, _, _ in triples[1:]],
      [table[t - 1, prompt[t]] for t in range(1, 9)],
      atol=1e-5,
  )


def test_batches_and_copies_answer_in_order(engine, model, prompt_of):
  prompts = [prompt_of(size, seed=size) for size in (12, 3, 7)]
  _, replies = once(
      engine,
      'generate',
      {'input_ids': prompts, 'sampling_params': GREEDY, 'rid': 'b'},
  )
  assert [r['output_ids'] for r in replies] == [
      model.greedy(p, 6) for p in prompts
  ]
  assert [r['meta_info']['id'] for r in replies] == ['b_0', 'b_1', 'b_2']

  params = [{'n': 2, 'max_new_tokens': i, 'sampling_seed': 3} for i in (4, 8)]
  _, replies = once(
      engine,
      'generate',
      {'input_ids': prompts[:2], 'sampling_params': params},
  )
  sizes = [r['meta_info']['completion_tokens'] for r in replies]
  assert sizes == [4, 4, 8, 8]
  # One seed, and yet the copies differ; the first is that of n=1.
  assert replies[2]['output_ids'] != replies[3]['output_ids']
  params = {'max_new_tokens': 8, 'sampling_seed': 3}
  _, alone = once(
      engine, 'generate', {'input_ids': prompts[1], 'sampling_params': params}
  )
  assert alone['output_ids'] == replies[2]['output_ids']


def test_text_goes_in_and_comes_out(make_engine, model):
  engine = make_engine(Letters())
  params = GREEDY | {'ignore_eos': True, 'max_new_tokens': 40}
  _, reply = once(
      engine, 'generate', {'text': 'abc$', 'sampling_params': params}
  )
  ids = Letters().encode('abc$', allow_special=True)
  assert reply['output_ids'] == model.greedy(ids, 40)
  assert reply['meta_info']['prompt_tokens'] == 4
  assert reply['text'] == Letters().decode(reply['output_ids'])
  _, replies = once(
      engine, 'generate', {'text': ['abc$', 'd'], 'sampling_params': params}
  )
  assert replies[0]['text'] == reply['text'] and len(replies) == 2


def test_the_stop_id_is_in_the_ids_and_not_in_the_text(make_engine):
  engine = make_engine(Letters())
  request = {
      'text': 'abc',
      'sampling_params': {'max_new_tokens': 50, 'sampling_seed': 2},
  }
  _, full = once(engine, 'generate', request)
  stop = full['output_ids'][7]
  size = full['output_ids'].index(stop) + 1
  request['sampling_params']['stop_token_ids'] = [stop]
  _, cut = once(engine, 'generate', request)
  assert cut['output_ids'] == full['output_ids'][:size]
  assert cut['text'] == Letters().decode(full['output_ids'][: size - 1])
  assert cut['meta_info']['finish_reason'] == {'type': 'stop', 'matched': stop}
  request['sampling_params']['no_stop_trim'] = True
  _, kept = once(engine, 'generate', request)
  assert kept['text'] == Letters().decode(cut['output_ids'])


def test_a_stop_string_ends_the_text_before_it(make_engine):
  engine = make_engine(Letters())
  request = {
      'text': 'abc',
      'sampling_params': {
          'max_new_tokens': 100,
          'sampling_seed': 1,
          'ignore_eos': True,
      },
  }
  _, full = once(engine, 'generate', request)
  stop = full['text'][60:62]
  request['sampling_params']['stop'] = ['never', stop]
  _, cut = once(engine, 'generate', request)
  size = len(cut['output_ids'])
  assert cut['meta_info']['finish_reason'] == {'type': 'stop', 'matched': stop}
  assert cut['output_ids'] == full['output_ids'][:size]
  assert cut['text'] == full['text'][: full['text'].index(stop)]
  # The last token was needed: without it the stop string is not there.
  assert stop not in Letters().decode(cut['output_ids'][:-1])
  request['sampling_params']['no_stop_trim'] = True
  _, kept = once(engine, 'generate', request)
  assert kept['text'] == cut['text'] + stop


REFUSALS = [
    # A plain text: the schema's gate. An object: a value that is refused.
    ({'input_ids': [1], 'sampling_params': {'seed': 1}}, 'gate', "'seed'"),
    ({'input_ids': 'abc'}, 'gate', 'list'),
    ({'input_ids': [1, 'a']}, 'gate', 'integers'),
    ({'input_ids': [1, True]}, 'gate', 'integers'),
    ({'input_ids': [1], 'sampling_params': {'top_k': 1.5}}, 'gate', 'int'),
    ([1, 2], 'gate', 'object'),
    ({}, 'value', 'exactly one of text and input_ids'),
    ({'input_ids': [1], 'text': 'a'}, 'value', 'exactly one'),
    ({'text': 'abc'}, 'value', 'no tokenizer'),
    ({'input_ids': []}, 'value', 'empty'),
    ({'input_ids': [[1], []]}, 'value', 'empty'),
    ({'input_ids': [1, 97]}, 'value', '97 is outside the vocabulary of 97'),
    ({'input_ids': [-1]}, 'value', '-1 is outside'),
    ({'input_ids': [1] * 256}, 'value', '256 tokens does not leave room'),
    (
        {'input_ids': [1] * 200, 'sampling_params': {'max_new_tokens': 57}},
        'value',
        '257 tokens: 200 of the prompt and max_new_tokens=57.* 256',
    ),
    ({'input_ids': [1], 'sampling_params': {'top_p': 0}}, 'value', 'top_p'),
    ({'input_ids': [1], 'sampling_params': {'top_k': 0}}, 'value', 'top_k'),
    (
        {'input_ids': [1], 'sampling_params': {'temperature': -1}},
        'value',
        'temperature',
    ),
    ({'input_ids': [1], 'sampling_params': {'n': 0}}, 'value', 'n must'),
    (
        {'input_ids': [1], 'sampling_params': {'stop': 'a'}},
        'value',
        'tokenizer',
    ),
    ({'input_ids': [1], 'stream': True}, 'value', 'stream is not supported'),
    (
        {'input_ids': [1], 'sampling_params': {'regex': 'a+'}},
        'value',
        'regex is not supported',
    ),
    ({'input_ids': [[1], [2]], 'rid': ['a', 'a']}, 'value', 'distinct'),
    ({'input_ids': [[1], [2]], 'rid': ['a']}, 'value', '1 entries for 2'),
    (
        {'input_ids': [1, 2], 'return_logprob': True, 'logprob_start_len': 3},
        'value',
        'logprob_start_len',
    ),
]


def test_bad_requests_are_refused_with_their_reason(engine):
  async def body(call):
    return [await call('generate', payload) for payload, _, _ in REFUSALS]

  for (payload, kind, reason), (status, reply) in zip(
      REFUSALS, talk(engine, body), strict=True
  ):
    assert status == 400, payload
    error = reply['error']
    assert isinstance(error, str if kind == 'gate' else dict), payload
    message = error if kind == 'gate' else error['message']
    assert re.search(reason, message), (payload, message)


def test_null_means_the_default(engine):
  nulls = {'temperature': None, 'stop': None, 'regex': None, 'n': None}
  status, reply = once(
      engine,
      'generate',
      {
          'input_ids': [1],
          'sampling_params': nulls | {'max_new_tokens': 2},
          'rid': None,
          'stream': None,
      },
  )
  assert status == 200 and len(reply['output_ids']) == 2


@pytest.mark.parametrize('data', [b'{', b'{"input_ids": [NaN]}', b'\xff{}'])
def test_a_body_that_is_not_json_is_refused(engine, data):
  status, reply = once(engine, 'generate', data=data, method='POST')
  assert status == 400 and 'not JSON' in reply['error']['message']


def test_unknown_routes_and_methods_answer_in_json(engine):
  status, reply = once(engine, 'v1/chat/completions', {})
  assert status == reply['code'] == 404
  status, reply = once(engine, 'generate')
  assert status == reply['code'] == 405


def test_information_routes_tell_the_state(engine):
  async def body(call):
    await call(
        'generate',
        {'input_ids': [1, 2], 'sampling_params': {'max_new_tokens': 2}},
    )
    names = ('model_info', 'get_model_info', 'server_info', 'get_server_info')
    return (
        [await call(name) for name in ('health', 'health_generate', 'ready')],
        [(await call(name))[1] for name in names],
        (await call('v1/loads?include=core'))[1],
    )

  healths, (model, old_model, server, old_server), loads = talk(engine, body)
  assert [status for status, _ in healths] == [200] * 3
  assert model == old_model
  assert (
      model['model_path'] == 'random' and model['weight_version'] == 'default'
  )
  assert (
      server['max_running_requests'] == old_server['max_running_requests'] == 8
  )
  load = loads['loads'][0]
  assert load['num_running_reqs'] == load['num_waiting_reqs'] == 0
  assert load['num_used_tokens'] == 3  # of four, the last is not computed


def test_flush_refuses_while_requests_run_and_can_wait(engine, prompt_of):
  async def body(call):
    request = {'input_ids': prompt_of(8), 'sampling_params': LONG}
    running = asyncio.ensure_future(call('generate', request))
    await until(lambda: engine.stats()['num_running_reqs'])
    engine.pause('in_place')
    busy = await call('flush_cache', {})
    engine.resume()
    patient = await call('flush_cache?timeout=30', method='POST')
    await running
    again = await call('flush_cache')
    request['sampling_params'] = {'max_new_tokens': 1}
    return busy, patient, again, await call('generate', request)

  busy, patient, again, (_, reply) = talk(engine, body)
  assert [status for status, _ in (busy, patient, again)] == [400, 200, 200]
  assert reply['meta_info']['cached_tokens'] == 0


def test_abort_ends_running_and_queued_requests(make_engine, prompt_of):
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
    first = ask('a-1')
    await until(lambda: engine.stats()['num_sampled_tokens'])
    engine.pause('in_place')
    second = ask('a-2')
    await until(lambda: engine.stats()['num_waiting_reqs'])
    nothing = await call('abort_request', {'rid': ''})
    unknown = await call('abort_request', {'rid': 'zzz'})
    assert not first.done() and not second.done()
    await call('abort_request', {'rid': 'a-'})
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


def test_a_client_that_leaves_takes_its_request_along(engine, prompt_of):
  async def body(call):
    engine.pause('in_place')
    payload = {'input_ids': prompt_of(5), 'sampling_params': LONG}
    request = asyncio.ensure_future(call('generate', payload))
    await until(lambda: engine.stats()['num_waiting_reqs'])
    request.cancel()
    await until(lambda: not engine.stats()['num_waiting_reqs'])

  talk(engine, body)


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
  assert status == 400 and 'retract' in reply['error']['message']


@pytest.fixture
def saved(tmp_path, other_model):
  """The other model as a Hugging Face directory."""
  stacked = jax.device_get(transformer.stack_layers(other_model.params))
  hf.save(tmp_path / 'other', other_model.config, stacked)
  return str(tmp_path / 'other')


def test_weights_come_from_disk(engine, other_model, saved, prompt_of):
  name = 'model.layers.1.mlp.down_proj.weight'
  request = {'input_ids': prompt_of(9), 'sampling_params': GREEDY}

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
        (await call(f'get_weights_by_name?name={name}&truncate_size=3'))[1],
        (await call('get_weights_by_name', {'name': 'model.norm.weight'}))[1],
        await call('get_weights_by_name', {'name': 'nonsense'}),
    )

  _, update, (_, after), info, rows, norm, missing = talk(engine, body)
  assert update[0] == 200 and update[1]['success']
  assert after['output_ids'] == other_model.greedy(prompt_of(9), 6)
  assert after['meta_info']['weight_version'] == '12'
  assert after['meta_info']['cached_tokens'] == 0
  assert info['weight_version'] == '12' and info['model_path'] == saved
  kernel = other_model.params['layers_1']['mlp']['down']['kernel']
  np.testing.assert_allclose(rows, np.asarray(kernel).T[:3], rtol=1e-6)
  assert len(norm) == 32
  assert missing[0] == 400 and 'nonsense' in missing[1]['error']['message']


def test_bad_directories_leave_the_old_weights(
    engine, model, tmp_path, saved, prompt_of
):
  config = tmp_path / 'other' / 'config.json'

  async def body(call):
    missing = await call(
        'update_weights_from_disk',
        {'model_path': str(tmp_path / 'none'), 'weight_version': '5'},
    )
    shape = json.loads(config.read_text()) | {'vocab_size': 98}
    config.write_text(json.dumps(shape))
    wrong = await call('update_weights_from_disk', {'model_path': saved})
    no_path = await call('update_weights_from_disk', {})
    reply = await call(
        'generate', {'input_ids': prompt_of(4), 'sampling_params': GREEDY}
    )
    return missing, wrong, no_path, reply

  missing, wrong, no_path, (_, reply) = talk(engine, body)
  for status, answer in (missing, wrong):
    assert status == 400 and answer['success'] is False
  assert 'none' in missing[1]['message']
  assert no_path[0] == 400
  assert reply['output_ids'] == model.greedy(prompt_of(4), 6)
  assert reply['meta_info']['weight_version'] == 'default'


def test_an_update_waits_for_what_runs_and_holds_what_comes(
    engine, saved, prompt_of
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
    await asyncio.sleep(0.02)
    late = ask()
    return await running, await update, await late

  (_, running), (_, update), (_, late) = talk(engine, body)
  assert update['success']
  versions = lambda reply: [
      span['version'] for span in reply['meta_info']['weight_versions']
  ]
  assert versions(running) == ['default'] and versions(late) == ['1']


def test_an_update_while_frozen_is_done_at_once_and_says_what_it_kept(
    engine, saved, prompt_of
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


def test_a_port_in_use_is_one_clear_error(engine, make_engine, model):
  second = Engine(
      model.config,
      model.params,
      None,
      eos_ids=(),
      model_path='random',
      max_running=1,
      max_len=128,
      slots=1,
  )
  port = int(engine.url.rsplit(':', 1)[1])
  with pytest.raises(EngineError, match=f'cannot listen on 127.0.0.1:{port}'):
    second.start(port=port)
  with pytest.raises(EngineError, match='make a new one'):
    second.start()


def test_concurrent_clients_that_come_and_go_leak_no_slot(engine, prompt_of):
  rng = np.random.default_rng(0)

  async def body(call):
    async def client(i):
      request = {
          'input_ids': prompt_of(int(rng.integers(1, 50)), seed=i % 5),
          'sampling_params': {'max_new_tokens': int(rng.integers(0, 25))},
          'rid': f'{i}-',
      }
      leaves = rng.random() < 0.3
      try:
        limit = 0.05 * rng.random() if leaves else 60
        return await asyncio.wait_for(call('generate', request), limit)
      except TimeoutError:
        return None

    replies = await asyncio.gather(*(client(i) for i in range(300)))
    await until(
        lambda: not engine.stats()['num_running_reqs']
        and not engine.stats()['num_waiting_reqs']
    )
    return replies

  replies = talk(engine, body)
  assert sum(reply is not None for reply in replies) >= 180
  assert all(reply[0] == 200 for reply in replies if reply is not None)
  assert engine.flush() and engine.stats()['num_free_slots'] == 12
