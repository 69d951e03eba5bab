"""Damage to files of a workdir whose run is not running."""

import pathlib
from collections.abc import Callable

import numpy as np

# Kind of file -> glob patterns in the workdir.
KINDS = {
    'checkpoint': ('checkpoints/*/**/*',),
    'episodes': ('episodes/train/*.jsonl', 'episodes/train/*.npz'),
    'episodes ahead': ('episodes/ahead/*.jsonl',),
    'evaluation': ('episodes/eval*/*.jsonl',),
    'metrics': ('metrics.jsonl',),
    'record': (
        *('config.json', 'starts.jsonl', 'warmstart.jsonl', 'chance.json'),
        *('lock', 'checkpoints/best'),
    ),
}


def damage(
    workdir: pathlib.Path, kind: str, how: str, rng: np.random.Generator
) -> tuple[Callable[[], object], str]:
  """Damages one file of a kind.

  Args:
    workdir: of a run that does not run.
    kind: of `KINDS`.
    how: 'truncated' or 'bit flipped'.
    rng: draws the file and the place.

  Returns:
    What puts it back, and the file, from the workdir; '' if there is none.
  """
  found = sorted(
      path
      for pattern in KINDS[kind]
      for path in workdir.glob(pattern)
      if path.is_file() and path.stat().st_size
  )
  if kind == 'checkpoint' and found:
    # The newest, which the next start reads.
    folders = {x.relative_to(workdir).parts[1] for x in found}
    newest = str(max(int(x) for x in folders if x.isdecimal()))
    found = [x for x in found if x.relative_to(workdir).parts[1] == newest]
  if not found:
    return lambda: None, ''
  path = found[rng.integers(len(found))]
  before = path.read_bytes()
  data = bytearray(before)
  place = int(rng.integers(len(data)))
  if how == 'truncated':
    data = data[:place]
  else:
    data[place] ^= 1 << int(rng.integers(8))
  path.write_bytes(data)
  return lambda: path.write_bytes(before), str(path.relative_to(workdir))
