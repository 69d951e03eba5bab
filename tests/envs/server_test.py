"""Tests for agentrl.envs.server: our server on loopback."""

import asyncio
import dataclasses
import json
import re
import time

import aiohttp
import pytest

from agentrl import envs
from agentrl.envs import requests, server
from agentrl.envs.client import EnvClient
from agentrl.errors import ConfigError, EnvError


def with_server(env_name, body, options=None, **kwargs):
  """Runs `body(session, url)` against a running server."""

  async def main():
    async with (
        server.running(env_name, options, **kwargs) as url,
        aiohttp.ClientSession() as session,
    ):
      return await body(session, url)

  return asyncio.run(main())


async def post(session, url, route, status=200, **fields):
  async with session.post(f'{url}/{route}', json=fields) as response:
    reply = await response.json()
    assert response.status == status, reply
    return reply


async def get(session, url, route, status=200):
  async with session.get(f'{url}/{route}') as response:
    assert response.status == status, await response.text()
    if response.content_type != 'application/json':
      return await response.text()
    return await response.json()


def test_textcraft_speaks_agentgyms_routes():
  async def body(session, url):
    created = await post(
        session, url, 'create', commands='x', minecraft_dir='y'
    )
    assert created.keys() == {'id', 'observation', 'done', 'reward'}
    assert created['id'] == 0 and 'Goal: craft' in created['observation']
    reset = await post(session, url, 'reset', id=0, data_idx=3)
    assert reset.keys() == {'id', 'observation', 'done', 'reward'}
    step = await post(session, url, 'step', id=0, action='inventory')
    assert {'observation', 'reward', 'done'} <= step.keys()
    assert (step['reward'], step['done'], step['success']) == (0, False, False)
    assert step['progress'] == 0
    assert await get(session, url, 'observation?id=0') == step['observation']
    detail = await get(session, url, 'detail?id=0')
    assert detail['done'] is False and detail['deleted'] is False
    assert await post(session, url, 'close', id=0) is True
    assert isinstance(await get(session, url, ''), str)

  with_server('textcraft', body)


def test_babyai_speaks_agentgyms_routes():
  async def body(session, url):
    assert await post(session, url, 'create') == {'id': 0}
    reset = await post(session, url, 'reset', id=0, data_idx=44)
    assert {'observation', 'reward', 'score', 'deleted', 'done'} <= reset.keys()
    step = await post(session, url, 'step', id=0, action='turn left')
    assert {'observation', 'reward', 'score', 'done'} <= step.keys()
    seen = await get(session, url, 'observation?id=0')
    assert seen.keys() == {'observation', 'reward', 'score', 'done', 'deleted'}
    listed = await get(session, url, 'available_actions?id=0')
    assert 'turn left' in listed['available_actions']

  with_server('babyai', body)


def test_sciworld_speaks_agentgyms_routes():
  async def body(session, url):
    assert await post(session, url, 'create') == {'id': 0}
    reset = await post(session, url, 'reset', id=0, data_idx=3836)
    assert {
        'task_name': 'find-animal',
        'var_num': 0,
        'reward': 0,
        'score': 0,
        'deleted': False,
        'done': False,
    }.items() <= reset.items()
    assert reset['task_description'].startswith('Your task is to find')
    assert reset['observation'].startswith('This room is called the hallway.')
    listed = await get(session, url, 'available_actions?id=0')
    assert 'focus on picture' in listed['available_actions']
    for action, reward, score, done in (
        ('open door to greenhouse', 8, 8, False),
        ('focus on picture', -108, -100, True),
    ):
      step = await post(session, url, 'step', id=0, action=action)
      assert {'reward': reward, 'score': score, 'done': done}.items() <= (
          step.items()
      )
    assert await get(session, url, 'observation?id=0') == step['observation']
    detail = await get(session, url, 'detail?id=0')
    assert (detail['score'], detail['done']) == (-100, True)
    await get(session, url, 'available_actions?id=0', 409)
    # Our client turns the same numbers into shares.
    async with EnvClient(session, url, env_name='sciworld') as env:
      observation = await env.reset(3836)
      first = await env.step('open door to greenhouse')
      last = await env.step('focus on picture')
    assert observation == f'{reset["task_description"]}\n{reset["observation"]}'
    assert (first.reward, first.terminated) == (0.08, False)
    assert (last.reward, last.terminated, last.success) == (-0.08, True, False)

  with_server('sciworld', body, {'simulators': 1})


