"""GGUF files (llama.cpp), dequantised: models in the trainer's layout.

`architectures` lists what is read. Of other models, safetensors are read.
"""

import pathlib
from typing import Any

import gguf
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models.config import TransformerConfig
from agentrl.weights import bounds, names
from agentrl.weights.gguf import (
    config as config_lib,
    header,
    tensors as tensors_lib,
)

Params = Any


def load_config(path: str | pathlib.Path) -> TransformerConfig:
  """Reads the shape of a model from a GGUF file's metadata.

  Raises:
    WeightsError: the file is damaged, lacks a field, or describes a network
      that `agentrl.models` does not have.
  """
  return config_lib.parse(open_file(path), path).config


def load(
    path: str | pathlib.Path,
    *,
    dtype: Any = np.float32,
    reader: gguf.GGUFReader | None = None,
) -> tuple[TransformerConfig, Params]:
  """Reads a model, dequantised to `dtype`.

  Args:
    path: the file.
    dtype: of the parameters.
    reader: of the file, if it is open: to open one takes seconds.

  Returns:
    Its shape, and NumPy parameters in the trainer's layout.

  Raises:
    WeightsError: as for `load_config`; or a tensor is missing, unknown, of
      another shape, or quantised in a way that cannot be undone.
  """
  reader = reader or open_file(path)
  config, traits, extra_layers = config_lib.parse(reader, path)
  tensors = tensors_lib.Tensors(
      reader,
      config,
      path,
      paired=traits.paired,
      tiled=traits.tiled,
      extra_layers=extra_layers,
  )
  params = names.assemble(
      config,
      lambda tensor: tensor.gguf,
      tensors.names(),
      tensors.read,
      shape_of=tensors.shape,
      dtype=dtype,
      source=str(path),
  )
  return config, params


def open_file(path: str | pathlib.Path) -> gguf.GGUFReader:
  """A reader of the file; WeightsError if the file is damaged."""
  try:
    header.check(path)
    return gguf.GGUFReader(str(path))
  except FileNotFoundError as error:
    raise WeightsError(f'There is no file {path}.') from error
  # KeyError: a repeated field, or a tensor of unknown type.
  except (OSError, ValueError, IndexError, KeyError) as error:
    reason = bounds.one_line(error)
    raise WeightsError(f'{path} is not a whole GGUF file: {reason}.') from error
