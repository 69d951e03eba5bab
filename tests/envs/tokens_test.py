"""Tests for the secret that a server and its clients share."""

import asyncio

import aiohttp
import pytest

from agentrl.envs import server, tokens
from agentrl.envs.client import EnvClient
from agentrl.envs.pool import EnvPool
from agentrl.errors import ConfigError, EnvError


def test_clients_with_the_servers_token_get_in_and_others_do_not(tmp_path):
  path = tmp_path / 'token'
  path.write_text('s3cret\n')

  async def main():
    async with (
        server.running('textcraft', token_file=str(path)) as url,
        aiohttp.ClientSession() as session,
    ):
      known = dict(env_name='textcraft', token=tokens.read(str(path)))
      async with EnvClient(session, url, **known) as env:
        assert 'Goal' in await env.reset(3)
      async with EnvPool(session, [url], **known).client() as env:
        assert 'Goal' in await env.reset(3)
      async with EnvClient(session, url, env_name='textcraft') as env:
        with pytest.raises(EnvError, match='gave 401: This server wants'):
          await env.reset(3)

  asyncio.run(main())


@pytest.mark.parametrize('content', ['', 'a\nb', 'schlüssel', 'a\x00b'])
def test_what_cannot_be_a_token_is_refused_without_showing_it(
    tmp_path, content
):
  path = tmp_path / 'token'
  path.write_text(content)
  with pytest.raises(ConfigError, match='one line of visible ASCII') as error:
    tokens.read(str(path))
  assert not content or content not in str(error.value).replace(str(path), '')


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(ConfigError, match='nowhere'):
    tokens.read(str(tmp_path / 'nowhere'))
