"""AgentGym's servers and clients, as they speak, against ours.

The first half replays what an original server answers and drives it with our
client. The second half sends what an original client sends to our servers and
reads what it reads. To add an environment, add its entry to REPLAYS and to
REQUESTS.
"""

import asyncio
import base64
import contextlib
import dataclasses
import itertools
import json
import math
import struct
from typing import Any

import aiohttp
import pytest
from aiohttp import test_utils, web

from agentrl import envs
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.errors import ConfigError, EnvError


def html(status):
  """What a web framework says when it has nothing to say."""
  return web.Response(
      status=status, text='Internal Server Error', content_type='text/plain'
  )


NO_SUCH_ROUTE = web.json_response({'detail': 'Not Found'}, status=404)
TREE = "OBSERVATION:\n[4] RootWebArea 'Shop'\nURL: http://shop.com\n"
DOCUMENT = '<information>Doc 1(Title: Ohm) A law. </information>'

# environment -> what its original server is asked and answers in one episode of
# task 12, in order; GET requests have a query instead of a body.
REPLAYS = {
    'textcraft': [
        (
            ('POST', '/create', {}),
            {'id': 5, 'observation': 'A', 'done': False, 'reward': 0},
        ),
        (
            ('POST', '/reset', {'id': 5, 'data_idx': 12}),
            {
                'id': 5,
                'observation': 'Crafting commands:\n\nGoal: craft stick.',
                'done': False,
                'reward': 0,
            },
        ),
        (
            ('POST', '/step', {'id': 5, 'action': 'look'}),
            {
                'observation': 'Could not execute look',
                'reward': 0,
                'done': False,
            },
        ),
        (('GET', '/observation', {'id': '5'}), 'Could not execute look'),
        (
            ('POST', '/step', {'id': 5, 'action': 'craft 4 stick using 2 log'}),
            {
                'observation': 'Crafted 4 minecraft:stick',
                'reward': 1,
                'done': True,
            },
        ),
        (('POST', '/close', {'id': 5}), True),
    ],
    # A finish so late that the reward is below one half: `done` stays false,
    # the reward is repeated whatever is said, and the score grows.
    'babyai': [
        (('POST', '/create', {}), {'id': 0}),
        (
            ('POST', '/reset', {'id': 0, 'data_idx': 12}),
            {
                'observation': 'Your goal: open the red door',
                'reward': 0,
                'score': 0,
                'deleted': False,
                'done': False,
            },
        ),
        (
            ('POST', '/step', {'id': 0, 'action': 'toggle'}),
            {
                'observation': 'Open.',
                'reward': 0.38,
                'score': 0.38,
                'done': False,
            },
        ),
        (
            ('GET', '/observation', {'id': '0'}),
            {
                'observation': 'Open.',
                'reward': 0.38,
                'score': 0.38,
                'done': False,
                'deleted': False,
            },
        ),
        (
            ('POST', '/step', {'id': 0, 'action': 'sing'}),
            {
                'observation': 'Not recognised.',
                'reward': 0.38,
                'score': 0.76,
                'done': False,
            },
        ),
        (('POST', '/close', {'id': 0}), True),
    ],
    'sciworld': [
        (('POST', '/create', {}), {'id': 1}),
        (
            ('POST', '/reset', {'id': 1, 'data_idx': 12}),
            {
                'task_name': 'boil',
                'var_num': 12,
                'task_description': 'Your task is to boil water.',
                'observation': 'This room is called the hallway.',
                'reward': 0,
                'score': 0,
                'deleted': False,
                'done': False,
            },
        ),
        (
            ('POST', '/step', {'id': 1, 'action': 'go to kitchen'}),
            {
                'observation': 'You move to the kitchen.',
                'reward': 8,
                'score': 8,
                'done': False,
            },
        ),
        (('GET', '/observation', {'id': '1'}), 'You move to the kitchen.'),
        (
            ('POST', '/step', {'id': 1, 'action': 'sing'}),
            {
                'observation': 'No known action matches that input.',
                'reward': 0,
                'score': 8,
                'done': False,
            },
        ),
        (
            ('POST', '/step', {'id': 1, 'action': 'focus on water'}),
            {
                'observation': 'You focus on the water.',
                'reward': 92,
                'score': 100,
                'done': True,
            },
        ),
        (('POST', '/close', {'id': 1}), True),
    ],
    'searchqa': [
        (('POST', '/create', {'id': 12}), 8),  # a bare number
        (
            ('POST', '/reset', {'env_idx': 8, 'id': 12}),
            'Question: whose law is it?',
        ),
        (
            (
                'POST',
                '/step',
                {'env_idx': 8, 'action': 'So <search>law</search>'},
            ),
            {
                'observation': DOCUMENT,
                'reward': 0.0,
                'done': False,
                'info': None,
            },
        ),
        (
            ('GET', '/observation', {'env_idx': '8'}),
            'Question: whose law is it?',
        ),
        (
            (
                'POST',
                '/step',
                {'env_idx': 8, 'action': '<answer>Volta</answer>'},
            ),
            {
                'observation': 'Wrong, try again.',
                'reward': 0.0,
                'done': False,
                'info': None,
            },
        ),
        (
            ('POST', '/step', {'env_idx': 8, 'action': '<answer>Ohm</answer>'}),
            {
                'observation': 'Right.',
                'reward': 1.0,
                'done': True,
                'info': None,
            },
        ),
        (('POST', '/close', {'env_idx': 8}), True),
    ],
    'webarena': [
        (('POST', '/create', {}), {'env_idx': 3}),
        (
            ('POST', '/reset', {'env_idx': 3, 'seed': 0, 'idx': 12}),
            {'observation': TREE, 'sites': ['shopping'], 'object': 'Buy it.'},
        ),
        (
            ('POST', '/step', {'env_idx': 3, 'action': 'So ```click [4]```'}),
            {
                'observation': TREE,
                'reward': 0,
                'terminated': False,
                'truncated': False,
                'info': {},
            },
        ),
        (('GET', '/observation', {'env_idx': '3'}), TREE),
        (
            ('POST', '/step', {'env_idx': 3, 'action': '```stop [yes]```'}),
            {
                'observation': TREE,
                'reward': 1.0,
                'terminated': True,
                'truncated': False,
                'info': {},
            },
        ),
        (('POST', '/close', {'env_idx': 3}), {'closed': 'closed'}),
    ],
}
REPLAYS['miniwob'] = REPLAYS['webarena']  # whose routes it has


