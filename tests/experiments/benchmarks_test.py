"""Benchmarks at their smallest sizes print what they measure."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


# They measure what others test, and nothing depends on them.
@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.parametrize(
    'name, flags',
    [
        (
            'bench_grpo_step',
            '--models=tiny-1m --prompts=1 --group=2 --new=8 --warmup=0',
        ),
        ('bench_weight_sync', '--models=tiny-1m --dtypes=float32'),
        ('bench_envs', '--env=textcraft --phases=load --clients=2 --steps=50'),
        ('bench_multiturn', '--models=tiny-1m --cases=generate'),
        ('bench_engine', '--models=tiny-1m --batches= --episodes=2'),
    ],
)
def test_a_benchmark_runs(name, flags):
  if name != 'bench_envs':
    flags += ' --repeats=1'
  process = subprocess.run(
      [sys.executable, '-m', f'experiments.benchmarks.{name}', *flags.split()],
      stdout=subprocess.PIPE,
      text=True,
      cwd=ROOT,
  )
  assert process.returncode == 0
  assert [json.loads(line) for line in process.stdout.splitlines()]
