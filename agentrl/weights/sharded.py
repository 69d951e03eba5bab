"""Parameters put straight into the slices that devices hold.

Of a safetensors file each device's slice is read, put there and forgotten
before the next: no leaf is ever whole on the host or on a device, unless its
sharding says so.
"""

import contextlib
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from agentrl.models.config import TransformerConfig
from agentrl.parallel import sharding as sharding_lib
from agentrl.parallel.sharding import Index
from agentrl.weights import hf, names
from agentrl.weights.names import Tensor

Params = Any
# (config, shapes of the parameters) -> their shardings; may refuse the model.
Place = Callable[[TransformerConfig, Any], Any]


def load_on_devices(
    directory: str | pathlib.Path, place: Place, *, dtype: Any = np.float32
) -> tuple[TransformerConfig, Params]:
  """`hf.load`, onto devices.

  Args:
    directory: has config.json and safetensors.
    place: says where parameters live.
    dtype: of the parameters, whatever the file has.

  Returns:
    Its shape, and parameters in the trainer's layout, of `jax.Array`.

  Raises:
    WeightsError: as `hf.load`.
  """
  directory = pathlib.Path(directory)
  config = hf.load_config(directory)
  shapes = names.shapes(config, dtype)
  shardings = place(config, shapes)
  with contextlib.ExitStack() as stack:
    stored = hf.open_tensors(directory, config, stack)
    parts: dict[tuple[str, ...], tuple[Tensor, list[str]]] = {}
    for tensor, _, name in names.file_names(config, lambda t: t.hf):
      parts.setdefault(tensor.path, (tensor, []))[1].append(name)
    names.check_names(
        {name for _, each in parts.values() for name in each},
        set(stored),
        str(directory),
    )

    def load_leaf(path, shape, sharding):
      tensor, each = parts[tuple(key.key for key in path)]
      # Of all layers and experts, as the leaf is stacked of them.
      lead = tensor.stacked + tensor.per_expert
      slices = np.empty(shape.shape[:lead], object)
      slices.ravel()[:] = [stored[name].slices() for name in each]
      for name, part in zip(each, slices.ravel(), strict=True):
        names.check_shape(
            tensor, name, part.get_shape(), shape.shape[lead:], str(directory)
        )
      read = functools.partial(_read, tensor, shape, slices)
      return sharding_lib.shard(read, shape.shape, sharding)

    params = jax.tree_util.tree_map_with_path(load_leaf, shapes, shardings)
  return config, params


def _read(
    tensor: Tensor, leaf: jax.ShapeDtypeStruct, slices: np.ndarray, index: Index
) -> np.ndarray:
  """The slice `index` of a leaf, out of the tensors that it is stacked of."""
  size = tuple(
      len(range(*part.indices(n)))
      for part, n in zip(index, leaf.shape, strict=True)
  )
  out = np.empty(size, leaf.dtype)
  lead, rest = index[: slices.ndim], index[slices.ndim :]
  wanted = slices[lead]
  rows = out.reshape(-1, *size[slices.ndim :])
  for row, source in zip(rows, np.ravel(wanted), strict=True):
    if tensor.transposed:
      row[...] = source[rest[::-1]].T
    else:
      row[...] = source[rest]
  return out
