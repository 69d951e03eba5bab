"""Parameters are born on the devices that hold them."""

import functools
import types

import jax
import numpy as np
import pytest

from agentrl.models import transformer
from agentrl.parallel import meshes, sharding
from agentrl.training import language_model
from agentrl.weights import hf, pretrained
from tests.parallel.eight_devices import flat, make_mesh
from tests.parallel.learner import CONFIG, MODULE, init_params

MESH = '2x2x2x1'


@pytest.fixture(scope='module', name='saved')
def _saved(tmp_path_factory):
  """A model's directory and its parameters."""
  directory = tmp_path_factory.mktemp('loading') / 'model'
  hf.save(directory, CONFIG, init_params())
  return directory, init_params()


@pytest.fixture(scope='module', name='loaded')
def _loaded(saved):
  config, params = pretrained.load(
      str(saved[0]),
      place=functools.partial(meshes.shardings, mesh=make_mesh(MESH)),
  )
  assert config == CONFIG
  return params


@pytest.fixture(scope='module', name='born')
def _born():
  words = types.SimpleNamespace(vocab_size=CONFIG.vocab_size)
  mesh = make_mesh(MESH)
  return language_model.init_random(
      CONFIG, words, seed=7, path='', mesh=mesh
  ).params


def test_a_mesh_loads_what_a_host_loads(saved, loaded):
  found, expected = flat(loaded), flat(saved[1])
  assert found.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_any_mesh_draws_the_same_parameters(born):
  init = jax.jit(lambda key: transformer.init_params(MODULE, key))
  found = flat(born)
  for name, value in flat(init(jax.random.key(7))).items():
    np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize('name', ['loaded', 'born'])
def test_no_device_holds_a_whole_matrix(name, request):
  params = request.getfixturevalue(name)
  for path, leaf in jax.tree_util.tree_leaves_with_path(params):
    parts = 1 if path[-1].key == 'scale' else 4  # of fsdp=2 and tensor=2
    assert leaf.addressable_shards[0].data.size * parts == leaf.size, path


def test_a_host_reads_each_slice_once_and_no_whole_array():
  x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
  sizes = []

  def read(index):
    sizes.append(x[index].size)
    return x[index]

  spec = jax.NamedSharding(make_mesh(MESH), sharding.P('tensor', 'fsdp'))
  found = sharding.shard(read, x.shape, spec)
  np.testing.assert_array_equal(found, x)
  assert found.sharding == spec
  # Four slices of the [8, 16] array, each of which two devices hold.
  assert sizes == [32] * 4
