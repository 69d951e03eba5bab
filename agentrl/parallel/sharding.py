"""Where arrays live: (regex, PartitionSpec) rules, and places of activations.

Parameters and what is made of them follow rules by their paths. Activations
follow `place_activations`, for the mesh that a function was traced
with by `on_mesh`: without one, and on one device, it changes nothing.
"""

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    SingleDeviceSharding,
)

from agentrl.parallel.mesh import BATCH_AXES, SEQUENCE, TENSOR

# Kinds of memory, as JAX names them.
_HOST, _DEVICE = 'pinned_host', 'device'

Rules = Sequence[tuple[str, P]]
Index = tuple[slice, ...]

# The trainer's layout: kernels [L, in, out]. The first projection of a pair
# splits its output over `tensor`, the second its input, so that the pair needs
# one reduction; `fsdp` splits the other dimension. Optimizer moments have the
# paths of their parameters inside, so the same rules place them.
DECODER_RULES: Rules = (
    (r'/(q|k|v|gate|up)/kernel$', P(None, 'fsdp', TENSOR)),
    (r'/(q|k|v|gate|up)/bias$', P(None, TENSOR)),
    (r'/(o|down)/kernel$', P(None, TENSOR, 'fsdp')),
    # Linear attention and convolutions are whole on each device of `tensor`: their
    # products are of several parts side by side.
    (r'/(in_qkv|in_z|in_bcx)/kernel$', P(None, 'fsdp')),
    (r'/out/kernel$', P(None, None, 'fsdp')),
    (r'/(in_qkv|in_z|in_bcx)/a$', P(None, 'fsdp')),
    (r'/out/b$', P(None, None, 'fsdp')),
    # Adapters: A [L, in, rank] and B [L, rank, out] as the kernel's dimensions.
    (r'/(q|k|v|gate|up)/a$', P(None, 'fsdp')),
    (r'/(q|k|v|gate|up)/b$', P(None, None, TENSOR)),
    (r'/(o|down)/a$', P(None, TENSOR)),
    (r'/(o|down)/b$', P(None, None, 'fsdp')),
    # [L, E, in, out]: every device has a part of every expert.
    (r'/experts_(gate|up|gate_up)$', P(None, None, 'fsdp', TENSOR)),
    (r'/experts_(gate|up|gate_up)_bias$', P(None, None, TENSOR)),
    (r'/experts_down$', P(None, None, TENSOR, 'fsdp')),
    (r'/router/kernel$', P(None, 'fsdp')),
    (r'/sinks$', P(None, TENSOR)),
    (r'(^|/)embed$', P(TENSOR, 'fsdp')),
    (r'(^|/)lm_head$', P('fsdp', TENSOR)),
    # Inputs of layers beside their states: [D, L * columns], [L, D, columns] and
    # [L, columns, D].
    (r'/projection/kernel$', P('fsdp')),
    (r'/state/kernel$', P(None, 'fsdp')),
    (r'/result/kernel$', P(None, None, 'fsdp')),
    (r'.*', P()),
)

# A batch: rows over the batch axes, the tokens of a row over `sequence`.
TOKENS = P(BATCH_AXES, SEQUENCE)  # [B, T]
HEADS = P(BATCH_AXES, SEQUENCE, TENSOR, None)  # [B, T, heads, D]


def infer_shardings(tree: Any, mesh: Mesh, rules: Rules) -> Any:
  """Gives each leaf the spec of the first rule whose regex matches its path."""

  def spec_for(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator='/')
    for pattern, spec in rules:
      if re.search(pattern, name):
        return NamedSharding(mesh, spec)
    raise ValueError(
        f'No sharding rule matches {name!r} with shape {leaf.shape}; '
        "end the rules with ('.*', PartitionSpec()) to replicate the rest."
    )

  return jax.tree_util.tree_map_with_path(spec_for, tree)


def single_device(tree: Any, device: jax.Device) -> Any:
  """Gives each leaf the sharding of one device."""
  return jax.tree.map(lambda _: SingleDeviceSharding(device), tree)


def drop_indivisible(leaf: Any, wanted: NamedSharding) -> NamedSharding:
  """`wanted` without the axes that do not divide: for a factored moment.

  An axis is whole if its devices do not divide it, and so is an array of fewer
  axes: a factored moment, which is small.
  """
  axes = wanted.spec if len(wanted.spec) <= leaf.ndim else ()
  devices = lambda axis: wanted.mesh.shape[axis] if axis else 1
  spec = [
      None if size % devices(axis) else axis
      for axis, size in zip(axes, leaf.shape, strict=False)
  ]
  return NamedSharding(wanted.mesh, P(*spec))


def has_host_memory(mesh: Mesh) -> bool:
  """True if arrays on `mesh` can wait in the memory of the host."""
  kinds = {
      memory.kind for memory in mesh.devices.flat[0].addressable_memories()
  }
  return {_HOST, _DEVICE} <= kinds


def to_host(tree: Any) -> Any:
  """Arrays or shardings of arrays, in the memory of the devices' host."""
  return jax.tree.map(functools.partial(_move, kind=_HOST), tree)


def to_device(tree: Any) -> Any:
  """Arrays or shardings of arrays, in the memory of their devices."""
  return jax.tree.map(functools.partial(_move, kind=_DEVICE), tree)