def step(number, action, reply, key='id'):
  return ('POST', '/step', {key: number, 'action': action}), reply


# The first observation is asked for; a state that is bought ends it.
SHOP = 'WebShop [SEP] Instruction: [SEP] Find me socks [SEP] Search'
REPLAYS['webshop'] = [
    (('POST', '/create', {}), 48_950_075),
    (
        ('POST', '/reset', {'env_idx': 48_950_075, 'session_id': 12}),
        ['unread', None],
    ),
    (('GET', '/observation', {'env_idx': '48950075'}), SHOP),
    step(
        48_950_075,
        'search[socks]',
        {'state': 'Page 1', 'reward': 0.0, 'done': False, 'info': None},
        'env_idx',
    ),
    (('GET', '/observation', {'env_idx': '48950075'}), 'Page 1'),
    step(
        48_950_075,
        'click[Buy Now]',
        {'state': 'Thanks', 'reward': 0.75, 'done': True, 'info': None},
        'env_idx',
    ),
]
CAN = ['go to desk 1', 'look']
REPLAYS['alfworld'] = [
    (('POST', '/create', {}), {'id': 2}),
    (
        ('POST', '/reset', {'id': 2, 'game': 12, 'world_type': 'Text'}),
        {
            'id': 2,
            'observation': 'Your task is to: find a pen.',
            'available_actions': CAN,
            'task_type': 'look_at_obj_in_light-Pen/trial_T2019',
        },
    ),
    step(
        2,
        'go to desk 1',
        {
            'observation': 'On the desk 1, you see a pen 1.',
            'reward': 0.0,
            'available_actions': ['take pen 1 from desk 1'],
            'done': False,
        },
    ),
    (
        ('GET', '/observation', {'id': '2'}),
        'On the desk 1, you see a pen 1.',
    ),
    step(
        2,
        'take pen 1 from desk 1',
        {
            'observation': 'You pick up the pen 1.',
            'reward': 1.0,
            'available_actions': [],
            'done': True,
        },
    ),
]
MAZE = (
    'The goal is at position 8, 6. Your current position is at position 5, 3.'
)
REPLAYS['lmrlgym_maze'] = [
    (('POST', '/maze/create', {}), {'id': 0}),
    (('POST', '/maze/reset', {'id': 0, 'game': 12}), {'observation': MAZE}),
    (
        ('POST', '/maze/step', {'id': 0, 'action': 'move up'}),
        {'observation': 'There is a wall.', 'reward': -4.0, 'done': False},
    ),
    (('GET', '/maze/observation', {'id': '0'}), 'There is a wall.'),
    (
        ('POST', '/maze/step', {'id': 0, 'action': 'move left'}),
        {'observation': 'On.', 'reward': -1.0, 'done': False},
    ),
    (
        ('POST', '/maze/step', {'id': 0, 'action': 'move down'}),
        {'observation': 'Success', 'reward': 1.0, 'done': True},
    ),
]
REPLAYS['lmrlgym_wordle'] = [
    (('POST', '/wordle/create', {}), {'id': 4}),
    (
        ('POST', '/wordle/reset', {'id': 4, 'seed': 12}),
        {'id': 4, 'observation': "Let's start Wordle!"},
    ),
    (
        ('POST', '/wordle/step', {'id': 4, 'action': 's h i r e'}),
        {'observation': 'b b y b g', 'reward': 0, 'done': False},
    ),
    (('GET', '/wordle/observation', {'id': '4'}), 'b b y b g'),
    (
        ('POST', '/wordle/step', {'id': 4, 'action': 'p i e c e'}),
        {'observation': 'g g g g g', 'reward': 1, 'done': True},
    ),
]
TRIAL = (
    'Now new trial starts.\nYou should perform actions to accomplish the goal'
)
for tool in ('academia', 'movie', 'sheet', 'todo', 'weather'):
  REPLAYS[f'tool_{tool}'] = [
      (('POST', '/create', {'id': 12}), 7),
      (('POST', '/reset', {'env_idx': 7, 'id': 12}), TRIAL),
      step(
          7,
          'Action: find with Action Input: {"x": 1}',
          {'observation': 'Observation: 2', 'reward': 0.5, 'done': False},
          'env_idx',
      ),
      (('GET', '/observation', {'env_idx': '7'}), 'Observation: 2'),
      step(
          7,
          'Action: sing',
          {'observation': 'Format error', 'reward': 0.5, 'done': False},
          'env_idx',
      ),
      step(
          7,
          'Action: finish with Action Input: {"answer": 2}',
          {'observation': 'Observation: 2', 'reward': 1.0, 'done': True},
          'env_idx',
      ),
  ]

