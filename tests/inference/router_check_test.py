"""Tests for agentrl.inference.router_check: routers that lose what they are told."""

import asyncio
import contextlib
import copy

import aiohttp
import pytest
from aiohttp import web

from agentrl.errors import EngineError
from agentrl.inference import router_check
from agentrl.inference.control import ControlClient
from tests import fakes, tiny


@contextlib.asynccontextmanager
async def routing(url, change):
  """A router that sends a changed body on to a server."""

  async def generate(request):
    body = copy.deepcopy(await request.json())
    change(body)
    async with aiohttp.ClientSession() as session:
      async with session.post(f'{url}/generate', json=body) as answer:
        return web.json_response(await answer.json(), status=answer.status)

  async with fakes.FakeEngine([generate] * 16) as router:
    yield router


def check(change, *, lora):
  async def main():
    with tiny.serving(tiny.init_params()) as url:
      async with routing(url, change) as router:
        async with aiohttp.ClientSession() as session:
          await router_check.check(
              ControlClient(session, [router.url]),
              vocab_size=tiny.CONFIG.vocab_size,
              lora=lora,
          )

  asyncio.run(main())


@pytest.mark.parametrize('lora', [False, True])
def test_a_router_that_hands_on_everything_passes(lora):
  check(lambda body: None, lora=lora)


@pytest.mark.parametrize('name', ['rid', 'return_logprob', 'lora_path'])
def test_a_field_that_is_dropped_is_named(name):
  with pytest.raises(EngineError, match=f'drops {name} .*sampler.urls'):
    check(lambda body: body.pop(name, None), lora=True)


@pytest.mark.parametrize(
    'name', ['max_new_tokens', 'stop_token_ids', 'temperature']
)
def test_a_sampling_parameter_that_is_dropped_is_named(name):
  drop = lambda body: body['sampling_params'].pop(name, None)
  with pytest.raises(EngineError, match=f'drops {name} .*sampler.urls'):
    check(drop, lora=False)


def test_servers_of_other_weights_are_told():
  def scramble(body):
    body['input_ids'] = [len(body['sampling_params'])]  # another prompt
    body['sampling_params'].pop('stop_token_ids', None)
    body['sampling_params']['max_new_tokens'] = 1

  with pytest.raises(EngineError, match='other tokens for the same greedy'):
    check(scramble, lora=False)
