"""The tensors of a GGUF file as Hugging Face's files would hold them.

llama.cpp's converter changes some on writing. That of Gemma adds the 1 to scales of
norms which the network adds by itself. In files whose architecture is `paired`, rows
of queries and keys are in an order of their own: llama.cpp rotates neighbouring
dimensions of a head there; Hugging Face, and our `rotate`, pair dimension i with
i + D/2. The experts of a layer are one tensor. In layers of linear attention, heads
of values that share one of keys lie apart where files are `tiled` (see `_regroup`), and
the logarithm of the decay is stored as minus its exponential. Qwen3-Next's `in_proj_qkvz`
is two tensors, with all queries before all keys; older files have it as it is.
"""

import pathlib

import gguf
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models.config import LINEAR, TransformerConfig
from agentrl.weights.gguf import architectures

_DIVISORS = (
    architectures.ROPE_FREQS,
    architectures.ROPE_SHORT,
    architectures.ROPE_LONG,
)
# Modules with a dimension of heads of values -> that axis; whether it begins behind
# queries and keys; whether a head has its size there, or is one number.
_REGROUPED = {
    'attn_qkv': (0, True, True),
    'attn_gate': (0, False, True),
    'ssm_conv1d': (0, True, True),
    'ssm_beta': (0, False, False),
    'ssm_alpha': (0, False, False),
    'ssm_a': (0, False, False),
    'ssm_dt': (0, False, False),
    'ssm_out': (1, False, True),
}
# Stored without their axis of length 1.
_CONVOLUTIONS = ('.ssm_conv1d.weight', '.shortconv.conv.weight')
_VECTOR = '.ffn_gate_inp_shexp.weight'  # may lack its axis of length 1
_QKV, _Z, _QKVZ = '.attn_qkv.', '.attn_gate.', '.ssm_in.'
_GATE, _UP, _BOTH = (f'.ffn_{name}_exps.' for name in ('gate', 'up', 'gate_up'))


