"""The shape of a model from the metadata of a GGUF file.

`architectures` has the tables. A field that asks for a network which
`agentrl.models` does not have is refused by name.
"""

import math
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import gguf

from agentrl.errors import WeightsError
from agentrl.models import rotary
from agentrl.models.config import (
    CONV,
    FULL,
    LINEAR,
    SLIDING,
    TransformerConfig,
)
from agentrl.weights import bounds, families, hf_rope, names
from agentrl.weights.gguf import architectures, kinds, metadata, rope
from agentrl.weights.gguf.architectures import (
    ARCHITECTURES,
    EXTRA_LAYERS,
    TEMPERATURE,
    WINDOW,
    Architecture,
)
from agentrl.weights.gguf.metadata import Metadata

_SIZE, _VALUES = 'attention.key_length', 'attention.value_length'
_KEYS = 'attention.head_count_kv'
_INNER, _INTERVAL = 'ssm.inner_size', 'full_attention_interval'


class Parsed(NamedTuple):
  """The content of a file, but for its tensors.

  Attributes:
    config: shape of the model.
    traits: of the file's architecture.
    extra_layers: layers behind the model's that are none of it.
  """

  config: TransformerConfig
  traits: Architecture
  extra_layers: int


def parse(reader: gguf.GGUFReader, path: str | pathlib.Path) -> Parsed:
  """The shape of a model, and what its file has beside.

  Args:
    reader: of the file.
    path: of the file, for messages.

  Raises:
    WeightsError: a field is damaged or missing, is of another type or size than a
      model has, or describes a network that `agentrl.models` does not have.
  """
  data = metadata.read(reader, path)
  name = data.architecture
  if not isinstance(name, str) or name not in ARCHITECTURES:
    raise WeightsError(
        f'{path} has architecture {bounds.short(name)}; known:'
        f' {", ".join(map(repr, ARCHITECTURES))}. Of other models, give the'
        ' directory of their safetensors.'
    )
  traits = ARCHITECTURES[name]
  try:
    extra = _extra_layers(data, traits)
    return Parsed(_config(data, traits, extra), traits, extra)
  # Numbers that contradict each other: a factor of 0, more heads than width.
  except (ValueError, TypeError, ArithmeticError) as error:
    raise WeightsError(f'{path}: {error}') from error


def _config(
    data: Metadata, traits: Architecture, extra_layers: int
) -> TransformerConfig:
  required = {**architectures.REQUIRED, **traits.fields}
  for field in traits.absent:
    del required[field]
  data.check_has([*required])
  family = traits.family
  for field, other in traits.others.items():
    family = other if data.fields.get(field, 0) != 0 else family
  values = {
      'family': family,
      **families.FAMILIES[family].network,
      **traits.network,
  }
  for field, ours in {**required, **traits.optional}.items():
    if field in data.fields:
      values[ours] = data.checked(field, ours)
  values.setdefault('intermediate_size', values.get('moe_intermediate_size'))
  values['num_layers'] -= extra_layers
  values |= _embeddings(data)
  values |= _biases(data, values)
  values |= _layers(data, traits, values['num_layers'])
  if traits.kinds_differ:
    values |= kinds.parse(data, values)
  else:
    values |= _heads(data, traits, values)
  values |= _linear_layers(data, traits, values)
  values |= _convolutions(data, traits, values['num_layers'])
  values |= rope.parse(data, traits, values)
  _check_neutral(data, traits, family, values['rope_scaling'])
  bounds.check_experts(
      values['num_layers'], values.get('num_experts', 0), str(data.path)
  )
  config = TransformerConfig(**values)
  hf_rope.check(config)
  return config


