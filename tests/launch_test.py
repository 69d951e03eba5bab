"""Tests for launch.py: what it refuses, and how."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
QUICKSTART = '--config=configs/quickstart.py:tiny'


def launch(*flags):
  return subprocess.run(
      [sys.executable, 'launch.py', *flags],
      capture_output=True,
      text=True,
      cwd=ROOT,
      timeout=600,
  )


@pytest.mark.parametrize(
    'flags, said',
    [
        ((), '--config=configs/quickstart.py'),
        (('--config=configs/none.py',), 'none.py'),
        ((QUICKSTART, '--config.mode=fly'), "'fly'; known: train, "),
        ((QUICKSTART, '--workdir=runs/x', 'extra'), "arguments ['extra']"),
        ((QUICKSTART, '--config.num_steps=many'), 'many'),
        ((QUICKSTART, '--config.algo.kl=1'), "has no field 'kl'"),
        (
            (QUICKSTART, '--config.optim.warmup_stepz=1'),
            'has no field \'warmup_stepz\'. Did you mean "warmup_steps"',
        ),
        ((QUICKSTART, '--wrokdir=x'), 'wrokdir'),
        ((QUICKSTART.replace('tiny', 'tiny=maybe'),), "'maybe'"),
        ((QUICKSTART + ',speed=9',), "'speed'; known: algo, tiny"),
        ((QUICKSTART,), '--workdir=runs/NAME'),
        ((QUICKSTART, '--workdir=launch.py/run'), 'Cannot write'),
        ((QUICKSTART, '--device_memory_gib=24'), 'with --dry_run only'),
        ((QUICKSTART, '--config.sampler.api_key=k'), 'sampler.api_key_file'),
    ],
)
def test_what_cannot_be_run_is_one_line_and_exit_code_two(flags, said):
  result = launch(*flags)
  assert result.returncode == 2, result.stderr
  assert 'Traceback' not in result.stderr
  (line,) = result.stderr.strip().splitlines()
  assert line.startswith('ConfigError: ') and said in line
  assert result.stdout == ''


@pytest.mark.parametrize(
    'config, said',
    [
        (
            'textcraft_ppo.py:model=none',
            'horizon=stepwise((10, 20, 30), every=100)',
        ),
        ('textcraft_dpo.py:model=none', "loss='sigmoid'"),
        ('evaluate.py', 'max_running=64'),
        ('inspect.py:episodes=x', "episodes='x'"),
        ('serve_env.py:env=textcraft', "'name': 'textcraft'"),
        ('serve_policy.py', 'port=30000'),
        ('export.py:run=x', "dtype='float32'"),
    ],
)
def test_a_dry_run_shows_what_a_config_means_and_starts_nothing(
    tmp_path, config, said
):
  workdir = tmp_path / 'run'
  result = launch(
      '--dry_run', f'--config=configs/{config}', f'--workdir={workdir}'
  )
  assert result.returncode == 0, result.stderr
  assert said in result.stdout
  assert not workdir.exists()


def test_a_dry_run_plans_what_a_run_needs():
  result = launch('--dry_run', QUICKSTART, '--device_memory_gib=24')
  assert result.returncode == 0, result.stderr
  assert 'Plan of tiny-1m, 984,192 parameters, on 1 device' in result.stdout
  assert 'that fits 24 GiB beside the embedded engine' in result.stdout


def test_a_dry_run_refuses_what_a_run_would():
  result = launch('--dry_run', QUICKSTART, '--config.eval.horizon=0')
  assert result.returncode == 2 and result.stdout == ''
  assert 'eval.horizon must be at least 1' in result.stderr
  result = launch('--dry_run', QUICKSTART, '--config.mesh.tensor=3')
  assert result.returncode == 2
  assert 'does not divide the 4 attention heads' in result.stderr


def test_an_environment_server_that_answers_html_is_one_clear_error(tmp_path):
  # A real server of something else.
  server = subprocess.Popen(
      [sys.executable, '-m', 'http.server', '0', '--bind', '127.0.0.1'],
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
      env=os.environ | {'PYTHONUNBUFFERED': '1'},
      cwd=tmp_path,
  )
  try:
    port = server.stdout.readline().split('port ')[1].split()[0]
    result = launch(
        QUICKSTART,
        f'--config.env.url=http://127.0.0.1:{port}',
        f'--workdir={tmp_path}/run',
    )
  finally:
    server.kill()
    server.wait()
    server.stdout.close()
  assert result.returncode == 2
  (line,) = result.stderr.strip().splitlines()
  for word in ('EnvError', '/create', '501'):
    assert word in line
  # The corrected command finds a workdir that nobody has claimed.
  assert not (tmp_path / 'run' / 'config.json').exists()


def test_a_full_disk_is_one_line_whatever_was_being_written(tmp_path):
  flags = f'{QUICKSTART} --workdir={tmp_path}'
  result = subprocess.run(
      # One block of 1024 bytes: less than config.json takes.
      ['bash', '-c', f'ulimit -f 1; {sys.executable} launch.py {flags}'],
      capture_output=True,
      text=True,
      cwd=ROOT,
      timeout=600,
  )
  assert result.returncode == 2, result.stderr
  (line,) = result.stderr.strip().splitlines()
  assert 'File too large' in line
