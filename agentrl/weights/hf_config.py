"""Reads and writes the network of a Hugging Face `config.json`.

A field that asks for a network which `agentrl.models` does not have is refused
by name: loading such weights would work, and the model would talk nonsense.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import WeightsError
from agentrl.models.config import (
    CONV,
    FULL,
    LINEAR,
    MIXER_SIZES,
    SLIDING,
    TransformerConfig,
)
from agentrl.weights import (
    bounds,
    families,
    hf_kinds,
    hf_rope,
    lacked,
    traits,
)

# Fields in which null is a value; in the others it means that they are absent.
_NULLS = ('num_key_value_heads', 'sliding_window', 'per_layer_config')


def parse(fields: Mapping[str, Any], source: str) -> TransformerConfig:
  """The shape of a model, from the fields of its config.json.

  Args:
    fields: the whole object; in that of a model of text and images, the text
      part is read.
    source: the file, for messages.

  Raises:
    WeightsError: a field is missing, is of another type or size than a model
      has, or describes a network that `agentrl.models` does not have.
  """
  fields = _text_part(fields, source)
  name = fields.get('model_type')
  if not isinstance(name, str) or name not in families.FAMILIES:
    raise WeightsError(_unknown(name, source))
  family = families.FAMILIES[name]
  if family.packed and _is_mxfp4(fields.get('quantization_config')):
    fields = {k: x for k, x in fields.items() if k != 'quantization_config'}
  read = traits.FIELDS | dict(family.fields)
  biases = dict.fromkeys(family.biases, (False, True, None))
  for field, allowed in (traits.FIXED | biases | dict(family.fixed)).items():
    if field not in read and fields.get(field) not in allowed:
      reason = traits.REASONS.get(field, '')
      raise WeightsError(
          f'{field} of {source} is {bounds.short(fields[field])}; only'
          f' {allowed[0]!r} is supported{reason}.'
      )
  settings = {
      traits.RENAMED.get(field, field): x
      # An older name wins where a file has both.
      for field, x in sorted(
          fields.items(), key=lambda item: item[0] in traits.RENAMED
      )
      if x is not None or field in _NULLS
  }
  settings = dict(family.defaults) | settings
  missing = [x for x in read if x not in settings]
  if missing:
    raise WeightsError(f'{source} has no {", ".join(missing)}.')
  values = {}
  for theirs, ours in read.items():
    values[ours] = settings[theirs]
    if settings[theirs] is not None:  # else it follows from other fields
      bounds.check(ours, settings[theirs], f'{theirs} of {source}')
  values['family'] = name
  if settings.get('block_auto_adjust_ff_dim'):
    values['intermediate_size'] = _adjusted(settings, source)
  # Of a model whose layers all have experts it says nothing.
  if values.get('intermediate_size') is None:
    values['intermediate_size'] = values.get('moe_intermediate_size')
  for field, switched in family.biases.items():
    values |= dict.fromkeys(switched, bool(settings.get(field)))
  if values['num_kv_heads'] is None:
    values['num_kv_heads'] = values['num_heads']
  if values['head_dim'] is None:
    values['head_dim'] = values['hidden_size'] // values['num_heads']
    bounds.check('head_dim', values['head_dim'], f'head_dim of {source}')
  bounds.check_experts(
      values['num_layers'], values.get('num_experts', 0), source
  )
  try:
    values |= _layers(family, settings, values['num_layers'], source)
    if family.kinds_differ:
      values |= hf_kinds.read(values, settings, source)
    slides = SLIDING in values['layer_types']
    values |= hf_rope.read(family, settings, slides, source)
    config = TransformerConfig(**family.network, **values)
    hf_rope.check(config)
    return config
  # Numbers that contradict each other: a factor of 0, more heads than width.
  except (ValueError, TypeError, ArithmeticError) as error:
    raise WeightsError(f'{source}: {error}') from error


def _adjusted(settings: Mapping[str, Any], source: str) -> int:
  """The inner size of LFM2's MLPs, of which its files have another."""
  size = int(2 * settings['intermediate_size'] / 3)
  unit, factor = (
      settings[f'block_{x}'] for x in ('multiple_of', 'ffn_dim_multiplier')
  )
  bounds.check('intermediate_size', unit, f'block_multiple_of of {source}')
  if not bounds.is_real(factor) or factor <= 0:
    raise WeightsError(
        f'block_ffn_dim_multiplier of {source} is {bounds.short(factor)}; it'
        ' must be a positive number.'
    )
  size = unit * -(-int(factor * size) // unit)
  bounds.check('intermediate_size', size, f'block_ff_dim of {source}')
  return size


def _is_mxfp4(value: Any) -> bool:
  return isinstance(value, Mapping) and value.get('quant_method') == 'mxfp4'


def _unknown(name: Any, source: str) -> str:
  """The message about a model_type that is not known."""
  kinds = (*families.FAMILIES, *families.TEXT_PARTS)
  names = ', '.join(map(repr, kinds))
  message = f'model_type of {source} is {bounds.short(name)}; known: {names}. '
  if name is None:
    return message + (
        "Give the folder of a model, with transformers' own config.json; that"
        ' of an adapter or of another library has none.'
    )
  reason = lacked.LACKED.get(name) if isinstance(name, str) else None
  return message + (
      (f'Its network has {reason}. ' if reason else '')
      + 'Train a model of these families. Served by SGLang or behind an'
      ' OpenAI-compatible endpoint, any model can be evaluated: '
      '--config=configs/evaluate.py:model=URL, or api=URL.'
  )


def _text_part(fields: Mapping[str, Any], source: str) -> Mapping[str, Any]:
  kind = fields.get('model_type')
  if not isinstance(kind, str) or kind not in families.TEXT_PARTS:
    return fields
  if not isinstance(fields.get('text_config'), Mapping):
    raise WeightsError(f'{source} has no text_config.')
  outer = ('tie_word_embeddings', 'quantization_config')
  shared = {name: fields[name] for name in outer if name in fields}
  known = families.TEXT_PARTS[kind]
  text = {'model_type': known[0]} | fields['text_config']
  if text['model_type'] not in known:
    raise WeightsError(
        f'The text part of {source} is {bounds.short(text["model_type"])};'
        f' known in {kind!r}: {", ".join(known)}.'
    )
  return shared | text


def _layers(
    family: traits.Family,
    settings: Mapping[str, Any],
    count: int,
    source: str,
) -> dict[str, Any]:
  """The fields that differ from layer to layer."""

  def checked(name: str) -> Any:
    if settings.get(name) is not None:
      bounds.check(name, settings[name], f'{name} of {source}')
    return settings.get(name)

  late = checked('max_window_layers')
  window = settings.get('sliding_window')
  rotated, slides = None, [False] * count
  match family.windows:
    case 'late':
      slides = [i >= late for i in range(count)]
    case 'unrotated':
      every = checked('no_rope_layer_interval')
      rotated = [bool((i + 1) % every) for i in range(count)]
      if 'no_rope_layers' in settings:  # 1: the layer has them
        rotated = _listed(settings, 'no_rope_layers', (0, 1), count, source)
      slides = [not x for x in rotated]
    case 'pattern':
      pattern = checked('sliding_window_pattern')
      slides = [bool((i + 1) % pattern) for i in range(count)]
    case 'all':
      slides = [window is not None] * count
    case 'linear':
      every = checked('full_attention_interval')
      attends = [(i + 1) % every == 0 for i in range(count)]
      return _mixed_layers(LINEAR, attends, settings, source)
    case 'conv':
      listed = settings.get('full_attn_idxs', list(range(count)))
      if not isinstance(listed, list) or not all(map(bounds.is_whole, listed)):
        raise WeightsError(
            f'full_attn_idxs of {source} is {bounds.short(listed)}; it must be'
            ' a list of numbers of layers.'
        )
      attends = [i in listed for i in range(count)]
      return _mixed_layers(CONV, attends, settings, source)
  if family.windows not in ('pattern', 'all'):
    window = window if checked('use_sliding_window') else None
    slides = [x and window is not None for x in slides]
  kinds = [SLIDING if x else FULL for x in slides]
  if family.windows is not None and 'layer_types' in settings:
    listed = _listed(settings, 'layer_types', (FULL, SLIDING), count, source)
    if family.windows == 'all' and listed != kinds:
      raise WeightsError(
          f'layer_types of {source} contradicts sliding_window={window}, which'
          ' is that of all layers of this family.'
      )
    kinds = listed
  if SLIDING not in kinds:
    window = None
  elif window is not None:
    window = checked('sliding_window')
  return dict(layer_types=kinds, rope_layers=rotated, sliding_window=window)


def _mixed_layers(
    mixer: str,
    attends: Sequence[bool],
    settings: Mapping[str, Any],
    source: str,
) -> dict[str, Any]:
  """`_layers` of a family of which some are LINEAR or CONV.

  Args:
    mixer: which of both.
    attends: for each layer, whether it is FULL where `layer_types` is absent.
    settings: of the file.
    source: for messages.
  """
  kinds = [FULL if x else mixer for x in attends]
  if 'layer_types' in settings:
    choices = (FULL, mixer)
    kinds = _listed(settings, 'layer_types', choices, len(kinds), source)
  values: dict[str, Any] = dict(layer_types=kinds)
  if mixer not in kinds:  # sizes of layers that it does not have
    values |= dict.fromkeys(MIXER_SIZES[mixer], 0)
  return values


def _listed(
    settings: Mapping[str, Any],
    name: str,
    choices: tuple[Any, ...],
    count: int,
    source: str,
) -> list[Any]:
  """A field that lists one of `choices` for each layer."""
  entries = settings[name]
  if not isinstance(entries, list) or any(x not in choices for x in entries):
    raise WeightsError(
        f'{name} of {source} is {bounds.short(entries)}; it must be a list of'
        f' {" and ".join(map(str, choices))}.'
    )
  if len(entries) != count:
    raise WeightsError(
        f'{name} of {source} has {len(entries)} entries; the model has'
        f' {count} layers.'
    )
  return entries


def make(config: TransformerConfig) -> dict[str, Any]:
  """The fields of a config.json that describe the network.

  transformers 4 and 5 and SGLang read the same network from them.

  Raises:
    WeightsError: files of the config's family cannot express it.
  """
  if config.family not in families.FAMILIES:
    raise WeightsError(
        f'Unknown family {config.family!r}; known:'
        f' {", ".join(families.FAMILIES)}.'
    )
  family = families.FAMILIES[config.family]
  read = traits.FIELDS | dict(family.fields)
  sizes = {name for names in MIXER_SIZES.values() for name in names}
  fields = {
      'architectures': [family.architecture],
      'model_type': config.family,
      **{
          theirs: getattr(config, ours)
          for theirs, ours in read.items()
          # Sizes of layers that it does not have.
          if getattr(config, ours) != 0 or ours not in sizes
      },
      'hidden_act': config.hidden_act,
      **dict.fromkeys(('attention_bias', 'mlp_bias'), False),
      **{
          theirs: getattr(config, ours[-1])
          for theirs, ours in family.biases.items()
      },
      **_layer_fields(config, family),
      **hf_rope.write(config, family),
      **(hf_kinds.write(config) if family.kinds_differ else {}),
      **family.written,
  }
  if 'hidden_activation' in family.fixed:
    fields['hidden_activation'] = config.hidden_act
  reread = parse(fields, 'config.json')
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    if getattr(reread, field.name) != value:
      raise WeightsError(
          f'Files of family {config.family!r} cannot say {field.name}={value};'
          f' they would be read as {getattr(reread, field.name)}.'
      )
  return fields


def _layer_fields(
    config: TransformerConfig, family: traits.Family
) -> dict[str, Any]:
  if family.windows is None:
    return {}
  layers = config.num_layers
  kinds = list(config.layer_types or (FULL,) * layers)
  slides = SLIDING in kinds
  window = config.sliding_window
  if family.windows == 'pattern' and not slides:
    # Transformers makes the mask of sliding layers even where there are none.
    window = family.defaults['sliding_window']
  if family.windows == 'all':
    return {'sliding_window': window}
  if family.windows == 'linear':
    return {'layer_types': kinds, **_interval(kinds)}
  if family.windows == 'conv':
    return {'layer_types': kinds}
  fields: dict[str, Any] = {'layer_types': kinds, 'sliding_window': window}
  if family.windows != 'pattern':
    fields['use_sliding_window'] = slides
    fields['max_window_layers'] = kinds.index(SLIDING) if slides else layers
  if family.windows == 'unrotated':
    fields['no_rope_layers'] = [
        int(x) for x in config.rope_layers or [1] * layers
    ]
  return fields


def _interval(kinds: Sequence[str]) -> dict[str, int]:
  """The number n where every n-th layer is FULL: SGLang reads no `layer_types`."""
  for every in range(1, len(kinds) + 1):
    if kinds == [
        LINEAR if (i + 1) % every else FULL for i in range(len(kinds))
    ]:
      return {'full_attention_interval': every}
  return {}
