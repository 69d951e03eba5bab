"""Tests for agentrl.modes.told, against engines and servers that tell otherwise."""

import concurrent.futures
import contextlib
import socket

import pytest

from agentrl.config import record
from agentrl.errors import ConfigError, EngineError
from agentrl.modes import reading, told
from agentrl.weights import model_card
from configs import babyai_grpo, evaluate as config_lib
from tests import tiny
from tests.fakes import page_server

NAME = 'policy/1'
PARAMS = tiny.random_params(tiny.CONFIG)
JSON = {'Content-Type': 'application/json'}


def trained(**changes):
  """Sections that a server tells of a run, some replaced by others."""
  config = babyai_grpo.get_config('model=tiny-1m,tiny')
  config.env.options = dict(levels=('GoToRedBall',), style='compact')
  config.agent = dict(format='plain', instructions='compact')
  config.rollout.max_context = 777
  config.eval.update(num_tasks=24, horizon=5)
  run = record(reading.read(config))
  return model_card.trained_with(run) | changes


@contextlib.contextmanager
def serving(sections, **settings):
  with tiny.serving(
      PARAMS, served_name=NAME, trained_with=sections, **settings
  ) as url:
    yield url


def by_url(url, arg=''):
  return config_lib.get_config(f'model={url}{arg}')


def by_endpoint(url, arg=''):
  return config_lib.get_config(f'api={url}/v1,api_model={NAME}{arg}')


def check_is_brought(made):
  assert made.env.name == 'babyai'
  assert list(made.env.options['levels']) == ['GoToRedBall']
  assert (made.agent.format, made.agent.instructions) == ('plain', 'compact')
  assert made.rollout.max_context == 777
  assert (made.eval.num_tasks, made.eval.horizon) == (24, 5)


@pytest.mark.parametrize('make', [by_url, by_endpoint])
def test_an_evaluation_takes_what_the_server_tells(make):
  with serving(trained()) as url:
    config = make(url)
    check_is_brought(reading.read(config))
    assert told.trained_with(config)['agent']['format'] == 'plain'


@pytest.mark.parametrize('make', [by_url, by_endpoint])
def test_what_the_command_says_comes_first(make):
  with serving(trained()) as url:
    config = make(url)
    config.rollout.max_context = 900
    config.eval.num_tasks = 7
    config.agent.format = 'react'
    made = reading.read(config)
  assert (made.rollout.max_context, made.eval.num_tasks) == (900, 7)
  assert (made.agent.format, made.agent.instructions) == ('react', 'compact')


@pytest.mark.parametrize('make', [by_url, by_endpoint])
def test_another_environment_takes_no_options_over(make):
  with serving(trained()) as url:
    config = make(url)
    config.env.name = 'textcraft'
    made = reading.read(config)
  assert made.env.name == 'textcraft' and 'levels' not in made.env.options
  assert made.agent.format == 'plain'


@pytest.mark.parametrize('make', [by_url, by_endpoint])
def test_a_server_that_tells_nothing_brings_nothing(make):
  with serving(None) as url:
    config = make(url)
    assert told.trained_with(config) is None
    # As without a server.
    expected = config_lib.get_config()
    assert reading.read(config).agent == reading.read(expected).agent


def test_policies_beside_it_play_its_panel():
  with serving(trained()) as url:
    policies, said = told.read(by_url(f'expert;{url};random'))
  assert list(said) == [url]
  check_is_brought(policies[1].configs[0])
  panels = [policy.configs[0] for policy in policies]
  assert [x.env.name for x in panels] == ['babyai'] * 3
  assert [x.eval.num_tasks for x in panels] == [24] * 3


def test_files_and_servers_of_its_machine_stay_there():
  sections = trained()
  sections['env'] |= dict(url='http://10.0.0.1:1', token_file='/secret')
  sections['eval'] |= dict(task_file='/items.json')
  sections['track'] = {'to': 'wandb'}
  with serving(sections) as url:
    (policy,), said = told.read(by_url(url))
  env, panel = policy.configs[0].env, policy.configs[0].eval
  assert env.urls == () and env.token_file is panel.task_file is None
  assert said[url].keys() == {'env', 'agent', 'rollout', 'eval'}


@pytest.mark.parametrize(
    'sections', ['no', [1], {'env': 'babyai'}, {'eval': 3}]
)
def test_what_are_no_sections_is_refused(sections):
  with serving(sections) as url:
    with pytest.raises(ConfigError, match=f'{url} tells trained_with='):
      reading.read(by_url(url))


@pytest.mark.parametrize(
    'sections, match',
    [
        ({'agent': {'format': 'yaml'}}, 'agent.format=.yaml'),
        ({'rollout': {'max_context': 'all'}}, 'rollout.max_context is a whole'),
        ({'env': {'name': 'tetris'}}, 'tetris'),
    ],
)
def test_values_are_checked_as_a_command_s_are(sections, match):
  with serving(sections) as url:
    with pytest.raises(ConfigError, match=match):
      reading.read(by_url(url))


def test_code_of_its_own_is_the_user_s_to_name():
  own = 'tests.envs.own_env_test:SPEC'
  with serving(trained(env={'name': own, 'options': {}})) as url:
    with pytest.raises(ConfigError, match=f'--config.env.name={own}'):
      reading.read(by_url(url))
    assert reading.read(by_url(url, ',env=babyai')).env.name == 'babyai'


@pytest.mark.parametrize('make', [by_url, by_endpoint])
def test_what_was_told_outlives_the_server(make, tmp_path):
  with serving(trained()) as url:
    config = make(url)
    before, said = told.read(config, tmp_path)
    told.keep(said, tmp_path)
    (tmp_path / 'config.json').write_text('{}')
  assert told.read(config, tmp_path) == (before, said)


def test_an_evaluation_waits_for_a_server_that_starts(tmp_path):
  port = free_port()
  url, directory = f'http://127.0.0.1:{port}', tmp_path / 'new'
  with concurrent.futures.ThreadPoolExecutor() as pool:
    reading = pool.submit(told.read, by_url(url), directory)
    with pytest.raises(TimeoutError):
      reading.result(0.5)
    with serving(trained(), port=port):
      (policy,), _ = reading.result(60)
  check_is_brought(policy.configs[0])


def test_an_evaluation_does_not_wait_for_ever(tmp_path):
  config = by_url(f'http://127.0.0.1:{free_port()}')
  config.sampler.timeout_s = 0.3
  with pytest.raises(EngineError, match='not ready within 0.3 s'):
    told.read(config, tmp_path / 'new')


def test_checking_waits_for_nobody():
  made = reading.read(by_url(f'http://127.0.0.1:{free_port()}'))
  assert made.agent == reading.read(config_lib.get_config()).agent


def free_port():
  with socket.create_server(('127.0.0.1', 0)) as free:
    return free.getsockname()[1]


@pytest.mark.parametrize('body', [b'<html>', b'[]', b'{"data": []}', b'\xff'])
def test_endpoints_that_have_no_card_bring_nothing(body):
  with page_server(body, **JSON) as url:
    assert told.trained_with(by_endpoint(url)) is None


def test_the_endpoint_gets_its_key(monkeypatch):
  monkeypatch.setenv('KEY', 'secret')
  seen = []
  with page_server(b'{}', seen, **JSON) as url:
    config = by_endpoint(url)
    config.api.token_variable = 'KEY'
    assert told.trained_with(config) is None
  assert seen == [('/v1/models/policy/1', 'Bearer secret')]
  monkeypatch.delenv('KEY')  # a run would be refused; a config can be read
  assert told.trained_with(config) is None and len(seen) == 1
