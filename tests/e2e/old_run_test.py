"""A run and an export of an older release are gone on from, see tests/fixtures."""

import json
import pathlib
import tarfile

import pytest

from agentrl.config import defaults, record, resume
from agentrl.errors import ConfigError
from agentrl.modes import evaluate, export, reading, train
from agentrl.runtime import workdir as workdir_lib
from agentrl.text import template
from agentrl.types import Message
from configs import evaluate as evaluate_config
from configs.export import get_config as export_config

ARCHIVE = pathlib.Path(__file__).parents[1] / 'fixtures' / 'old_run.tar.xz'
CONVERSATION = [
    Message('system', 'Walk.'),
    Message('user', 'a wall'),
    Message('assistant', 'turn left'),
    Message('user', 'a door'),
]


@pytest.fixture(autouse=True)
def _old(tmp_path, monkeypatch):
  """A working directory with `base`, `run` and `exported`."""
  with tarfile.open(ARCHIVE) as archive:
    archive.extractall(tmp_path, filter='data')
  monkeypatch.chdir(tmp_path)


def load(path):
  return json.loads(pathlib.Path(path).read_text(encoding='utf-8'))


def command():
  """The config that `run` was trained with, as it is written now."""
  config = defaults('train')

  def fill(section, values):
    for name, value in values.items():
      if isinstance(value, dict):
        fill(section[name], value)
      # One without a value may be gone, as that of the kernels is.
      elif value is not None and name != 'attention':
        section[name] = tuple(value) if isinstance(value, list) else value

  fill(config, load('run/config.json'))
  return config


@pytest.mark.parametrize('model', ['run', 'run/checkpoints/2', 'exported'])
def test_how_it_was_asked_comes_along(model):
  made = reading.read(evaluate_config.get_config(f'model={model}'))
  assert made.env.name == 'babyai'
  assert made.env.options == {
      'levels': ['GoToRedBall'],
      'style': 'compact',
      'expert_macros': True,
  }
  agent = made.agent
  assert (agent.format, agent.instructions) == ('plain', 'compact')
  assert agent.template == 'chatml'
  limits = made.rollout
  assert (limits.max_completion_tokens, limits.max_context) == (12, 1500)
  assert limits.concurrency == 5
  panel = made.eval
  assert (panel.num_tasks, panel.samples, panel.horizon) == (3, 2, 4)
  assert (panel.split, panel.seed, panel.task_file) == ('dev', 7, None)


@pytest.mark.slow
@pytest.mark.parametrize('model', ['run', 'exported'])
def test_it_is_evaluated(model):
  config = evaluate_config.get_config(f'model={model}')
  config.sampler.max_running = 8
  evaluate.run(config, 'evaluated')
  found = load('evaluated/summary.json')['eval']['dev']
  then = load('run/summary.json')['eval']['after']
  # Runs of then did not keep it.
  assert found.keys() == {*then.keys(), 'progress_mean'}
  assert found['n'] == then['n'] == 6 and found['invalid'] == 0
  assert found['turns_mean'] == then['turns_mean'] == 4.0


def test_it_is_exported_as_it_was():
  export.run(export_config('run=run'), 'again')
  for path in pathlib.Path('exported').iterdir():
    if path.suffix == '.jinja':  # ours has a place for tools since
      said = [
          template.compile_template(text, {})(CONVERSATION)
          for text in (
              path.read_text(),
              pathlib.Path('again', path.name).read_text(),
          )
      ]
      assert said[0] == said[1]
    elif path.suffix not in ('.md', '') and path.name != workdir_lib.EXPORTED:
      assert pathlib.Path('again', path.name).read_bytes() == path.read_bytes()
  old, new = load('exported/agentrl.json'), load('again/agentrl.json')
  for name, values in old.items():
    assert new[name].items() >= values.items()
  # Whoever evaluates it plays the same.
  made = [
      reading.read(evaluate_config.get_config(f'model={model}'))
      for model in ('exported', 'again')
  ]
  assert record(made[0]) == record(made[1]) | {
      'model': record(made[0])['model']
  }


def test_it_is_the_same_run_and_no_other():
  config = command()
  kept = record(reading.read(config))
  assert resume.check(kept, pathlib.Path('run'))
  config.num_steps = 9
  config.eval.num_tasks = 5
  kept = record(reading.read(config))
  assert resume.check(kept, pathlib.Path('run'))
  config.optim.b2 = 0.9  # of which the old config says nothing
  kept = record(reading.read(config))
  with pytest.raises(ConfigError, match=r'optim.b2=0.999 \(now 0.9\)'):
    resume.check(kept, pathlib.Path('run'))


@pytest.mark.slow
def test_the_same_command_continues_it(capsys):
  config = command()
  config.num_steps = 3
  train.run(config, 'run')
  assert 'Continuing after step 2' in capsys.readouterr().out
  found = load('run/summary.json')
  assert found['steps'] == 3
  steps = [json.loads(x)['step'] for x in open('run/metrics.jsonl')]
  assert steps == [0, 1, 2]
