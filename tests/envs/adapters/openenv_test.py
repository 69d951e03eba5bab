"""Tests for agentrl.envs.adapters.openenv, with servers of openenv-core.

Its requirements and ours do not go together, so its servers run under a Python of
their own, AGENTRL_OPENENV_PYTHON (third_party/requirements/openenv.txt). What a server
may do to hurt is done by one of aiohttp.
"""

import asyncio
import functools
import importlib.util
import json
import os
import pathlib
import sys
import time

import aiohttp.web
import pytest

from agentrl import envs
from agentrl.envs import functions as functions_lib, server as env_server
from agentrl.envs.adapters.openenv import server as openenv_server
from agentrl.envs.client import EnvClient
from agentrl.errors import ConfigError, EnvError, EnvFault
from agentrl.http.thread import HttpThread

SPEC = envs.get('openenv')
HERE = pathlib.Path(__file__).parent
PYTHON = os.environ.get('AGENTRL_OPENENV_PYTHON')
if PYTHON is None and importlib.util.find_spec('openenv'):
  PYTHON = sys.executable
real = pytest.mark.skipif(
    PYTHON is None, reason='needs AGENTRL_OPENENV_PYTHON, a Python with openenv'
)


@pytest.fixture(scope='module')
def served():
  """The URL of a server, started by its command as a run starts it."""
  command = (str(PYTHON), str(HERE / 'openenv_server.py'), '{port}')
  with openenv_server.opened(command, 20.0) as client:
    yield client.url
  with pytest.raises(EnvError, match='does not answer'):
    with openenv_server.opened(client.url, 1.0):
      pass


@pytest.fixture
def opened(open_env):
  """Opens environments on a server."""
  return lambda server, **options: open_env(
      SPEC, **{'server': server, 'timeout_s': 20.0} | options
  )


@real
def test_an_episode_of_a_running_server(served, opened):
  env = opened(served, fields=('hint',))
  assert env.reset(4, 0) == 'From 0 to 9.'
  lower = env.step('7')
  assert (lower.observation, lower.reward, lower.terminated) == (
      'Lower.', 0.0, False
  )  # fmt: skip
  right = env.step('{"name": "act", "arguments": {"guess": "4"}}')
  assert (right.observation, right.reward, right.terminated, right.success) == (
      'Right.', 1.0, True, True
  )  # fmt: skip
  # A new reset is a new session, with the same start.
  assert env.reset(4, 9) == 'From 0 to 9.' and env.step('4').success


@real
def test_a_policy_is_told_the_actions_and_words_of_a_server(served):
  spec = SPEC.under(server=served, timeout_s=20.0)
  (act,) = spec.functions
  assert (act.signature, act.description) == (
      'act(guess: str)', 'Guesses a number.'
  )  # fmt: skip
  assert spec.instructions('plain', 'full').startswith('You act in Guess.')
  # An expert in words is a call where a format writes calls.
  assert functions_lib.call_of(spec.functions, '7') == ('act', {'guess': '7'})


@real
def test_tasks_of_a_file(served, opened, tmp_path):
  path = tmp_path / 'tasks.jsonl'
  tasks = [
      {'reset': {'low': 10, 'seed': 2}, 'expert': ['11', '12']},
      {
          'reset': {'seed': 3},
          'expert': [{'name': 'act', 'arguments': {'guess': '3'}}],
      },
      {'reset': {'low': 'high'}, 'split': 'dev'},
  ]
  path.write_text(''.join(json.dumps(task) + '\n' for task in tasks))
  assert SPEC.tasks('dev', tasks=str(path)) == (1, 2)
  env = opened(served, tasks=str(path))
  assert env.reset(0, 0) == 'hint: From 10 to 19.'
  assert env.step(env.expert_action()).observation == 'hint: Higher.\ntries: 1'
  assert env.step(env.expert_action()).success
  with pytest.raises(EnvError, match='no plan from here'):
    env.expert_action()
  env.reset(1, 0)
  assert env.step(env.expert_action()).success
  with pytest.raises(EnvFault, match='reset of OpenEnv failed.*low is no num'):
    env.reset(2, 0)
  with pytest.raises(EnvError, match='has no task 3'):
    env.reset(3, 0)