# environment -> the first observation; (reward, terminated, success) by step.
OUTCOMES = {
    'textcraft': (
        'Crafting commands:\n\nGoal: craft stick.',
        [(0, False, None), (1, True, True)],
    ),
    # Nothing was ever said to be over, so nothing is believed.
    'babyai': (
        'Your goal: open the red door',
        [(0, False, None), (0, False, None)],
    ),
    'sciworld': (
        'Your task is to boil water.\nThis room is called the hallway.',
        [(0.08, False, None), (0, False, None), (0.92, True, True)],
    ),
    'searchqa': (
        'Question: whose law is it?',
        [(0, False, None), (0, False, None), (1, True, True)],
    ),
    'webarena': (TREE, [(0, False, None), (1, True, True)]),
    'miniwob': (TREE, [(0, False, None), (1, True, True)]),
    'webshop': (SHOP, [(0, False, None), (0.75, True, False)]),
    'alfworld': (
        'Your task is to: find a pen.\nAVAILABLE ACTIONS: go to desk 1, look',
        [(0, False, None), (1, True, True)],
    ),
    # A wall and a step cost something there, and success is all that counts here.
    'lmrlgym_maze': (
        MAZE,
        [(0, False, None), (0, False, None), (1, True, True)],
    ),
    'lmrlgym_wordle': (
        "Let's start Wordle!",
        [(0, False, None), (1, True, True)],
    ),
    **{
        f'tool_{tool}': (
            TRIAL,
            [(0.5, False, None), (0, False, None), (0.5, True, True)],
        )
        for tool in ('academia', 'movie', 'sheet', 'todo', 'weather')
    },
}


