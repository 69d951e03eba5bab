"""Requests and replies under the contract types of the sglang wheel."""

import asyncio

import aiohttp
import pytest

from agentrl.engine.core import EngineCore
from tests.waiting import until

REQUESTS = [
    {'input_ids': [1, 2, 3]},
    {
        'input_ids': [1, 2, 3],
        'sampling_params': {
            'max_new_tokens': 5,
            'temperature': 1.0,
            'top_p': 1.0,
            'top_k': -1,
            'sampling_seed': 7,
            'stop_token_ids': [4],
        },
        'return_logprob': True,
        'rid': 'a',
    },
    {
        'input_ids': [[1, 2], [3]],
        'sampling_params': [{'max_new_tokens': 0}, {'max_new_tokens': 3}],
        'return_logprob': [True, False],
        'logprob_start_len': [0, -1],
        'cache_salt': 'v1',
    },
    {
        'input_ids': [5],
        'sampling_params': {'n': 3, 'temperature': 0.5, 'min_p': 0.1},
        'return_prompt_token_ids': True,
    },
    {
        'input_ids': [5, 6],
        'sampling_params': {
            'max_new_tokens': 3,
            'min_new_tokens': 2,
            'stop_token_ids': [1],
            'frequency_penalty': -0.5,
            'presence_penalty': 1,
            'repetition_penalty': 1.2,
            'logit_bias': {'3': 2, '4': -100.0},
        },
        'return_logprob': True,
        'logprob_start_len': 0,
        'top_logprobs_num': 128,
    },
]


@pytest.mark.parametrize('body', REQUESTS)
def test_requests_and_replies_follow_the_contract(engine, contract, body):
  async def ask():
    async with aiohttp.ClientSession() as session:
      async with session.post(f'{engine.url}/generate', json=body) as reply:
        assert reply.status == 200
        return await reply.json()

  contract.GenerateRequest.from_json_value(body)
  replies = asyncio.run(ask())
  for value in replies if isinstance(replies, list) else [replies]:
    reply = contract.GenerateResponse.from_json_value(value)
    meta = reply.meta_info
    assert list(reply.output_ids) == value['output_ids']
    assert meta.completion_tokens == len(value['output_ids'])
    assert meta.weight_version == 'default'
    if 'output_token_logprobs' in value['meta_info']:
      assert [e.token_id for e in meta.output_token_logprobs] == (
          value['output_ids']
      )
    for wanted, tops in (
        (meta.output_token_logprobs, meta.output_top_logprobs),
        (meta.input_token_logprobs, meta.input_top_logprobs),
    ):
      if body.get('top_logprobs_num'):
        assert len(tops) == len(wanted)
        # The whole vocabulary; nothing predicts the first of a prompt.
        assert [e is None or len(e) for e in tops] == [
            e.logprob is None or 97 for e in wanted
        ]
      else:
        assert not tops
    assert meta.finish_reason is not None


def test_aborted_replies_follow_the_contract(engine, contract):
  async def ask():
    async with aiohttp.ClientSession() as session:

      async def generate():
        body = {
            'input_ids': [1],
            'rid': 'gone',
            'return_logprob': True,
            'sampling_params': {'max_new_tokens': 250, 'ignore_eos': True},
        }
        url = f'{engine.url}/generate'
        async with session.post(url, json=body) as reply:
          return await reply.json()

      engine.call(EngineCore.pause, 'in_place')
      request = asyncio.ensure_future(generate())
      await until(lambda: engine.stats()['num_waiting_reqs'])
      engine.call(EngineCore.abort, 'gone')
      return await request

  value = asyncio.run(ask())
  assert value['meta_info']['finish_reason']['type'] == 'abort'
  contract.GenerateResponse.from_json_value(value)


def test_both_refuse_unknown_sampling_parameters(engine, contract):
  body = {'input_ids': [1], 'sampling_params': {'max_tokens': 3}}
  with pytest.raises(contract.JsonContractError, match='max_tokens'):
    contract.GenerateRequest.from_json_value(body)

  async def ask():
    async with aiohttp.ClientSession() as session:
      async with session.post(f'{engine.url}/generate', json=body) as reply:
        return reply.status, await reply.json()

  status, reply = asyncio.run(ask())
  assert status == 400 and 'max_tokens' in reply['error']
