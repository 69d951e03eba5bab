"""GGUF files (llama.cpp) of Llama, Qwen2 and Qwen3, dequantised.

Other families are refused: llama.cpp stores Gemma's norms with their offset and
a mixture's experts as one tensor, and does not record which layers of SmolLM3
do not rotate. Their safetensors are read.
"""

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import gguf
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models import rotary
from agentrl.models.config import EACH_HEAD, TransformerConfig
from agentrl.weights import bounds, gguf_header, names

Params = Any

# general.architecture -> the fields of TransformerConfig that it implies.
_ARCHITECTURES: dict[str, dict[str, Any]] = {
    'llama': dict(family='llama'),
    'qwen2': dict(family='qwen2', qkv_bias=True),
    'qwen3': dict(family='qwen3', qk_norm=EACH_HEAD),
}
# Architectures with query and key rows in pairs, see `_unpermute`.
_PERMUTED = ('llama',)
_ROPE_FREQS = 'rope_freqs.weight'
# The scaling of every Llama from 3.1 to 3.3, but for its factor.
_LLAMA3: dict[str, Any] = dict(
    original_max_positions=8192, low_freq_factor=1.0, high_freq_factor=4.0
)

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
  return _config(open_file(path), path)


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
  config = _config(reader, path)
  tensors = {tensor.name: tensor for tensor in reader.tensors}
  heads = {'attn_q': config.num_heads, 'attn_k': config.num_kv_heads}
  if config.family not in _PERMUTED:
    heads = {}

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

  def name_of(tensor: names.Tensor) -> str:
    assert tensor.gguf is not None  # of these families, all have one
    return tensor.gguf

  params = names.assemble(
      config,
      name_of,
      tensors.keys() - {_ROPE_FREQS},  # `_config` has read it
      read,
      # GGUF lists the fastest dimension first.
      shape_of=lambda name: tensors[name].shape[::-1].tolist(),
      dtype=dtype,
      source=str(path),
  )
  return config, params


def open_file(path: str | pathlib.Path) -> gguf.GGUFReader:
  """A reader of the file; WeightsError if the file is damaged."""
  try:
    gguf_header.check(path)
    return gguf.GGUFReader(str(path))
  except FileNotFoundError as error:
    raise WeightsError(f'There is no file {path}.') from error
  # KeyError: a repeated field, or a tensor of unknown type.
  except (OSError, ValueError, IndexError, KeyError) as error:
    reason = bounds.one_line(error)
    raise WeightsError(f'{path} is not a whole GGUF file: {reason}.') from error


def _config(
    reader: gguf.GGUFReader, path: str | pathlib.Path
) -> TransformerConfig:
  try:
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith('tokenizer.')
    }
  except ValueError as error:  # text that is not UTF-8
    reason = bounds.one_line(error)
    raise WeightsError(f'{path} has a damaged field: {reason}.') from error
  architecture = fields.get('general.architecture')
  if not isinstance(architecture, str) or architecture not in _ARCHITECTURES:
    architectures = ', '.join(map(repr, _ARCHITECTURES))
    raise WeightsError(
        f'{path} has architecture {bounds.short(architecture)}; known:'
        f' {architectures}. Of other models, give the directory of their'
        ' safetensors.'
    )
  prefix = f'{architecture}.'
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
        f'{prefix}rope.scaling.type of {path} is {bounds.short(scaling)}; only'
        ' unscaled rotary embeddings are supported.'
    )
  tensors = {tensor.name: tensor for tensor in reader.tensors}
  if names.EMBED.gguf not in tensors:
    raise WeightsError(f'{path} has no tensor {names.EMBED.gguf!r}.')

  def checked(name: str, ours: str, default: Any = None) -> Any:
    value = fields.get(name, default)
    bounds.check(ours, value, f'{prefix}{name} of {path}')
    return value

  values = {ours: checked(name, ours) for name, ours in _REQUIRED.items()}
  heads = values['num_heads']
  size = checked(
      'attention.key_length', 'head_dim', values['hidden_size'] // heads
  )
  rotated = fields.get('rope.dimension_count', size)
  if rotated != size:
    raise WeightsError(
        f'{path} rotates {bounds.short(rotated)} of {size} dimensions of a'
        ' head; only full rotary embeddings are supported.'
    )
  # GGUF lists the fastest dimension first.
  rows = tensors[names.EMBED.gguf].shape[1:].tolist()
  values |= {
      'num_kv_heads': checked('attention.head_count_kv', 'num_kv_heads', heads),
      'head_dim': size,
      'rope_theta': checked('rope.freq_base', 'rope_theta', 10000.0),
      'vocab_size': rows[0] if rows else None,
      'tie_embeddings': names.LM_HEAD.gguf not in tensors,
  }
  bounds.check(
      'vocab_size',
      values['vocab_size'],
      f'Rows of {names.EMBED.gguf} in {path}',
  )
  for name in ('rms_norm_eps', 'rope_theta'):
    # The shortest decimal of a float32: 1e-05, not 9.999999747378752e-06.
    values[name] = float(str(np.float32(values[name])))
  values |= _ARCHITECTURES[architecture]
  if _ROPE_FREQS in tensors:
    divisors = np.asarray(tensors[_ROPE_FREQS].data, np.float32)
    values['rope_scaling'] = _llama3(divisors, values, path)
  try:
    return TransformerConfig(**values)
  except ValueError as error:
    raise WeightsError(f'{path}: {error}') from error


def _llama3(
    divisors: np.ndarray, values: Mapping[str, Any], path: str | pathlib.Path
) -> rotary.Scaling | None:
  """The scaling that divides the frequencies by `[D/2]` divisors.

  llama.cpp stores the divisors that follow from Llama 3's terms, not the terms;
  one set of terms is in use, and the divisors are checked against it.
  """
  whole = divisors.shape == (values['head_dim'] // 2,)
  if whole and np.all(divisors == 1):
    return None
  rotation = functools.partial(
      rotary.make_rotation, values['head_dim'], values['rope_theta']
  )
  good = whole and bool(np.all(np.isfinite(divisors)))
  if good:
    factor = max(1.0, float(divisors.max()))
    scaling = rotary.Scaling('llama3', factor, **_LLAMA3)
    expected = rotation().frequencies / rotation(scaling).frequencies
    good = np.allclose(divisors, expected, rtol=1e-4)
  if not good:
    raise WeightsError(
        f'{_ROPE_FREQS!r} of {path} is not the scaling of Llama 3 with'
        f' {_LLAMA3}; give the directory of the safetensors.'
    )
  return scaling


def _unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
  """Query or key rows `[heads * D, in]` of a Llama in Hugging Face's order.

  llama.cpp pairs neighbouring dimensions for the rotation; Hugging Face, and our
  `rotate`, pair dimension i with i + D/2.
  """
  rows, columns = weight.shape
  paired = weight.reshape(heads, rows // heads // 2, 2, columns)
  return paired.swapaxes(1, 2).reshape(rows, columns)
