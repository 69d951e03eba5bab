"""Writes a model and reads it again before it appears under its name."""

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models.config import TransformerConfig
from agentrl.weights import hf, pretrained

Params = Any


def save_verified(
    directory: str | pathlib.Path,
    config: TransformerConfig,
    params: Params,
    *,
    dtype: Any,
    shard_bytes: int = hf.SHARD_BYTES,
    eos_ids: Sequence[int] = (),
    companions: Sequence[Callable[[pathlib.Path], None]] = (),
    checks: Sequence[Callable[[pathlib.Path], None]] = (),
) -> None:
  """Writes by `hf.save` and compares every tensor read again, bit for bit.

  Args:
    directory: must not exist, or be empty.
    config: shape of the model.
    params: the trainer's layout, on the host or on devices.
    dtype: in the files; rounding to it is the only change allowed.
    shard_bytes: most bytes of one file.
    eos_ids: for config.json.
    companions: write more files, see `hf.save`.
    checks: further checks of the whole directory.

  Raises:
    WeightsError: the directory has content, the disk refuses, or a tensor read
      again differs. Nothing is left behind.
  """
  verify = functools.partial(
      _verify, config=config, params=params, dtype=np.dtype(dtype)
  )
  hf.save(
      directory,
      config,
      params,
      dtype=dtype,
      shard_bytes=shard_bytes,
      eos_ids=eos_ids,
      companions=companions,
      checks=(verify, *checks),
  )


def _verify(
    directory: pathlib.Path,
    *,
    config: TransformerConfig,
    params: Params,
    dtype: np.dtype,
) -> None:
  found_config, found = pretrained.load(directory, dtype=dtype)
  if found_config != config:
    raise WeightsError(f'{directory} reads as {found_config}, not {config}.')

  def compare(path, ours, theirs):
    # Bits, not values: NaN equals itself here, and -0.0 is not 0.0.
    expected = np.ascontiguousarray(np.asarray(ours).astype(dtype))
    if not np.array_equal(_bits(expected), _bits(theirs)):
      name = jax.tree_util.keystr(path, simple=True, separator='/')
      raise WeightsError(
          f'{directory} gives another {name} back than was written: the disk or'
          ' the memory is at fault. Nothing was exported.'
      )

  jax.tree_util.tree_map_with_path(compare, params, found)


def _bits(x: np.ndarray) -> np.ndarray:
  return x.view(np.dtype(f'u{x.itemsize}'))
