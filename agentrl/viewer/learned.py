"""The arrays that an update learnt from, as `data.episodes.write_learned` left.

They lie beside an episode file, as `NNNNNN.npz`; row b belongs to line b.
"""

import dataclasses
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.errors import DataError

# `[B, T]` arrays by name; what each is.
ARRAYS = {
    'advantages': 'advantage',
    'returns': 'return',
    'values': 'value of the critic before the token',
    'old_logprobs': 'log-probability before the updates',
    'ref_logprobs': 'log-probability of the reference',
    'last_logprobs': 'log-probability in the last update',
    'entropy': 'entropy in the last update',
    'shaped_rewards': 'reward with KL and length charged',
    'turn_groups': 'turns of a group that answer one observation',
}
# `[B, 5]`: see `training.policy_update.PLACEMENT`.
PLACEMENTS = 'placements'
_COLUMNS = 5
_MOST_BYTES = 2**30


@dataclasses.dataclass(frozen=True)
class Place:
  """Where an episode was in its last update.

  Attributes:
    minibatch: of the last epoch, from 0.
    microbatch: in it.
    row: packed row of it.
    start: column where the episode begins.
    shared: first tokens of the episode that were computed once for its group.
  """

  minibatch: int
  microbatch: int
  row: int
  start: int
  shared: int


class Learned:
  """What lies beside one episode file."""

  def __init__(self, arrays: Mapping[str, np.ndarray]):
    self._arrays = arrays

  @property
  def names(self) -> list[str]:
    """Names of the arrays that were kept."""
    return [name for name in ARRAYS if name in self._arrays]

  @property
  def shape(self) -> tuple[int, ...]:
    """`[B, T]` of every array."""
    return self._arrays[self.names[0]].shape

  def array(self, name: str) -> np.ndarray:
    """The whole array."""
    return self._arrays[name]

  def row(self, name: str, line: int, length: int) -> np.ndarray:
    """`[T]` values of an episode of `length` tokens.

    Raises:
      DataError: the array does not have them.
    """
    values = self._arrays[name]
    if line >= values.shape[0] or length > values.shape[1]:
      raise DataError(
          f'{name} has the shape {values.shape}, but episode {line} of the file'
          f' has {length} tokens.'
      )
    return values[line, :length]

  def place(self, line: int) -> Place | None:
    """Where an episode was; None: not kept, or in no update."""
    places = self._arrays.get(PLACEMENTS)
    if places is None or line >= len(places) or places[line, 0] < 0:
      return None
    return Place(*(int(x) for x in places[line]))

  def places(self) -> dict[int, Place]:
    """Line -> place, of all episodes that were in an update."""
    count = len(self._arrays.get(PLACEMENTS, ()))
    found = {line: self.place(line) for line in range(count)}
    return {line: place for line, place in found.items() if place is not None}


def load(path: pathlib.Path) -> Learned | None:
  """What lies beside an episode file; None: nothing.

  Raises:
    DataError: it cannot be read, or no run writes such a file; names it.
  """
  beside = path.with_suffix('.npz')
  if not beside.exists():
    return None
  try:
    with zipfile.ZipFile(beside) as file:
      if sum(entry.file_size for entry in file.infolist()) > _MOST_BYTES:
        raise DataError(f'{beside} is larger than any run writes.')
    with np.load(beside) as file:
      arrays = dict(file)
  except (EOFError, OSError, ValueError, zipfile.BadZipFile) as error:
    raise DataError(f'{beside} cannot be read: {error}') from error
  shapes = set()
  for name, values in arrays.items():
    if (
        name not in (*ARRAYS, PLACEMENTS)
        or values.dtype.kind not in 'biuf'
        or values.ndim != 2
    ):
      raise DataError(
          f'{beside} holds {name!r} of type {values.dtype}, which no run'
          f' writes; delete the file to see {path} alone.'
      )
    shapes.add(values.shape if name != PLACEMENTS else None)
  if len(shapes - {None}) > 1:
    raise DataError(f'{beside} holds arrays of different shapes: {shapes}.')
  places = arrays.get(PLACEMENTS)
  if places is not None and places.shape[1] != _COLUMNS:
    raise DataError(f'{beside} holds placements of shape {places.shape}.')
  return Learned(arrays)


def plain(values: np.ndarray) -> list[Any]:
  """JSON numbers that read back as exactly these; None where not finite."""
  if values.dtype.kind != 'f':
    return values.tolist()
  # The shortest decimals of a float32, not of the double that equals it.
  return [float(str(x)) if np.isfinite(x) else None for x in values]
