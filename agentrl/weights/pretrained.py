"""Finds and reads a model by path or name."""

import pathlib
from typing import Any

import huggingface_hub
import jax
import numpy as np
from gguf import GGUFReader

from agentrl.errors import WeightsError, one_line
from agentrl.models.config import TransformerConfig
from agentrl.parallel import sharding
from agentrl.weights import finding, hf, peft, sharded
from agentrl.weights.gguf import files as gguf_files

Params = Any

# The files of a hub repository that a policy needs: one format of its weights.
_HUB_FILES = (
    'config.json',
    'generation_config.json',
    'model*.safetensors',
    'model.safetensors.index.json',
    'tokenizer.json',
    'tokenizer_config.json',
    'special_tokens_map.json',
    'added_tokens.json',
    # Tokenizers without a tokenizer.json.
    'vocab.json',
    'merges.txt',
    'tokenizer.model',
    'chat_template.jinja',
    # Without its weights: an adapter is named, and not read.
    peft.CONFIG,
)


def resolve(name: str | pathlib.Path) -> pathlib.Path:
  """The directory or GGUF file of a model, downloaded if need be.

  Args:
    name: a name of `finding.NAMES`, a path, or a hub repository (`owner/name`). The hub
      is not asked for a local path: `./name`, or a name in a folder that exists.

  Raises:
    WeightsError: it is none of these, or the download failed.
  """
  path = finding.find(name)
  return _download(str(name)) if path is None else path


def open_gguf(path: pathlib.Path) -> GGUFReader | None:
  """The reader of a model that is a GGUF file; None for a directory."""
  return None if path.is_dir() else gguf_files.open_file(path)


def load(
    name: str | pathlib.Path,
    *,
    dtype: Any = np.float32,
    reader: GGUFReader | None = None,
    place: sharded.Place | None = None,
) -> tuple[TransformerConfig, Params]:
  """Reads the model called `name`; see `resolve`, `hf.load`, `gguf_files.load`.

  Args:
    name: of the model.
    dtype: of the parameters.
    reader: of a GGUF file, if it is open.
    place: gives the shardings of the parameters; None: NumPy on the host.
      Safetensors are read slice by slice; a GGUF file, whose models are small,
      is dequantised as a whole first.
  """
  path = resolve(name)
  if path.is_dir():
    if place is not None:
      return sharded.load_on_devices(path, place, dtype=dtype)
    return hf.load(path, dtype=dtype)
  config, params = gguf_files.load(path, dtype=dtype, reader=reader)
  if place is not None:
    params = jax.tree.map(sharding.put_array, params, place(config, params))
  return config, params


def load_config(name: str | pathlib.Path) -> TransformerConfig:
  """Reads the shape of the model called `name`, or of its adapter's base."""
  path = resolve(name)
  if path.is_dir() and (base := peft.base_of(path)) is not None:
    return load_config(base)
  module = hf if path.is_dir() else gguf_files
  return module.load_config(path)


def _download(repository: str) -> pathlib.Path:
  try:
    path = pathlib.Path(
        huggingface_hub.snapshot_download(
            repository, allow_patterns=list(_HUB_FILES)
        )
    )
  # The hub's errors are kinds of these two.
  except (OSError, ValueError) as error:
    reason = one_line(error).rstrip('.')
    raise WeightsError(
        f'There is no local {repository!r}, and the hub did not give it:'
        f' {reason}. Download it elsewhere and give its directory.'
    ) from error
  if (base := peft.base_of(path)) is not None:
    raise WeightsError(
        f'{repository!r} holds an adapter of {base!r}, which is not read from'
        f' the hub: hf download {repository} --local-dir DIR, and give DIR.'
    )
  return path
