"""Shapes of layers that differ by kind, of a GGUF file: Gemma 4's.

Fields for all layers are those of full ones there; sliding ones have their own.
Some are lists, a number a layer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import WeightsError
from agentrl.models.config import FULL, SLIDING
from agentrl.weights import bounds
from agentrl.weights.gguf import architectures
from agentrl.weights.gguf.metadata import Metadata

PATTERN = 'attention.sliding_window_pattern'
_KEY_HEADS = 'attention.head_count_kv'
_INNER = 'feed_forward_length'
# Sizes of a head that must be one: keys, values, and what is rotated of them.
_KEYS, _VALUES = 'attention.key_length', 'attention.value_length'
_ROTATED = 'rope.dimension_count'


def parse(data: Metadata, values: Mapping[str, Any]) -> dict[str, Any]:
  """The fields of TransformerConfig in which kinds of layers differ.

  Args:
    data: of the file.
    values: our fields that were read already, `layer_types` among them.

  Raises:
    WeightsError: a field is missing, or describes layers that differ otherwise.
  """
  data.check_has([PATTERN, _KEY_HEADS, _INNER])
  layers = values.get('layer_types', ())
  if not layers or layers[-1] != FULL:
    raise WeightsError(
        f'{data.place(PATTERN)} is {data.short(PATTERN)}; the last layer of'
        ' this family has no window, and others have.'
    )
  shared = values.get('kv_shared_layers', 0)
  return {
      **_heads(data, layers),
      **_key_heads(data, layers),
      **_inner_sizes(data, len(layers), shared),
      'full_tied_values': _ties_values(data, values, layers, shared),
  }


def _heads(data: Metadata, layers: Sequence[str]) -> dict[str, int]:
  """Sizes of heads, of which all is rotated; full layers rotate it by divisors."""
  found = {}
  for kind, end in ((FULL, ''), (SLIDING, '_swa')):
    if kind not in layers:
      continue
    keys, values, rotated = (x + end for x in (_KEYS, _VALUES, _ROTATED))
    data.check_has([keys, values])
    size = data.checked(keys, 'head_dim')
    for field in (values, rotated):
      if data.fields.get(field, size) != size:
        raise WeightsError(
            f'{data.place(field)} is {data.short(field)}; only the size of'
            f' keys, {size}, is supported.'
        )
    found[kind] = size
  return _by_kind(found, 'head_dim', 'full_head_dim')


def _key_heads(data: Metadata, layers: Sequence[str]) -> dict[str, int]:
  found: dict[str, int] = {}
  for kind, count in zip(
      layers, _each(data, _KEY_HEADS, len(layers)), strict=True
  ):
    bounds.check('num_kv_heads', count, data.place(_KEY_HEADS))
    if found.setdefault(kind, count) != count:
      raise WeightsError(
          f'{data.place(_KEY_HEADS)} is {data.short(_KEY_HEADS)}; only one'
          ' number of all layers of a kind is supported.'
      )
  return _by_kind(found, 'num_kv_heads', 'full_kv_heads')


def _by_kind(
    found: Mapping[str, int], ours: str, of_full: str
) -> dict[str, int]:
  if SLIDING not in found:
    return {ours: found[FULL]}
  return {ours: found[SLIDING], of_full: found[FULL]}


def _inner_sizes(data: Metadata, count: int, shared: int) -> dict[str, Any]:
  """The inner size of MLPs; the last ones may be twice as wide."""
  each = _each(data, _INNER, count)
  first = each[0]
  bounds.check('intermediate_size', first, data.place(_INNER))
  for wide in (False, True):
    expected = [first] * (count - shared) + [first * (1 + wide)] * shared
    if each == expected:
      return dict(intermediate_size=first, kv_shared_wide_mlp=wide)
  raise WeightsError(
      f'{data.place(_INNER)} is {data.short(_INNER)}; only one number, and'
      f' twice that in the last {shared} layers, is supported.'
  )


def _each(data: Metadata, field: str, count: int) -> list[Any]:
  """A field's value for each layer."""
  value = data.fields[field]
  if not isinstance(value, list):
    return [value] * count
  if len(value) != count:
    raise WeightsError(
        f'{data.place(field)} is {data.short(field)}; it must be one number, or'
        f' one for each of {count} layers.'
    )
  return value


def _ties_values(
    data: Metadata,
    values: Mapping[str, Any],
    layers: Sequence[str],
    shared: int,
) -> bool:
  """True if full layers have no matrix of values: these are their keys."""
  name = architectures.tensors(values['family'])['v']
  return not any(
      f'blk.{i}.{name}.weight' in data.tensors
      for i, kind in enumerate(layers[: len(layers) - shared])
      if kind == FULL
  )