@pytest.mark.parametrize(
    'route, fields, status, words',
    [
        ('step', {'id': 7, 'action': 'x'}, 404, 'id 7'),
        ('reset', {'id': -1, 'data_idx': 0}, 404, 'id -1'),
        ('step', {'action': 'x'}, 422, '"id" must be an integer, got None'),
        ('step', {'id': '0', 'action': 'x'}, 422, "got '0'"),
        ('step', {'id': True, 'action': 'x'}, 422, 'got True'),
        ('step', {'id': 0}, 422, '"action" must be a string'),
        ('step', {'id': 0, 'action': ['x']}, 422, '"action" must be a string'),
        ('step', {'id': 0, 'action': 'x'}, 409, 'no task yet'),
        ('reset', {'id': 0}, 422, '"data_idx" must be an integer'),
        ('reset', {'id': 0, 'data_idx': 1.5}, 422, 'got 1.5'),
        ('reset', {'id': 0, 'data_idx': -4}, 422, 'no task -4'),
        ('reset', {'id': 0, 'data_idx': 4, 'seed': 'x'}, 422, '"seed"'),
        ('nothing', {}, 404, 'Not Found'),
        ('health', {}, 405, 'Method Not Allowed'),
    ],
)
def test_bad_requests_get_a_status_and_a_reason(route, fields, status, words):
  async def body(session, url):
    await post(session, url, 'create')
    reply = await post(session, url, route, status, **fields)
    assert words in reply['error']

  with_server('babyai', body)


@pytest.mark.parametrize(
    'data, status', [(b'{', 400), (b'\xff\xfe', 400), (b'[1]', 422), (b'', 400)]
)
def test_a_body_that_is_not_an_object_is_refused(data, status):
  async def body(session, url):
    for route in ('reset', 'step', 'close'):
      async with session.post(f'{url}/{route}', data=data) as response:
        assert response.status == status
        assert 'body' in (await response.json())['error']

  with_server('textcraft', body)


@pytest.mark.parametrize('query', ['', '?id=', '?id=x', '?id=-1', '?id=1.0'])
def test_a_query_without_a_number_is_refused(query):
  with_server(
      'textcraft', lambda s, url: get(s, url, f'observation{query}', 422)
  )


def test_a_megabyte_of_action_is_too_large():
  async def body(session, url):
    await post(session, url, 'create')
    reply = await post(session, url, 'step', 413, id=0, action='x' * 2**20)
    assert 'more than 262144 bytes' in reply['error']
    # The connection and the episode live on.
    await post(session, url, 'step', id=0, action='inventory')

  with_server('textcraft', body)


def test_a_step_after_the_end_is_refused_until_the_next_reset():
  async def body(session, url):
    async with EnvClient(session, url, env_name='babyai') as env:
      await env.reset(44)
      while not (await env.step(await env.expert_action())).terminated:
        pass
      for _ in range(3):
        with pytest.raises(EnvError, match='409: The episode has ended'):
          await env.step('turn left')
      with pytest.raises(EnvError, match='409'):
        await env.expert_action()
      score = (await get(session, url, 'detail?id=0'))['score']
      assert 0 < score <= 1  # not farmed
      await env.reset(44)
      assert not (await env.step('turn left')).terminated

  with_server('babyai', body, expert=True)


def test_closing_twice_says_false():
  async def body(session, url):
    await post(session, url, 'create')
    assert await post(session, url, 'close', id=0) is True
    assert await post(session, url, 'close', id=0) is False
    assert await post(session, url, 'close', id=99) is False
    await post(session, url, 'step', 404, id=0, action='inventory')

  with_server('textcraft', body)


def test_too_many_episodes_are_told_to_come_back():
  async def body(session, url):
    for _ in range(2):
      await post(session, url, 'create')
    async with session.post(f'{url}/create') as response:
      assert response.status == 429
      assert int(response.headers['Retry-After']) >= 1
      assert '2 episodes are live' in (await response.json())['error']
    await post(session, url, 'close', id=0)
    assert (await post(session, url, 'create'))['id'] == 2

  with_server('textcraft', body, max_episodes=2)


