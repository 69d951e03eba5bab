"""Tests for agentrl.envs.adapters.endpoint: what clients may send it."""

import contextlib
import json
import urllib.error
import urllib.request

import pytest

from agentrl.envs.adapters.endpoint import Endpoint


@pytest.fixture(scope='module')
def endpoint():
  with contextlib.closing(Endpoint()) as made:
    yield made


def post(url, body):
  """Status and reply."""
  request = urllib.request.Request(
      url, body, {'Content-Type': 'application/json'}
  )
  try:
    with urllib.request.urlopen(request, timeout=60) as reply:
      return reply.status, json.load(reply)
  except urllib.error.HTTPError as error:
    return error.code, json.loads(error.read())


ASKED = b'{"messages": [{"role": "user", "content": %s}]%s}'


@pytest.mark.parametrize(
    'body',
    [
        *(b'', b'{', b'null', b'[]', b'5', b'"x"', b'{}', b'\xff', b'NaN'),
        *(b'{"messages": 5}', b'{"messages": []}', b'{"messages": [5]}'),
        b'[' * 100_000,
        b'{"messages": [{"role": "king", "content": "x"}]}',
        b'{"messages": [{"role": "assistant", "content": "x"}]}',
        b'{"messages": [{"role": "user", "tool_calls": [5]}]}',
        b'{"messages": [{"role": "user", "tool_calls": {"a": 5}}]}',
        *(ASKED % (x, b'') for x in (b'5', b'{}', b'[5]', b'[{}]')),
        *(
            ASKED % (b'"x"', b', "tools": ' + x)
            for x in (b'5', b'[5]', b'[{}]', b'[{"function": {"name": []}}]')
        ),
        ASKED % (b'"x"', b', "n": 2'),
        ASKED % (b'"x"', b', "stream_options": "x"'),
    ],
)
def test_a_request_that_is_none_is_refused(endpoint, body):
  url, session = endpoint.open()
  status, reply = post(f'{url}/chat/completions', body)
  assert status == 400 and reply['error']['message']
  assert session.events.empty()


@pytest.mark.parametrize(
    'body',
    [
        *(b'', b'{', b'[]', b'5', b'{}', b'{"reward": "x"}', b'[' * 100_000),
        *(b'{"reward": NaN}', b'{"reward": 1e999}', b'{"reward": null}'),
        *(
            b'{"reward": 1, "success": %s}' % x
            for x in (b'0', b'1', b'"yes"', b'[]')
        ),
    ],
)
def test_a_reward_that_is_none_is_refused(endpoint, body):
  url, session = endpoint.open()
  status, reply = post(url.removesuffix('/v1') + '/reward', body)
  assert status == 400 and 'is what is posted' in reply['error']['message']
  assert session.reward is None


def test_a_session_is_rewarded_until_it_is_over(endpoint):
  url, session = endpoint.open()
  place = url.removesuffix('/v1') + '/reward'
  assert '/sessions/' in place
  good = b'{"reward": 0.5, "success": false}'
  assert post(place, good) == (200, {'reward': 0.5})
  assert session.reward == (0.5, False)
  endpoint.end(url)
  status, reply = post(place, good)
  assert status == 410 and 'is over' in reply['error']['message']
