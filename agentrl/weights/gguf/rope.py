"""The rotary embeddings of a GGUF file's model.

`rope.scaling.type` names some kinds of scaling; those of Llama 3 and of Phi-3 are
told by tensors with a divisor for each frequency, and so is Gemma 4's.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.errors import WeightsError
from agentrl.models import rotary
from agentrl.weights import bounds, families
from agentrl.weights.gguf.architectures import (
    ROPE_FREQS,
    ROPE_LONG,
    ROPE_SHORT,
    TEMPERATURE,
    Architecture,
)
from agentrl.weights.gguf.metadata import Metadata, shortest

# The scaling of every Llama from 3.1 to 3.3, but for its factor.
_LLAMA3: dict[str, Any] = dict(
    original_max_positions=8192, low_freq_factor=1.0, high_freq_factor=4.0
)
# The divisor of a frequency so slow that it turns nothing.
_NEVER = np.float32(1e30)
_KIND, _FACTOR = 'rope.scaling.type', 'rope.scaling.factor'
_ORIGINAL = 'rope.scaling.original_context_length'
_AMPLITUDE = 'rope.scaling.attn_factor'
_LOCAL = 'rope.freq_base_swa'
# Kind -> its fields -> ours.
_SCALINGS: dict[str, dict[str, str]] = {
    'linear': {_FACTOR: 'factor'},
    'yarn': {
        _FACTOR: 'factor',
        _ORIGINAL: 'original_max_positions',
        'rope.scaling.yarn_attn_factor': 'attention_factor',
        'rope.scaling.yarn_beta_fast': 'beta_fast',
        'rope.scaling.yarn_beta_slow': 'beta_slow',
        'rope.scaling.yarn_log_multiplier': 'mscale_all_dim',
        TEMPERATURE: 'query_beta',
    },
}


def parse(
    data: Metadata, traits: Architecture, values: Mapping[str, Any]
) -> dict[str, Any]:
  """The rotary fields of TransformerConfig.

  Args:
    data: of the file.
    traits: of its architecture.
    values: the other fields of TransformerConfig.

  Raises:
    WeightsError: a field is of another type or size than a model has, or asks for
      what `agentrl.models` or the family does not have.
    ValueError: fields contradict each other.
  """
  family = families.FAMILIES[values['family']]
  theta = float(data.checked('rope.freq_base', 'rope_theta', 10000.0))
  if traits.kinds_differ:
    needed = ['rope.freq_base']
    if values.get('sliding_window') is not None:
      needed.append(_LOCAL)
    data.check_has(needed)
  scaling = _scaling(data, traits, {**values, 'rope_theta': theta})
  if scaling is not None and scaling.kind not in family.scalings:
    raise WeightsError(
        f'{data.path} has the rotary scaling {scaling.kind!r}, which is not of'
        f' this family; known: {", ".join(family.scalings)}.'
    )
  found = dict(rope_theta=theta, rope_scaling=scaling)
  if values.get('sliding_window') is not None:
    usual = theta
    if family.local_rope:
      usual = family.defaults.get('rope_local_base_freq', theta)
    local = float(data.checked(_LOCAL, 'rope_local_base_freq', usual))
    if family.local_rope:
      found['rope_local_theta'] = local
    elif local != theta:
      raise WeightsError(
          f'{data.place(_LOCAL)} is {local}; only layers that are rotated'
          f' alike, by {theta}, are supported.'
      )
  return found


def _scaling(
    data: Metadata, traits: Architecture, values: Mapping[str, Any]
) -> rotary.Scaling | None:
  if traits.kinds_differ:
    return _proportional(data, values)
  kind = data.fields.get(_KIND, 'none')
  divisors = {ROPE_FREQS, ROPE_SHORT, ROPE_LONG} & data.tensors.keys()
  if divisors and kind in ('none', 'longrope'):
    size = values['head_dim'] * values.get('partial_rotary_factor', 1.0)
    if divisors == {ROPE_FREQS} and kind == 'none':
      return _llama3(data, values['rope_theta'], int(size) // 2)
    return _longrope(data, divisors, values['max_positions'], int(size) // 2)
  if kind == 'none':
    return None
  if not isinstance(kind, str) or kind not in _SCALINGS or divisors:
    raise WeightsError(
        f'{data.place(_KIND)} is {data.short(_KIND)}, with {len(divisors)}'
        ' tensors of divisors; known: none, longrope with tensors, and'
        f' {", ".join(_SCALINGS)} without. Give the directory of the'
        ' safetensors.'
    )
  data.check_has([_FACTOR])
  found: dict[str, Any] = {}
  for field, ours in _SCALINGS[kind].items():
    value = data.fields.get(field)
    if value is None:
      continue
    if field == _ORIGINAL:
      data.checked(field, 'max_positions')
    elif not bounds.is_real(value) or value < 0:
      raise WeightsError(
          f'{data.place(field)} is {data.short(field)}; it must be a number'
          ' from 0 on.'
      )
    found[ours] = shortest(value)
  if kind == 'yarn':
    found.setdefault('original_max_positions', values['max_positions'])
    found |= traits.yarn
    if 'mscale_all_dim' in found:
      found['mscale'] = 1.0  # as in every model that has the other
  return rotary.Scaling(kind, **found)


def _divisors(data: Metadata, name: str, count: int) -> np.ndarray | None:
  """`[count]` divisors of frequencies; None if the tensor has something else."""
  found = np.asarray(data.tensors[name].data)
  if found.dtype != np.float32 or found.shape != (count,):
    return None
  return found if np.all(np.isfinite(found) & (found > 0)) else None


def _llama3(data: Metadata, theta: float, count: int) -> rotary.Scaling | None:
  """The scaling that divides the frequencies by `[count]` divisors.

  llama.cpp stores the divisors that follow from Llama 3's terms, not the terms; one
  set of terms is in use, and the divisors are checked against it.
  """
  divisors = _divisors(data, ROPE_FREQS, count)
  if divisors is not None:
    if np.all(divisors == 1):
      return None
    factor = max(1.0, float(divisors.max()))
    scaling = rotary.Scaling('llama3', factor, **_LLAMA3)
    rotation = functools.partial(rotary.make_rotation, 2 * count, theta)
    expected = rotation().frequencies / rotation(scaling).frequencies
    if np.allclose(divisors, expected, rtol=1e-4):
      return scaling
  raise WeightsError(
      f'{ROPE_FREQS!r} of {data.path} is not the scaling of Llama 3 with'
      f' {_LLAMA3}; give the directory of the safetensors.'
  )


def _proportional(data: Metadata, values: Mapping[str, Any]) -> rotary.Scaling:
  """Gemma 4's scaling: divisors of 1 for the pairs that are turned, then 1e30."""
  if ROPE_FREQS not in data.tensors:
    raise WeightsError(f'{data.path} has no tensor {ROPE_FREQS!r}.')
  count = (values.get('full_head_dim') or values['head_dim']) // 2
  divisors = _divisors(data, ROPE_FREQS, count)
  if divisors is not None:
    turned = int(np.sum(divisors == 1))
    if np.all(divisors[:turned] == 1) and np.all(divisors[turned:] >= _NEVER):
      return rotary.Scaling(
          'proportional', factor=1.0, rotated_part=turned / count
      )
  raise WeightsError(
      f'{ROPE_FREQS!r} of {data.path} must be {count} divisors, 1 of the first'
      f' pairs and {_NEVER:g} of those that are not turned.'
  )