class Tensors:
  """The tensors of an open file, by the names of `names.Tensor.gguf`."""

  def __init__(
      self,
      reader: gguf.GGUFReader,
      config: TransformerConfig,
      path: str | pathlib.Path,
      *,
      paired: bool,
      tiled: bool,
      extra_layers: int,
  ):
    """Reads nothing yet.

    Args:
      reader: of the file.
      config: shape of the model.
      path: of the file, for messages.
      paired: whether rows of queries and keys are paired.
      tiled: whether heads of values that share one of keys lie apart.
      extra_layers: layers behind the model's, which are left out.
    """
    self._config, self._path = config, path
    heads = {'attn_q': config.num_heads, 'attn_k': config.num_kv_heads}
    self._heads = heads if paired else {}
    self._tiled = tiled
    count = config.num_layers
    left_out = (
        *(f'blk.{i}.' for i in range(count, count + extra_layers)),
        *_unread(config),
    )
    # Name -> the tensors of the file that it is made of.
    self._parts: dict[str, tuple[gguf.ReaderTensor, ...]] = {
        tensor.name: (tensor,)
        for tensor in reader.tensors
        # `rope` has read the divisors.
        if tensor.name not in _DIVISORS and not tensor.name.startswith(left_out)
    }
    # gpt-oss's units, in whose columns gate and up take turns.
    self._units = config.glu_limit is not None
    if self._units:
      self._join(_GATE, _UP, _BOTH)
    if config.family == 'qwen3_next':
      self._join(_QKV, _Z, _QKVZ)

  def _join(self, first: str, second: str, whole: str) -> None:
    """Makes one tensor of two, by parts of their names."""
    for name in [name for name in self._parts if first in name]:
      other = name.replace(first, second)
      if other in self._parts:  # else both are unknown, which is said
        both = (*self._parts.pop(name), *self._parts.pop(other))
        self._parts[name.replace(first, whole)] = both

  def names(self) -> set[str]:
    """All names."""
    return set(self._parts)

  def shape(self, name: str) -> list[int]:
    """The shape of what `read` returns."""
    # GGUF lists the fastest dimension first.
    shapes = [part.shape[::-1].tolist() for part in self._parts[name]]
    shape = shapes[0]
    if _QKVZ in name and len(shapes) == 2:
      return self._packed_shape(name, shapes)
    if name.endswith(_VECTOR) and len(shape) == 1:
      return [1, *shape]
    if any(other != shape for other in shapes):
      raise WeightsError(
          f'{" and ".join(x.name for x in self._parts[name])} of {self._path}'
          f' have the shapes {" and ".join(map(str, shapes))}; they must have'
          ' one.'
      )
    if name.endswith(_CONVOLUTIONS) and len(shape) == 2:
      return [shape[0], 1, shape[1]]
    if '_exps.' not in name or len(shape) < 2:
      return shape
    if self._units:
      shape[1] *= len(shapes)
      return [shape[0], *reversed(shape[1:])]
    if len(shape) == 3 and shape[0] == self._config.num_experts:
      return [shape[0] * shape[1], shape[2]]  # one expert below the other
    return shape

  def read(self, name: str) -> np.ndarray:
    """One tensor, dequantised: float32, or the type that the file has.

    Raises:
      WeightsError: it is quantised in a way that cannot be undone.
    """
    values = [self._dequantise(part) for part in self._parts[name]]
    value = values[0]
    if _QKVZ in name and len(values) == 2:
      return self._pack(*values)
    if name.endswith(_VECTOR):
      return value.reshape(1, -1)
    if '_exps.' in name and self._units:
      value = np.stack(values, axis=2)
      value = value.reshape(len(value), -1, *values[0].shape[2:])
      return value.swapaxes(1, -1)
    if '_exps.' in name:
      return value.reshape(-1, value.shape[-1])
    part = name.split('.', 2)[-1]  # behind `blk.N.`
    module = part.split('.')[0]
    if module in self._heads:
      return _unpair(value, self._heads[module])
    if self._tiled and LINEAR in self._config.mixers and module in _REGROUPED:
      value = self._regroup(value, module)
    if name.endswith(_CONVOLUTIONS):
      return value[:, None]
    if part == 'ssm_a':
      return self._decay(value, name)
    offset = self._config.norm_offset
    if offset and name.endswith('norm.weight') and module != 'ssm_norm':
      return value - np.float32(offset)
    return value

  def _packed_shape(self, name: str, shapes: list[list[int]]) -> list[int]:
    c = self._config
    keys = 2 * c.linear_key_heads * c.linear_key_dim
    values = c.linear_value_heads * c.linear_value_dim
    if shapes != [[keys + values, c.hidden_size], [values, c.hidden_size]]:
      raise WeightsError(
          f'{" and ".join(x.name for x in self._parts[name])} of {self._path}'
          f' have the shapes {" and ".join(map(str, shapes))}; its'
          f' configuration asks for {keys + values} and {values} rows.'
      )
    return [keys + 2 * values, c.hidden_size]

  def _pack(self, qkv: np.ndarray, z: np.ndarray) -> np.ndarray:
    """One matrix, in which the rows of each head of keys are together."""
    c = self._config
    size = c.linear_key_heads * c.linear_key_dim
    parts = (*np.split(qkv, [size, 2 * size]), z)
    heads = [x.reshape(c.linear_key_heads, -1, c.hidden_size) for x in parts]
    return np.concatenate(heads, axis=1).reshape(-1, c.hidden_size)

  def _regroup(self, value: np.ndarray, module: str) -> np.ndarray:
    """Heads of values in Hugging Face's order: those of one of keys together."""
    c, (axis, behind, whole) = self._config, _REGROUPED[module]
    start = 2 * c.linear_key_heads * c.linear_key_dim if behind else 0
    before, heads = np.split(value, [start], axis)
    shape = list(heads.shape)
    size = c.linear_value_dim if whole else 1
    apart = (c.linear_value_heads // c.linear_key_heads, c.linear_key_heads)
    heads = heads.reshape(*shape[:axis], *apart, size, *shape[axis + 1 :])
    heads = heads.swapaxes(axis, axis + 1).reshape(shape)
    return np.concatenate([before, heads], axis)

  def _decay(self, value: np.ndarray, name: str) -> np.ndarray:
    if not np.all(value < 0):
      raise WeightsError(
          f'{name!r} of {self._path} must be negative: minus the exponential of'
          ' what a model has.'
      )
    return np.log(-value)

  def _dequantise(self, tensor: gguf.ReaderTensor) -> np.ndarray:
    try:
      return gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:
      raise WeightsError(
          f'{tensor.name!r} of {self._path} is of type'
          f' {tensor.tensor_type.name}, which cannot be dequantised here; use a'
          ' Q8_0, F16 or F32 file.'
      ) from error


def _unread(config: TransformerConfig) -> list[str]:
  """Beginnings of names of keys and values of layers that read those of others."""
  own = architectures.tensors(config.family)
  return [
      f'blk.{i}.{own[name]}.'
      for i, layer in enumerate(config.layers)
      if not layer.own_keys
      for name in ('k', 'v', 'k_norm')
  ]


def _unpair(rows: np.ndarray, heads: int) -> np.ndarray:
  """Rows `[heads * D, ...]` of queries or keys in Hugging Face's order."""
  paired = rows.reshape(heads, len(rows) // heads // 2, 2, *rows.shape[1:])
  return paired.swapaxes(1, 2).reshape(rows.shape)
