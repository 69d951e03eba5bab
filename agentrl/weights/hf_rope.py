"""Reads and writes the rotary embeddings of a Hugging Face `config.json`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.errors import WeightsError
from agentrl.models import rotary
from agentrl.models.config import FULL, SLIDING, TransformerConfig
from agentrl.weights import bounds, traits


def read(
    family: traits.Family,
    settings: Mapping[str, Any],
    slides: bool,
    source: str,
) -> dict[str, Any]:
  """The rotary fields, in the form of transformers 4 or 5."""
  # Transformers 5 lets the older field win where a file has both.
  field = 'rope_scaling' if 'rope_scaling' in settings else 'rope_parameters'
  partial = 'partial_rotary_factor'
  sliding: Mapping[str, Any] = {}
  try:
    parameters: Mapping[str, Any] = {
        name: value
        for name, value in _object(settings.get('rope_parameters')).items()
        if name not in family.unread_rope
    }
    if family.local_rope:
      sliding = _object(parameters.get(SLIDING))
      parameters = _object(parameters.get(FULL))
    if field not in settings:
      parameters = family.rope
    kind, rope = _rotary_type(_object(settings.get('rope_scaling', parameters)))
    theta = parameters.get('rope_theta') or settings['rope_theta']
    theta = rope.pop('rope_theta', theta)
    part = None
    if kind != 'proportional':  # of which it is a field
      part = rope.pop(partial, parameters.get(partial))
    scaling = _scaling(family, kind, rope, settings)
    local_kind, local = _rotary_type(sliding)
    local_theta = settings.get('rope_local_base_freq') or theta
    local_theta = local.pop('rope_theta', local_theta)
    if part not in (None, 1) and partial not in family.fields:
      raise ValueError('only full rotary embeddings are supported')
    if local_kind != 'default' or local:
      raise ValueError(f'only {FULL} may be scaled')
  except ValueError as error:
    raise WeightsError(
        f'{field} of {source} is {bounds.short(settings.get(field))}: {error}'
    ) from error
  bounds.check('rope_theta', theta, f'rope_theta of {source}')
  values: dict[str, Any] = dict(rope_theta=float(theta), rope_scaling=scaling)
  if part is not None:
    bounds.check(partial, part, f'{partial} of {source}')
    values[partial] = float(part)
  if slides and family.local_rope:
    place = f'rope_local_base_freq of {source}'
    bounds.check('rope_local_base_freq', local_theta, place)
    values['rope_local_theta'] = float(local_theta)
  return values


def _object(value: Any) -> Mapping[str, Any]:
  """A JSON object; an empty one for null."""
  if value is not None and not isinstance(value, Mapping):
    raise ValueError(f'{bounds.short(value)} is no object')
  return value or {}


def _rotary_type(fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
  """The rotary type that an object describes, and its other fields."""
  rest = {name: x for name, x in fields.items() if x is not None}
  older = rest.pop('type', 'default')
  kind = rest.pop('rope_type', older)
  if not isinstance(kind, str):
    raise ValueError(f'rope_type is {bounds.short(kind)}')
  return traits.ROTARY_TYPES.get(kind, kind), rest


def _scaling(
    family: traits.Family,
    kind: str,
    fields: dict[str, Any],
    settings: Mapping[str, Any],
) -> rotary.Scaling | None:
  """The scaling that an object of rotary fields asks for."""
  positions = settings['max_position_embeddings']
  parameters = traits.SCALING | dict(family.scaling)
  unread = family.unread_scaling if kind != 'default' else ()
  fields = {name: x for name, x in fields.items() if name not in unread}
  unknown = sorted(fields.keys() - (parameters if kind != 'default' else {}))
  if unknown:
    raise ValueError(f'rotary type {kind!r} has no {", ".join(unknown)}')
  needed = [name for name in family.needed_scaling if name not in fields]
  if needed:
    raise ValueError(f'rotary type {kind!r} lacks {", ".join(needed)}')
  if kind == 'default':
    return None
  if kind in rotary.KINDS and kind not in family.scalings:
    raise ValueError(
        f'rotary type {kind!r} is not of this family; known:'
        f' {", ".join(family.scalings)}'
    )
  for name, value in fields.items():
    if name == 'truncate':
      good = isinstance(value, bool)
    elif name in ('short_factor', 'long_factor'):
      good = _is_divisors(value)
    else:
      good = bounds.is_real(value) and value >= 0
    if not good:
      raise ValueError(f'{name} is {bounds.short(value)}')
  values = {parameters[name]: value for name, value in fields.items()}
  # Beside rope_parameters; transformers takes it, were there one in them too.
  original = settings.get('original_max_position_embeddings')
  if original is not None:
    if not bounds.is_whole(original) or original < 1:
      raise ValueError(
          f'original_max_position_embeddings is {bounds.short(original)}'
      )
    values['original_max_positions'] = original
  if 'original_max_positions' in rotary.KINDS.get(kind, ()):
    values.setdefault('original_max_positions', positions)
    original = values['original_max_positions']
    if not 1 <= original < 2**31:  # positions are int32
      raise ValueError(
          f'original_max_position_embeddings is {bounds.short(original)}'
      )
  else:
    # The model's max_positions take its place.
    values.pop('original_max_positions', None)
  if kind == 'yarn':
    original = values['original_max_positions']
    values.setdefault('factor', positions / original)
  elif kind == 'longrope':
    values.setdefault(
        'factor', max(1.0, positions / values['original_max_positions'])
    )
  elif kind == 'proportional':
    values.setdefault('factor', 1.0)
  elif 'factor' not in values:
    raise ValueError(f'rotary type {kind!r} needs a factor')
  return rotary.Scaling(kind, **values)


def _is_divisors(value: Any) -> bool:
  """True for a list of positive numbers, as many as a head may have."""
  return (
      isinstance(value, list)
      and len(value) <= bounds.MOST_DIMENSIONS
      and all(bounds.is_real(x) and x > 0 for x in value)
  )


def write(config: TransformerConfig, family: traits.Family) -> dict[str, Any]:
  """The rotary fields that transformers 4 and 5 and SGLang read."""
  scaling: dict[str, Any] | None = None
  known = traits.SCALING | dict(family.scaling)
  if config.rope_scaling is not None:
    kind = config.rope_scaling.kind
    scaling = {'rope_type': kind} | {
        theirs: list(value) if isinstance(value, tuple) else value
        for theirs, ours in known.items()
        if ours in rotary.KINDS[kind]
        and (value := getattr(config.rope_scaling, ours)) is not None
    }
    if kind == 'proportional' and scaling['factor'] == 1:
      del scaling['factor']  # transformers divides by one, and warns of it
  base = {'rope_theta': config.rope_theta}
  full = (scaling or {'rope_type': 'default'}) | base
  original = 'original_max_position_embeddings'
  fields: dict[str, Any] = {}
  if not family.rope_parameters_only:
    fields = base | {'rope_scaling': scaling}
  fields['rope_parameters'] = full
  if original in family.defaults and scaling is not None:
    fields[original] = scaling[original]
  if 'partial_rotary_factor' in family.fields:
    full['partial_rotary_factor'] = config.partial_rotary_factor
  if family.local_rope:
    theta = family.defaults.get('rope_local_base_freq', config.rope_theta)
    if config.rope_local_theta is not None:
      theta = config.rope_local_theta
    local = {'rope_type': 'default', 'rope_theta': theta}
    if 'rope_local_base_freq' in family.defaults:
      fields['rope_local_base_freq'] = theta
    fields['rope_parameters'] = {FULL: full, SLIDING: local}
  return fields


def check(config: TransformerConfig) -> None:
  """ValueError unless scaled rotary frequencies are numbers."""
  if config.rope_scaling is None:
    return
  rotation = rotary.make_rotation(
      config.rotary_dim, config.rope_theta, config.rope_scaling
  )
  if not np.all(np.isfinite(rotation.frequencies)) or not np.isfinite(
      1.0 if rotation.amplitude is None else rotation.amplitude
  ):
    raise ValueError(f'{config.rope_scaling} gives no finite frequencies.')
