"""Tests for agentrl.modes.settings: what a config may and may not say."""

import pathlib
import subprocess
import sys

import pytest

from agentrl.errors import ConfigError
from agentrl.modes import settings
from configs import babyai_grpo, quickstart, textcraft_grpo

ROOT = pathlib.Path(__file__).parent.parent.parent


def changed(**fields):
  """The quickstart with fields replaced, `section__name` for nested ones."""
  config = quickstart.get_config('tiny')
  for path, value in fields.items():
    section, _, name = path.partition('__')
    if name:
      setattr(config[section], name, value)
    else:
      config[section] = value
  return config


@pytest.mark.parametrize('module', [quickstart, textcraft_grpo, babyai_grpo])
@pytest.mark.parametrize('arg', [None, 'tiny'])
def test_configs_build_and_every_field_is_known(module, arg):
  config = module.get_config(arg)
  config.lock()
  wanted = settings.read_train(config)
  assert wanted.num_steps == config.num_steps


def test_the_original_horizon_is_the_default():
  wanted = settings.read_train(textcraft_grpo.get_config())
  turns = [wanted.horizon.update(None, s, {})[1] for s in (0, 99, 100, 200)]
  assert turns == [10, 10, 20, 30]


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(rollout__group_size=1), 'group_size=1 gives every episode'),
        (dict(horizon=dict(kind='fixed', turns=(0,))), 'got 0'),
        (dict(horizon=dict(kind='stepwise', turns=(0, 3), every=2)), '0, 3'),
        (dict(horizon=dict(kind='stepwise', turns=(3,), every=0)), 'every=0'),
        (dict(horizon=dict(kind='fixed', turns=(3, 6))), 'stepwise'),
        (dict(horizon=dict(kind='fixed', turns=(3,), every=5)), 'no every'),
        (dict(horizon=dict(kind='growing', turns=(3,))), 'fixed, stepwise'),
        (dict(rollout__temperature=0.0), 'temperature above 0'),
        (dict(rollout__max_context=16), 'no room for a prompt'),
        (dict(algo__name='grpoo'), 'known: grpo'),
        (dict(algo__clip_low=-0.1), 'algo.clip_low must be above 0'),
        (dict(optim__lr=0.0), 'optim.lr must be above 0'),
        (dict(num_steps=0), 'num_steps must be at least 1'),
        (dict(sampler=dict(kind='sglang')), 'needs sampler.urls'),
        (
            dict(sampler=dict(kind='embedded', urls=('http://x',))),
            'no effect',
        ),
        (
            dict(
                rollout=dict(
                    tasks_per_step=2,
                    group_size=2,
                    max_completion_tokens=4,
                    max_context=64,
                    top_p=0.9,
                )
            ),
            'top_p=0.9',
        ),
        (dict(optim=dict(lr=1e-4, learning_rate=1)), 'optim.learning_rate'),
        (dict(extra=dict()), 'Unknown section config.extra'),
        (dict(algo=dict(clip_low=0.1)), 'lacks algo.name'),
        (dict(mesh=dict(sequence=2)), 'not supported'),
        (dict(env=dict(name='babyai', url='http://x', workers=2)), 'workers=2'),
    ],
)
def test_contradictions_are_refused(fields, message):
  with pytest.raises(ConfigError, match=message):
    settings.read_train(changed(**fields))


def launch(*flags):
  result = subprocess.run(
      [sys.executable, str(ROOT / 'launch.py'), *flags],
      capture_output=True,
      text=True,
      timeout=120,
  )
  assert result.returncode == 2, result.stderr
  assert 'Traceback' not in result.stderr
  return result.stderr


QUICKSTART = f'--config={ROOT}/configs/quickstart.py:tiny'


def test_an_unknown_field_on_the_command_line_is_one_clear_error(tmp_path):
  said = launch(QUICKSTART, '--config.optim.lrr=1', f'--workdir={tmp_path}')
  assert 'lrr' in said


def test_an_unknown_argument_names_the_known_ones(tmp_path):
  said = launch(QUICKSTART + ',speed=9', f'--workdir={tmp_path}')
  assert "'speed'; known: tiny" in said


def test_a_missing_workdir_says_how_to_give_one():
  assert '--workdir=runs/NAME' in launch(QUICKSTART)


def test_a_workdir_that_cannot_be_written_is_refused(tmp_path):
  file = tmp_path / 'file'
  file.write_text('')
  assert 'Cannot write' in launch(QUICKSTART, f'--workdir={file}/run')


def test_an_environment_server_that_answers_html_is_one_clear_error(tmp_path):
  # A real server of something else.
  server = subprocess.Popen(
      [sys.executable, '-m', 'http.server', '0', '--bind', '127.0.0.1'],
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
      env={'PYTHONUNBUFFERED': '1'},
      cwd=tmp_path,
  )
  try:
    port = server.stdout.readline().split('port ')[1].split()[0]
    said = launch(
        QUICKSTART,
        f'--config.env.url=http://127.0.0.1:{port}',
        f'--workdir={tmp_path}/run',
    )
  finally:
    server.kill()
    server.wait()
    server.stdout.close()
  assert 'EnvError' in said and '/create' in said and '501' in said
