"""GGUF files (llama.cpp) of the Llama architecture, dequantised."""

import pathlib
from collections.abc import Mapping
from typing import Any

import gguf
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models.transformer import TransformerConfig
from agentrl.weights import names

Params = Any

_REQUIRED = {
    'block_count': 'num_layers',
    'embedding_length': 'hidden_size',
    'feed_forward_length': 'intermediate_size',
    'attention.head_count': 'num_heads',
    'context_length': 'max_positions',
    'attention.layer_norm_rms_epsilon': 'rms_norm_eps',
}


def load_config(path: str | pathlib.Path) -> TransformerConfig:
  """Reads the shape of a model from a GGUF file's metadata.

  Raises:
    WeightsError: the file is damaged, lacks a field, or describes a network
      that `agentrl.models` does not have.
  """
  return _config(_open(path), path)


def load(
    path: str | pathlib.Path, *, dtype: Any = np.float32
) -> tuple[TransformerConfig, Params]:
  """Reads a model, dequantised to `dtype`.

  Returns:
    Its shape, and NumPy parameters in the trainer's layout.

  Raises:
    WeightsError: as for `load_config`; or a tensor is missing, unknown, of
      another shape, or quantised in a way that cannot be undone.
  """
  reader = _open(path)
  config = _config(reader, path)
  tensors = {tensor.name: tensor for tensor in reader.tensors}
  heads = {'attn_q': config.num_heads, 'attn_k': config.num_kv_heads}

  def read(name: str) -> np.ndarray:
    tensor = tensors[name]
    try:
      value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:
      raise WeightsError(
          f'{name!r} of {path} is of type {tensor.tensor_type.name}, which'
          ' cannot be dequantised here; use a Q8_0, F16 or F32 file.'
      ) from error
    part = name.split('.')[-2]
    return _unpermute(value, heads[part]) if part in heads else value

  params = names.assemble(
      config,
      lambda tensor: tensor.gguf,
      tensors,
      read,
      dtype=dtype,
      source=str(path),
  )
  return config, params


def _open(path: str | pathlib.Path) -> gguf.GGUFReader:
  try:
    return gguf.GGUFReader(str(path))
  except FileNotFoundError as error:
    raise WeightsError(f'There is no file {path}.') from error
  # What its reads past the end of a cut file raise.
  except (OSError, ValueError, IndexError) as error:
    raise WeightsError(f'{path} is not a whole GGUF file: {error}.') from error


def _config(
    reader: gguf.GGUFReader, path: str | pathlib.Path
) -> TransformerConfig:
  fields = {
      name: field.contents()
      for name, field in reader.fields.items()
      if not name.startswith('tokenizer.')
  }
  architecture = fields.get('general.architecture')
  if architecture != 'llama':
    raise WeightsError(
        f"{path} has architecture {architecture!r}; known: 'llama'."
    )
  prefix = 'llama.'
  fields = {
      name.removeprefix(prefix): value
      for name, value in fields.items()
      if name.startswith(prefix)
  }
  missing = [prefix + name for name in _REQUIRED if name not in fields]
  if missing:
    raise WeightsError(f'{path} has no field {", ".join(missing)}.')
  scaling = fields.get('rope.scaling.type', 'none')
  if scaling != 'none':
    raise WeightsError(
        f'{prefix}rope.scaling.type of {path} is {scaling!r}; only unscaled'
        ' rotary embeddings are supported.'
    )
  shapes = {tensor.name: tensor.shape for tensor in reader.tensors}
  if names.EMBED.gguf not in shapes:
    raise WeightsError(f'{path} has no tensor {names.EMBED.gguf!r}.')
  values = {ours: fields[name] for name, ours in _REQUIRED.items()}
  heads = values['num_heads']
  values |= {
      'num_kv_heads': fields.get('attention.head_count_kv', heads),
      'head_dim': _head_dim(fields, values['hidden_size'] // heads, path),
      'rope_theta': fields.get('rope.freq_base', 10000.0),
      # GGUF lists the fastest dimension first.
      'vocab_size': int(shapes[names.EMBED.gguf][1]),
      'tie_embeddings': names.LM_HEAD.gguf not in shapes,
  }
  for name in ('rms_norm_eps', 'rope_theta'):
    # The shortest decimal of a float32: 1e-05, not 9.999999747378752e-06.
    values[name] = float(str(np.float32(values[name])))
  try:
    return TransformerConfig(**values)
  except ValueError as error:
    raise WeightsError(f'{path}: {error}') from error


def _head_dim(
    fields: Mapping[str, Any], default: int, path: str | pathlib.Path
) -> int:
  size = fields.get('attention.key_length', default)
  rotated = fields.get('rope.dimension_count', size)
  if rotated != size:
    raise WeightsError(
        f'{path} rotates {rotated} of {size} dimensions of a head; only full'
        ' rotary embeddings are supported.'
    )
  return size


def _unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
  """Undoes llama.cpp's order of query and key rows, `[heads * D, in]`.

  It pairs neighbouring dimensions for the rotation; Hugging Face, and our
  `rotate`, pair dimension i with i + D/2.
  """
  rows, columns = weight.shape
  paired = weight.reshape(heads, rows // heads // 2, 2, columns)
  return paired.swapaxes(1, 2).reshape(rows, columns)
