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
    'dynamic': {'factor', 'alpha'},
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
        'query_beta',
    },
    'longrope': {
        'factor',
        'original_max_positions',
        'attention_factor',
        'short_factor',
        'long_factor',
    },
    'proportional': {'factor', 'rotated_part'},
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
      dimension and sharpens attention (arXiv:2309.00071). 'longrope' divides
      each frequency by a number of its own (arXiv:2402.13753); there are two
      sets of them, and rows are limited to those that take the first.
      'proportional' turns the pairs of high frequencies alone (Gemma 4).
    factor: how many times longer rows get; at least 1.
    original_max_positions: longest row of the first training.
    low_freq_factor: llama3: turns within `original_max_positions` below which a
      frequency is divided.
    high_freq_factor: llama3: turns above which it is kept.
    beta_fast: yarn: turns above which a frequency is kept.
    beta_slow: yarn: turns below which it is divided.
    alpha: dynamic: raises the base by alpha^(D / (D - 2)) for rows of any
      length (HunYuan); None or 0: not.
    attention_factor: yarn, longrope: scale of rotated queries and keys; None
      derives it from `factor` (yarn's eq. 22), or from the two below.
    mscale: yarn: DeepSeek's weight of that derivation, with the next.
    mscale_all_dim: yarn.
    truncate: yarn: round the two ends of the blend to whole dimensions.
    query_beta: yarn: growth of queries with the position (Llama 4, Ministral
      3), see `query_scale`; None: they do not grow.
    short_factor: longrope: `[D/2]` divisors of rows up to
      `original_max_positions`.
    long_factor: longrope: those of longer rows.
    rotated_part: proportional: part of the pairs that are turned, the first.
  """

  kind: str
  factor: float
  original_max_positions: int | None = None
  low_freq_factor: float | None = None
  high_freq_factor: float | None = None
  beta_fast: float = 32.0
  beta_slow: float = 1.0
  alpha: float | None = None
  attention_factor: float | None = None
  mscale: float | None = None
  mscale_all_dim: float | None = None
  truncate: bool = True
  query_beta: float | None = None
  short_factor: tuple[float, ...] | None = None
  long_factor: tuple[float, ...] | None = None
  rotated_part: float = 1.0

  def __post_init__(self):
    for name in ('short_factor', 'long_factor'):
      value = getattr(self, name)
      if value is not None:  # JSON has lists
        object.__setattr__(self, name, tuple(value))
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
          'short_factor',
          'long_factor',
      }
      if field.name in required & KINDS[self.kind] and not value:
        raise ValueError(
            f'Rotary scaling {self.kind!r} needs {field.name}, got {value}.'
        )
    if not 0 <= self.rotated_part <= 1:
      raise ValueError(
          'rotated_part of a rotary scaling must be between 0 and 1, got'
          f' {self.rotated_part}.'
      )
    if self.kind == 'llama3' and self.low_freq_factor >= self.high_freq_factor:
      raise ValueError(
          'Rotary scaling needs low_freq_factor < high_freq_factor, got'
          f' {self.low_freq_factor} and {self.high_freq_factor}.'
      )

  @property
  def amplitude(self) -> float:
    """The factor of rotated queries and keys."""
    if self.kind not in ('yarn', 'longrope'):
      return 1.0
    if self.attention_factor is not None:
      return self.attention_factor
    if self.kind == 'longrope':
      assert self.original_max_positions is not None  # see `__post_init__`
      if self.factor == 1:
        return 1.0
      grown = math.log(self.factor) / math.log(self.original_max_positions)
      return math.sqrt(1 + grown)
    by = lambda weight: 0.1 * weight * math.log(self.factor) + 1.0
    if self.mscale and self.mscale_all_dim:
      return by(self.mscale) / by(self.mscale_all_dim)
    return by(1.0)

  @property
  def max_row(self) -> int | None:
    """The longest row that has these frequencies; None: any."""
    if self.kind != 'longrope' or self.short_factor == self.long_factor:
      return None
    return self.original_max_positions


class Rotation(NamedTuple):
  """The angles and the amplitude of `rotate`.

  Attributes:
    frequencies: `[R/2]` float32, radians a position, of the first R dimensions
      of a head; those behind them are not rotated. Zeros turn nothing.
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
  if scaling is not None and scaling.alpha:
    theta *= scaling.alpha ** (dim / (dim - 2))
  frequencies = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
  if scaling is None or scaling.kind == 'dynamic':
    return Rotation(frequencies)
  if scaling.kind == 'linear':
    return Rotation(frequencies / scaling.factor)
  if scaling.kind == 'proportional':
    turned = jnp.arange(half) < int(scaling.rotated_part * dim // 2)
    return Rotation(jnp.where(turned, frequencies / scaling.factor, 0))
  if scaling.kind == 'longrope':
    divisors = scaling.short_factor
    assert divisors is not None  # see `Scaling`
    if len(divisors) != half:
      raise ValueError(
          f'{dim} rotated dimensions need {half} entries of short_factor, got'
          f' {len(divisors)}.'
      )
    frequencies = frequencies / jnp.asarray(divisors, jnp.float32)
  else:
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


def query_scale(positions: jax.Array, scaling: Scaling) -> jax.Array:
  """Factors `[B, T]` float32 of queries by their positions `[B, T]`.

  1 + query_beta * log(1 + floor(position / original_max_positions)): attention
  gets sharper in rows longer than those of the first training (Llama 4).
  """
  length, beta = scaling.original_max_positions, scaling.query_beta
  assert length is not None and beta is not None
  passed = positions // length
  return 1 + beta * jnp.log1p(passed.astype(jnp.float32))


def rotate(
    x: jax.Array,
    positions: jax.Array,
    rotation: Rotation,
    *,
    interleaved: bool = False,
) -> jax.Array:
  """Turns queries or keys by their positions.

  Args:
    x: `[B, T, heads, D]`; of its first R dimensions, i is paired with i + R/2,
      as in Hugging Face's weights (GGUF files of Llamas pair neighbours and are
      permuted on loading).
    positions: `[B, T]` int.
    rotation: with `[R/2]` frequencies, R <= D.
    interleaved: dimension 2 i is paired with 2 i + 1 instead (GLM).

  Returns:
    `[B, T, heads, D]` in the type of `x`; computed in float32.
  """
  angles = positions[:, :, None, None].astype(jnp.float32)
  angles = angles * rotation.frequencies
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  if rotation.amplitude is not None:
    cos, sin = cos * rotation.amplitude, sin * rotation.amplitude
  size = 2 * rotation.frequencies.shape[-1]
  turned, kept = x, []
  if size < x.shape[-1]:
    turned, *kept = jnp.split(x, [size], axis=-1)
  turned = turned.astype(jnp.float32)
  if interleaved:
    first, second = turned[..., ::2], turned[..., 1::2]
  else:
    first, second = jnp.split(turned, 2, axis=-1)
  rotated = (first * cos - second * sin, second * cos + first * sin)
  if interleaved:
    turned = jnp.stack(rotated, axis=-1).reshape(turned.shape)
  else:
    turned = jnp.concatenate(rotated, axis=-1)
  turned = turned.astype(x.dtype)
  return jnp.concatenate([turned, *kept], axis=-1) if kept else turned
