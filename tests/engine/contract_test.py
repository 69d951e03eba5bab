"""Requests and replies under the contract types of the sglang wheel.

They are data here, read from an installed or unpacked wheel of sglang 0.5.23:
`pip install --no-deps sglang==0.5.23`, or AGENTRL_SGLANG_WHEEL=PATH_TO_WHEEL.
Only msgspec is needed beside it.
"""

import asyncio
import importlib.util
import os
import pathlib
import zipfile

import aiohttp
import pytest

_MEMBER = 'sglang/api/v1/api_types.py'


def contract_file(folder):
  """The file with the types, or None."""
  wheel = os.environ.get('AGENTRL_SGLANG_WHEEL')
  if wheel:
    return pathlib.Path(zipfile.ZipFile(wheel).extract(_MEMBER, folder))
  spec = importlib.util.find_spec('sglang')  # finds without importing
  for location in spec.submodule_search_locations if spec else ():
    path = pathlib.Path(location).parent / _MEMBER
    if path.is_file():
      return path
  return None


@pytest.fixture(scope='session')
def contract(tmp_path_factory):
  pytest.importorskip('msgspec', reason='the contract types need msgspec')
  path = contract_file(tmp_path_factory.mktemp('sglang'))
  if path is None:
    pytest.skip('needs the wheel: pip install --no-deps sglang==0.5.23')
  spec = importlib.util.spec_from_file_location('sglang_api_types', path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


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

      engine.pause('in_place')
      request = asyncio.ensure_future(generate())
      await asyncio.sleep(0.1)
      engine.abort('gone')
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
