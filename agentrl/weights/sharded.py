"""Reads safetensors straight into the slices that devices hold.

Each device's slice is read, transferred and freed before the next: a leaf is
never whole on the host or on a device, unless it is replicated.
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
# (config, shapes of the parameters) -> their shardings; may raise.
Place = Callable[[TransformerConfig, Any], Any]


def load_on_devices(
    directory: str | pathlib.Path, place: Place, *, dtype: Any = np.float32
) -> tuple[TransformerConfig, Params]:
  """Reads a model as `hf.load` does, onto devices.

  Args:
    directory: has config.json and safetensors.
    place: gives the shardings of the parameters.
    dtype: of the parameters, whatever the file has.

  Returns:
    Its shape, and `jax.Array` parameters in the trainer's layout.

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
      # The leaf stacks all layers and experts.
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
  """The slice `index` of a leaf, read from the tensors that it stacks."""
  size = tuple(
      len(range(*part.indices(n)))
      for part, n in zip(index, leaf.shape, strict=True)
  )
  out = np.empty(size, leaf.dtype)
  lead, rest = index[: slices.ndim], index[slices.ndim :]
  rows = out.reshape(-1, *size[slices.ndim :])
  for row, source in zip(rows, np.ravel(slices[lead]), strict=True):
    if tensor.transposed:
      row[...] = source[rest[::-1]].T
    else:
      row[...] = source[rest]
  return out