def metric(text, name):
  (line,) = [x for x in text.splitlines() if x.startswith(f'{name}{{')]
  return float(line.split()[-1])


def test_a_lease_ends_what_nobody_uses_and_is_counted():
  async def body(session, url):
    await post(session, url, 'create')
    for _ in range(1200):
      await asyncio.sleep(0.05)
      text = await get(session, url, 'metrics')
      if metric(text, 'agentrl_env_lease_expiries_total'):
        break
    assert metric(text, 'agentrl_env_lease_expiries_total') == 1
    assert metric(text, 'agentrl_env_live_episodes') == 0
    await post(session, url, 'step', 404, id=0, action='inventory')

  with_server('textcraft', body, lease_s=0.2)


def test_metrics_count_what_happened():
  async def body(session, url):
    for number in range(3):
      await post(session, url, 'create')
      await post(session, url, 'step', id=number, action='inventory')
    await post(session, url, 'close', id=1)
    await post(session, url, 'step', 404, id=1, action='inventory')
    text = await get(session, url, 'metrics')
    for name, value in (
        ('live_episodes', 2),
        ('created_episodes_total', 3),
        ('resets_total', 3),
        ('errors_total', 1),
        ('step_seconds_count', 3),
    ):
      assert metric(text, f'agentrl_env_{name}') == value, name
    buckets = [
        float(line.split()[-1])
        for line in text.splitlines()
        if '_bucket{' in line
    ]
    assert buckets == sorted(buckets) and buckets[-1] == 3

  with_server('textcraft', body)


def test_the_expert_is_there_only_when_asked_for():
  async def body(session, url):
    async with EnvClient(session, url, env_name='textcraft') as env:
      await env.reset(0)
      return await env.expert_action()

  with pytest.raises(EnvError, match='404'):
    with_server('textcraft', body)
  assert with_server('textcraft', body, expert=True) == 'get 1 acacia logs'


def test_a_seed_reaches_the_environment():
  async def body(session, url):
    async with EnvClient(session, url, env_name='textcraft') as env:
      return [await env.reset(300, seed) for seed in (None, 0, 1)]

  default, zero, one = with_server('textcraft', body)
  assert default == zero != one


def test_a_limit_of_steps_is_a_truncation():
  async def body(session, url):
    async with EnvClient(session, url, env_name='babyai') as env:
      await env.reset(41)
      while True:
        result = await env.step('turn left')
        if result.terminated or result.truncated:
          return result

  result = with_server('babyai', body)
  assert result.truncated and not result.terminated
  assert (result.reward, result.success) == (0.0, False)


def test_create_starts_only_tasks_that_the_options_allow():
  async def body(session, url):
    for _ in range(130):  # more than there are goals of depth 1
      await post(session, url, 'create')

  with_server('textcraft', body, {'max_depth': 1})


def test_an_environment_that_breaks_is_a_500_and_the_server_lives(monkeypatch):
  from agentrl.envs.textcraft.env import TextCraft

  def step(self, action):
    raise ZeroDivisionError('by nothing')

  async def body(session, url):
    await post(session, url, 'create')
    reply = await post(session, url, 'step', 500, id=0, action='x')
    assert reply == {
        'error': (
            f'ZeroDivisionError: by nothing ({__file__}, line'
            f' {step.__code__.co_firstlineno + 1}, in step) (environment'
            ' textcraft, step 1)'
        ),
        'fault': True,
    }
    assert (await get(session, url, 'health'))['status'] == 'ok'

  monkeypatch.setattr(TextCraft, 'step', step)
  with_server('textcraft', body)


def test_half_of_a_surrogate_pair_leaves_as_a_character(monkeypatch):
  from agentrl.envs.textcraft.env import TextCraft

  step = TextCraft.step

  def said(self, action):
    return dataclasses.replace(step(self, action), observation='\ud800 \u2603')

  async def body(session, url):
    async with EnvClient(session, url, env_name='textcraft') as env:
      await env.reset(0)
      assert (await env.step('inventory')).observation == '\ufffd \u2603'

  monkeypatch.setattr(TextCraft, 'step', said)
  with_server('textcraft', body)


