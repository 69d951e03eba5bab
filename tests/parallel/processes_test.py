"""Updates and checkpoints of processes that share eight devices."""

import os
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.parallel import eight_devices, learner, processes

pytestmark = pytest.mark.usefixtures('quick_compilation')


def two_processes(path, *args):
  return eight_devices.arrays_of(
      'tests.parallel.processes', path, *args, processes=2
  )


QUICK = '2x2x2x1/none/2'


@pytest.fixture(scope='module', name='made')
def _made(tmp_path_factory):
  """A checkpoint by two processes, and arrays: its own and those of QUICK."""
  base = tmp_path_factory.mktemp('checkpoints')
  run = str(base / 'run')
  return run, two_processes(base / 'made.npz', 'save', '2x2x2x1', run, QUICK)


@pytest.fixture(scope='module', name='saved')
def _saved(made):
  """A checkpoint by two processes, and what it holds."""
  run, found = made
  return run, {k: x for k, x in found.items() if not k.startswith(QUICK)}


def check_update(case, found):
  own = {
      name.removeprefix(f'{case} '): value
      for name, value in found.items()
      if name.startswith(f'{case} ')
  }
  assert len(own) > 40
  eight_devices.assert_same(own, learner.update_on(case))


def test_two_processes_make_the_update_of_one(made):
  """They share rows and parameters."""
  check_update(QUICK, made[1])


@pytest.mark.slow
def test_two_processes_make_any_update_of_one(tmp_path):
  """They share rows, parameters or both."""
  cases = '1x2x2x2/own/4', '1x8x1x1/none/2', '1x1x1x8/none/1'
  found = two_processes(tmp_path / 'two.npz', 'update', *cases)
  for case in cases:
    check_update(case, found)


def check_restored(found, expected):
  assert found.keys() == expected.keys() and len(found) > 20
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(
    'mesh', ['1x8x1x1', pytest.param('1x1x1x1', marks=pytest.mark.slow)]
)
def test_a_checkpoint_moves_between_meshes(saved, mesh):
  directory, expected = saved
  check_restored(processes.restore(mesh, directory), expected)


@pytest.mark.slow
def test_two_processes_refuse_what_one_finds_damaged_and_restore_the_other(
    saved, tmp_path
):
  whole, expected = saved
  directory = tmp_path / 'run'
  shutil.copytree(whole, directory)
  files = [path for path in directory.rglob('params/**/d/*') if path.is_file()]
  damaged = max(files, key=lambda path: path.stat().st_size)
  data = bytearray(damaged.read_bytes())
  data[len(data) // 2] ^= 1
  damaged.write_bytes(data)
  path = tmp_path / 'restored.npz'
  args = ('restore', '1x2x4x1', whole, str(directory))
  check_restored(two_processes(path, *args), expected)


@pytest.mark.slow
@pytest.mark.parametrize('told_by', ['close', 'collective'])
def test_a_process_that_is_gone_amid_a_save_is_noticed(tmp_path, told_by):
  path, run = tmp_path / 'took.npz', str(tmp_path / 'run')
  # Orbax's threads alone would wait until JAX aborts: a minute or more.
  assert two_processes(path, 'lose', told_by, run)['seconds'] < 20


@pytest.mark.slow
@pytest.mark.parametrize('gone', [0, 1])
def test_a_process_that_waits_for_one_that_is_gone_ends(tmp_path, gone):
  """Gloo and NCCL may wait on, and nothing fails; without process 0 JAX aborts."""
  said = tmp_path / 'said'
  module, stays = 'tests.parallel.processes', 1 - gone
  command = [sys.executable, '-m', module, 'none', 'stay', f'{gone}']
  command.append(str(tmp_path))
  with (
      said.open('w') as stderr,
      eight_devices.started(command, processes=2, stderr=stderr) as children,
  ):
    assert children[stays].wait(timeout=100) == 2, said.read_text()
  last = said.read_text().splitlines()[-1]
  assert last.startswith(
      f'ProcessLost: Another process of this run than {stays} is'
  )
  assert 'its connection was closed' in last


JOINS = """
import os
import jax
from agentrl.parallel import ranks
from agentrl.runtime import ending
ranks.join(os.environ, 'train', ready=True)
print(
    jax.process_index(),
    jax.device_count(),
    jax.config.values['jax_cuda_visible_devices'],
    flush=True,
)
ending.end(0)
"""


@pytest.mark.parametrize('nodes, seen', [('1(x2)', 'all'), ('2', '1')])
def test_tasks_of_slurm_join_and_see_the_devices_of_their_machine(nodes, seen):
  """Detected by JAX itself, one alone on its machine sees the first device."""
  with socket.create_server(('127.0.0.1', 0)) as server:
    port = server.getsockname()[1]
  step = os.environ | eight_devices.environment(1)
  step |= {
      'MASTER_PORT': str(port),
      'SLURM_JOB_ID': '7',
      'SLURM_NTASKS': '2',
      'SLURM_STEP_NUM_TASKS': '2',
      'SLURM_STEP_NODELIST': '127.0.0.1',
      'SLURM_STEP_TASKS_PER_NODE': nodes,
  }
  local = '0' if seen == 'all' else '1'
  tasks = [
      subprocess.Popen(
          [sys.executable, '-c', JOINS],
          cwd=eight_devices.ROOT,
          env=step | {'SLURM_PROCID': task, 'SLURM_LOCALID': number},
          stdout=subprocess.PIPE,
          text=True,
      )
      for task, number in (('0', '0'), ('1', local))
  ]
  # Gloo says a line of its own before.
  said = [
      task.communicate(timeout=300)[0].splitlines()[-1].split()
      for task in tasks
  ]
  assert said == [['0', '2', seen.replace('1', '0')], ['1', '2', seen]]
