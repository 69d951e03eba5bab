"""Tests for agentrl.http.auth."""

import asyncio

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.envs.pool import EnvPool
from agentrl.errors import ConfigError, EnvError
from agentrl.http import auth


def test_clients_with_the_servers_token_get_in_and_others_do_not(tmp_path):
  path = tmp_path / 'token'
  path.write_text('s3cret\n')

  async def main():
    async with (
        server.running('textcraft', token_file=str(path)) as url,
        aiohttp.ClientSession() as session,
    ):
      known = dict(env_name='textcraft', token=auth.read_token(str(path)))
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
    auth.read_token(str(path))
  assert not content or content not in str(error.value).replace(str(path), '')


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(ConfigError, match='nowhere'):
    auth.read_token(str(tmp_path / 'nowhere'))


@pytest.mark.parametrize(
    'header, expected',
    [
        ('Bearer s3cret', True),
        ('bearer s3cret', True),  # RFC 9110, section 11.1
        ('Bearer s3cre', False),
        ('Bearer \xe9', False),
        ('Basic s3cret', False),
        ('s3cret', False),
        ('', False),
    ],
)
def test_a_request_is_authorized_by_its_token_alone(header, expected):
  request = make_mocked_request('GET', '/', {'Authorization': header})
  assert auth.is_authorized(request, 's3cret') == expected


def test_a_client_without_a_token_sends_no_header():
  assert auth.headers('x') == {'Authorization': 'Bearer x'}
  assert auth.headers(None) == auth.headers('') == {}
