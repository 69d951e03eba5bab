"""Dry runs refuse what the run would refuse in its first seconds."""

import importlib.util
import json
import sys

import pytest

from agentrl.config import commandline
from agentrl.errors import AgentrlError
from agentrl.modes import doctor, preflight, reading
from tests.launch_test import launch


def refused(named, *given, workdir=None):
  """The error of a dry run of this config, as `launch.py` makes it."""
  config = commandline.load(named)
  commandline.override(config, ['x', *(f'--config.{x}' for x in given)])
  with pytest.raises(AgentrlError) as told:
    preflight.check(config, reading.read(config), workdir)
  return str(told.value)


@pytest.fixture(name='items')
def _items(tmp_path):
  def write(*ids):
    path = tmp_path / 'items.json'
    path.write_text(json.dumps([{'item_id': x} for x in ids]))
    return str(path)

  return write


TINY = 'configs/quickstart.py:tiny'


@pytest.mark.parametrize(
    'named, given, words',
    [
        ('configs/babyai_sft.py:data=none.json,tiny', (), 'none.json'),
        ('configs/babyai_sft.py:data=tests,tiny', (), 'tests'),
        (TINY, ('env.task_file=none.json',), 'Cannot read none.json'),
        (TINY, ('eval.task_file=none.json',), 'Cannot read none.json'),
        (TINY, ("env.options.levels=('GoToMars',)",), 'GoToMars'),
        (TINY, ('env.name=nomod:SPEC',), 'PYTHONPATH=FOLDER'),
        (TINY, ('env.name=json:loads',), 'is a function, not an EnvSpec'),
        (TINY, ('model.name=tests/none',), "No model at 'tests/none'"),
        (TINY, ('model.name=runs_none',), "No model at 'runs_none'"),
        (TINY, ('eval.num_tasks=100000',), 'eval.num_tasks=100000, but'),
        (TINY, ('warmstart.episodes=0',), 'needs warmstart.episodes'),
        (TINY, ('agent.format=functions', 'agent.instructions=none'), ''),
        (TINY, ('horizon.kind=json:NOTHING',), 'horizon.kind='),
        (TINY, ('horizon.kind=agentrl.types:ACT',), 'is a str, not a Callable'),
        (
            TINY,
            ('horizon.kind=json:dumps',),
            'horizon.kind=json:dumps: TypeError: Object',
        ),
        (
            'configs/evaluate.py:model=tests/none',
            (),
            "No model at 'tests/none'",
        ),
        ('configs/evaluate.py:model=qwen2.5-7b', (), 'is the shape of a model'),
        ('configs/evaluate.py:model=expert,task_file=none.json', (), 'none'),
        ('configs/compare.py:a=none,b=nothing', (), 'none'),
        ('configs/export.py:run=none', (), 'none is neither the workdir'),
        ('configs/inspect.py:episodes=none.jsonl', (), 'none.jsonl'),
        ('configs/serve_policy.py:model=tests/none', (), 'No model at'),
        ('configs/serve_env.py:env=nomod:SPEC', (), 'PYTHONPATH=FOLDER'),
    ],
)
def test_a_dry_run_refuses_what_cannot_run(named, given, words):
  assert words in refused(named, *given)


def test_items_of_another_environment_are_refused(items):
  path = items('textcraft_3')
  assert 'textcraft_3' in refused(TINY, f'env.task_file={path}')
  path = items('babyai_3', 'babyai_3')
  assert 'repeats item 0' in refused(TINY, f'eval.task_file={path}')


def test_a_data_file_without_a_record_is_refused(tmp_path):
  path = tmp_path / 'data.json'
  path.write_text('[{"no": 1}]')
  words = refused(f'configs/babyai_sft.py:data={path},tiny')
  assert 'no record that can be used' in words


def test_a_checkpoint_that_a_run_lacks_is_refused(tmp_path):
  (tmp_path / 'checkpoints' / '3').mkdir(parents=True)
  (tmp_path / 'config.json').write_text('{"mode": "sft"}')
  path = tmp_path / 'checkpoints' / '4'
  words = refused('configs/evaluate.py', f'model.name={path}')
  assert 'has no checkpoint 4; known: 3' in words


def test_a_missing_package_is_refused(monkeypatch):
  real = importlib.util.find_spec
  for gone, given in (
      ('wandb', ("track.to=('wandb',)",)),
      ('playwright', ('env.name=miniwob', 'env.options={}')),
  ):
    with monkeypatch.context() as patch:
      patch.setitem(sys.modules, gone, None)
      patch.setattr(
          importlib.util,
          'find_spec',
          lambda name, gone=gone: None if name == gone else real(name),
      )
      assert gone in refused(TINY, *given)


def test_what_can_run_passes():
  for named in (TINY, 'configs/evaluate.py:model=expert'):
    config = commandline.load(named)
    preflight.check(config, reading.read(config), None)


def test_the_dry_run_and_doctor_make_these_checks(tmp_path):
  given = '--config.env.task_file=none.json'
  done = launch(f'--config={TINY}', '--dry_run', given)
  assert done.returncode == 2
  assert 'none.json' in done.stderr
  findings = doctor.examine(TINY, ('env.task_file=none.json',), tmp_path)
  assert any(f.level == 'fault' and 'none.json' in f.words for f in findings)
