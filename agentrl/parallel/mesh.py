"""The device mesh."""

import math
from collections.abc import Mapping

import jax
from jax.sharding import AxisType, Mesh

# Rows of a batch are split over these two; `fsdp` splits parameters as well.
BATCH_AXES = ('data', 'fsdp')
TENSOR = 'tensor'  # heads, the inner width of the MLP, the vocabulary
SEQUENCE = 'sequence'  # the tokens of a row
AXES = (*BATCH_AXES, TENSOR, SEQUENCE)


def make_mesh(axes: Mapping[str, int], devices=None) -> Mesh:
  """Builds a mesh such as `{'data': -1, 'fsdp': 2}`; one -1 takes the rest.

  Axes are `Auto`: the compiler propagates shardings (GSPMD) from the ones given
  to `jax.jit`. `jax.make_mesh` alone defaults to `Explicit` axes, where an
  ambiguous gather is an error instead.

  Raises:
    ValueError: the axes do not multiply to the number of devices.
  """
  devices = jax.devices() if devices is None else devices
  sizes = dict(axes)
  fixed_sizes = [size for size in sizes.values() if size != -1]
  fixed, free = math.prod(fixed_sizes), len(sizes) - len(fixed_sizes)
  count = len(devices)
  if min(fixed_sizes, default=1) < 1 or free > 1:
    raise ValueError(
        f'Cannot lay {count} devices out as {sizes}: an axis is at least 1, and'
        ' one of them may be -1, the rest.'
    )
  if count % fixed if free else count != fixed:
    need = f'a multiple of {fixed}' if free else f'{fixed}'
    raise ValueError(
        f'Cannot lay {count} devices out as {sizes}: that takes {need}. Give'
        ' axes that divide the devices, and -1 to the one that takes the rest.'
    )
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
