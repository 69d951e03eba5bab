"""The device mesh."""

from collections.abc import Mapping

import jax
from jax.sharding import AxisType, Mesh

# Rows of a batch are split over these axes; the others split parameters or
# sequences.
BATCH_AXES = ('data', 'fsdp')


def make_mesh(axes: Mapping[str, int], devices=None) -> Mesh:
  """Builds a mesh such as `{'data': -1, 'fsdp': 2}`; one -1 takes the rest.

  Axes are `Auto`: the compiler propagates shardings (GSPMD) from the ones given
  to `jax.jit`. `jax.make_mesh` alone defaults to `Explicit` axes, where an
  ambiguous gather is an error instead.
  """
  devices = jax.devices() if devices is None else devices
  sizes = dict(axes)
  fixed = 1
  for size in sizes.values():
    fixed *= size if size != -1 else 1
  free = list(sizes.values()).count(-1)
  uneven = len(devices) % fixed if free else len(devices) != fixed
  if uneven or free > 1:
    raise ValueError(f'Cannot lay {len(devices)} devices out as {sizes}.')
  sizes = {k: len(devices) // fixed if v == -1 else v for k, v in sizes.items()}
  return jax.make_mesh(
      tuple(sizes.values()),
      tuple(sizes),
      axis_types=(AxisType.Auto,) * len(sizes),
      devices=devices,
  )


def batch_size(mesh: Mesh) -> int:
  """Over how many shards the rows of a batch are split."""
  size = 1
  for axis in BATCH_AXES:
    size *= mesh.shape[axis]
  return size