@contextlib.asynccontextmanager
async def replaying(exchanges):
  """A server that answers exactly these requests, in order; gives its URL."""
  left = list(exchanges)

  async def answer(request):
    body = dict(request.query)
    if request.method == 'POST':
      body = await request.json()
    asked = (request.method, request.path, body)
    if not left or left[0][0] != asked:
      expected = left[0][0] if left else 'nothing more'
      return web.Response(status=418, text=f'asked {asked}, not {expected}')
    _, reply = left.pop(0)
    if isinstance(reply, web.Response):
      return reply
    return web.json_response(reply)

  app = web.Application()
  app.router.add_route('*', '/{path:.*}', answer)
  runner = web.AppRunner(app, shutdown_timeout=0.1)
  await runner.setup()
  await web.TCPSite(runner, '127.0.0.1', 0).start()
  try:
    yield f'http://127.0.0.1:{runner.addresses[0][1]}'
    assert not left, f'was never asked {left}'
  finally:
    await runner.cleanup()


def replay(env_name, exchanges, body):
  """Runs `body(env)` with our client on a server that replays."""

  async def main():
    async with (
        replaying(exchanges) as url,
        aiohttp.ClientSession() as session,
    ):
      # LMRL-Gym's games are parts of one server.
      part = exchanges[0][0][1].removesuffix('/create')
      async with EnvClient(session, url + part, env_name=env_name) as env:
        return await body(env)

  return asyncio.run(main())


def test_every_wire_is_replayed():
  wires = envs.ENVS.keys() - envs.ADAPTERS  # AgentGym has no server of those
  assert REPLAYS.keys() == OUTCOMES.keys() == wires


@pytest.mark.parametrize('env_name', REPLAYS)
def test_our_client_drives_an_original_server(env_name):
  exchanges = REPLAYS[env_name]
  said = [
      body['action'].removeprefix('Action: ')  # of tools, which our client adds
      for (_, route, body), _ in exchanges
      if route.endswith('/step')
  ]

  async def body(env):
    first = await env.reset(12)
    results = [await env.step(said[0])]
    again = await env.observation()
    results += [await env.step(action) for action in said[1:]]
    return first, again, results

  first, again, results = replay(env_name, exchanges, body)
  expected_first, expected = OUTCOMES[env_name]
  assert first == expected_first
  assert [(x.reward, x.terminated, x.success) for x in results] == expected
  assert not any(x.truncated for x in results)
  # SearchQA repeats the question; the others the last observation, ALFWorld
  # without the actions that its other replies have apart.
  last, _, _ = results[0].observation.partition('\nAVAILABLE ACTIONS')
  assert again == (first if env_name == 'searchqa' else last)


# Replies of JSON, most of them, that no server should give.
NONSENSE = (
    *(b'null', b'true', b'-1', b'1e999', b'NaN', b'"x"', b'""', b'[]', b'{}'),
    *(
        b'[5]',
        b'[null, null]',
        b'{"id": "x"}',
        b'{"id": null}',
        b'',
        b'{',
        b'\xff',
    ),
    *(b'{"error": 5}', b'{"error": "The id 7 is not valid."}', b'[' * 3000),
    *(
        b'{"observation": %s, "state": %s, "reward": %s, "done": %s,'
        b' "available_actions": %s}' % fields
        for fields in (
            (b'5', b'5', b'0', b'false', b'[]'),
            (b'null', b'null', b'0', b'false', b'[]'),
            (b'"o"', b'"o"', b'"1"', b'false', b'[]'),
            (b'"o"', b'"o"', b'NaN', b'false', b'[]'),
            (b'"o"', b'"o"', b'1e300', b'true', b'[]'),
            (b'"o"', b'"o"', b'0', b'"no"', b'[]'),
            (b'"o"', b'"o"', b'0', b'false', b'5'),
            (b'"o"', b'"o"', b'0', b'false', b'[5]'),
        )
    ),
    b'"' + b'x' * 40_000_000 + b'"',
)


@pytest.mark.parametrize('env_name', envs.AGENTGYM)
def test_nonsense_of_an_original_server_is_an_error_or_what_it_says(env_name):
  exchanges = REPLAYS[env_name]
  # Up to the observation after the first step.
  routes = [route.rpartition('/')[2] for (_, route, _), _ in exchanges]
  routes = routes[: routes.index('step') + 2]
  left = []  # bodies, in order

  async def answer(request):
    await request.read()
    return web.Response(body=left.pop(0), content_type='application/json')

  async def episode(session, url):
    async with EnvClient(session, url, env_name=env_name, timeout_s=20) as env:
      observation = await env.reset(12)
      result = await env.step('x')
      return observation, result, await env.observation()

  async def main():
    errors = 0
    app = web.Application()
    app.router.add_route('*', '/{path:.*}', answer)
    async with (
        test_utils.TestServer(app) as server,
        aiohttp.ClientSession() as session,
    ):
      for which, instead in itertools.product(range(len(routes)), NONSENSE):
        left[:] = [json.dumps(reply).encode() for _, reply in exchanges]
        left[which] = instead
        try:
          first, result, last = await episode(session, str(server.make_url('')))
        except EnvError as error:
          errors += 1
          assert len(str(error)) < 2000 and '\n' not in str(error)
          continue
        assert isinstance(first, str) and isinstance(last, str)
        assert isinstance(result.observation, str)
        assert math.isfinite(result.reward)
        assert isinstance(result.terminated, bool)
    return errors

  assert asyncio.run(main()) > 2 * len(NONSENSE)


