"""Reads and writes shapes of layers that differ by kind in a `config.json`.

Full layers may have heads of another size than sliding ones. Published files say
so in fields of their own, those of transformers since 5.20 layer by layer.
"""

from collections.abc import Mapping
from typing import Any

from agentrl.errors import WeightsError
from agentrl.models.config import FULL, SLIDING, TransformerConfig
from agentrl.weights import bounds

# Field of a layer's object in per_layer_config -> ours, of all layers and of the
# full ones.
_SIZES = {
    'head_dim': ('head_dim', 'full_head_dim'),
    'num_key_value_heads': ('num_kv_heads', 'full_kv_heads'),
}
_BY_LAYER = 'per_layer_config'


def read(
    values: Mapping[str, Any], settings: Mapping[str, Any], source: str
) -> dict[str, Any]:
  """The fields in which full layers differ, and those of inputs to layers.

  Args:
    values: our fields that were read already, `layer_types` among them.
    settings: of the file.
    source: for messages.
  """
  kinds = list(values['layer_types'])
  if kinds[-1] != FULL and 'layer_types' in settings:
    raise WeightsError(
        f'layer_types of {source} ends in {kinds[-1]!r}; the last layer of this'
        f' family is {FULL!r}, whatever its file says: write it so.'
    )
  words = settings.get('vocab_size_per_layer_input')
  if values.get('layer_inputs') and words != values['vocab_size']:
    raise WeightsError(
        f'vocab_size_per_layer_input of {source} is {bounds.short(words)}; only'
        f' that of vocab_size, {values["vocab_size"]}, is supported.'
    )
  kinds[-1] = FULL
  found: dict[str, Any] = {'layer_types': kinds}
  if SLIDING not in kinds:
    found['sliding_window'] = None
  for field, value in _full_sizes(kinds, settings, source).items():
    ours, of_full = _SIZES[field]
    bounds.check(ours, value, f'{field} of the full layers of {source}')
    found[of_full if SLIDING in kinds else ours] = value
  if not values['kv_shared_layers']:  # whose MLPs alone would be wider
    found['kv_shared_wide_mlp'] = False
  return found


def _full_sizes(
    kinds: list[str], settings: Mapping[str, Any], source: str
) -> dict[str, Any]:
  """The sizes in which full layers differ from what the file says of all."""
  if _BY_LAYER not in settings:
    sizes = {'head_dim': settings['global_head_dim']}
    heads = settings.get('num_global_key_value_heads')
    # Transformers does not read it of other models.
    if settings['attention_k_eq_v'] and heads is not None:
      sizes['num_key_value_heads'] = heads
    return sizes
  layers = {} if settings[_BY_LAYER] is None else settings[_BY_LAYER]
  if not isinstance(layers, Mapping) or not all(
      isinstance(own, Mapping) and own.keys() <= _SIZES.keys()
      for own in layers.values()
  ):
    raise WeightsError(
        f'{_BY_LAYER} of {source} is {bounds.short(layers)}; it must be an'
        f' object of objects with some of {", ".join(_SIZES)}.'
    )
  full = {str(i) for i, kind in enumerate(kinds) if kind == FULL}
  objects = list(layers.values())
  if layers and (
      layers.keys() != full or any(own != objects[0] for own in objects)
  ):
    raise WeightsError(
        f'{_BY_LAYER} of {source} is {bounds.short(layers)}; only one shape of'
        f' all layers that layer_types calls {FULL!r} is supported.'
    )
  return dict(objects[0]) if objects else {}


def write(config: TransformerConfig) -> dict[str, Any]:
  """The fields of `read`, as published files have them."""
  fields: dict[str, Any] = {
      'global_head_dim': config.full_head_dim or config.head_dim,
      'num_global_key_value_heads': config.full_kv_heads,
  }
  if config.layer_inputs:
    fields['vocab_size_per_layer_input'] = config.vocab_size
  return fields