def test_an_ipv6_address_is_served_and_told_with_brackets():
  async def body(session, url):
    assert re.fullmatch(r'http://\[::1\]:\d+', url)
    async with EnvClient(session, url, env_name='textcraft') as env:
      await env.reset(0)
      assert (await env.step('inventory')).observation
    port = int(url.rpartition(':')[2])
    with pytest.raises(EnvError, match=rf'textcraft on \[::1\]:{port}'):
      async with server.running('textcraft', host='::1', port=port):
        pass

  with_server('textcraft', body, host='::1')


def test_a_quick_step_takes_no_thread_and_a_reset_does(monkeypatch):
  import threading

  from agentrl.envs.babyai.env import BabyAI

  main, ran = threading.current_thread(), {}
  for name in ('reset', 'step', 'expert_action'):
    real = getattr(BabyAI, name)

    def call(self, *args, name=name, real=real):
      ran[name] = threading.current_thread() is main
      return real(self, *args)

    monkeypatch.setattr(BabyAI, name, call)

  async def body(session, url):
    async with EnvClient(session, url, env_name='babyai') as env:
      await env.reset(44)
      await env.step(await env.expert_action())

  with_server('babyai', body, expert=True)
  assert ran == {'reset': False, 'step': True, 'expert_action': False}


@pytest.mark.parametrize(
    'action', ['x', ' ', '\n', 'the ', 'pick up ', 'check.']
)
def test_no_action_makes_a_quick_step_slow(action):
  env = envs.get('babyai').open().make()
  env.reset(38, 0)
  size = requests.MAX_BODY_BYTES // len(action)
  start = time.thread_time()  # others may use the processor meanwhile
  env.step(action * size)
  assert time.thread_time() - start < 1.0


@pytest.mark.parametrize(
    'env_name, options, error, words',
    [
        ('chess', {}, ConfigError, 'known: textcraft, babyai'),
        (
            'babyai',
            {'level': 1},
            ConfigError,
            'no option level; did you mean levels',
        ),
        (
            'textcraft',
            {'max_depth': 9},
            ConfigError,
            'max_depth must be 1 to 4',
        ),
    ],
)
def test_a_wrong_server_does_not_start(env_name, options, error, words):
  with pytest.raises(error, match=words):
    with_server(env_name, None, options)


@pytest.mark.parametrize(
    'server_options, words',
    [
        ({'port': 99999}, 'port must be at most 65535, got 99999'),
        ({'lease_s': 0.0}, 'lease_s must be above 0'),
        ({'max_episodes': 0}, 'max_episodes must be at least 1'),
    ],
)
def test_numbers_out_of_range_are_refused(server_options, words):
  with pytest.raises(ConfigError, match=words):
    with_server('textcraft', None, **server_options)


def test_a_taken_port_is_an_error_that_names_it():
  async def body(session, url):
    port = int(url.rpartition(':')[2])
    with pytest.raises(EnvError, match=f'textcraft on 127.0.0.1:{port}'):
      async with server.running('textcraft', port=port):
        pass

  with_server('textcraft', body)


def test_many_clients_share_a_server():
  async def body(session, url):
    async def play(task_id):
      async with EnvClient(session, url, env_name='textcraft') as env:
        await env.reset(task_id)
        while True:
          result = await env.step(await env.expert_action())
          if result.terminated:
            return result.success

    results = await asyncio.gather(*map(play, range(200, 240)))
    assert all(results) and len(results) == 40
    text = await get(session, url, 'metrics')
    assert metric(text, 'agentrl_env_live_episodes') == 0

  with_server('textcraft', body, expert=True)


def test_options_come_as_json(capsys):
  assert server.main(['--env=babyai', '--options={"levels": "x"']) == 1
  assert 'options is not JSON' in capsys.readouterr().err
  assert server.main(['--env=babyai', '--options=[]']) == 1
  assert server.main(['--env=babyai', f'--options={json.dumps({"a": 1})}']) == 1
  assert 'no option a' in capsys.readouterr().err
