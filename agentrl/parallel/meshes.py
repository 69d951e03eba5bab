"""The mesh of a config, and the shardings of a model over it."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import jax
from jax.sharding import Mesh

from agentrl.errors import ConfigError
from agentrl.parallel import mesh as mesh_lib, options, sharding


class Heads(Protocol):
  """Traits of a decoder on which its shardings depend besides the shapes."""

  @property
  def num_heads(self) -> int:
    ...

  @property
  def kv_head_counts(self) -> Sequence[int]:
    ...

  @property
  def is_recurrent(self) -> bool:
    ...


def make(config: options.Mesh, lengths: Sequence[int]) -> Mesh:
  """The mesh over all devices.

  Args:
    config: devices of each axis.
    lengths: that rows may have, in tokens.

  Raises:
    ConfigError: its axes do not multiply to the devices, or rows cannot be
      split along `sequence`, or the devices cannot offload.
  """
  try:
    mesh = mesh_lib.make_mesh(config.axes)
  except ValueError as error:
    raise ConfigError(f'config.mesh: {error}') from error
  split, unit = mesh.shape['sequence'], math.gcd(*lengths)
  if unit % split:
    raise ConfigError(
        f'mesh.sequence={split} does not divide the lengths of packed rows,'
        f' which are multiples of {unit}; use a divisor of {unit}.'
    )
  if config.offload and not sharding.has_host_memory(mesh):
    raise ConfigError(
        f'mesh.offload={config.offload} needs devices that can reach the memory'
        f' of their host; {mesh.devices.flat[0].device_kind} cannot. Leave it'
        ' out.'
    )
  return mesh


def shardings(config: Heads, shapes: Any, mesh: Mesh) -> Any:
  """Shardings of a model's parameters.

  Args:
    config: the decoder's shape.
    shapes: its parameters, trainer layout; only their shapes are read.
    mesh: the devices.

  Returns:
    A tree of shardings.

  Raises:
    ConfigError: the mesh does not divide the model.
  """
  if mesh.shape['sequence'] > 1 and config.is_recurrent:
    raise ConfigError(
        f'mesh.sequence={mesh.shape["sequence"]} splits the tokens of a row,'
        ' which some layers of this model go through one after the other; give'
        ' the devices to mesh.data or mesh.fsdp.'
    )
  split = mesh.shape['tensor']
  heads = config.num_heads
  if heads % split:
    raise ConfigError(
        f'mesh.tensor={split} does not divide the {heads} attention heads of'
        f' the model; use mesh.tensor={math.gcd(split, heads)} or another'
        f' divisor of {heads}, and give the other devices to mesh.fsdp or'
        ' mesh.data.'
    )
  # Fewer key heads than devices are copied, so that each device holds the one
  # that its queries read; any other ratio would tear a group of queries.
  for kv_heads in config.kv_head_counts:
    if kv_heads % split and split % kv_heads:
      raise ConfigError(
          f'mesh.tensor={split} neither divides the {kv_heads} key-value heads'
          f' of the model nor is a multiple of them; use mesh.tensor={kv_heads}'
          ' or a divisor of it, and give the other devices to mesh.fsdp or'
          ' mesh.data.'
      )
  result = sharding.infer_shardings(shapes, mesh, sharding.DECODER_RULES)
  jax.tree_util.tree_map_with_path(_check_leaf, shapes, result)
  return result


def _check_leaf(path, leaf, sharding):
  for size, axis in zip(leaf.shape, sharding.spec, strict=False):
    split = 1 if axis is None else sharding.mesh.shape[axis]
    if size % split:
      name = jax.tree_util.keystr(path, simple=True, separator='/')
      raise ConfigError(
          f'mesh.{axis}={split} does not divide {size}, a dimension of the'
          f' parameter {name} {list(leaf.shape)}; use'
          f' mesh.{axis}={math.gcd(split, size)} and give the other devices to'
          ' another axis.'
      )