def is_on_host(tree: Any) -> bool:
  """True if any of these arrays or shardings is in the host's memory."""
  return any(_place(x).memory_kind == _HOST for x in jax.tree.leaves(tree))


def _place(x: Any) -> jax.sharding.Sharding:
  return x if isinstance(x, jax.sharding.Sharding) else x.sharding


def _move(x: Any, kind: str) -> Any:
  place = _place(x)
  if place.memory_kind == kind:
    return x
  there = place.with_memory_kind(kind)
  return there if x is place else jax.device_put(x, there)


def shard(
    read: Callable[[Index], np.ndarray],
    shape: tuple[int, ...],
    sharding: jax.sharding.Sharding,
) -> jax.Array:
  """An array of which this process reads what its devices hold.

  Unlike `jax.make_array_from_callback` it has one slice on the host at a time,
  and reads a slice that several devices hold once.

  Args:
    read: gives the slice of an index.
    shape: of the whole array.
    sharding: where its slices live.
  """
  holders: dict[tuple, tuple[Index, list[jax.Device]]] = {}
  indices = sharding.addressable_devices_indices_map(shape)
  for device, index in indices.items():
    assert index is not None  # the device is addressable
    key = tuple((part.start, part.stop) for part in index)
    holders.setdefault(key, (index, []))[1].append(device)
  pieces = []
  for index, devices in holders.values():
    piece = read(index)
    pieces += [jax.device_put(piece, device) for device in devices]
  return jax.make_array_from_single_device_arrays(shape, sharding, pieces)


def with_shardings(shapes: Any, shardings: Any) -> Any:
  """Arrays or their shapes, as shapes with these shardings."""
  return jax.tree.map(
      lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
      shapes,
      shardings,
  )


def put_array(x: Any, sharding: jax.sharding.Sharding) -> jax.Array:
  """`x` on devices; what is of one process has to be the same in all."""
  spans = isinstance(x, jax.Array) and not x.is_fully_addressable
  if spans or sharding.is_fully_addressable:
    return jax.device_put(x, sharding)
  return shard(np.asarray(x).__getitem__, np.shape(x), sharding)


def on_mesh(fn: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
  """`fn` whose activations lie on `mesh`; `fn` itself for one device.

  Args:
    fn: about to be given to `jax.jit`.
    mesh: with all of `mesh.AXES`.
  """
  if mesh.size == 1:
    return fn

  @functools.wraps(fn)
  def traced(*args, **kwargs):
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
      return fn(*args, **kwargs)

  return traced


def axis_size(axis: str) -> int:
  """Devices along an axis of the mesh that is traced with; 1 without one."""
  return jax.sharding.get_abstract_mesh().shape.get(axis, 1)


def constrain(x: jax.Array, spec: P) -> jax.Array:
  """`x` laid out by `spec`; unchanged without a mesh."""
  if jax.sharding.get_abstract_mesh().empty:
    return x
  return jax.lax.with_sharding_constraint(x, spec)


def place_activations(x: jax.Array, features: str | None = None) -> jax.Array:
  """`x` with its rows, tokens and features where activations belong.

  Left to itself, the compiler may gather the rows instead of the weights, and
  compute the same on every device.

  Args:
    x: `[B * T, F]`, or `[B, T, ..., F]` where tokens may be split.
    features: the axis that splits F; None: whole on every device.
  """
  lead = (BATCH_AXES,) if x.ndim == 2 else (BATCH_AXES, SEQUENCE)
  whole = (None,) * (x.ndim - len(lead) - 1)
  return constrain(x, P(*lead, *whole, features))


def take_rows(table: jax.Array, ids: jax.Array) -> jax.Array:
  """Rows of a wide table, `[..., F]`, for ids `[...]` of tokens.

  `fsdp` splits the columns of the table, which stay where they are: the ids are
  sent there, and the rows from there to the tokens' devices.
  """
  data, fsdp = BATCH_AXES
  rest = (SEQUENCE,) * (ids.ndim - 1)
  ids = constrain(ids, P(data, *rest))
  rows = constrain(jnp.take(table, ids, axis=0), P(data, *rest, fsdp))
  return place_activations(rows)


def join_rows(arrays: Sequence[jax.Array]) -> jax.Array:
  """Arrays of rows, `[B, T, ...]` of any B and T, as one of their tokens.

  A device's parts of them lie side by side, so that nothing moves.

  Returns:
    `[N, ...]`, N the sum of all B * T.
  """
  shards = _batch_shards()
  joined = jnp.concatenate(
      [x.reshape(shards, -1, *x.shape[2:]) for x in arrays], axis=1
  )
  return joined.reshape(-1, *joined.shape[2:])


def split_rows(
    x: jax.Array, shapes: Sequence[tuple[int, ...]]
) -> list[jax.Array]:
  """The `[B, T, ...]` arrays that `join_rows` joined, given each (B, T)."""
  shards = _batch_shards()
  x = x.reshape(shards, -1, *x.shape[1:])
  stops = np.cumsum([math.prod(shape) // shards for shape in shapes])[:-1]
  pieces = jnp.split(x, stops.tolist(), axis=1)
  return [
      piece.reshape(*shape, *piece.shape[2:])
      for piece, shape in zip(pieces, shapes, strict=True)
  ]


def _batch_shards() -> int:
  return math.prod(axis_size(axis) for axis in BATCH_AXES)
