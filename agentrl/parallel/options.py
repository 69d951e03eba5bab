"""Sections of a config about devices; imports no jax."""

import dataclasses

from agentrl.fields import field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mesh:
  """Devices per axis, of which one may be -1: the rest; and their memory."""

  data: int = field(1, 'devices for rows of a batch; -1: the rest')
  fsdp: int = field(
      -1, 'devices for rows, parameters and moments; -1: the rest', example=2
  )
  tensor: int = field(
      1, 'devices for heads, MLP width, vocabulary; -1: the rest'
  )
  sequence: int = field(1, 'devices for the tokens of a row; -1: the rest')
  offload: tuple[str, ...] = field(
      (), 'arrays kept in host memory between uses', one_of=('optimizer',)
  )

  @property
  def axes(self) -> dict[str, int]:
    """Devices by the name of their axis."""
    names = ('data', 'fsdp', 'tensor', 'sequence')
    return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RlMesh(Mesh):
  """A mesh that may hold the policy that the KL is to."""

  offload: tuple[str, ...] = field(
      (),
      'arrays kept in host memory between uses',
      one_of=('optimizer', 'reference'),
  )
