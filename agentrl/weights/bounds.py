"""Limits of the fields of a model file, checked before they are used.

The limits are a few times those of the largest published models: a file that
asks for more is damaged or hostile, and would take the machine's memory.
"""

import math
import reprlib
from typing import Any, TypeGuard

from agentrl import errors
from agentrl.errors import WeightsError

_MOST_POSITIONS = 2**31 - 1
MOST_DIMENSIONS = 2**14  # of a head
# Field -> its smallest and its largest value.
_WHOLE = {
    'vocab_size': (1, 2**24),
    'hidden_size': (1, 2**20),
    'intermediate_size': (1, 2**22),
    'num_layers': (1, 2**12),
    'num_heads': (1, 2**14),
    'num_kv_heads': (1, 2**14),
    'head_dim': (1, MOST_DIMENSIONS),
    'max_positions': (1, _MOST_POSITIONS),
    'num_experts': (1, 2**12),
    'num_experts_per_token': (1, 2**12),
    'moe_intermediate_size': (1, 2**22),
    'shared_expert_size': (1, 2**22),
    'sliding_window': (1, _MOST_POSITIONS),
    'max_window_layers': (0, _MOST_POSITIONS),
    'no_rope_layer_interval': (1, _MOST_POSITIONS),
    'sliding_window_pattern': (1, _MOST_POSITIONS),
    'full_attention_interval': (1, _MOST_POSITIONS),
    'kv_shared_layers': (0, 2**12),
    'layer_inputs': (0, 2**16),
    'conv_kernel': (2, 2**10),
    'linear_kernel': (2, 2**10),
    'linear_key_heads': (1, 2**14),
    'linear_value_heads': (1, 2**14),
    'linear_key_dim': (1, MOST_DIMENSIONS),
    'linear_value_dim': (1, MOST_DIMENSIONS),
}
_REAL = {
    'rms_norm_eps': (0.0, 1.0),
    'rope_theta': (1e-3, 1e30),
    'rope_local_base_freq': (1e-3, 1e30),
    'query_pre_attn_scalar': (1e-6, 1e9),
    'partial_rotary_factor': (0.0, 1.0),
    'embedding_multiplier': (1e-9, 1e9),
    'residual_multiplier': (1e-9, 1e9),
    'attention_multiplier': (1e-9, 1e9),
    'logits_scaling': (1e-9, 1e9),
    'logits_softcap': (1e-3, 1e9),
    'glu_limit': (1e-6, 1e9),
}
_FLAGS = (
    'tie_embeddings',
    'norm_topk_prob',
    'use_sliding_window',
    'full_tied_values',
    'kv_shared_wide_mlp',
)
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120  # characters
# Layers times experts: each is some tensors, whose names are listed.
_MOST_EXPERTS = 2**17


def check(field: str, value: Any, place: str) -> None:
  """Raises WeightsError for a value that no model has.

  Args:
    field: of `TransformerConfig`, or of config.json only.
    value: as the file has it.
    place: the field and its file, for the message.

  Raises:
    WeightsError: the value is of another type or beyond the limits.
  """
  if field in _FLAGS:
    good, expected = isinstance(value, bool), 'true or false'
  elif field in _WHOLE:
    least, most = _WHOLE[field]
    good = is_whole(value) and least <= value <= most
    expected = f'a whole number from {least} to {most}'
  else:
    low, high = _REAL[field]
    good = is_real(value) and low <= value <= high
    expected = f'a number from {low:g} to {high:g}'
  if not good:
    raise WeightsError(f'{place} is {short(value)}; it must be {expected}.')


def check_experts(layers: int, experts: int, source: str) -> None:
  """Refuses more experts in all layers than any model has."""
  if layers * experts > _MOST_EXPERTS:
    raise WeightsError(
        f'{source} asks for {layers} layers of {experts} experts; at most'
        f' {_MOST_EXPERTS} experts in all layers are supported.'
    )


def is_whole(value: Any) -> TypeGuard[int]:
  """True for a whole number of JSON, False for true and false too."""
  return isinstance(value, int) and not isinstance(value, bool)


def is_real(value: Any) -> TypeGuard[float]:
  """True for a finite number of JSON."""
  if isinstance(value, float):
    return math.isfinite(value)
  return is_whole(value)


def one_line(error: Exception) -> str:
  """A library's error in one short line: some quote parts of a file."""
  text = errors.one_line(error).rstrip('.')
  return text if text.isprintable() else ascii(text)


def short(value: Any) -> str:
  """A value of a file, in one short line for a message."""
  return _REPR.repr(value)