def test_actions_that_can_be_done_end_an_observation():
  async def body(env):
    await env.reset(12)
    return await env.step('go to desk 1')

  result = replay('alfworld', REPLAYS['alfworld'][:3], body)
  assert result.observation == (
      'On the desk 1, you see a pen 1.\nAVAILABLE ACTIONS: take pen 1 from'
      ' desk 1'
  )
  broken = [*REPLAYS['alfworld'][:2], (REPLAYS['alfworld'][2][0], {})]
  with pytest.raises(EnvError, match='observation'):
    replay('alfworld', broken, body)
  lacks = {'observation': 'x', 'reward': 0, 'done': False}
  broken[-1] = (broken[-1][0], lacks)
  with pytest.raises(EnvError, match='available_actions'):
    replay('alfworld', broken, body)


@pytest.mark.parametrize('name', envs.AGENTGYM)
def test_what_only_agentgym_plays_is_refused_here(name):
  with pytest.raises(ConfigError, match=f'{name} is played by .* by env.url'):
    envs.get(name).open()


def test_our_server_refuses_a_wire_that_only_the_client_speaks(tmp_path):
  path = tmp_path / 'odd.py'
  path.write_text("""
import dataclasses
import itertools
import json
import math
from agentrl import envs

babyai = envs.get('babyai')
SPEC = dataclasses.replace(
    babyai, dialect=dataclasses.replace(babyai.dialect, closes=False)
)
""")

  async def main():
    async with server.running(f'{path}:SPEC'):
      pass

  with pytest.raises(ConfigError, match='its dialect sets, closes; only its'):
    asyncio.run(main())


def opening(env_name):
  """The exchanges up to the first step, and how the episode is closed."""
  exchanges = REPLAYS[env_name]
  return exchanges[:2], exchanges[-1][0]


def step_request(env_name, action='x'):
  dialect = envs.get(env_name).dialect
  _, (_, _, close) = opening(env_name)
  key = dialect.episode_key
  return ('POST', '/step', {key: close[key], 'action': action})


async def reset_and_step(env):
  await env.reset(12)
  return await env.step('x')


@pytest.mark.parametrize(
    'env_name, reply, words',
    [
        ('textcraft', {'error': 'The id 5 is not valid.'}, 'id 5 is not valid'),
        ('babyai', {'error': 'finished'}, 'gave the error .finished'),
        ('babyai', {'error': '0'}, "gave the error '0'"),  # before a reset
        ('sciworld', {'error': 'finished'}, 'gave the error .finished'),
        ('searchqa', html(500), '/step.* gave 500: Internal Server Error'),
        ('webarena', html(500), '/step.* gave 500: Internal Server Error'),
    ],
)
def test_an_original_error_in_a_step_is_one_that_says_so(
    env_name, reply, words
):
  begin, close = opening(env_name)
  exchanges = [*begin, (step_request(env_name), reply), (close, True)]
  with pytest.raises(EnvError, match=words):
    replay(env_name, exchanges, reset_and_step)


@pytest.mark.parametrize(
    'env_name, reply, words',
    [
        ('textcraft', {'error': 'list index out of range'}, 'out of range'),
        ('sciworld', {'error': '4639'}, "gave the error '4639'"),
        ('searchqa', html(500), 'reset.* gave 500'),
        (
            'webarena',
            {
                'observation': 'TimeoutError',
                'sites': 'Error',
                'object': 'Error',
            },
            'to task 12 gave no observation.*TimeoutError',
        ),
    ],
)
def test_an_original_error_in_a_reset_is_one_that_says_so(
    env_name, reply, words
):
  (create, (request, _)), close = opening(env_name)
  exchanges = [create, (request, reply), (close, True)]
  with pytest.raises(EnvError, match=words):
    replay(env_name, exchanges, lambda env: env.reset(12))


