"""Tests for agentrl.engine.http.auth: which key opens which route."""

import pytest

from agentrl.http.auth import Keys
from tests.engine.talking import talk

ASK = {'input_ids': [1], 'sampling_params': {'max_new_tokens': 1}}


def statuses(engine, key, calls):
  headers = {} if key is None else {'Authorization': key}

  async def body(call):
    return [await call(route, payload) for route, payload in calls]

  return [status for status, _ in talk(engine, body, headers)]


OPEN = [('health', None), ('ready', None), ('metrics', None)]
NORMAL = [
    ('generate', ASK),
    ('server_info', None),
    ('ping', None),
    ('no_such_route', None),
]
CONTROL = [
    ('pause_generation', {}),
    ('continue_generation', {}),
    ('flush_cache', None),
    ('abort_request', {'rid': 'x'}),
    ('update_weight_version', {'new_version': '1'}),
    ('get_weights_by_name', {'name': 'model.norm.weight'}),
]


@pytest.mark.parametrize(
    'keys, key, normal, control',
    [
        (Keys(), None, True, True),
        (Keys(api='a'), None, False, False),
        (Keys(api='a'), 'Bearer b', False, False),
        (Keys(api='a'), 'Basic a', False, False),
        (Keys(api='a'), 'Bearer \xe9', False, False),
        (Keys(api='a'), 'bearer a', True, True),
        (Keys(admin='m'), None, True, False),
        (Keys(admin='m'), 'Bearer m', True, True),
        # With both, each opens its own routes and no others.
        (Keys(api='a', admin='m'), 'Bearer a', True, False),
        (Keys(api='a', admin='m'), 'Bearer m', False, True),
    ],
)
def test_a_key_opens_its_routes(make_engine, keys, key, normal, control):
  engine = make_engine(keys=keys)
  assert statuses(engine, key, OPEN) == [200] * 3
  ok = [200, 200, 200, 404] if normal else [401] * 4
  assert statuses(engine, key, NORMAL) == ok
  ok = [200 if control else 401] * len(CONTROL)
  assert statuses(engine, key, CONTROL) == ok


def test_a_refusal_names_the_key_and_never_shows_it(make_engine):
  engine = make_engine(keys=Keys(api='secret-a', admin='secret-m'))

  async def body(call):
    return await call('flush_cache'), await call('generate', ASK)

  (_, admin), (_, api) = talk(engine, body, {'Authorization': 'Bearer x'})
  assert 'admin key' in admin['error'] and 'API key' in api['error']
  assert 'secret' not in str((admin, api))


def test_an_empty_key_is_refused():
  with pytest.raises(ValueError, match='must not be empty'):
    Keys(api='')
