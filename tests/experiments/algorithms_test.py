"""The sweep: which runs it makes, what it leaves alone, what it tabulates."""

import json
import pathlib
import subprocess
import sys

import pytest

from agentrl import config as config_lib
from agentrl.config import commandline
from configs import quickstart
from experiments.sweeps import algorithms as sweep

ROOT = pathlib.Path(__file__).parents[2]


def write_run(workdir, *, steps=70, wanted=70, before=0.5, after=0.8):
  workdir.mkdir(parents=True)
  evals = {
      name: dict(mean=mean, low=mean - 0.06, high=mean + 0.06)
      for name, mean in (('before', before), ('after', after))
  }
  (workdir / 'config.json').write_text(json.dumps(dict(num_steps=wanted)))
  (workdir / 'summary.json').write_text(
      json.dumps(dict(steps=steps, updates=140, wall_s=605.2, eval=evals))
  )
  (workdir / 'metrics.jsonl').write_text('{"step": 0}\n{"step": 1}\n')


def test_the_default_sweep_is_the_table():
  runs = sweep.cells(None, None, [])
  assert len({run.name for run in runs}) == len(runs) == 12
  assert sum(run.algo == 'grpo' for run in runs) == 3
  assert sum(run.algo == 'gspo' for run in runs) == 1


def test_grids_multiply_and_become_overrides():
  runs = sweep.cells(
      ['grpo'], [4], ['optim.lr=1e-4;2e-4', 'horizon.turns=(3, 6);(6,)']
  )
  assert len({run.name for run in runs}) == 4
  command = runs[1].command('c.py', pathlib.Path('w'), tiny=True)
  assert command[2:] == [
      '--config=c.py:algo=grpo,tiny',
      '--workdir=w',
      '--config.seed=4',
      '--config.optim.lr=1e-4',
      '--config.horizon.turns=(6,)',
  ]


@pytest.mark.parametrize(
    'grid, values',
    [
        ('algo.clip_high=0.2;0.3', [0.2, 0.3]),
        ('algo.dual_clip=2.0;3.0', [2.0, 3.0]),
        ('eval.every=0;1', [0, 1]),
        ('env.options.style=compact;full', ['compact', 'full']),
        ('horizon.turns=(3, 6);(6,)', [[3, 6], [6]]),
        ('model.dtype=float32;bfloat16', ['float32', 'bfloat16']),
        ('optim.weight_decay=0.0;0.1', [0.0, 0.1]),
    ],
)
def test_a_grid_may_be_over_any_field(grid, values):
  path, found = grid.partition('=')[0], []
  for run in sweep.cells(['grpo'], [4], [grid]):
    command = run.command('c.py', pathlib.Path('w'), tiny=True)
    argv = ['launch.py', *(f for f in command if f.startswith('--config.'))]
    config = quickstart.get_config('algo=grpo,tiny')
    commandline.override(config, argv)
    wanted = config_lib.read(config)
    assert wanted.seed == 4 and wanted.num_steps == 2
    found.append(config_lib.record(wanted))
  for part in path.split('.'):
    found = [record[part] for record in found]
  assert found == values


@pytest.mark.parametrize('grid', ('optim.lr', '=1', 'optim.lr='))
def test_another_form_of_grid_is_refused(grid):
  with pytest.raises(ValueError, match='FIELD=VALUE'):
    sweep.cells(None, None, [grid])


def test_the_table_has_the_finished_runs(tmp_path):
  write_run(tmp_path / 'ppo-seed0')
  write_run(tmp_path / 'rloo-seed0', after=0.6)
  write_run(tmp_path / 'gspo-seed0', steps=40)
  (tmp_path / 'dapo-seed0').mkdir()
  runs = list(sweep.read(tmp_path))
  assert [run['name'] for run in runs] == ['ppo-seed0', 'rloo-seed0']
  assert [line['step'] for line in runs[0]['metrics']] == [0, 1]
  lines = sweep.table(tmp_path).splitlines()[2:]
  assert lines[0] == (
      '| ppo-seed0 | 70 | 140 | 0.500 [0.440, 0.560] | 0.800 [0.740, 0.860] |'
      ' yes | 10:05 |'
  )
  assert '| no |' in lines[1]


def test_a_failed_run_is_named_and_the_others_go_on(tmp_path):
  write_run(tmp_path / 'grpo-seed1')
  result = subprocess.run(
      [
          sys.executable,
          '-m',
          'experiments.sweeps.algorithms',
          f'--out={tmp_path}',
          '--algo=nonsense',
          '--algo=grpo',
          '--seed=1',
          '--jobs=2',
      ],
      cwd=ROOT,
      capture_output=True,
      text=True,
  )
  assert result.returncode == 1
  assert 'nonsense-seed1: exit status 2' in result.stderr
  assert "Unknown algorithm 'nonsense'" in result.stderr
  assert 'grpo-seed1' in result.stdout
  assert 'grpo-seed1' in (tmp_path / 'table.md').read_text()