def _longrope(
    data: Metadata, present: set[str], positions: int, count: int
) -> rotary.Scaling:
  """Phi's scaling by two sets of `[count]` divisors."""
  if present != {ROPE_SHORT, ROPE_LONG}:
    raise WeightsError(
        f'{data.path} has of {ROPE_SHORT}, {ROPE_LONG} and {ROPE_FREQS} only'
        f' {", ".join(sorted(present))}; it must be the first two.'
    )
  short, long = (_divisors(data, x, count) for x in (ROPE_SHORT, ROPE_LONG))
  if short is None or long is None:
    raise WeightsError(
        f'{ROPE_SHORT} and {ROPE_LONG} of {data.path} must be {count} positive'
        ' numbers each.'
    )
  original = data.checked(_ORIGINAL, 'max_positions', positions)
  scaling = rotary.Scaling(
      'longrope',
      factor=max(1.0, positions / original),
      original_max_positions=original,
      short_factor=tuple(shortest(float(x)) for x in short),
      long_factor=tuple(shortest(float(x)) for x in long),
  )
  amplitude = data.fields.get(_AMPLITUDE, scaling.amplitude)
  if not bounds.is_real(amplitude) or not math.isclose(
      amplitude, scaling.amplitude, rel_tol=1e-5
  ):
    raise WeightsError(
        f'{data.place(_AMPLITUDE)} is {data.short(_AMPLITUDE)}; its lengths'
        f' make it {scaling.amplitude}.'
    )
  return scaling
