"""Tests for agentrl.envs.adapters.verifiers, with the package and a taskset of ours.

verifiers runs under a Python of its own, AGENTRL_VERIFIERS_PYTHON
(third_party/requirements/verifiers.txt). What its process may do to hurt is done by a
script in its place.
"""

import contextlib
import json
import os
import pathlib
import stat
import sys

import pytest

from agentrl import envs
from agentrl.envs import conversation
from agentrl.errors import ConfigError, EnvError, EnvFault

SPEC = envs.get('verifiers')
FOLDER = pathlib.Path(__file__).parent / 'verifiers_tasks'
PYTHON = os.environ.get('AGENTRL_VERIFIERS_PYTHON')
real = pytest.mark.skipif(
    PYTHON is None, reason='needs AGENTRL_VERIFIERS_PYTHON'
)


@pytest.fixture(scope='module')
def factory():
  """Environments of our taskset: their process takes seconds to start."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv('PYTHONPATH', str(FOLDER))
    with contextlib.closing(
        SPEC.open(taskset='sums', python=PYTHON, num_tasks=12)
    ) as made:
      yield made


@pytest.fixture
def env(factory):
  with contextlib.closing(factory.make()) as made:
    yield made


def add(a, b):
  call = {'name': 'calculator_add', 'arguments': {'a': a, 'b': b}}
  return json.dumps(call)


@real
def test_an_episode_is_the_environments_own(env, factory):
  (tool,) = factory.functions
  assert tool.signature == 'calculator_add(a: int, b: int)'
  assert tool.description == 'The sum of two numbers.'
  assert conversation.read(env.reset(3, 0)) == [
      {'role': 'system', 'content': 'Use the tool.'},
      {'role': 'user', 'content': '3 + 7?'},
  ]
  called = env.step(add(3, 7))
  assert (called.observation, called.terminated) == ('10', False)
  ended = env.step('10')
  assert (ended.reward, ended.terminated, ended.success) == (1.5, True, True)
  env.reset(4, 0)
  wrong = env.step('10')
  assert (wrong.reward, wrong.success) == (0.5, False)


@real
def test_episodes_at_a_time_and_one_that_is_given_up(env, factory):
  with contextlib.closing(factory.make()) as other:
    env.reset(5, 0)
    other.reset(6, 0)
    assert env.step(add(1, 1)).observation == '2'
    other.reset(8, 0)  # the one before ends unseen
    assert other.step('15').success
  assert env.step('12').success


@real
def test_a_rubric_that_fails_gives_no_reward(env):
  env.reset(0, 0)
  with pytest.raises(EnvError, match='this sum has no rubric'):
    env.step('7')
  env.reset(1, 0)
  assert env.step('8').success


# In the place of Python: it is given run.py, the config and the number of tasks.
STAND_IN = """#!{python}
import json, os, sys, time, urllib.request

how = json.loads(sys.argv[2])['taskset']['id']
if how == 'never':
  sys.exit('no module named verifiers')
print('Hello' if how == 'talks' else json.dumps({{'ready': int(sys.argv[3]) - (how == 'fewer')}}), flush=True)
for line in sys.stdin:
  asked = json.loads(line)
  body = {{'messages': [{{'role': 'user', 'content': 'Well?'}}]}}
  request = urllib.request.Request(
      asked['url'] + '/chat/completions',
      json.dumps(body).encode(),
      {{'Content-Type': 'application/json'}},
  )
  if how == 'silent':
    print(json.dumps({{'id': asked['id'], 'reward': 1.0}}), flush=True)
    continue
  try:
    reply = json.load(urllib.request.urlopen(request))
  except OSError:
    continue
  said = reply['choices'][0]['message']['content']
  if said == 'die':
    os._exit(3)
  if said == 'hang':
    time.sleep(60)
  if said == 'babble':
    print('no JSON', flush=True)
  end = {{'nan': float('nan'), 'text': 'much'}}.get(said, 1.0)
  print(json.dumps({{'id': asked['id'], 'reward': end}}), flush=True)
"""


@pytest.fixture
def opened(tmp_path, open_env):
  """Opens environments of the stand-in."""
  path = tmp_path / 'stand_in'
  path.write_text(STAND_IN.format(python=sys.executable))
  path.chmod(path.stat().st_mode | stat.S_IXUSR)
  return lambda taskset='plain', **options: open_env(
      SPEC,
      **{'taskset': taskset, 'python': str(path), 'timeout_s': 5.0} | options,
  )


@pytest.mark.parametrize(
    'action, said',
    [
        ('die', 'verifiers ended with exit code 3'),
        ('babble', 'verifiers was killed by SIGKILL'),
        ('text', 'verifiers was killed by SIGKILL'),
        ('nan', 'its reward is nan'),
    ],
)
def test_a_process_in_trouble_is_an_error_and_the_next_episode_goes_on(
    action, said, opened
):
  env = opened()
  assert env.reset(0, 0) and env.step('x').success
  env.reset(1, 0)
  with pytest.raises(EnvError, match=said):
    env.step(action)
  env.reset(2, 0)
  assert env.step('x').success


def test_a_process_that_hangs_is_an_error(opened):
  env = opened(timeout_s=1.0)
  env.reset(0, 0)
  with pytest.raises(EnvError, match='neither asks nor ends within 1 s'):
    env.step('hang')


@pytest.mark.parametrize(
    'taskset, kind, said',
    [
        (None, ConfigError, 'env.options.taskset is not set'),
        ('never', EnvError, 'exit code 1: no module named verifiers'),
        ('talks', EnvFault, "began with 'Hello"),
        ('fewer', ConfigError, 'num_tasks=100, .* set it to 99'),
        ('silent', EnvFault, 'ended without asking'),
    ],
)
def test_a_process_that_is_none_is_refused(taskset, kind, said, opened):
  with pytest.raises(kind, match=said):
    opened(taskset)


def test_a_python_that_is_not_there_is_said():
  with pytest.raises(ConfigError, match=r'env.options.python=/nowhere'):
    SPEC.open(taskset='x', python='/nowhere')


def test_splits_are_of_the_first_tasks():
  assert SPEC.tasks('test', num_tasks=21) == (0, 10, 20)
  assert SPEC.tasks('dev', num_tasks=21) == (1, 11)
  assert len(SPEC.tasks('train', num_tasks=21)) == 16
