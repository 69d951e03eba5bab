"""Tests for experiments.benchmarks.footprint."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from experiments.benchmarks import footprint
from experiments.benchmarks.footprint import Sample

ROOT = pathlib.Path(__file__).parents[2]
# Takes a MiB, a pipe and 2 MiB of disk at each line that it reads; its own child
# is of another role.
_GROWS = """
import os, pathlib, subprocess, sys
held, child = [], subprocess.Popen(
    [sys.executable, '-c', 'input()', 'agentrl.envs.server'],
    stdin=subprocess.PIPE)
print('ready', flush=True)
for line in sys.stdin:
  held.append((os.urandom(2**20), os.pipe()))
  with open(sys.argv[1], 'ab') as file:
    file.write(bytes(2**21))
  print('grown', flush=True)
child.communicate(b'')
"""


def test_a_slope_is_what_a_unit_adds_and_its_interval_covers_it():
  rng = np.random.default_rng(0)
  x = np.arange(1, 401)
  missed = 0
  for _ in range(200):
    y = 50 + 0.004 * x + rng.normal(0, 1.0, x.size)
    found = footprint.slope(x, y, per=100)
    missed += not found.low <= 0.4 <= found.high
    assert found.first == pytest.approx(50.1, abs=1)
  assert 2 <= missed <= 20  # 10 are expected
  exact = footprint.slope(x, 7 + 2.0 * x)
  assert exact.mean == pytest.approx(2) == exact.low == exact.high
  flat = footprint.slope(x, np.full(x.size, 3.0))
  assert flat[:3] == (0, 0, 0) and flat.first == flat.last == 3
  with pytest.raises(ValueError, match='needs 3 samples, and there are 2'):
    footprint.slope([1, 2], [1, 2])


def test_all_of_a_process_and_of_what_it_starts_is_seen(tmp_path):
  folder = tmp_path / 'work'
  folder.mkdir()
  process = subprocess.Popen(
      [sys.executable, '-c', _GROWS, str(folder / 'file')],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
  )
  try:
    assert process.stdout.readline() == 'ready\n'
    samples = []
    for at in range(12):
      process.stdin.write('\n')
      process.stdin.flush()
      assert process.stdout.readline() == 'grown\n'
      samples.append(footprint.look(process.pid, 'ours', at, folder))
  finally:
    process.stdin.close()
    process.wait()
  assert [set(x.memory) for x in samples] == [
      {'ours', 'environment server'}
  ] * 12
  assert samples[-1].disk == pytest.approx(24)
  assert all(20 < x.mappings < 5000 for x in samples)
  at = [x.at for x in samples]
  grown = footprint.slope(at, [x.memory['ours'] for x in samples])
  assert grown.mean == pytest.approx(1, abs=0.1)
  other = footprint.slope(at, [x.memory['environment server'] for x in samples])
  assert other.mean == pytest.approx(0, abs=0.1)
  handles = footprint.slope(at, [x.handles['ours'] for x in samples])
  assert handles.mean == pytest.approx(2)


def test_a_process_that_is_gone_is_left_out():
  child = subprocess.Popen([sys.executable, '-c', ''])
  while not os.path.exists(f'/proc/{child.pid}/stat') or not _ended(child.pid):
    pass
  found = footprint.look(os.getpid(), 'ours', 0)
  child.wait()
  assert found.memory['ours'] > 1 and found.disk is None


def _ended(pid):
  with open(f'/proc/{pid}/stat') as file:
    return ') Z' in file.read()


def test_a_table_leaves_the_warm_up_out():
  samples = [
      Sample(
          at,
          {'ours': 900 if at < 300 else 100 + at / 1000},
          {'ours': 7},
          500,
          programs=20.0,
      )
      for at in range(100, 1001, 20)
  ]
  text = footprint.table(samples, unit='episodes', per=1000, warmup=0.3)
  assert text.splitlines() == [
      (
          '| what, from episodes 300 to 1,000 | at first | at last | per 1,000'
          ' episodes |'
      ),
      '| --- | --- | --- | --- |',
      '| ours, MiB | 100.3 | 101.0 | +1.00 [+1.00, +1.00] |',
      '| ours, file handles | 7.0 | 7.0 | +0.00 [+0.00, +0.00] |',
      '| memory mappings | 500.0 | 500.0 | +0.00 [+0.00, +0.00] |',
      '| compiled programs | 20.0 | 20.0 | +0.00 [+0.00, +0.00] |',
  ]


def test_memory_between_two_programs_is_told_apart():
  samples = [
      Sample(
          at, {'ours': 10.0 * programs + at / 100}, {}, 500, programs=programs
      )
      for at, programs in enumerate([1.0] * 20 + [2.0] * 2 + [3.0] * 30)
  ]
  text = footprint.plateaus(samples, 'ours', least=10, per=100)
  assert text.splitlines() == [
      '| compiled programs | steps | MiB | per 100 steps |',
      '| --- | --- | --- | --- |',
      '| 1 | 0 to 19 | 10 | +1 [+1, +1] |',
      '| 3 | 22 to 51 | 30 | +1 [+1, +1] |',
  ]


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.parametrize(
    'command, rows',
    [
        (
            '--env=textcraft --episodes=200 --horizon=3',
            ['player, MiB', 'environment server, file handles'],
        ),
        (
            (
                '--config=tests/e2e/small.py:configs.quickstart:tiny --steps=10'
                ' --overrides=warmstart.episodes=8,warmstart.horizon=4'
            ),
            ['trainer with engine, MiB', 'workdir, MiB', 'compiled programs'],
        ),
    ],
)
def test_a_run_is_watched(command, rows, tmp_path):
  process = subprocess.run(
      [
          sys.executable,
          '-m',
          'experiments.benchmarks.bench_long',
          *command.split(),
          f'--samples={tmp_path}/seen.jsonl',
      ],
      capture_output=True,
      text=True,
      cwd=ROOT,
  )
  assert process.returncode == 0, process.stdout + process.stderr
  names = [x.split(' | ')[0][2:] for x in process.stdout.splitlines()]
  assert set(rows) < set(names)
  seen = [json.loads(x) for x in (tmp_path / 'seen.jsonl').open()]
  assert seen[-1]['at'] in (10, 200)
