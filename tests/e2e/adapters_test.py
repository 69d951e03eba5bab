"""Two steps of training on each environment that others wrote, by its real package.

verifiers and OpenEnv's servers run under Pythons of their own, see
tests/envs/adapters; without them, bubblewrap or a package a case is skipped.
"""

import importlib.util
import os
import pathlib
import shutil
import sys

import pytest

from agentrl.data import episodes as episodes_lib
from tests.e2e.running import finish, lines, small, summary_of

pytestmark = pytest.mark.slow
HERE = pathlib.Path(__file__).parents[1] / 'envs' / 'adapters'
CONFIG = small('quickstart')
FLAGS = (
    '--config.num_steps=2',
    '--config.eval.num_tasks=0',
    '--config.rollout.tasks_per_step=1',
    '--config.rollout.group_size=2',
    '--config.rollout.concurrency=2',
    '--config.rollout.max_context=2048',
    '--config.sampler.max_running=2',
    '--config.horizon.turns=(1, 2)',
    '--config.agent.template=chatml',
)
TOOLS = {'format': 'tools', 'instructions': 'full'}
CHAT = {'format': 'chat', 'instructions': 'compact'}
PLAIN = {'format': 'plain', 'instructions': 'compact'}


def mcp(folder):
  del folder
  return TOOLS, {
      'server': (
          sys.executable,
          '-m',
          'tests.envs.adapters.mcp_server',
          'stdio',
      ),
      'tasks': str(HERE / 'mcp_tasks.jsonl'),
  }


def harbor(folder):
  tasks = folder / 'tasks'
  shutil.copytree(HERE / 'harbor_tasks', tasks)
  for path in tasks.glob('*/task.toml'):  # the first two are for test and dev
    text = path.read_text()
    path.write_text(text.replace('[metadata]', '[metadata]\nsplit = "train"'))
  return TOOLS, {'folder': str(tasks), 'sandbox': 'bubblewrap'}


def openenv(folder):
  tasks = folder / 'tasks.jsonl'
  tasks.write_text('{"reset": {"seed": 4}, "split": "train"}\n')
  python = os.environ.get('AGENTRL_OPENENV_PYTHON')
  return TOOLS, {
      'server': (python, str(HERE / 'openenv_server.py'), '{port}'),
      'tasks': str(tasks),
  }


def program(folder):
  tasks = folder / 'tasks.jsonl'
  tasks.write_text('{"a": 3, "b": 4, "split": "train"}\n')
  return CHAT, {
      'function': f'{HERE / "program_agent.py"}:stream',
      'tasks': str(tasks),
  }


def verifiers(folder):
  del folder
  python = os.environ.get('AGENTRL_VERIFIERS_PYTHON')
  return CHAT, {'taskset': 'sums', 'python': python, 'num_tasks': 12}


# Name -> the `agent` section and the options, from a folder for files.
CASES = {
    'gymnasium': lambda folder: (PLAIN, {'id': 'Taxi-v4'}),
    'harbor': harbor,
    'mcp': mcp,
    'openenv': openenv,
    'program': program,
    'reasoning_gym': lambda folder: (PLAIN, {'dataset': 'countdown'}),
    'textarena': lambda folder: (PLAIN, {'id': 'Mastermind-v0'}),
    'verifiers': verifiers,
}
MISSING = {
    'harbor': shutil.which('bwrap') is None,
    'openenv': 'AGENTRL_OPENENV_PYTHON' not in os.environ,
    'verifiers': 'AGENTRL_VERIFIERS_PYTHON' not in os.environ,
    **{
        name: importlib.util.find_spec(package) is None
        for name, package in {
            'mcp': 'mcp',
            'program': 'openai',
            'reasoning_gym': 'reasoning_gym',
            'textarena': 'textarena',
        }.items()
    },
}


@pytest.fixture(scope='module')
def base(tmp_path_factory):
  """A policy of words that begins each run."""
  folder = tmp_path_factory.mktemp('base') / 'run'
  flags = (*FLAGS, '--config.num_steps=1', '--config.warmstart.episodes=4')
  finish(folder, *flags, config=CONFIG)
  return folder


@pytest.mark.parametrize('name', CASES)
def test_two_steps_on_the_real_package(name, base, tmp_path, monkeypatch):
  if MISSING.get(name):
    pytest.skip(f'what {name} needs is not here')
  monkeypatch.setenv('PYTHONPATH', str(HERE / 'verifiers_tasks'))
  agent, options = CASES[name](tmp_path)
  flags = [
      *FLAGS,
      '--config.warmstart.episodes=0',
      f'--config.model.name={base}',
      f'--config.env.name={name}',
      f'--config.env.options={options!r}',
      *(f'--config.agent.{key}={value}' for key, value in agent.items()),
  ]
  workdir = tmp_path / 'run'
  finish(workdir, *flags, config=CONFIG)
  summary = summary_of(workdir)
  assert (summary['status'], summary['steps']) == ('finished', 2)
  for step, line in enumerate(lines(workdir / 'metrics.jsonl')):
    assert line['step'] == step and line['train/grad_norm'] >= 0
    path = episodes_lib.step_path(workdir, 'train', step)
    episodes = list(episodes_lib.read(path))
    assert [episode.env for episode in episodes] == [name] * 2
    assert all(episode.valid and episode.turns for episode in episodes)
