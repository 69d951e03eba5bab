"""Sections of a config about the network; imports no jax."""

import dataclasses

from agentrl.errors import ConfigError
from agentrl.fields import field, section, when, when_set

# Variants that start from random weights.
TINY = ('tiny-1m', 'tiny-4m')
DTYPES = ('float32', 'bfloat16')
REMAT = ('none', 'dots', 'full')
_USUAL_TARGETS = ('q', 'k', 'v', 'o', 'gate', 'up', 'down')
# Those of other layers than attention: of linear attention, of convolutions, of both.
OTHER_TARGETS = ('in_qkv', 'in_z', 'in_bcx', 'out')
LORA_TARGETS = (*_USUAL_TARGETS, *OTHER_TARGETS)

_RANK = when_set(
    'model.lora.rank', 8, 'model.lora.rank=0 trains all parameters'
)
_FROM_SCRATCH = when('model.name', *TINY)


@dataclasses.dataclass(frozen=True)
class Lora:
  """A low-rank adapter: its projections and its size."""

  rank: int = field(
      0, 'columns of A; 0: no adapter, all parameters are trained', ge=0
  )
  # The scale is alpha / rank: the first updates do not depend on the rank.
  alpha: float = field(16.0, 'numerator of the scale', gt=0, acts_if=_RANK)
  targets: tuple[str, ...] = field(
      _USUAL_TARGETS,
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
  """The policy network, as it samples."""

  name: str = field(
      'smollm2-135m',
      'variant, directory, .gguf, hub name, run or its checkpoints/N or'
      ' checkpoints/best',
  )
  # Of activations, and of a frozen base's parameters; 'bfloat16' on a GPU.
  dtype: str = field('float32', 'type of activations', one_of=DTYPES)

  def check(self) -> None:
    """Refuses an empty name, which as a path would be this folder."""
    if self.name is not None and not self.name.strip():
      raise ConfigError(
          'model.name is empty: name a variant, a directory, a .gguf file, a'
          ' hub repository or a run.'
      )

  @property
  def from_scratch(self) -> bool:
    """Tiny variants start random, with a tokenizer trained for the task."""
    return self.name in TINY


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainModel(Model):
  """The policy network, as it learns."""

  # Of names in one piece a small network learns sooner to copy them.
  vocab_size: int | None = field(
      None,
      "tokens of a tokenizer trained for the task; None: the variant's",
      ge=512,
      acts_if=_FROM_SCRATCH,
      example=2048,
  )
  # 'dots': all but products with weights and attention. On a CPU it takes less
  # time than either and less memory than 'none': what is saved is written and
  # read.
  remat: str = field(
      'dots', 'activations recomputed in the backward pass', one_of=REMAT
  )
  lora: Lora = section(Lora)

  def check(self) -> None:
    super().check()
    if not self.lora.targets:
      raise ConfigError(
          'model.lora.targets=() names no projection; give some of'
          f' {LORA_TARGETS}.'
      )
    if self.lora.rank and self.from_scratch:
      raise ConfigError(
          f'model.lora.rank={self.lora.rank} adapts a pretrained model, and'
          f' {self.name!r} starts random: train it in full first, and give that'
          " run's workdir as model.name."
      )