@pytest.mark.parametrize('env_name', REPLAYS)
def test_a_server_that_cannot_create_says_so(env_name):
  create, _ = REPLAYS[env_name][0]
  with pytest.raises(EnvError, match='create.* gave 500'):
    replay(env_name, [(create, html(500))], lambda env: env.reset(12))


@pytest.mark.parametrize(
    'env_name', [x for x in REPLAYS if envs.get(x).dialect.closes]
)
@pytest.mark.parametrize(
    'reply', [NO_SUCH_ROUTE, html(500), False, {'error': 'unknown'}]
)
def test_an_episode_is_over_whatever_close_answers(env_name, reply):
  # SciWorld's breaks when called twice.
  begin, close = opening(env_name)
  if isinstance(reply, web.Response):
    reply = web.Response(status=reply.status, text=reply.text)
  first = replay(env_name, [*begin, (close, reply)], lambda env: env.reset(12))
  assert first == OUTCOMES[env_name][0]


@pytest.mark.parametrize(
    'env_name, replies, expected',
    [
        # Done, though late: a success with what it was worth.
        (
            'babyai',
            [{'reward': 0.38, 'score': 0.38, 'done': True}],
            [(0.38, True)],
        ),
        ('babyai', [{'reward': 0, 'score': 0, 'done': True}], [(0, False)]),
        (
            'sciworld',
            [
                {'reward': 8, 'score': 8, 'done': False},
                {'reward': -108, 'score': -100, 'done': True},
            ],
            [(0.08, None), (-0.08, False)],  # taken back,
        ),
        (
            'sciworld',
            [{'reward': 58, 'score': 58, 'done': True}],
            [(0.58, False)],
        ),
        ('textcraft', [{'reward': 0, 'done': True}], [(0, False)]),
        (
            'webarena',  # a number before the end means nothing
            [
                {'reward': 0.5, 'terminated': False, 'truncated': False},
                {'reward': 0.0, 'terminated': True, 'truncated': False},
            ],
            [(0, None), (0, False)],
        ),
        (
            'webarena',
            [{'reward': 0.0, 'terminated': False, 'truncated': True}],
            [(0, False)],
        ),
    ],
)
def test_what_ends_an_original_episode_decides_its_success(
    env_name, replies, expected
):
  begin, close = opening(env_name)
  steps = [
      (step_request(env_name), {'observation': 'o'} | reply)
      for reply in replies
  ]

  async def body(env):
    await env.reset(12)
    return [await env.step('x') for _ in replies]

  results = replay(env_name, [*begin, *steps, (close, True)], body)
  assert [(x.reward, x.success) for x in results] == expected


def test_a_maze_that_runs_out_of_steps_is_no_success():
  begin = REPLAYS['lmrlgym_maze'][:2]
  asked = ('POST', '/maze/step', {'id': 0, 'action': 'x'})
  over = (asked, {'observation': 'Failure', 'reward': -1.0, 'done': True})
  result = replay('lmrlgym_maze', [*begin, over], reset_and_step)
  assert (result.reward, result.terminated, result.success) == (0, True, False)


def test_a_second_reset_keeps_the_episode_and_forgets_the_score():
  begin, close = opening('sciworld')
  step = (
      step_request('sciworld'),
      {'observation': 'o', 'reward': 8, 'score': 8, 'done': False},
  )

  async def body(env):
    return [(await reset_and_step(env)).reward for _ in range(2)]

  exchanges = [*begin, step, begin[1], step, (close, True)]
  assert replay('sciworld', exchanges, body) == [0.08, 0.08]


# From here on: an original client and our servers.


@dataclasses.dataclass(frozen=True)
class Asked:
  """One request of an original client.

  Attributes:
    request: method, route and fields; the episode's id is added.
    reads: what it takes from the reply: fields and their types, or the type of
      a bare reply.
  """

  request: tuple[str, str, dict[str, Any]]
  reads: dict[str, type | tuple[type, ...]] | type


