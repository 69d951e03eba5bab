"""Parameters are born on the devices that hold them."""

import jax
import numpy as np
import pytest

from agentrl.models import transformer
from agentrl.models.transformer import Transformer
from agentrl.weights import hf
from tests.parallel import eight_devices
from tests.parallel.simulated_devices import CONFIG, flat

MODULE = Transformer(CONFIG, scan_layers=True)
LEAVES = jax.tree.map(
    lambda x: np.zeros(x.shape),
    jax.eval_shape(lambda: transformer.init_params(MODULE, jax.random.key(0))),
)


@pytest.fixture(scope='module', name='saved')
def _saved(tmp_path_factory):
  """A model's directory and its parameters."""
  directory = tmp_path_factory.mktemp('loading') / 'model'
  params = transformer.init_params(MODULE, jax.random.key(1))
  hf.save(directory, CONFIG, params)
  return directory, params


@pytest.fixture(scope='module', name='found')
def _found(saved, tmp_path_factory):
  return eight_devices.arrays_of(
      'tests.parallel.simulated_loading',
      tmp_path_factory.mktemp('loading') / 'found.npz',
      str(saved[0]),
  )


def test_a_mesh_loads_what_a_host_loads(saved, found):
  expected = flat('loaded', saved[1])
  assert expected.keys() == {k for k in found if k.startswith('loaded/')}
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_any_mesh_draws_the_same_parameters(found):
  key = jax.random.key(7)
  init = jax.jit(lambda key: transformer.init_params(MODULE, key))
  for name, value in flat('born', init(key)).items():
    np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize('name', ['loaded', 'born'])
def test_no_device_holds_a_whole_matrix(found, name):
  for path, leaf in flat(name, LEAVES).items():
    shard = found[path.replace(name, f'{name}_shards', 1)]
    parts = 1 if path.endswith('scale') else 4  # of fsdp=2 and tensor=2
    assert np.prod(shard) * parts == leaf.size, path


def test_a_host_reads_each_slice_once_and_no_whole_array(found):
  # Four slices of the [8, 16] array, each of which two devices hold.
  assert found['sizes'].tolist() == [32] * 4
