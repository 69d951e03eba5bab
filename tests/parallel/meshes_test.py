"""Tests for agentrl.parallel.meshes."""

import dataclasses

import jax
import pytest

from agentrl.data import packing
from agentrl.errors import ConfigError
from agentrl.models.config import FULL, LINEAR
from agentrl.parallel import mesh as mesh_lib, meshes, sharding
from agentrl.parallel.options import Mesh
from agentrl.weights import names
from tests import tiny


def abstract_mesh(**sizes):
  axes = dict.fromkeys(mesh_lib.AXES, 1) | sizes
  return jax.sharding.AbstractMesh(tuple(axes.values()), tuple(axes))


def place(mesh, **fields):
  config = dataclasses.replace(tiny.CONFIG, **fields)
  return meshes.shardings(config, names.shapes(config, 'float32'), mesh)


def test_one_axis_takes_the_rest_of_the_devices():
  found = meshes.make(Mesh(), packing.LENGTHS)
  assert tuple(found.shape) == mesh_lib.AXES
  assert found.shape['fsdp'] == jax.device_count()


def test_a_mesh_that_does_not_divide_the_devices_says_what_would():
  devices = jax.device_count()
  with pytest.raises(
      ConfigError,
      match=(
          rf'config.mesh: Cannot lay {devices} devices out as .*: that takes a'
          r' multiple of 3. Give axes that divide the devices, and -1'
      ),
  ):
    meshes.make(Mesh(tensor=3), packing.LENGTHS)
  with pytest.raises(ConfigError, match='at least 1, and one of them may be'):
    meshes.make(Mesh(data=-1), packing.LENGTHS)


def test_rows_that_cannot_be_split_are_refused(monkeypatch):
  monkeypatch.setattr(
      mesh_lib, 'make_mesh', lambda axes: abstract_mesh(sequence=3)
  )
  with pytest.raises(ConfigError, match='sequence=3 .* use a divisor of 32'):
    meshes.make(Mesh(sequence=3), packing.LENGTHS)


def test_devices_without_the_hosts_memory_cannot_offload(monkeypatch):
  wanted = Mesh(offload=('optimizer',))
  assert meshes.make(wanted, packing.LENGTHS).size == jax.device_count()
  monkeypatch.setattr(sharding, 'has_host_memory', lambda mesh: False)
  with pytest.raises(ConfigError, match="mesh.offload=.'optimizer',. needs"):
    meshes.make(wanted, packing.LENGTHS)
  meshes.make(Mesh(), packing.LENGTHS)


@pytest.mark.parametrize(
    'sizes, fields, message',
    [
        (dict(tensor=8), {}, 'tensor=8 does not divide the 4 attention heads'),
        (
            dict(tensor=4),
            dict(num_heads=12, num_kv_heads=3),
            'tensor=4 neither divides the 3 key-value heads.*use mesh.tensor=3',
        ),
        (
            dict(fsdp=3),
            {},
            r'fsdp=3 does not divide 16, a dimension of .* embed \[32, 16\]',
        ),
        (
            dict(sequence=2),
            dict(layer_types=[LINEAR, FULL], **tiny.LINEAR),
            'sequence=2 splits the tokens of a row.*mesh.data or mesh.fsdp',
        ),
        (dict(tensor=4), dict(vocab_size=30), 'tensor=4 does not divide 30'),
        (
            dict(tensor=4),
            dict(intermediate_size=34),
            'does not divide 34, a dimension of .*mlp/down/kernel',
        ),
    ],
)
def test_a_model_that_the_mesh_does_not_divide_is_refused(
    sizes, fields, message
):
  with pytest.raises(ConfigError, match=f'{message}'):
    place(abstract_mesh(**sizes), **fields)


@pytest.mark.parametrize('split', [1, 2, 4])
def test_key_heads_are_split_or_copied(split):
  # Two key heads: split over two devices, copied to four.
  place(abstract_mesh(tensor=split))
  place(abstract_mesh(fsdp=8, data=3, sequence=32, tensor=split))