@real
def test_tools_of_a_server_are_functions(served, opened):
  spec = SPEC.under(server=f'{served}/tools', timeout_s=20.0)
  assert [x.signature for x in spec.functions] == ['age(who: str)']
  env = opened(f'{served}/tools')
  env.reset(0, 0)
  call = lambda **x: json.dumps({'name': 'age', 'arguments': x})
  assert env.step(call(who='Ada')).observation == 'Ada is 3 years old.'
  assert env.step(call(whom='Ada')).observation.startswith('Error: ')
  assert env.step('Ada').observation == (
      'This is no call of a function. There are: age(who: str).'
  )
  assert env.available_actions() == [call(who='{who}')]


@real
def test_its_own_error_at_a_step_can_be_tried_again(served, opened):
  env = opened(served)
  env.reset(4, 0)
  with pytest.raises(EnvError, match='invalid literal') as found:
    env.step('four')
  assert found.value.retryable
  told = opened(served, show_errors=True)
  told.reset(4, 0)
  result = told.step('four')
  assert 'EXECUTION_ERROR invalid literal' in result.observation
  assert not result.terminated and told.step('4').success
  env.reset(4, 0)
  refused = env.step('{"name": "act", "arguments": {"gues": "4"}}')
  assert 'VALIDATION_ERROR guess: Field required' in refused.observation
  assert env.step('4').success


@real
def test_megabytes_are_cut_or_refused(served, opened):
  env = opened(served, most_chars=100)
  env.reset(0, 0)
  assert env.step('shout').observation == (
      f'hint: {"x" * 94}\n[999906 characters were cut]'
  )
  with pytest.raises(EnvFault, match='over 33554432 bytes'):
    env.step('flood')
  assert env.reset(0, 0)


@real
def test_a_server_that_hangs_is_an_error_and_the_next_episode_goes_on(
    served, opened
):
  env = opened(served, timeout_s=1.0)
  env.reset(0, 0)
  began = time.monotonic()
  with pytest.raises(EnvError, match=r'does not answer step within 1 s'):
    env.step('hang')
  assert time.monotonic() - began < 8
  env.reset(0, 0)
  assert env.step('0').success


@real
def test_more_sessions_than_a_server_takes(served, open_env):
  held = [open_env(SPEC, server=served, timeout_s=20.0) for _ in range(5)]
  with pytest.raises(EnvError, match='CAPACITY_REACHED.*env.options.episodes'):
    for env in held:
      env.reset(0, 0)


@real
def test_it_is_served_as_other_environments_are(served):
  options = {'server': served, 'timeout_s': 20.0}

  async def main():
    async with (
        env_server.running('openenv', options=options) as url,
        aiohttp.ClientSession() as session,
        EnvClient(session, url, env_name='openenv') as env,
    ):
      first = await env.reset(3)
      return first, await env.step('3')

  first, result = asyncio.run(main())
  assert first == 'hint: From 0 to 9.'
  assert (result.reward, result.success) == (1.0, True)


DIES = """
import os, sys
from aiohttp import web

async def say(request):
  return web.json_response({'action': {'properties': {'x': {'type': 'string'}}}})

async def die(request):
  os._exit(3)

app = web.Application()
app.add_routes([web.get('/health', say), web.get('/schema', say), web.get('/ws', die)])
web.run_app(app, host='127.0.0.1', port=int(sys.argv[1]), print=None)
"""


def test_a_server_that_dies_is_an_error(opened):
  env = opened((sys.executable, '-c', DIES, '{port}'), timeout_s=5.0)
  with pytest.raises(EnvError, match='does not answer a new session'):
    env.reset(0, 0)
  with pytest.raises(EnvError, match='does not answer GET /schema'):
    env.reset(0, 0)


def test_a_session_that_breaks_off_is_an_error(fake, opened):
  env = opened(fake(None))
  for _ in range(2):
    with pytest.raises(EnvError, match=r'does not answer reset: .*ended \('):
      env.reset(0, 0)


SCHEMA = {
    'action': {'properties': {'x': {'type': 'integer'}}, 'required': ['x']}
}


