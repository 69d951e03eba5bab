"""Sweeps from the command line: continued, stopped, failed, as jobs."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from agentrl.errors import ConfigError
from experiments.sweeps import cells as cells_lib, cluster, folder, local
from tests.experiments.sweeps import recorded
from tests.waiting import wait_until

ROOT = pathlib.Path(__file__).parents[3]
TINY = 'configs/quickstart.py:tiny'
# Nobody listens there: a run fails after its config was checked.
DOWN = 'env.url=http://127.0.0.1:9'


def sweep(out, *flags):
  return subprocess.run(
      [
          *(sys.executable, '-m', 'experiments.sweeps.grid'),
          *(f'--config={TINY}', f'--out={out}', *flags),
      ],
      cwd=ROOT,
      capture_output=True,
      text=True,
      timeout=300,
  )


def test_show_prints_commands_and_the_sbatch_file_and_starts_nothing(tmp_path):
  out = tmp_path / 'sweep'
  done = sweep(
      out,
      '--grid=seed=0;1;2',
      '--cluster=slurm',
      '--slurm=gpus_per_node=8',
      '--slurm=partition=long',
      '--jobs=2',
      '--show',
  )
  assert done.returncode == 0, done.stderr
  assert f'--workdir={out}/seed=1 --config.seed=1' in done.stdout
  assert '#SBATCH --array=0-2%2' in done.stdout
  assert '#SBATCH --gpus-per-node=8' in done.stdout
  assert '#SBATCH --partition=long' in done.stdout
  assert not out.exists()


def test_a_finished_sweep_ends_in_its_table(tmp_path):
  cells = cells_lib.make(TINY, [{}], ['seed=0;1'])
  records = cells_lib.check(cells)
  folder.keep(tmp_path, cells)
  for cell in cells:
    recorded.write_run(tmp_path / cell.name, records[cell.name], solved=4)
  done = sweep(tmp_path, '--grid=seed=0;1')
  assert done.returncode == 0, done.stderr
  assert '| base | 2 | 0.250 | 0.500 |' in done.stdout
  assert (tmp_path / 'table.md').read_text() in done.stdout
  assert (tmp_path / 'figure.svg').exists()
  refused = sweep(tmp_path, '--grid=seed=0')
  assert refused.returncode == 2
  assert 'holds another sweep, with seed=1' in refused.stderr


def test_cells_that_a_page_keeps_are_not_run_again(tmp_path):
  out, page = tmp_path / 'sweep', tmp_path / 'page'
  cells = cells_lib.make(TINY, [{}], ['seed=0;1'])
  records = cells_lib.check(cells)
  out.mkdir()
  folder.keep(out, cells)
  for cell in cells:
    recorded.write_run(out / cell.name, records[cell.name], solved=4)
  done = sweep(out, '--grid=seed=0;1', f'--keep={page}')
  assert done.returncode == 0, done.stderr
  shutil.rmtree(out)  # on another machine
  again = sweep(out, '--grid=seed=0;1', f'--keep={page}')
  assert again.returncode == 0, again.stderr
  assert again.stdout == done.stdout
  assert '| base | 2 | 0.250 | 0.500 |' in done.stdout
  assert (page / 'table.md').exists() and (page / 'figure.svg').exists()
  shown = sweep(out, '--grid=seed=0;1;2;3', f'--keep={page}', '--show')
  assert shown.stdout.startswith('seed=0: finished\nseed=1: finished\nseed=2')
  assert shown.stdout.endswith(
      '2 of 4 cells are missing: 0.3 hours, without warm starts.\n'
  )
  path = page / 'runs' / 'seed=1.json'
  path.write_text(path.read_text().replace('"lr": 0.0002', '"lr": 0.5'))
  refused = sweep(out, '--grid=seed=0;1', f'--keep={page}')
  assert refused.returncode == 2
  assert 'optim.lr=0.5 (now 0.0002)' in refused.stderr


def horizons(out, *flags):
  return subprocess.run(
      [
          *(sys.executable, '-m', 'experiments.sweeps.horizons'),
          *(f'--out={out}', *flags),
      ],
      cwd=ROOT,
      capture_output=True,
      text=True,
      timeout=300,
  )


def test_a_warm_start_comes_first_and_all_cells_begin_with_it(tmp_path):
  out = tmp_path / 'sweep'
  done = horizons(out, '--only=:schedule=linear;random', '--show')
  assert done.returncode == 0, done.stderr
  first, command, *rest, missing = done.stdout.splitlines()
  assert missing == '2 of 2 cells are missing.'
  assert first == 'warmstart: new'
  assert f'--workdir={out}/warmstart --config.num_steps=1' in command
  assert [line.split(':')[0] for line in rest[::2]] == [
      'schedule=linear',
      'schedule=random',
  ]
  for line in rest[1::2]:
    assert f'start={out}/warmstart/checkpoints/0,schedule=' in line
  assert not out.exists()


def test_a_trace_is_drawn_and_starts_nothing(tmp_path):
  run, out = tmp_path / 'run', tmp_path / 'sweep'
  run.mkdir()
  line = {'step': 0, 'rollout/success': 1.0}
  (run / 'metrics.jsonl').write_text(json.dumps(line) + '\n')
  done = horizons(out, '--only=:schedule=success', f'--trace={run}')
  assert done.returncode == 0, done.stderr
  assert (
      'schedule=success: 3 turns from step 0, 4 turns from step 3, 6 turns from'
      ' step 6'
  ) in done.stdout
  assert [path.name for path in out.iterdir()] == ['schedules.svg']
  # The sweep that comes next does not take it for something else.
  assert folder.read(out) == []


@pytest.mark.slow
def test_failed_cells_are_named_with_their_reason(tmp_path):
  cells = cells_lib.make(TINY, [{}], [DOWN, 'seed=0;1'])
  records = cells_lib.check(cells)
  folder.keep(tmp_path, cells)
  done_before = tmp_path / cells[1].name
  recorded.write_run(done_before, records[cells[1].name], solved=4)
  for how in ('--jobs=2', '--cluster=local'):
    done = sweep(tmp_path, f'--grid={DOWN}', '--grid=seed=0;1', how)
    assert done.returncode == 1
    assert f'{cells[0].name} ended with exit code 2: EnvError' in done.stderr
    assert cells[1].name not in done.stderr
    assert cells[1].name in done.stdout


def test_a_stopped_sweep_lets_its_cells_save(tmp_path, monkeypatch, request):
  # A shell ignores SIGINT for its background jobs, and Python then does too.
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
  script = tmp_path / 'run.py'
  script.write_text(RUN)
  monkeypatch.setattr(
      cells_lib.Cell,
      'command',
      lambda cell, workdir: [str(script), str(workdir)],
  )
  (cell,) = cells_lib.make(TINY, [{}])
  workdir = tmp_path / cell.name

  def wait_and_stop():
    assert wait_until(lambda: (workdir / 'began').exists(), 20)
    os.kill(os.getpid(), signal.SIGINT)

  threading.Thread(target=wait_and_stop).start()
  found = local.train([cell], tmp_path, 1)
  assert found == ['Stopped. The same command continues.']
  assert (workdir / 'saved').exists()
  assert local.train([cell], tmp_path, 1) == []


def test_cells_that_run_at_a_time_have_cores_of_their_own(
    tmp_path, monkeypatch
):
  cores = sorted(os.sched_getaffinity(0))
  if len(cores) < 2:
    pytest.skip('one core')
  script = tmp_path / 'run.py'
  script.write_text(CORES)
  monkeypatch.setattr(
      cells_lib.Cell,
      'command',
      lambda cell, workdir: [str(script), str(workdir)],
  )
  cells = cells_lib.make(TINY, [{}], ['seed=0;1'])
  assert local.train(cells, tmp_path, 2) == []
  one, other = (json.loads((tmp_path / c.name).read_text()) for c in cells)
  assert one and other and not set(one) & set(other)
  assert local.train(cells, tmp_path, 1) == []
  assert json.loads((tmp_path / cells[0].name).read_text()) == cores
  # This process may go on wherever it could.
  assert sorted(os.sched_getaffinity(0)) == cores


def test_a_job_whose_time_is_over_saves_and_is_queued_again(tmp_path):
  script = tmp_path / 'run.py'
  script.write_text(RUN)
  out = tmp_path / 'workdir'
  executor = cluster.executor('local', tmp_path, 1, {})
  job = executor.submit(
      cluster.Training([str(script), str(out)], str(tmp_path / 'log'))
  )
  assert wait_until(lambda: (out / 'began').exists(), 30)
  # As Slurm does to a task before its time is over.
  for task in psutil.Process(int(job.job_id)).children():
    task.send_signal(signal.SIGUSR2)
  assert job.result() == 'ended with exit code 0'
  assert (out / 'saved').exists()


def test_slurm_options_are_checked_before_anything_starts(tmp_path):
  cells = cells_lib.make(TINY, [{}], ['seed=0;1'])
  with pytest.raises(ConfigError, match="--slurm cannot be used.*'gpus'"):
    cluster.script(cells, tmp_path, 1, {'gpus': 8})
  with pytest.raises(ConfigError, match='Could not detect "srun"'):
    cluster.executor('slurm', tmp_path, 1, {})
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('state, going', [('RUNNING', True), ('FAILED', False)])
def test_jobs_of_before_are_not_submitted_again(
    tmp_path, monkeypatch, state, going
):
  (cell,) = cells_lib.make(TINY, [{}])
  job = '70_0' if going else '71_0'  # submitit remembers what it asked
  for name, said in (('srun', ''), ('sacct', f'JobID|State\n{job}|{state}')):
    program = tmp_path / 'bin' / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\nprintf '{said}\\n'\n")
    program.chmod(0o755)
  monkeypatch.setenv('PATH', f'{tmp_path / "bin"}:{os.environ["PATH"]}')
  (tmp_path / 'jobs').mkdir()
  (tmp_path / 'jobs.json').write_text(json.dumps({cell.name: job}))
  executor = cluster.executor('slurm', tmp_path, 1, {})
  found = cluster.going([cell], tmp_path, executor)
  assert [x.job_id for x in found.values()] == [job] * going


# Says where it runs once both have begun, so that no thread takes both.
CORES = """
import json, os, pathlib, sys, time

path = pathlib.Path(sys.argv[1])
path.write_text(json.dumps(sorted(os.sched_getaffinity(0))))
time.sleep(2)
"""

# Saves on SIGTERM and stops; a second start continues and finishes.
RUN = """
import pathlib, signal, sys, time

out = pathlib.Path(sys.argv[1])
out.mkdir(exist_ok=True)
if (out / 'saved').exists():
  sys.exit()

def save(*_):
  (out / 'saved').touch()
  sys.exit(130)

signal.signal(signal.SIGTERM, save)
(out / 'began').touch()
time.sleep(60)
"""
