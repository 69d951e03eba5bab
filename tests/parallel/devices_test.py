"""Sharded equals unsharded: one update on meshes of simulated devices."""

import numpy as np
import pytest

from tests.parallel import eight_devices

ALONE = '1x1x1'


@pytest.fixture(scope='module', name='updates')
def _updates(tmp_path_factory):
  """Arrays by mesh and name, all from one process with eight devices."""
  path = tmp_path_factory.mktemp('devices') / 'updates.npz'
  updates = {}
  arrays = eight_devices.arrays_of('tests.parallel.simulated_devices', path)
  for key, value in arrays.items():
    mesh, _, name = key.partition('/')
    updates.setdefault(mesh, {})[name] = value
  return updates


# Data, fsdp and tensor; then what each device holds of the [32, 16] embedding.
@pytest.mark.parametrize(
    'mesh, shard',
    [
        ('2x1x1', (32, 16)),
        ('1x4x1', (32, 4)),
        ('2x2x2', (16, 8)),
    ],
)
def test_any_mesh_gives_the_same_update(updates, mesh, shard):
  actual, expected = updates[mesh], updates[ALONE]
  assert actual.keys() == expected.keys() and len(expected) > 40
  assert tuple(actual.pop('embed_shard')) == shard
  for name, value in expected.items():
    if name in ('embed_shard', "metrics['train/padding']"):
      continue  # the padding depends on the number of shards
    # float32 sums in another order; the loss is near zero by construction.
    scale = max(np.abs(value).max(), 1e-3 if 'metrics' in name else 0.0)
    np.testing.assert_allclose(
        actual[name], value, rtol=1e-5, atol=1e-5 * scale, err_msg=name
    )


def test_the_update_is_one_that_could_have_differed(updates):
  alone = updates[ALONE]
  assert alone["metrics['train/grad_norm']"] > 1e-3
  moments = [x for name, x in alone.items() if '.mu' in name]
  assert len(moments) > 9 and all(np.abs(x).max() > 0 for x in moments)