@pytest.fixture
def fake():
  """Serves what is no server of openenv-core; gives its URL."""
  threads = []

  def serve(answer, schema=SCHEMA):
    async def socket(request):
      found = aiohttp.web.WebSocketResponse()
      await found.prepare(request)
      async for _ in found:
        if answer is None:
          request.transport.abort()
        else:
          await found.send_str(answer)
      return found

    app = aiohttp.web.Application()
    app.router.add_get('/ws', socket)
    app.router.add_get('/health', functools.partial(_answer, {}))
    app.router.add_get('/schema', functools.partial(_answer, schema))
    thread = HttpThread(app)
    threads.append(thread)
    return f'http://127.0.0.1:{thread.start("127.0.0.1", 0)}'

  yield serve
  for thread in threads:
    thread.stop()


async def _answer(value, request):
  del request
  return aiohttp.web.json_response(value)


@pytest.mark.parametrize(
    'answer, said',
    [
        ('<html>', 'reset gave no JSON'),
        ('[' * 100_000, 'reset gave no JSON'),
        ('[]', 'not what openenv-core 0.3 sends: Expected `object`'),
        ('{"type": "state", "data": {}}', "gave a message 'state'"),
        ('{"type": "observation", "data": {"observation": "x"}}', 'got `str`'),
        (
            (
                '{"type": "observation", "data": {"observation": {}, "reward":'
                ' 1e99}}'
            ),
            'reward',
        ),
        (
            '{"type": "observation", "data": {"observation": {}, "done": 1}}',
            'done',
        ),
    ],
)
def test_what_is_outside_of_the_protocol_is_a_fault(answer, said, fake, opened):
  env = opened(fake(answer))
  with pytest.raises(EnvFault, match=said):
    env.reset(0, 0)


def test_numbers_are_fields_and_fields_that_are_not_there(fake, opened):
  data = {'observation': {'a': [1], 'b': None, 'c': 'é'}, 'reward': True}
  url = fake(json.dumps({'type': 'observation', 'data': data}))
  env = opened(url)
  assert env.reset(0, 0) == 'a: [1]\nc: é'
  assert env.available_actions() == [
      '{"name": "act", "arguments": {"x": "{x}"}}'
  ]
  assert env.step('5').observation.startswith('This is no call')
  result = env.step('{"name": "act", "arguments": {"x": 5}}')
  assert (result.reward, result.success) == (1.0, None)
  with pytest.raises(EnvFault, match="has no field 'd'; it has a, b, c"):
    opened(url, fields=('d',)).reset(0, 0)


def test_other_actions_than_those_that_were_told_are_refused(fake, opened):
  schema = json.loads(json.dumps(SCHEMA))
  env = opened(fake('{}', schema))
  schema['action']['properties']['y'] = {'type': 'string'}
  with pytest.raises(EnvFault, match='are others than those'):
    env.reset(0, 0)


@pytest.mark.parametrize(
    'options, said',
    [
        ({}, 'env.options.server is not set'),
        ({'server': 'localhost:80'}, 'is no URL'),
        ({'server': ('python',)}, 'has no {port}'),
        (
            {'server': ('/bin/false', '{port}')},
            'OpenEnv server ended with exit code 1',
        ),
        ({'server': 'http://127.0.0.1:1'}, 'does not answer GET /health'),
        ({'server': 'http://x', 'tasks': '/nowhere'}, '/nowhere'),
    ],
)
def test_what_cannot_be_reached_is_said(options, said):
  with pytest.raises((ConfigError, EnvError), match=said):
    SPEC.open(**options, timeout_s=2.0)


@pytest.mark.parametrize(
    'line, said',
    [
        ('{"rest": {}}', "unknown 'rest'; known: reset, expert, split"),
        ('{"reset": 3}', "'reset' must be an object"),
        ('{"expert": [3]}', "'expert' is a list of calls"),
        ('{"expert": "up"}', "'expert' is a list of calls"),
    ],
)
def test_a_line_that_is_no_task_is_refused(line, said, tmp_path):
  path = tmp_path / 'tasks.jsonl'
  path.write_text(line)
  with pytest.raises(ConfigError, match=said):
    SPEC.tasks('train', tasks=str(path))
