"""Memory, file handles and disk of processes as they work, and how fast they grow."""

import contextlib
import itertools
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil
from scipy import stats

_MIB = 2**20
# Means of so many parts of a series are fitted: what is near in time is alike.
_PARTS = 8
# What a command line, or the name of its program, tells of a process.
_ROLES = (
    (re.compile(r'agentrl\.envs\.server'), 'environment server'),
    (re.compile(r'^\S*java\b'), 'Java'),
    (re.compile(r'chrom', re.IGNORECASE), 'browser'),
    (re.compile(r'playwright'), "browser's driver"),
)
OTHERS = 'others'


class Sample(NamedTuple):
  """What was held at a time.

  Attributes:
    at: episodes, or steps, done so far.
    memory: MiB by the role of a process, proportional set size: a page that
      several processes share counts once.
    handles: open file descriptors by role.
    mappings: of memory, of the process that has most; Linux allows 65,530.
    disk: MiB of the files in the workdir; None: there is none.
    programs: compiled ones; None: they are not counted.
  """

  at: int
  memory: Mapping[str, float]
  handles: Mapping[str, int]
  mappings: int
  disk: float | None = None
  programs: float | None = None


class Slope(NamedTuple):
  """Growth per unit with its 95% interval, and the means of first and last part."""

  mean: float
  low: float
  high: float
  first: float
  last: float


def look(
    root: int,
    title: str,
    at: int,
    workdir: pathlib.Path | None = None,
    programs: float | None = None,
) -> Sample:
  """What a process and all that it started hold now.

  Args:
    root: the id of the process.
    title: its role.
    at: episodes, or steps, done so far.
    workdir: whose files are counted; None: none are.
    programs: compiled so far.
  """
  memory: dict[str, float] = {}
  handles: dict[str, int] = {}
  mappings = 0
  parent = psutil.Process(root)
  for process in [parent, *parent.children(recursive=True)]:
    # It may end meanwhile.
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
      role = title if process.pid == root else _role(process)
      mib, count = pss(process.pid), process.num_fds()
      memory[role] = memory.get(role, 0.0) + mib
      handles[role] = handles.get(role, 0) + count
      mappings = max(mappings, _mappings(process.pid))
  disk = None if workdir is None else _size(workdir)
  return Sample(at, memory, handles, mappings, disk, programs)


def _role(process: psutil.Process) -> str:
  command = ' '.join(process.cmdline())
  for pattern, role in _ROLES:
    if pattern.search(command):
      return role
  return OTHERS


def pss(pid: int) -> float:
  """Proportional memory of a process, MiB.

  Raises:
    OSError: it has ended.
  """
  text = pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text()
  found = re.search(r'^Pss: +(\d+) kB', text, re.MULTILINE)
  return int(found[1]) / 1024 if found else 0.0


def _mappings(pid: int) -> int:
  return pathlib.Path(f'/proc/{pid}/maps').read_bytes().count(b'\n')


def _size(folder: pathlib.Path) -> float:
  total = 0
  for path in folder.rglob('*'):
    with contextlib.suppress(OSError):  # removed meanwhile
      if path.is_file():
        total += path.stat().st_size
  return total / _MIB


def slope(x: Sequence[float], y: Sequence[float], per: float = 1.0) -> Slope:
  """The growth of `y` for each `per` of `x`, by the means of equal parts (t).

  Args:
    x: ascending.
    y: as many numbers; at least three parts' worth.
    per: the unit.

  Raises:
    ValueError: they are too few.
  """
  if len(x) < 3:
    raise ValueError(f'A slope needs 3 samples, and there are {len(x)}.')
  parts = min(_PARTS, len(x))
  split = lambda values: np.array(
      [part.mean() for part in np.array_split(np.asarray(values, float), parts)]
  )
  xs, ys = split(x), split(y)
  xs = (xs - xs.mean()) / per
  spread = (xs**2).sum()
  rest = ys - ys.mean()
  mean = (xs * rest).sum() / spread
  # By hand: of equal values SciPy's error is no number.
  rest = rest - mean * xs
  error = np.sqrt((rest**2).sum() / (parts - 2) / spread)
  half = stats.t.ppf(0.975, parts - 2) * error
  return Slope(mean, mean - half, mean + half, ys[0], ys[-1])


def table(
    samples: Sequence[Sample], *, unit: str, per: int, warmup: float
) -> str:
  """A Markdown table: what each role holds, and how fast that grows.

  Args:
    samples: in order.
    unit: name of what was counted.
    per: of how many the growth is told.
    warmup: the share of the first samples that is left out.
  """
  end = samples[-1].at
  kept = [x for x in samples if x.at >= warmup * end]
  at = [x.at for x in kept]
  head = (
      f'what, from {unit} {at[0]:,} to {end:,}',
      'at first',
      'at last',
      f'per {per:,} {unit}',
  )
  rows = [head, ('---',) * len(head)]

  def add(name: str, values: Sequence[float], digits: int) -> None:
    found = slope(at, values, per)
    rows.append((
        name,
        f'{found.first:,.{digits}f}',
        f'{found.last:,.{digits}f}',
        (
            f'{found.mean:+,.{digits + 1}f}'
            f' [{found.low:+,.{digits + 1}f}, {found.high:+,.{digits + 1}f}]'
        ),
    ))

  roles = list(dict.fromkeys(role for x in kept for role in x.memory))
  for role in roles:
    add(f'{role}, MiB', [x.memory.get(role, 0.0) for x in kept], 1)
  for role in roles:
    counts = [x.handles.get(role, 0) for x in kept]
    add(f'{role}, file handles', counts, 1)
  add('memory mappings', [x.mappings for x in kept], 1)
  for name, values in (
      ('workdir, MiB', [x.disk for x in kept]),
      ('compiled programs', [x.programs for x in kept]),
  ):
    known = [x for x in values if x is not None]
    if len(known) == len(kept):
      add(name, known, 1)
  return '\n'.join(f'| {" | ".join(row)} |' for row in rows)


def plateaus(
    samples: Sequence[Sample], role: str, *, least: int, per: int
) -> str:
  """A Markdown table of the memory between two compilations.

  Args:
    samples: in order.
    role: whose memory.
    least: samples without a new program that make a row.
    per: of how many steps the growth is told.
  """
  rows = [('compiled programs', 'steps', 'MiB', f'per {per:,} steps')]
  rows.append(('---',) * len(rows[0]))
  for count, found in itertools.groupby(samples, lambda x: x.programs):
    group = list(found)
    if count is None or len(group) < least:
      continue
    at = [x.at for x in group]
    memory = [x.memory[role] for x in group]
    grown = slope(at, memory, per)
    rows.append((
        f'{count:g}',
        f'{at[0]:,} to {at[-1]:,}',
        f'{np.mean(memory):,.0f}',
        f'{grown.mean:+,.0f} [{grown.low:+,.0f}, {grown.high:+,.0f}]',
    ))
  return '\n'.join(f'| {" | ".join(row)} |' for row in rows)


def as_json(sample: Sample) -> dict[str, Any]:
  """JSON values of a sample, for a file of them."""
  return sample._asdict()
