"""Rotary position embeddings (RoFormer, arXiv:2104.09864) and their scalings.

A rotation turns pairs of dimensions of a head by an angle that grows with the
position, each pair with a frequency of its own. Models that were trained on
short rows and served on long ones slow some of these frequencies down.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Kind -> the fields of `Scaling` that it reads; the others keep their defaults.
KINDS = {
    'linear': {'factor'},
    'dynamic': {'factor'},
    'llama3': {
        'factor',
        'original_max_positions',
        'low_freq_factor',
        'high_freq_factor',
    },
    'yarn': {
        'factor',
        'original_max_positions',
        'beta_fast',
        'beta_slow',
        'attention_factor',
        'mscale',
        'mscale_all_dim',
        'truncate',
    },
}


@dataclasses.dataclass(frozen=True)
class Scaling:
  """A change of frequencies for rows longer than those of the first training.

  Attributes:
    kind: 'linear' divides every frequency by `factor` (position interpolation,
      arXiv:2306.15595). 'dynamic' (NTK) raises the base with the length of a
      row that outgrows the model's `max_positions`; up to there, which is as
      far as the engine serves, it changes nothing and so does nothing here: a
      cache cannot be turned anew while it grows. 'llama3' divides low
      frequencies and blends the middle ones (Llama 3.1). 'yarn' does so by
      dimension and sharpens attention (arXiv:2309.00071).
    factor: how many times longer rows get; at least 1.
    original_max_positions: longest row of the first training.
    low_freq_factor: llama3: turns within `original_max_positions` below which a
      frequency is divided.
    high_freq_factor: llama3: turns above which it is kept.
    beta_fast: yarn: turns above which a frequency is kept.
    beta_slow: yarn: turns below which it is divided.
    attention_factor: yarn: scale of rotated queries and keys; None derives it
      from `factor` (eq. 22), or from the two below.
    mscale: yarn: DeepSeek's weight of that derivation, with the next.
    mscale_all_dim: yarn.
    truncate: yarn: round the two ends of the blend to whole dimensions.
  """

  kind: str
  factor: float
  original_max_positions: int | None = None
  low_freq_factor: float | None = None
  high_freq_factor: float | None = None
  beta_fast: float = 32.0
  beta_slow: float = 1.0
  attention_factor: float | None = None
  mscale: float | None = None
  mscale_all_dim: float | None = None
  truncate: bool = True

  def __post_init__(self):
    if self.kind not in KINDS:
      raise ValueError(
          f'Unknown rotary scaling {self.kind!r}; known: {", ".join(KINDS)}.'
      )
    if not self.factor >= 1:
      raise ValueError(
          'The factor of a rotary scaling must be at least 1, got'
          f' {self.factor}; leave the scaling out for unscaled embeddings.'
      )
    for field in dataclasses.fields(self)[1:]:
      value = getattr(self, field.name)
      if field.name not in KINDS[self.kind] and value != field.default:
        raise ValueError(
            f'Rotary scaling {self.kind!r} has no {field.name} (got {value});'
            ' leave it out.'
        )
      required = {
          'original_max_positions',
          'low_freq_factor',
          'high_freq_factor',
      }
      if field.name in required & KINDS[self.kind] and not value:
        raise ValueError(
            f'Rotary scaling {self.kind!r} needs {field.name}, got {value}.'
        )
    if self.kind == 'llama3' and self.low_freq_factor >= self.high_freq_factor:
      raise ValueError(
          'Rotary scaling needs low_freq_factor < high_freq_factor, got'
          f' {self.low_freq_factor} and {self.high_freq_factor}.'
      )

  @property
  def amplitude(self) -> float:
    """The factor of rotated queries and keys."""
    if self.kind != 'yarn':
      return 1.0
    if self.attention_factor is not None:
      return self.attention_factor
    by = lambda weight: 0.1 * weight * math.log(self.factor) + 1.0
    if self.mscale and self.mscale_all_dim:
      return by(self.mscale) / by(self.mscale_all_dim)
    return by(1.0)


class Rotation(NamedTuple):
  """The angles and the amplitude of `rotate`.

  Attributes:
    frequencies: `[D/2]` float32, radians a position. Zeros turn nothing.
    amplitude: scalar; None is 1, without a multiplication.
  """

  frequencies: jax.Array
  amplitude: jax.Array | float | None = None


def make_rotation(
    dim: int, theta: float, scaling: Scaling | None = None
) -> Rotation:
  """The rotation of heads of `dim` dimensions.

  Args:
    dim: D, even.
    theta: base: pair i of unscaled heads turns by theta^(-2i/D) a position.
    scaling: of the frequencies; None: as they are.
  """
  half = dim // 2
  frequencies = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
  if scaling is None or scaling.kind == 'dynamic':
    return Rotation(frequencies)
  if scaling.kind == 'linear':
    return Rotation(frequencies / scaling.factor)
  keep = _kept(frequencies, dim, theta, scaling)
  frequencies = keep * frequencies + (1 - keep) * frequencies / scaling.factor
  amplitude = scaling.amplitude
  return Rotation(frequencies, None if amplitude == 1.0 else amplitude)


def _kept(
    frequencies: jax.Array, dim: int, theta: float, scaling: Scaling
) -> jax.Array:
  """`[D/2]`: 1 where a frequency stays, 0 where it is divided by the factor."""
  length = scaling.original_max_positions
  assert length is not None  # both kinds need it, see `Scaling`
  if scaling.kind == 'llama3':
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    assert low is not None and high is not None
    turns = length * frequencies / (2 * math.pi)
    return jnp.clip((turns - low) / (high - low), 0, 1)
  # YaRN's ramp is linear in the pair's index, not in its turns.
  index = lambda turns: (
      dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))
  )
  first, last = index(scaling.beta_fast), index(scaling.beta_slow)
  if scaling.truncate:
    first, last = math.floor(first), math.ceil(last)
  first, last = max(first, 0), min(last, dim - 1)
  span = last - first or 0.001  # a step instead of a ramp
  pairs = jnp.arange(dim // 2, dtype=jnp.float32)
  return 1 - jnp.clip((pairs - first) / span, 0, 1)


def rotate(x: jax.Array, positions: jax.Array, rotation: Rotation) -> jax.Array:
  """Turns queries or keys by their positions, half-split form.

  Args:
    x: `[B, T, heads, D]`; dimension i is paired with i + D/2, as in Hugging
      Face's weights (GGUF files of Llamas pair neighbours and are permuted on
      loading).
    positions: `[B, T]` int.
    rotation: with `[D/2]` frequencies.

  Returns:
    `[B, T, heads, D]` in the type of `x`; computed in float32.
  """
  angles = positions[:, :, None, None].astype(jnp.float32)
  angles = angles * rotation.frequencies
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  if rotation.amplitude is not None:
    cos, sin = cos * rotation.amplitude, sin * rotation.amplitude
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  rotated = (first * cos - second * sin, second * cos + first * sin)
  return jnp.concatenate(rotated, axis=-1).astype(x.dtype)
