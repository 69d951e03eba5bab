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
from agentrl.weights.names import Piece

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
    held = names.pieces(config, lambda t: t.hf, shapes)
    names.check_names(set(held), set(stored), str(directory))
    parts: dict[tuple[str, ...], list[tuple[str, Piece]]] = {}
    for name, each in held.items():
      shape = stored[name].slices().get_shape()
      names.check_shape(name, shape, each, str(directory))
      for piece in each:
        parts.setdefault(piece.tensor.path, []).append((name, piece))

    def load_leaf(path, shape, sharding):
      each = parts[tuple(key.key for key in path)]
      [name, piece], *_ = each
      # The leaf stacks all layers and experts.
      slices = np.empty(shape.shape[: len(piece.place)], object)
      slices.ravel()[:] = [stored[name].slices() for name, _ in each]
      tensors = [other.tensor for other in held[name]]
      order = names.file_order(tensors, held[name][-1].rows.stop)
      read = functools.partial(_read, piece, shape, slices, order=order)
      return sharding_lib.shard(read, shape.shape, sharding)

    params = jax.tree_util.tree_map_with_path(load_leaf, shapes, shardings)
  return config, params


def _read(
    piece: Piece,
    leaf: jax.ShapeDtypeStruct,
    slices: np.ndarray,
    index: Index,
    order: np.ndarray | None = None,
) -> np.ndarray:
  """The slice `index` of a leaf, read from the tensors that it stacks.

  Args:
    piece: its place in the first of them, as in all of them.
    leaf: shape and type of the leaf.
    slices: the files' tensors, `[L]` or `[L, E]`; `[]` for one that is whole.
    index: of the leaf.
    order: of the tensors' rows, see `names.file_order`.
  """
  size = tuple(
      len(range(*part.indices(n)))
      for part, n in zip(index, leaf.shape, strict=True)
  )
  out = np.empty(size, leaf.dtype)
  lead, rest = index[: slices.ndim], index[slices.ndim :]
  rows = out.reshape(-1, *size[slices.ndim :])
  transposed = piece.tensor.transposed
  first, *others = rest[::-1] if transposed else rest
  begin, end, _ = first.indices(piece.shape[0])
  wanted = slice(piece.start + begin, piece.start + end)
  # Files give no rows that lie apart.
  where = (wanted if order is None else slice(None), *others)
  for row, source in zip(rows, np.ravel(slices[lead]), strict=True):
    value = source[where]
    value = value if order is None else value[order[wanted]]
    row[...] = value.T if transposed else value
  return out
