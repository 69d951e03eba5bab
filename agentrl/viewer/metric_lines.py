"""Lines of metrics as columns, read on where a run goes on writing."""

import json
import pathlib
from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from agentrl.errors import DataError


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
  def names(self) -> list[str]:
    """Names of all metrics, in the order of their first lines."""
    return list(self._values)

  def column(self, name: str) -> Column:
    """A metric; empty where no line has it."""
    return Column(
        np.array(self._rows.get(name, ()), np.int64),
        np.array(self._values.get(name, ()), np.float64),
    )

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
    self._rows: dict[str, array] = {}
    self._values: dict[str, array] = {}
    self._count = 0
    self._stamp = None
    # The last two lines: (offset, bytes, whether they counted). The last may
    # still be amended; that the one before it is the same shows that all before
    # are, as each line has the time when it was written.
    self._ends: list[tuple[int, bytes, bool]] = []
    self.broken = 0

  def _read(self, file: Any) -> bool:
    stat = pathlib.Path(file.name).stat()
    stamp = stat.st_ino, stat.st_size, stat.st_mtime_ns
    if stamp == self._stamp:
      return False
    offset = self._resume(file)
    file.seek(offset)
    for line in file:
      if not line.endswith(b'\n'):
        break  # being written, or torn by a kill
      self._ends = [*self._ends[-1:], (offset, line, self._add(line))]
      offset += len(line)
    self._stamp = stamp
    return True

  def _resume(self, file: Any) -> int:
    """Where to read on; forgets the last line, or all that was read."""
    if len(self._ends) < 2:
      self._forget()
      return 0
    (before, kept, _), (last, _, counted) = self._ends
    file.seek(before)
    if file.read(len(kept)) != kept:
      self._forget()
      return 0
    self._ends.pop()
    self._drop_last(counted)
    return last

  def _drop_last(self, counted: bool) -> None:
    if not counted:
      self.broken -= 1
      return
    self._count -= 1
    for name in list(self._rows):
      rows = self._rows[name]
      if rows and rows[-1] == self._count:
        rows.pop()
        self._values[name].pop()
        if not rows:
          del self._rows[name], self._values[name]

  def _add(self, line: bytes) -> bool:
    record = decode(line)
    if record is None:
      self.broken += 1
      return False
    for name, value in record.items():
      if isinstance(value, (int, float)):
        if name not in self._rows:
          self._rows[name], self._values[name] = array('q'), array('d')
        self._rows[name].append(self._count)
        self._values[name].append(value)
    self._count += 1
    return True


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