def _heads(
    data: Metadata, traits: Architecture, values: Mapping[str, Any]
) -> dict[str, Any]:
  """Sizes and numbers of heads, and the part of them that is rotated."""
  heads, width = values['num_heads'], values['hidden_size']
  size = data.checked(_SIZE, 'head_dim', width // heads)
  if data.fields.get(_VALUES, size) != size:
    raise WeightsError(
        f'{data.place(_VALUES)} is {data.short(_VALUES)}; only values of the'
        f' size of keys, {size}, are supported.'
    )
  found = {
      'head_dim': size,
      'num_kv_heads': _key_heads(data, traits, heads),
  }
  rotated = data.fields.get('rope.dimension_count', size)
  if rotated != size:
    partial = families.FAMILIES[values['family']].fields
    if (
        'partial_rotary_factor' not in partial
        or not bounds.is_whole(rotated)
        or not 0 < rotated < size
    ):
      raise WeightsError(
          f'{data.path} rotates {bounds.short(rotated)} of {size} dimensions of'
          ' a head; only full rotary embeddings are supported.'
      )
    factor = rotated / size
    if int(size * factor) < rotated:  # rounded down
      factor = math.nextafter(factor, 1)
    found['partial_rotary_factor'] = factor
  if traits.scaled_by_width is not None:
    by_width = values['num_layers'] == traits.scaled_by_width
    found['query_pre_attn_scalar'] = width / heads if by_width else size
  return found


def _key_heads(data: Metadata, traits: Architecture, heads: int) -> int:
  """Heads of keys and values, of the layers that have some."""
  each = data.fields.get(_KEYS, heads)
  if not traits.convolutions or not isinstance(each, list):
    return data.checked(_KEYS, 'num_kv_heads', heads)
  some = {x for x in each if x != 0}
  if len(some) != 1:
    raise WeightsError(
        f'{data.place(_KEYS)} is {data.short(_KEYS)}; only one number of all'
        ' layers of attention, and 0 of convolutions, is supported.'
    )
  [found] = some
  bounds.check('num_kv_heads', found, data.place(_KEYS))
  return found


def _convolutions(
    data: Metadata, traits: Architecture, count: int
) -> dict[str, Any]:
  """The fields of layers of which some are convolutions."""
  each = data.fields.get(_KEYS)
  if not traits.convolutions:
    return {}
  if not isinstance(each, list) or len(each) != count:
    raise WeightsError(
        f'{data.place(_KEYS)} is {data.short(_KEYS)}; it must be one number for'
        f' each of {count} layers.'
    )
  kinds = [FULL if x else CONV for x in each]
  return dict(layer_types=kinds) | ({} if 0 in each else {'conv_kernel': 0})


def _embeddings(data: Metadata) -> dict[str, Any]:
  name, head = names.EMBED.gguf, names.LM_HEAD.gguf
  if name not in data.tensors:
    raise WeightsError(f'{data.path} has no tensor {name!r}.')
  # GGUF lists the fastest dimension first.
  rows = data.tensors[name].shape[1:].tolist()
  size = rows[0] if rows else None
  bounds.check('vocab_size', size, f'Rows of {name} in {data.path}')
  tied = head not in data.tensors
  return dict(vocab_size=size, tie_embeddings=tied)


def _biases(data: Metadata, values: Mapping[str, Any]) -> dict[str, bool]:
  """Switches of which the metadata say nothing: the tensors are there or not."""
  own = architectures.tensors(values['family'])
  modules = {'qkv_bias': 'q', 'o_bias': 'o', 'mlp_bias': 'down'}
  # Behind `blk.N.`; not every layer need have attention.
  there = {name.split('.', 2)[-1] for name in data.tensors}
  return {
      switch: values.get(switch, False) or f'{own[module]}.bias' in there
      for switch, module in modules.items()
  }


def _layers(data: Metadata, traits: Architecture, count: int) -> dict[str, Any]:
  """The fields that differ from layer to layer, but for their rotary bases."""
  found: dict[str, Any] = {}
  if every := traits.unrotated_every:
    found['rope_layers'] = [bool((i + 1) % every) for i in range(count)]
  if traits.full_every is None or data.fields.get(WINDOW, 0) == 0:
    return found
  window = data.checked(WINDOW, 'sliding_window')
  slides = _slides(data, traits.full_every, count)
  found['layer_types'] = [SLIDING if x else FULL for x in slides]
  if any(slides):
    found['sliding_window'] = window
  return found


def _linear_layers(
    data: Metadata, traits: Architecture, values: Mapping[str, Any]
) -> dict[str, Any]:
  """The fields of layers of linear attention."""
  if not traits.attends_every:
    return {}
  data.check_has([_INNER])
  every, inner = traits.attends_every, data.fields[_INNER]
  if _INTERVAL in data.fields:
    every = data.checked(_INTERVAL, 'full_attention_interval')
  heads = values['linear_value_heads']
  if not bounds.is_whole(inner) or inner % heads:
    raise WeightsError(
        f'{data.place(_INNER)} is {data.short(_INNER)}; it must be a multiple'
        f' of its {heads} heads.'
    )
  size = inner // heads
  bounds.check('linear_value_dim', size, data.place(_INNER))
  count = values['num_layers']
  kinds = [LINEAR if (i + 1) % every else FULL for i in range(count)]
  return dict(layer_types=kinds, linear_value_dim=size)


def _extra_layers(data: Metadata, traits: Architecture) -> int:
  """The number of layers at the end that are none of the model's."""
  extra = data.fields.get(EXTRA_LAYERS, 0)
  if EXTRA_LAYERS not in traits.unread or extra == 0:
    return 0  # else `_check_neutral` refuses it
  data.check_has(['block_count'])
  count = data.checked('block_count', 'num_layers')
  if not bounds.is_whole(extra) or not 0 <= extra < count:
    raise WeightsError(
        f'{data.place(EXTRA_LAYERS)} is {data.short(EXTRA_LAYERS)}; it must be'
        f' less than its {count} layers.'
    )
  return extra


def _slides(data: Metadata, full_every: int, count: int) -> list[bool]:
  """For each layer, whether it has the window."""
  pattern = data.fields.get(kinds.PATTERN, full_every)
  if isinstance(pattern, list):
    if len(pattern) != count or not all(x in (0, 1) for x in pattern):
      raise WeightsError(
          f'{data.place(kinds.PATTERN)} is {data.short(kinds.PATTERN)}; it must'
          f' be one true or false for each of {count} layers.'
      )
    return [bool(x) for x in pattern]
  if kinds.PATTERN in data.fields:
    bounds.check('sliding_window_pattern', pattern, data.place(kinds.PATTERN))
  return [not pattern or bool((i + 1) % pattern) for i in range(count)]


def _check_neutral(
    data: Metadata,
    traits: Architecture,
    family: str,
    scaling: rotary.Scaling | None,
) -> None:
  """Refuses fields that would change the network and are not read."""
  read = {*traits.fields, *traits.optional, *traits.unread}
  if traits.full_every is not None:
    read.add(WINDOW)
  grows = scaling is not None and scaling.query_beta is not None
  if grows and 'query_beta' in families.FAMILIES[family].scaling.values():
    read.add(TEMPERATURE)
  neutral = {**architectures.NEUTRAL, **traits.fixed}
  for field, allowed in neutral.items():
    value = data.fields.get(field)
    if field not in read and value is not None and value not in allowed:
      raise WeightsError(
          f'{data.place(field)} is {data.short(field)}, which the network does'
          ' not have; give the directory of the safetensors.'
      )