NUMBER = (int, float)
# environment -> the requests of an original client's episode. It sends the id
# last, and asks for nothing that it does not need.
REQUESTS = {
    'textcraft': [
        Asked(
            (
                'POST',
                'create',
                {
                    'minecraft_dir': 'agentenv_textcraft/',
                    'commands': None,
                    'goal': None,
                },
            ),
            {'id': int, 'observation': str},
        ),
        Asked(('POST', 'reset', {'data_idx': 3}), {'observation': str}),
        Asked(
            ('POST', 'step', {'action': 'inventory'}),
            {'observation': str, 'reward': NUMBER, 'done': bool},
        ),
        Asked(
            ('POST', 'step', {'action': ''}),  # it found no "Action:"
            {'observation': str, 'reward': NUMBER, 'done': bool},
        ),
        Asked(('GET', 'observation', {}), str),
        Asked(
            ('GET', 'detail', {}),
            {
                'observation': str,
                'done': bool,
                'reward': NUMBER,
                'deleted': bool,
            },
        ),
        Asked(('GET', 'commands', {}), str),
        Asked(('GET', 'goal', {}), str),
        Asked(('POST', 'reset', {}), {'observation': str}),  # task 0
        Asked(('POST', 'close', {}), bool),
    ],
    'babyai': [
        Asked(('POST', 'create', None), {'id': int}),  # without a body
        Asked(
            ('POST', 'reset', {'data_idx': 3}),
            {
                'observation': str,
                'reward': NUMBER,
                'score': NUMBER,
                'done': bool,
            },
        ),
        Asked(
            ('POST', 'step', {'action': 'turn left'}),
            {
                'observation': str,
                'reward': NUMBER,
                'score': NUMBER,
                'done': bool,
            },
        ),
        Asked(
            ('GET', 'observation', {}),
            {
                'observation': str,
                'reward': NUMBER,
                'score': NUMBER,
                'done': bool,
                'deleted': bool,
            },
        ),
        Asked(('POST', 'render', {}), str),
        Asked(('POST', 'close', {}), bool),
    ],
    'sciworld': [
        Asked(('POST', 'create', None), {'id': int}),
        Asked(
            ('POST', 'reset', {'data_idx': 3}),
            {
                'task_name': str,
                'var_num': int,
                'task_description': str,
                'observation': str,
                'reward': NUMBER,
                'score': NUMBER,
                'deleted': bool,
                'done': bool,
            },
        ),
        Asked(
            ('POST', 'step', {'action': 'look around'}),
            {
                'observation': str,
                'reward': NUMBER,
                'score': NUMBER,
                'done': bool,
            },
        ),
        Asked(('GET', 'observation', {}), str),
        Asked(
            ('GET', 'detail', {}),
            {'task_name': str, 'task_description': str, 'score': NUMBER},
        ),
        Asked(
            ('GET', 'action_hint', {}),
            {'possible_actions': list, 'possible_objects': list},
        ),
        Asked(('GET', 'goals', {}), {'goals': str}),
        Asked(('POST', 'close', {}), bool),
    ],
    'searchqa': [
        Asked(('POST', 'create', {'id': 3}), int),
        Asked(('POST', 'reset', {'id': 3}), str),
        Asked(
            ('POST', 'step', {'action': '<search>Peru</search>'}),
            {
                'observation': str,
                'reward': NUMBER,
                'done': bool,
                'info': type(None),
            },
        ),
        Asked(('GET', 'observation', {}), str),
        Asked(('POST', 'close', {}), bool),
    ],
    'miniwob': [
        Asked(('POST', 'create', None), {'env_idx': int}),
        Asked(
            ('POST', 'reset', {'seed': 0, 'idx': 13_000}),
            {'observation': str, 'sites': list, 'object': str},
        ),
        Asked(
            ('POST', 'step', {'action': 'Next: ```scroll [down]```'}),
            {
                'observation': str,
                'reward': NUMBER,
                'terminated': bool,
                'truncated': bool,
                'info': dict,
            },
        ),
        Asked(('GET', 'observation', {}), str),
        Asked(('POST', 'render', {}), str),
        Asked(('POST', 'close', {}), {'closed': bool}),
    ],
}
# Whose routes those are.
REQUESTS['webarena'] = [
    dataclasses.replace(
        x, request=('POST', 'reset', {'seed': 0, 'idx': 30_000})
    )
    if x.request[1] == 'reset'
    else x
    for x in REQUESTS['miniwob']
]
ASKED = [
    pytest.param(
        x, marks=[pytest.mark.browser] * (x in ('miniwob', 'webarena'))
    )
    for x in REQUESTS
]


