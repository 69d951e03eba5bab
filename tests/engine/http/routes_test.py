"""Tests for the engine's HTTP routes, over real connections on loopback."""

import asyncio
import re

import aiohttp
import numpy as np
import pytest

from agentrl.engine import request
from agentrl.engine.core import EngineCore
from agentrl.engine.options import EngineOptions
from agentrl.engine.server import Engine
from agentrl.errors import EngineError
from tests.engine.talking import LONG, once, talk
from tests.waiting import until

REFUSALS = [
    # An error of FastAPI's; a plain text: the schema's gate; an object: a value
    # that is refused.
    ({'input_ids': [1], 'sampling_params': {'seed': 1}}, 'gate', "'seed'"),
    ({'input_ids': 'abc'}, 'body', 'list'),
    ({'input_ids': [1, 'a']}, 'body', 'integers'),
    ({'input_ids': [1, True]}, 'gate', 'integers'),
    ({'input_ids': [1], 'sampling_params': {'top_k': 1.5}}, 'gate', 'int'),
    ([1, 2], 'body', 'object'),
    ({'input_ids': [1], 'sampling_params': 3}, 'body', 'object'),
    ({'input_ids': [1], 'stream': 'x'}, 'body', 'stream must be bool'),
    ({'input_ids': [1], 'stream': 1}, 'gate', 'stream must be bool, got int'),
    ({'input_ids': [1], 'return_logprob': 'x'}, 'body', 'return_logprob'),
    ({'input_ids': [1], 'return_logprob': 'true'}, 'gate', 'return_logprob'),
    ({'input_ids': [1], 'return_logprob': [True]}, 'value', 'in no list'),
    ({}, 'value', 'Give text or input_ids'),
    ({'text': 'abc'}, 'value', 'no tokenizer'),
    ({'input_ids': []}, 'value', 'empty'),
    ({'input_ids': [[1], []]}, 'value', 'empty'),
    ({'input_ids': [1, 97]}, 'value', '97 is outside the vocabulary of 97'),
    ({'input_ids': [-1]}, 'value', '-1 is outside'),
    ({'input_ids': [1] * 250}, 'value', '250 tokens is not shorter than 250'),
    (
        {'input_ids': [1] * 200, 'sampling_params': {'max_new_tokens': 57}},
        'value',
        '257 tokens: 200 of the prompt and max_new_tokens=57.* 256',
    ),
    (
        # It would not fit a row, and fail everybody's dispatch.
        {'input_ids': [1], 'sampling_params': {'stop_token_ids': [2**40]}},
        'value',
        'Stop id 1099511627776 is outside the vocabulary of 97',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'stop_token_ids': 3}},
        'gate',
        'stop_token_ids must be a list',
    ),
    (
        # Likewise: no part of a prompt begins there.
        {'input_ids': [1], 'return_logprob': True, 'logprob_start_len': 0.5},
        'body',
        'logprob_start_len must be int.*, got float',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'temperature': 10**400}},
        'body',
        'beyond any float',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'top_k': 2**70}},
        'gate',
        'top_k must be int, got float',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'sampling_seed': 2**63}},
        'value',
        'sampling_seed must be a number of 64 bits',
    ),
    ({'input_ids': [1], 'sampling_params': {'top_p': 0}}, 'value', 'top_p'),
    ({'input_ids': [1], 'sampling_params': {'top_k': 0}}, 'value', 'top_k'),
    (
        {'input_ids': [1], 'sampling_params': {'temperature': -1}},
        'value',
        'temperature',
    ),
    ({'input_ids': [1], 'sampling_params': {'n': 0}}, 'value', 'n must'),
    ({'input_ids': [1], 'sampling_params': {'n': 10**9}}, 'value', 'n must'),
    (
        {'input_ids': [1], 'sampling_params': {'max_new_tokens': -5}},
        'value',
        'max_new_tokens must be at least 0, got -5',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'stream_interval': 0}},
        'value',
        'stream_interval must be at least 1',
    ),
    (
        {
            'input_ids': [1],
            'sampling_params': {'min_new_tokens': 6, 'max_new_tokens': 5},
        },
        'value',
        r'min_new_tokens must be in \[0, max_new_tokens=5\], got 6',
    ),
    (
        {
            'input_ids': [1],
            'sampling_params': {
                'min_new_tokens': 1,
                'stop_token_ids': list(range(97)),
            },
        },
        'value',
        'min_new_tokens leaves nothing',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'frequency_penalty': 2.1}},
        'value',
        r'frequency_penalty must be in \[-2, 2\], got 2.1',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'presence_penalty': -3}},
        'value',
        r'presence_penalty must be in \[-2, 2\], got -3',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'repetition_penalty': 0}},
        'value',
        r'repetition_penalty must be in \(0, 2\]',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'presence_penalty': '1'}},
        'gate',
        'presence_penalty must be float, got str',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'logit_bias': [1]}},
        'gate',
        'logit_bias must be an object',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'logit_bias': {'1': True}}},
        'gate',
        'logit_bias must be an object of numbers',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'logit_bias': {'cat': 1}}},
        'value',
        "logit_bias must be numbers by token id.*'cat'",
    ),
    (
        {'input_ids': [1], 'sampling_params': {'logit_bias': {'97': 1}}},
        'value',
        r'logit_bias must have ids in \[0, 96\].*got \{97: 1.0\}',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'logit_bias': {'1': 1e31}}},
        'value',
        'logit_bias must have.*values in',
    ),
    (
        {'input_ids': [1], 'return_logprob': True, 'top_logprobs_num': 129},
        'value',
        r'top_logprobs_num must be in \[0, 128\], got 129',
    ),
    (
        {'input_ids': [1], 'return_logprob': True, 'top_logprobs_num': -1},
        'value',
        'top_logprobs_num must be in',
    ),
    (
        {'input_ids': [1], 'top_logprobs_num': 'a'},
        'body',
        'top_logprobs_num must be int',
    ),
    (
        {'input_ids': [[1], [2]], 'top_logprobs_num': [1]},
        'value',
        'top_logprobs_num has 1 entries for 2',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'stop_regex': 'a+'}},
        'value',
        'need a tokenizer',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'stop': 'a'}},
        'value',
        'tokenizer',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'regex': 'a+'}},
        'value',
        'regex is not supported',
    ),
    ({'input_ids': [[1], [2]], 'rid': ['a', 'a']}, 'value', 'distinct'),
    ({'input_ids': [[1], [2]], 'rid': ['a']}, 'value', '1 entries for 2'),
    (
        {
            'input_ids': [[1], [2]],
            'rid': ['a', 'a_1'],
            'sampling_params': [{'n': 2}, {}],
        },
        'value',
        r'n must be the same for all prompts of a call, got \[1, 2\]',
    ),
    (
        {
            'input_ids': [[1], [2]],
            'return_logprob': [True, True],
            'sampling_params': {'n': 2},
        },
        'value',
        'return_logprob must be one value where n is 2',
    ),
    (
        {'input_ids': [1], 'sampling_params': {'json_schema': 5}},
        'gate',
        'json_schema must be str, got int',
    ),
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
    if kind == 'body':
      assert reply.keys() == {'object', 'message', 'type', 'param', 'code'}
      assert (reply['object'], reply['type']) == ('error', 'Bad Request')
      message = reply['message']
    else:
      error = reply['error']
      assert isinstance(error, str if kind == 'gate' else dict), payload
      message = error if kind == 'gate' else error['message']
    assert re.search(reason, message), (payload, message)


