"""Experts of a layer that are stored in one tensor, as Qwen3.5's published files do.

`mlp.experts.gate_up_proj` is `[E, 2 F, D]`, the gates above what they gate, and
`mlp.experts.down_proj` `[E, D, F]`. Such a tensor is split into those of single
experts, by which transformers writes the same family.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from agentrl.errors import WeightsError

_EXPERTS = '.mlp.experts.'
_PARTS = {'gate_up_proj': ('gate_proj', 'up_proj'), 'down_proj': ('down_proj',)}


@dataclasses.dataclass(frozen=True)
class Expert:
  """A matrix `[rows, columns]` of one expert; reads as `hf.Stored` does.

  Attributes:
    stored: the tensor of all experts.
    index: of the expert.
    start: its first row in the expert's part.
    shape: of the matrix.
  """

  stored: Any
  index: int
  start: int
  shape: tuple[int, int]

  def read(self) -> np.ndarray:
    """The whole matrix."""
    return self[:, :]

  def slices(self) -> 'Expert':
    """Itself: it is read in parts by slices."""
    return self

  def get_shape(self) -> list[int]:
    """The shape of the matrix."""
    return list(self.shape)

  def __getitem__(self, index: Any) -> Any:
    rows, *columns = index if isinstance(index, tuple) else (index,)
    begin, end, _ = rows.indices(self.shape[0])
    rows = slice(self.start + begin, self.start + end)
    return self.stored.slices()[(self.index, rows, *columns)]


def is_stacked(name: str) -> bool:
  """True for the name of a tensor of all experts of a layer."""
  _, found, part = name.partition(_EXPERTS)
  return bool(found) and part in _PARTS


def split(name: str, stored: Any, source: str) -> Iterator[tuple[str, Expert]]:
  """Yields the names and matrices of single experts.

  Args:
    name: of the tensor, of which `is_stacked` is true.
    stored: the tensor, a `hf.Stored`.
    source: its file, for messages.

  Raises:
    WeightsError: it has another number of axes, or rows that do not divide.
  """
  start, _, part = name.partition(_EXPERTS)
  parts, shape = _PARTS[part], stored.slices().get_shape()
  if len(shape) != 3 or shape[1] % len(parts):
    raise WeightsError(
        f'{name!r} of {source} has shape {list(shape)}; that of all experts of'
        f' a layer has three axes, the second a multiple of {len(parts)}.'
    )
  rows = shape[1] // len(parts)
  for index in range(shape[0]):
    for place, own in enumerate(parts):
      yield (
          f'{start}{_EXPERTS}{index}.{own}.weight',
          Expert(stored, index, place * rows, (rows, shape[2])),
      )