def ask(env_name, body):
  """Runs `body(send)` against our server; `send` gives status and reply."""

  async def main():
    async with (
        server.running(env_name, expert=True) as url,
        aiohttp.ClientSession() as session,
    ):

      async def send(method, route, fields):
        content = {'params' if method == 'GET' else 'json': fields}
        if fields is None:
          content = {}
        async with session.request(
            method, f'{url}/{route}', **content
        ) as response:
          return response.status, await response.json()

      return await body(send)

  return asyncio.run(main())


def test_every_environment_is_asked_as_the_original_asks():
  ours = envs.ENVS.keys() - envs.ADAPTERS - set(envs.AGENTGYM)
  assert REQUESTS.keys() == ours


@pytest.mark.parametrize('extra', [{}, {'visual': True, 'x': [1]}])
@pytest.mark.parametrize('env_name', ASKED)
def test_an_original_client_reads_what_it_needs(env_name, extra):
  dialect = envs.get(env_name).dialect

  async def body(send):
    episode = None
    for asked in REQUESTS[env_name]:
      method, route, fields = asked.request
      if fields is not None:
        fields = dict(fields) | (extra if method == 'POST' else {})
      if episode is not None:
        fields[dialect.episode_key] = episode
      status, reply = await send(method, route, fields)
      assert status == 200, (route, reply)
      if isinstance(asked.reads, dict):
        for key, kind in asked.reads.items():
          assert isinstance(reply[key], kind), (route, key, reply)
      else:
        assert isinstance(reply, asked.reads), (route, reply)
      if route == 'create':
        episode = (
            reply if dialect.created_key is None else reply[dialect.created_key]
        )
      if route == 'close':
        key = dialect.closed_key
        assert (reply if key is None else reply[key]) is True

  ask(env_name, body)


@pytest.mark.parametrize('env_name', ASKED)
def test_failures_have_a_status_and_an_error(env_name):
  dialect = envs.get(env_name).dialect

  async def body(send):
    gone = {dialect.episode_key: 99}
    for method, route, fields, expected in (
        ('POST', 'step', gone | {'action': 'x'}, 404),
        ('POST', 'reset', gone | {dialect.task_key: 0}, 404),
        ('GET', 'observation', gone, 404),
        ('POST', 'step', gone, 404),
        ('POST', 'step', {'action': 'x'}, 422),
        ('GET', 'observation', {}, 422),
        *(('GET', name, gone, 404) for name in dialect.queries),
        *([('POST', 'render', gone, 404)] if dialect.renders else []),
    ):
      status, reply = await send(method, route, fields)
      assert status == expected and reply.keys() == {'error'}, (route, reply)

  ask(env_name, body)


def test_textcraft_tells_its_commands_and_its_goal():
  async def body(send):
    _, created = await send('POST', 'create', {})
    _, commands = await send('GET', 'commands', {'id': created['id']})
    _, goal = await send('GET', 'goal', {'id': created['id']})
    assert created['observation'] == (
        f'Crafting commands:\n{commands}\n\nGoal: craft {goal}.'
    )

  ask('textcraft', body)


def test_babyai_draws_its_grid():
  async def body(send):
    await send('POST', 'create', None)
    status, reply = await send('POST', 'render', {'id': 0})
    assert status == 409 and 'no task yet' in reply['error']
    # 6 by 6 cells, and 22 by 22.
    for task_id, cells in ((3, 6), (38, 22)):
      await send('POST', 'reset', {'id': 0, 'data_idx': task_id})
      _, before = await send('POST', 'render', {'id': 0})
      assert before == (await send('POST', 'render', {'id': 0}))[1]
      head, _, data = before.partition(',')
      assert head == 'data:image/png;base64'
      png = base64.b64decode(data, validate=True)
      assert png.startswith(b'\x89PNG\r\n\x1a\n')
      width, height = struct.unpack('>II', png[16:24])
      assert width == height and width % cells == 0
      await send('POST', 'step', {'id': 0, 'action': 'turn left'})
      assert (await send('POST', 'render', {'id': 0}))[1] != before

  ask('babyai', body)


def test_a_finished_babyai_episode_can_still_be_drawn():
  async def body(send):
    await send('POST', 'create', None)
    await send('POST', 'reset', {'id': 0, 'data_idx': 44})
    done = False
    while not done:
      _, advice = await send('GET', 'expert', {'id': 0})
      _, reply = await send('POST', 'step', {'id': 0, **advice})
      done = reply['done']
    assert reply['score'] == reply['reward'] > 0  # what the original reads
    status, _ = await send('POST', 'render', {'id': 0})
    assert status == 200

  ask('babyai', body)
