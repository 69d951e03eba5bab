"""The device mesh."""

import math
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
  given = [size for size in sizes.values() if size != -1]
  fixed, free = math.prod(given), len(sizes) - len(given)
  fits = min(given, default=1) >= 1 and free <= 1
  fits = fits and (len(devices) % fixed if free else len(devices) - fixed) == 0
  if not fits:
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
