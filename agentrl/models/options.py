"""Choices that a config has of networks; imports no jax."""

import dataclasses

from agentrl.fields import field, when_set

# Variants that start from random weights.
TINY = ('tiny-1m', 'tiny-4m')
DTYPES = ('float32', 'bfloat16')
REMAT = ('none', 'dots', 'full')
ATTENTION = ('reference', 'flash')
LORA_TARGETS = ('q', 'k', 'v', 'o', 'gate', 'up', 'down')

_RANK = when_set(
    'model.lora.rank', 8, 'model.lora.rank=0 trains all parameters'
)


@dataclasses.dataclass(frozen=True)
class Lora:
  """Which projections have a low-rank adapter, and of what size."""

  rank: int = field(
      0, 'columns of A; 0: no adapter, all parameters are trained', ge=0
  )
  # The scale is alpha / rank: the first updates do not depend on the rank.
  alpha: float = field(16.0, 'numerator of the scale', gt=0, acts_if=_RANK)
  targets: tuple[str, ...] = field(
      LORA_TARGETS,
      'projections with an adapter',
      one_of=LORA_TARGETS,
      acts_if=_RANK,
  )
  # Under it a larger rank goes on learning as fast (rsLoRA, arXiv:2312.03732).
  rslora: bool = field(False, 'scale by alpha / sqrt(rank)', acts_if=_RANK)

  @property
  def projections(self) -> tuple[str, ...]:
    """`targets` in the order of the model's, each once."""
    return tuple(name for name in LORA_TARGETS if name in self.targets)

  @property
  def scale(self) -> float:
    """The factor of (x A) B; 1 without an adapter."""
    if not self.rank:
      return 1.0
    return self.alpha / (self.rank**0.5 if self.rslora else self.rank)