@pytest.mark.parametrize(
    'data',
    [
        b'',
        b'{',
        b'{"input_ids": [NaN]}',
        b'\xff{}',
        b'\xef\xbb\xbf{"input_ids": [5]}',
        '{"input_ids": [5]}'.encode('utf-16'),
        b'[' * 100_000 + b']' * 100_000,
        b'{"input_ids": [' + b'9' * 5000 + b']}',
        b'{"input_ids": [5], "foo": 1e999}',
        b'{"input_ids": [5], "foo": "\\ud800"}',
    ],
    ids=range(10),
)
def test_a_body_that_is_not_json_is_refused(engine, data):
  status, reply = once(engine, 'generate', data=data, method='POST')
  assert status == 400 and reply['object'] == 'error'
  assert 'not JSON' in reply['message'] and reply['type'] == 'Bad Request'


@pytest.mark.parametrize('kind', ['text/plain', 'application/octet-stream'])
def test_a_body_that_is_not_said_to_be_json_is_refused(engine, kind):
  async def main():
    async with aiohttp.ClientSession() as session:
      async with session.post(
          f'{engine.url}/generate',
          data=b'{"input_ids": [5]}',
          headers={'Content-Type': kind},
      ) as reply:
        return reply.status, await reply.json()

  status, reply = asyncio.run(main())
  assert status == 400 and kind in reply['message']


