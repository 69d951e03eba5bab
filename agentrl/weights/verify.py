"""Compares a model that was written with what is read from its files again."""

import pathlib
from typing import Any

import jax
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models.config import TransformerConfig
from agentrl.weights import pretrained


def check(
    directory: pathlib.Path,
    config: TransformerConfig,
    params: Any,
    dtype: np.dtype,
) -> None:
  """Compares every tensor bit for bit; rounding to `dtype` is allowed.

  Raises:
    WeightsError: the shape of the model or a tensor differs.
  """
  file_config, file_params = pretrained.load(directory, dtype=dtype)
  if file_config != config:
    raise WeightsError(f'{directory} reads as {file_config}, not {config}.')

  def compare(path, ours, theirs):
    # Bits, not values: NaN equals itself here, and -0.0 is not 0.0.
    expected = np.ascontiguousarray(np.asarray(ours).astype(dtype))
    if not np.array_equal(_bits(expected), _bits(theirs)):
      name = jax.tree_util.keystr(path, simple=True, separator='/')
      raise WeightsError(
          f'{directory} gives another {name} back than was written: the disk or'
          ' the memory is at fault. Nothing was exported.'
      )

  jax.tree_util.tree_map_with_path(compare, params, file_params)


def _bits(x: np.ndarray) -> np.ndarray:
  return x.view(np.dtype(f'u{x.itemsize}'))
