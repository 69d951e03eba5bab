"""Checksums of a checkpoint's files, so that a flipped bit is not trained on.

TensorStore checks the structure of its database, not the values in it. CRC-32
costs half a second a gigabyte and thread, and misses one damaged file in 2**32;
it is no defence against an attacker, who could write a matching list.
"""

import concurrent.futures
import json
import pathlib
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentrl.parallel import distributed

FILE = 'checksums.json'
_CHUNK = 2**22  # bytes read at a time
_THREADS = 4


def write(directory: pathlib.Path) -> None:
  """Lists the files in the folders of `directory`, in `checksums.json`.

  Args:
    directory: holds a folder an item; complete.

  Raises:
    OSError: the disk refuses.
  """
  files = sorted(
      path
      for folder in directory.iterdir()
      if folder.is_dir()
      for path in folder.rglob('*')
      if path.is_file()
  )
  listed = {
      path.relative_to(directory).as_posix(): measured
      for path, measured in zip(files, measure(files), strict=True)
  }
  (directory / FILE).write_text(json.dumps(listed, indent=1) + '\n')


def measure(files: Sequence[pathlib.Path]) -> list[dict[str, int]]:
  """Size in `bytes` and `crc32` of each file.

  Raises:
    OSError: one cannot be read.
  """
  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    return list(pool.map(_measure, files))


def exist(directory: pathlib.Path) -> bool:
  """True if `directory` has a list."""
  return (directory / FILE).is_file()


def find_damage(directory: pathlib.Path, items: Collection[str]) -> str | None:
  """The first damaged file of these items, and the damage.

  Every process of a run calls it, reads its share and gets the same answer.

  Args:
    directory: has a list.
    items: names of folders; others are not read.

  Returns:
    A phrase for a message; None without damage.
  """
  reason: str | None
  try:
    listed = json.loads((directory / FILE).read_text(encoding='utf-8'))
    # Callers refuse a checkpoint that lacks an item.
    there = {item for item in items if (directory / item).is_dir()}
    if unlisted := there - {name.partition('/')[0] for name in listed}:
      raise ValueError(f'without {", ".join(sorted(unlisted))}')
    names = sorted(x for x in listed if x.partition('/')[0] in there)
    share = {name: listed[name] for name in distributed.own(names)}
  # A damaged list may hold anything.
  except (OSError, ValueError, AttributeError, TypeError) as error:
    reason = f'{FILE} is no list of checksums ({error})'
  else:
    reason = _first_damage(directory, share)
  reasons = distributed.share((reason or '').encode())
  return next((x.decode() for x in reasons if x), None)


def _first_damage(
    directory: pathlib.Path, share: Mapping[str, Any]
) -> str | None:
  check = lambda name: _damage(directory / name, share[name])
  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    for name, damage in zip(share, pool.map(check, share), strict=True):
      if damage is not None:
        return f'{name} {damage}'
  return None


def _damage(path: pathlib.Path, measured: Any) -> str | None:
  try:
    entry = _measure(path)
  except FileNotFoundError:
    return 'is missing'
  except OSError as error:
    return f'cannot be read ({error.strerror})'
  return None if entry == measured else 'is not what was written'


def _measure(path: pathlib.Path) -> dict[str, int]:
  """Size and CRC-32 of a file."""
  size, crc = 0, 0
  buffer = memoryview(bytearray(_CHUNK))
  with path.open('rb', buffering=0) as file:
    while count := file.readinto(buffer):
      size += count
      crc = zlib.crc32(buffer[:count], crc)
  return {'bytes': size, 'crc32': crc}
