"""Checkpoints that change meshes and processes; for updates see devices_test."""

import shutil

import numpy as np
import pytest

from tests.parallel import eight_devices

CHECKPOINTS = 'tests.parallel.simulated_checkpoints'


@pytest.fixture(scope='module', name='saved')
def _saved(tmp_path_factory):
  """A checkpoint by two processes, and what it holds."""
  base = tmp_path_factory.mktemp('checkpoints')
  arrays = eight_devices.arrays_of(
      CHECKPOINTS,
      base / 'saved.npz',
      *('save', '2x2x2x1', str(base / 'run')),
      processes=2,
  )
  return base / 'run', arrays


@pytest.mark.parametrize(
    'mesh, processes',
    [
        ('1x8x1x1', 1),
        pytest.param('1x1x1x1', 1, marks=pytest.mark.slow),
        pytest.param('1x2x4x1', 2, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_moves_between_meshes_and_processes(
    saved, tmp_path, mesh, processes
):
  directory, expected = saved
  found = eight_devices.arrays_of(
      CHECKPOINTS,
      tmp_path / 'restored.npz',
      *('restore', mesh, str(directory)),
      processes=processes,
  )
  assert found.keys() == expected.keys() and len(found) > 20
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.slow
def test_every_process_refuses_a_checkpoint_that_one_finds_damaged(
    saved, tmp_path
):
  directory = tmp_path / 'run'
  shutil.copytree(saved[0], directory)
  files = [path for path in directory.rglob('params/**/d/*') if path.is_file()]
  damaged = max(files, key=lambda path: path.stat().st_size)
  data = bytearray(damaged.read_bytes())
  data[len(data) // 2] ^= 1
  damaged.write_bytes(data)
  eight_devices.arrays_of(
      CHECKPOINTS,
      tmp_path / 'state.npz',
      *('refuse', '1x2x4x1', str(directory)),
      processes=2,
  )