def test_unknown_routes_and_methods_answer_in_json(engine):
  assert once(engine, 'v1/embeddings', {}) == (404, {'detail': 'Not Found'})
  assert once(engine, 'generate') == (405, {'detail': 'Method Not Allowed'})


LENGTHS = [
    # Prompt, what is asked for and what is sampled of a context of 256.
    (249, {'max_new_tokens': 5}, 5),
    (249, {'max_new_tokens': 7}, 5),  # two positions stay empty
    (249, {'max_new_tokens': None}, 5),
    (249, {}, 5),
    (240, {}, 14),
    (100, {}, 128),  # the default
    (100, {'max_new_tokens': 156}, 154),
]


@pytest.mark.parametrize('size, params, sampled', LENGTHS)
def test_a_length_that_nobody_gave_is_cut_and_never_refused(
    engine, prompt_of, size, params, sampled
):
  payload = {'input_ids': prompt_of(size), 'sampling_params': params}
  status, reply = once(engine, 'generate', payload)
  assert status == 200
  reason = reply['meta_info']['finish_reason']
  assert reason == {'type': 'length', 'length': sampled}
  assert len(reply['output_ids']) == sampled


def test_a_context_length_of_its_own_leaves_the_rows_to_prompts(
    make_engine, prompt_of
):
  engine = make_engine(context_length=256 + request.RESERVED)
  payload = {
      'input_ids': prompt_of(255),
      'sampling_params': {'max_new_tokens': 1},
  }
  status, reply = once(engine, 'generate', payload)
  assert status == 200 and len(reply['output_ids']) == 1
  _, info = once(engine, 'server_info')
  assert (info['context_length'], info['max_req_input_len']) == (262, 256)
  status, reply = once(engine, 'generate', {'input_ids': prompt_of(256)})
  assert status == 400 and 'not shorter than 256' in reply['error']['message']


def test_copies_of_a_prompt_have_ids_of_their_own(engine):
  payload = {
      'input_ids': [1, 2],
      'rid': 'mine',
      'sampling_params': {'n': 2, 'max_new_tokens': 1},
  }
  _, replies = once(engine, 'generate', payload)
  rids = {reply['meta_info']['id'] for reply in replies}
  assert len(rids) == 2 and not any('mine' in rid for rid in rids)


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
  assert (
      load['num_used_tokens'] == 3 + 1
  )  # of four, the last is not computed; and the probe's


def test_a_client_that_leaves_takes_its_request_along(engine, prompt_of):
  async def body(call):
    engine.call(EngineCore.pause, 'in_place')
    payload = {'input_ids': prompt_of(5), 'sampling_params': LONG}
    request = asyncio.ensure_future(call('generate', payload))
    await until(lambda: engine.stats()['num_waiting_reqs'])
    request.cancel()
    await until(lambda: not engine.stats()['num_waiting_reqs'])

  talk(engine, body)


def test_a_port_in_use_is_one_clear_error(engine, make_engine, model):
  second = Engine(
      model.config,
      model.params,
      None,
      EngineOptions(
          eos_ids=(),
          model_path='random',
          max_running=1,
          max_len=128,
          slots=1,
      ),
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
        limit = 0.05 * rng.random() if leaves else 300
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
  assert (
      engine.call(EngineCore.flush) and engine.stats()['num_free_slots'] == 12
  )
