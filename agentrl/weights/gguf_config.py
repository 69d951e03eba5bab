"""The shape of a model from the metadata of a GGUF file.

`gguf_architectures` has the tables. A field that asks for a network which
`agentrl.models` does not have is refused by name.
"""

import functools
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import gguf
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models import rotary
from agentrl.models.config import FULL, SLIDING, TransformerConfig
from agentrl.weights import (
    bounds,
    families,
    gguf_architectures,
    hf_config,
    names,
)
from agentrl.weights.gguf_architectures import (
    ARCHITECTURES,
    ROPE_FREQS,
    ROPE_LONG,
    ROPE_SHORT,
    WINDOW,
    Architecture,
)

# The scaling of every Llama from 3.1 to 3.3, but for its factor.
_LLAMA3: dict[str, Any] = dict(
    original_max_positions=8192, low_freq_factor=1.0, high_freq_factor=4.0
)
# Kinds of scaling that `rope.scaling.type` names -> their fields -> ours. Those of
# Llama 3 and of Phi-3 are told by their tensors.
_ORIGINAL = 'rope.scaling.original_context_length'
_SCALINGS: dict[str, dict[str, str]] = {
    'linear': {'rope.scaling.factor': 'factor'},
    'yarn': {
        'rope.scaling.factor': 'factor',
        _ORIGINAL: 'original_max_positions',
        'rope.scaling.yarn_attn_factor': 'attention_factor',
        'rope.scaling.yarn_beta_fast': 'beta_fast',
        'rope.scaling.yarn_beta_slow': 'beta_slow',
        'rope.scaling.yarn_log_multiplier': 'mscale_all_dim',
        gguf_architectures.TEMPERATURE: 'query_beta',
    },
}


def parse(
    reader: gguf.GGUFReader, path: str | pathlib.Path
) -> tuple[TransformerConfig, Architecture]:
  """The shape of a model, and the traits of its file.

  Args:
    reader: of the file.
    path: of the file, for messages.

  Raises:
    WeightsError: a field is damaged or missing, is of another type or size than a
      model has, or describes a network that `agentrl.models` does not have.
  """
  fields = _fields(reader, path)
  name = fields.get('general.architecture')
  if not isinstance(name, str) or name not in ARCHITECTURES:
    raise WeightsError(
        f'{path} has architecture {bounds.short(name)}; known:'
        f' {", ".join(map(repr, ARCHITECTURES))}. Of other models, give the'
        ' directory of their safetensors.'
    )
  architecture = ARCHITECTURES[name]
  prefix = f'{name}.'
  fields = {
      field.removeprefix(prefix): value
      for field, value in fields.items()
      if field.startswith(prefix)
  }
  tensors = {tensor.name: tensor for tensor in reader.tensors}
  return (
      _File(path, prefix, fields, tensors, architecture).config(),
      architecture,
  )


def _fields(
    reader: gguf.GGUFReader, path: str | pathlib.Path
) -> dict[str, Any]:
  """The metadata but for the tokenizer's, which is long."""
  try:
    return {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith('tokenizer.')
    }
  except ValueError as error:  # text that is not UTF-8
    reason = bounds.one_line(error)
    raise WeightsError(f'{path} has a damaged field: {reason}.') from error


