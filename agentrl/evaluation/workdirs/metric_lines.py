"""Lines of metrics as columns, read on where a run goes on writing."""

import json
import pathlib
from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from agentrl.errors import DataError
from agentrl.evaluation.workdirs import files

_MOST_LINE = 2**22  # bytes; a longer line counts as broken


class Column(NamedTuple):
  """A metric: the lines that have it, `[N]` from 0, and its values `[N]`."""

  rows: np.ndarray
  values: np.ndarray


class MetricLines:
  """The lines of one file, by metric.

  A run appends lines, and replaces the file to add an evaluation to the last
  one or to set lines aside at a resume. `refresh` reads what is new; it begins
  anew only where earlier lines are others than before.
  """

  def __init__(self, path: pathlib.Path):
    """Keeps the path; reads nothing yet."""
    self.path = path
    self.broken = 0  # lines that are no JSON objects; left out
    self._forget()

  def __len__(self) -> int:
    return self._count

  @property
  def size(self) -> int:
    """Bytes of all values."""
    return sum(8 * len(block.values) for block in self._blocks.values())

  @property
  def names(self) -> list[str]:
    """Names of all metrics, in the order of their first lines."""
    return list(dict.fromkeys(name for names in self._blocks for name in names))

  def column(self, name: str) -> Column:
    """A metric; empty where no line has it."""
    row_parts, value_parts = [np.zeros(0, np.int64)], [np.zeros(0)]
    for names, block in self._blocks.items():
      if name in names:
        row_parts.append(np.array(block.rows))
        # A copy of the column alone; a view would keep the array from growing.
        table = np.frombuffer(block.values).reshape(-1, len(names))
        value_parts.append(table[:, names.index(name)].copy())
    rows, values = np.concatenate(row_parts), np.concatenate(value_parts)
    order = np.argsort(rows)
    return Column(rows[order], values[order])

  def refresh(self) -> bool:
    """Reads what was written since; a last line without its end is not read.

    Returns:
      True if anything changed.

    Raises:
      DataError: the file cannot be read.
    """
    try:
      with self.path.open('rb') as file:
        return self._read(file)
    except FileNotFoundError:
      changed = self._stamp is not None
      self._forget()
      return changed
    except OSError as error:
      raise DataError(f'Cannot read {self.path}: {error}') from error

  def _forget(self) -> None:
    self._blocks: dict[tuple[str, ...], _Block] = {}
    self._count = 0
    self._stamp: tuple[int, int, int] | None = None
    # The last two lines: (offset, bytes, names; None: it is broken). The last
    # may still be amended; that the one before it is the same shows that all
    # before are, as each line has the time when it was written.
    self._ends: list[tuple[int, bytes, tuple[str, ...] | None]] = []
    self.broken = 0

  def _read(self, file: Any) -> bool:
    stat = pathlib.Path(file.name).stat()
    stamp = stat.st_ino, stat.st_size, stat.st_mtime_ns
    if stamp == self._stamp:
      return False
    offset = self._resume(file)
    file.seek(offset)
    for line in files.lines(file, _MOST_LINE):
      if not line.complete:
        break  # being written, or torn by a kill
      added = offset, line.text, self._add(line.text)
      self._ends = [*self._ends[-1:], added]
      offset += line.size
    self._stamp = stamp
    return True

  def _resume(self, file: Any) -> int:
    """The offset to read on from; forgets the last line, or all that was read."""
    if len(self._ends) < 2:
      self._forget()
      return 0
    (before, kept, _), (last, _, names) = self._ends
    file.seek(before)
    if file.read(len(kept)) != kept:
      self._forget()
      return 0
    self._ends.pop()
    self._drop_last(names)
    return last

  def _drop_last(self, names: tuple[str, ...] | None) -> None:
    if names is None:
      self.broken -= 1
      return
    self._count -= 1
    block = self._blocks[names]
    block.rows.pop()
    del block.values[len(block.rows) * len(names) :]
    if not block.rows:
      del self._blocks[names]

  def _add(self, line: bytes) -> tuple[str, ...] | None:
    """Adds a line; returns the names of its numbers, or None if it is broken."""
    record = decode(line)
    if record is None:
      self.broken += 1
      return None
    names = tuple(record)
    try:
      numbers = array('d', record.values())
    except (TypeError, OverflowError):  # not all of them are such numbers
      numeric = {k: v for k, v in record.items() if as_double(v) is not None}
      names, numbers = tuple(numeric), array('d', numeric.values())
    block = self._blocks.get(names)
    if block is None:
      block = self._blocks[names] = _Block(array('q'), array('d'))
    block.rows.append(self._count)
    block.values.extend(numbers)
    self._count += 1
    return names


class _Block(NamedTuple):
  """Lines that have the same metrics in the same order.

  Attributes:
    rows: their numbers.
    values: of all lines, one after the other.
  """

  rows: array
  values: array


def as_double(value: Any) -> float | None:
  """A number of a line, which may be NaN; None: it is none, or too large."""
  try:
    return float(value) if isinstance(value, (int, float)) else None
  except OverflowError:  # an integer of hundreds of digits
    return None


def decode(line: bytes) -> Mapping[str, Any] | None:
  """The JSON object of a line, which may hold NaN; None: it is none."""
  try:
    record = msgspec.json.decode(line)
  except (ValueError, RecursionError):
    try:
      record = json.loads(line)
    except (ValueError, RecursionError):
      return None
  return record if isinstance(record, dict) else None