class _File:
  """The metadata of one file, checked as it is read."""

  def __init__(
      self,
      path: str | pathlib.Path,
      prefix: str,
      fields: Mapping[str, Any],
      tensors: Mapping[str, gguf.ReaderTensor],
      architecture: Architecture,
  ):
    self._path, self._prefix = path, prefix
    self._fields, self._tensors = fields, tensors
    self._architecture = architecture

  def config(self) -> TransformerConfig:
    traits = self._architecture
    family = self._family()
    needed = [*gguf_architectures.REQUIRED, *traits.fields]
    missing = [self._prefix + x for x in needed if x not in self._fields]
    if missing:
      raise WeightsError(f'{self._path} has no field {", ".join(missing)}.')
    values: dict[str, Any] = dict(family=family)
    values |= families.FAMILIES[family].network
    values |= traits.network
    for field, ours in {**gguf_architectures.REQUIRED, **traits.fields}.items():
      values[ours] = self._checked(field, ours)
    for field, ours in traits.optional.items():
      if field in self._fields:
        values[ours] = self._checked(field, ours)
    values |= self._heads(values)
    values |= self._embeddings()
    values |= self._biases(family, values)
    bounds.check_experts(
        values['num_layers'], values.get('num_experts', 0), str(self._path)
    )
    try:
      values |= self._layers(family, values)
      values |= self._rope(family, values)
      self._check_neutral(family, values['rope_scaling'])
      config = TransformerConfig(**values)
      hf_config.check_rotation(config)
      return config
    except (ValueError, TypeError, ArithmeticError) as error:
      raise WeightsError(f'{self._path}: {error}') from error

  def _family(self) -> str:
    for field, family in self._architecture.others.items():
      if self._fields.get(field, 0) != 0:
        return family
    return self._architecture.family

  def _checked(self, field: str, ours: str, default: Any = None) -> Any:
    """A field that holds what `ours` may hold; floats as they were written."""
    value = self._fields.get(field, default)
    bounds.check(ours, value, f'{self._prefix}{field} of {self._path}')
    return _shortest(value)

  def _heads(self, values: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes and numbers of heads, and the part of them that is rotated."""
    heads = values['num_heads']
    size = self._checked(
        'attention.key_length', 'head_dim', values['hidden_size'] // heads
    )
    if self._fields.get('attention.value_length', size) != size:
      raise WeightsError(
          f'{self._prefix}attention.value_length of {self._path} is'
          f' {bounds.short(self._fields["attention.value_length"])}; only'
          f' values of the size of keys, {size}, are supported.'
      )
    found = {
        'head_dim': size,
        'num_kv_heads': self._checked(
            'attention.head_count_kv', 'num_kv_heads', heads
        ),
    }
    rotated = self._fields.get('rope.dimension_count', size)
    if rotated != size:
      family = families.FAMILIES[values['family']]
      partial = 'partial_rotary_factor' in family.fields
      if not partial or not bounds.is_whole(rotated) or not 0 < rotated < size:
        raise WeightsError(
            f'{self._path} rotates {bounds.short(rotated)} of {size} dimensions'
            ' of a head; only full rotary embeddings are supported.'
        )
      factor = rotated / size
      if int(size * factor) < rotated:  # rounded down
        factor = math.nextafter(factor, 1)
      found['partial_rotary_factor'] = factor
    count = values['num_layers']
    if self._architecture.scaled_by_width is not None:
      by_width = count == self._architecture.scaled_by_width
      scalar = values['hidden_size'] / heads if by_width else size
      found['query_pre_attn_scalar'] = scalar
    return found

  def _embeddings(self) -> dict[str, Any]:
    name = names.EMBED.gguf
    if name not in self._tensors:
      raise WeightsError(f'{self._path} has no tensor {name!r}.')
    # GGUF lists the fastest dimension first.
    rows = self._tensors[name].shape[1:].tolist()
    size = rows[0] if rows else None
    bounds.check('vocab_size', size, f'Rows of {name} in {self._path}')
    tied = names.LM_HEAD.gguf not in self._tensors
    return dict(vocab_size=size, tie_embeddings=tied)

  def _biases(self, family: str, values: Mapping[str, Any]) -> dict[str, bool]:
    """Switches that the metadata lack: the tensors are there or not."""
    own = gguf_architectures.tensors(family)
    modules = {'qkv_bias': 'q', 'o_bias': 'o', 'mlp_bias': 'down'}
    return {
        switch: (
            values.get(switch, False)
            or f'blk.0.{own[module]}.bias' in self._tensors
        )
        for switch, module in modules.items()
    }

  def _layers(self, family: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ from layer to layer."""
    traits, count = self._architecture, values['num_layers']
    found: dict[str, Any] = {}
    if every := traits.unrotated_every:
      found['rope_layers'] = [bool((i + 1) % every) for i in range(count)]
    if traits.full_every is None or self._fields.get(WINDOW, 0) == 0:
      return found
    window = self._checked(WINDOW, 'sliding_window')
    slides = self._slides(traits.full_every, count)
    found['layer_types'] = [SLIDING if x else FULL for x in slides]
    if any(slides):
      found['sliding_window'] = window
      if families.FAMILIES[family].local_rope:
        found['rope_local_theta'] = self._local_theta(family)
    return found

  def _slides(self, every: int, count: int) -> list[bool]:
    field = 'attention.sliding_window_pattern'
    pattern = self._fields.get(field, every)
    if isinstance(pattern, list):
      if len(pattern) != count or not all(x in (0, 1) for x in pattern):
        raise WeightsError(
            f'{self._prefix}{field} of {self._path} is {bounds.short(pattern)};'
            f' it must be one true or false for each of {count} layers.'
        )
      return [bool(x) for x in pattern]
    if pattern:
      place = f'{self._prefix}{field} of {self._path}'
      bounds.check('sliding_window_pattern', pattern, place)
    return [not pattern or bool((i + 1) % pattern) for i in range(count)]

  def _local_theta(self, family: str) -> float:
    defaults = families.FAMILIES[family].defaults
    usual = defaults.get('rope_local_base_freq', self._theta())
    field = 'rope.freq_base_swa'
    return float(self._checked(field, 'rope_local_base_freq', usual))

  def _theta(self) -> float:
    return float(self._checked('rope.freq_base', 'rope_theta', 10000.0))

  def _rope(self, family: str, values: Mapping[str, Any]) -> dict[str, Any]:
    theta = self._theta()
    local = self._fields.get('rope.freq_base_swa')
    if local is not None and 'rope_local_theta' not in values:
      if _shortest(local) != theta and 'layer_types' in values:
        raise WeightsError(
            f'{self._prefix}rope.freq_base_swa of {self._path} is'
            f' {bounds.short(local)}; only layers that are rotated alike, by'
            f' {theta}, are supported.'
        )
    scaling = self._scaling({**values, 'rope_theta': theta})
    known = families.FAMILIES[family].scalings
    if scaling is not None and scaling.kind not in known:
      raise WeightsError(
          f'{self._path} has the rotary scaling {scaling.kind!r}, which is not'
          f' of this family; known: {", ".join(known)}.'
      )
    return dict(rope_theta=theta, rope_scaling=scaling)

  def _scaling(self, values: Mapping[str, Any]) -> rotary.Scaling | None:
    kind = self._fields.get('rope.scaling.type', 'none')
    by_tensors = {ROPE_FREQS, ROPE_SHORT, ROPE_LONG} & self._tensors.keys()
    if kind in ('none', 'longrope') and by_tensors:
      size = values['head_dim'] * values.get('partial_rotary_factor', 1.0)
      if by_tensors == {ROPE_FREQS} and kind == 'none':
        return self._llama3(values, round(size) // 2)
      return self._longrope(values, by_tensors, round(size) // 2)
    if kind == 'none':
      return None
    if not isinstance(kind, str) or kind not in _SCALINGS or by_tensors:
      raise WeightsError(
          f'{self._prefix}rope.scaling.type of {self._path} is'
          f' {bounds.short(kind)} with {len(by_tensors)} tensors of divisors;'
          f' known: none, longrope with tensors, and {", ".join(_SCALINGS)}'
          ' without. Give the directory of the safetensors.'
      )
    found: dict[str, Any] = {}
    for field, ours in _SCALINGS[kind].items():
      if field in self._fields:
        value = self._fields[field]
        if not bounds.is_real(value) or value < 0:
          raise WeightsError(
              f'{self._prefix}{field} of {self._path} is {bounds.short(value)};'
              ' it must be a positive number.'
          )
        found[ours] = _shortest(value)
    if 'factor' not in found:
      raise WeightsError(
          f'{self._path} has no field {self._prefix}rope.scaling.factor.'
      )
    if kind == 'yarn':
      found.setdefault('original_max_positions', values['max_positions'])
      found |= self._architecture.yarn
      if 'mscale_all_dim' in found:
        found['mscale'] = 1.0  # as every model that has the other
    return rotary.Scaling(kind, **found)

  def _divisors(self, name: str, count: int) -> np.ndarray | None:
    """`[count]` divisors of frequencies, or None where they are no such thing."""
    found = np.asarray(self._tensors[name].data)
    good = found.dtype == np.float32 and found.shape == (count,)
    if not good or not np.all(np.isfinite(found) & (found > 0)):
      return None
    return found

  def _llama3(
      self, values: Mapping[str, Any], count: int
  ) -> rotary.Scaling | None:
    """The scaling that divides the frequencies by `[count]` divisors.

    llama.cpp stores the divisors that follow from Llama 3's terms, not the terms;
    one set of terms is in use, and the divisors are checked against it.
    """
    divisors = self._divisors(ROPE_FREQS, count)
    if divisors is not None:
      if np.all(divisors == 1):
        return None
      factor = max(1.0, float(divisors.max()))
      scaling = rotary.Scaling('llama3', factor, **_LLAMA3)
      rotation = functools.partial(
          rotary.make_rotation, 2 * count, values['rope_theta']
      )
      expected = rotation().frequencies / rotation(scaling).frequencies
      if np.allclose(divisors, expected, rtol=1e-4):
        return scaling
    raise WeightsError(
        f'{ROPE_FREQS!r} of {self._path} is not the scaling of Llama 3 with'
        f' {_LLAMA3}; give the directory of the safetensors.'
    )

  def _longrope(
      self, values: Mapping[str, Any], present: Iterable[str], count: int
  ) -> rotary.Scaling:
    """Phi's scaling by two sets of `[count]` divisors."""
    if set(present) != {ROPE_SHORT, ROPE_LONG}:
      raise WeightsError(
          f'{self._path} has of {ROPE_SHORT}, {ROPE_LONG} and {ROPE_FREQS} only'
          f' {", ".join(sorted(present))}; it must be the first two.'
      )
    short, long = (self._divisors(x, count) for x in (ROPE_SHORT, ROPE_LONG))
    if short is None or long is None:
      raise WeightsError(
          f'{ROPE_SHORT} and {ROPE_LONG} of {self._path} must be {count}'
          ' positive numbers each.'
      )
    original = self._checked(
        _ORIGINAL, 'max_positions', values['max_positions']
    )
    scaling = rotary.Scaling(
        'longrope',
        factor=max(1.0, values['max_positions'] / original),
        original_max_positions=original,
        short_factor=tuple(_shortest(float(x)) for x in short),
        long_factor=tuple(_shortest(float(x)) for x in long),
    )
    field = 'rope.scaling.attn_factor'
    amplitude = self._fields.get(field, scaling.amplitude)
    if not bounds.is_real(amplitude) or not math.isclose(
        amplitude, scaling.amplitude, rel_tol=1e-5
    ):
      raise WeightsError(
          f'{self._prefix}{field} of {self._path} is {bounds.short(amplitude)};'
          f' its lengths make it {scaling.amplitude}.'
      )
    return scaling

  def _check_neutral(self, family: str, scaling: rotary.Scaling | None) -> None:
    """Refuses fields that would change the network and are not read."""
    traits = self._architecture
    read = {*traits.fields, *traits.optional}
    if traits.full_every is not None:
      read.add(WINDOW)
    grows = scaling is not None and scaling.query_beta is not None
    if grows and 'query_beta' in families.FAMILIES[family].scaling.values():
      read.add(gguf_architectures.TEMPERATURE)
    neutral = {**gguf_architectures.NEUTRAL, **traits.fixed}
    for field, allowed in neutral.items():
      value = self._fields.get(field)
      if field not in read and value is not None and value not in allowed:
        raise WeightsError(
            f'{self._prefix}{field} of {self._path} is {bounds.short(value)},'
            ' which the network does not have; give the directory of the'
            ' safetensors.'
        )


def _shortest(value: Any) -> Any:
  """The shortest decimal of a float32: 1e-05, not 9.999999747378752e-06."""
  return float(str(np.float32(value))) if isinstance(value, float) else value
