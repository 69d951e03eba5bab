"""Files of the groups that are finished and not used, for a resume."""

import dataclasses
import pathlib
import zipfile
import zlib
from collections.abc import Collection, Mapping, Set

from absl import logging

from agentrl import types
from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.types import Episode, Group


class GroupFiles:
  """Groups on disk by number: a file of episodes each, and one of pictures."""

  def __init__(self, folder: pathlib.Path):
    """Touches no file yet.

    Args:
      folder: of these files alone.
    """
    self._folder = folder
    self._sums: dict[int, int] = {}  # number -> CRC-32 of its files
    # Groups of the last `write`, and those of the last checkpoint.
    self._unused: set[int] = set()
    self._saved: set[int] = set()

  def write(self, groups: Mapping[int, Group]) -> list[tuple[int, int]]:
    """Writes the groups that have no file yet.

    Args:
      groups: all that a checkpoint of this moment needs.

    Returns:
      (number, CRC-32) of each of `groups`, for `load`.

    Raises:
      DataError: a file cannot be written.
    """
    self._unused = set(groups)
    for number in groups.keys() - self._sums.keys():
      episodes_lib.write(self._path(number), groups[number].episodes)
      self._sums[number] = self._sum(number)
    return [(number, self._sums[number]) for number in sorted(groups)]

  def load(
      self, numbers: Collection[int], sums: Mapping[int, int]
  ) -> list[tuple[int, tuple[Episode, ...]]]:
    """(number, episodes) of the groups that need not be played again.

    Removes the files of others than `numbers`: what ended after the checkpoint
    was sampled by weights that are gone.

    Args:
      numbers: of the groups of a checkpoint.
      sums: from `write`; a group without one is taken as it is.
    """
    self._unused = self._saved = set(numbers)
    self._remove_others(self._saved)
    loaded = []
    for number in numbers:
      try:
        episodes, crc = self._read(number, sums.get(number))
      except (OSError, DataError, zipfile.BadZipFile) as error:
        logging.warning('Playing group %d again: %s', number, error)
        continue
      loaded.append((number, episodes))
      self._sums[number] = crc
    return loaded

  def retire(self) -> None:
    """Removes files that no checkpoint needs.

    Called when one of the last `write` was begun. It may not be complete; the
    one before it is, and keeps its files.
    """
    self._remove_others(self._unused | self._saved)
    self._saved = self._unused

  def _remove_others(self, numbers: Set[int]) -> None:
    known = {self._path(number).stem for number in numbers}
    for path in self._folder.glob('*'):
      if path.stem not in known:
        path.unlink()
    self._sums = {n: crc for n, crc in self._sums.items() if n in numbers}

  def _read(
      self, number: int, wanted: int | None
  ) -> tuple[tuple[Episode, ...], int]:
    """The episodes of a group with their pictures, and the CRC-32 of its files.

    Raises:
      OSError: there is no such file.
      BadZipFile: that of the pictures is damaged.
      DataError: the files are not those that were written, or an episode was
        failed by the infrastructure, which may work by now.
    """
    path, crc = self._path(number), self._sum(number)
    # A number that was changed, or a line that is missing, would not show.
    if wanted is not None and crc != wanted:
      raise DataError(f'{path} is not what was written')
    episodes = tuple(episodes_lib.read(path))
    for episode in episodes:
      if episode.stop_reason in types.FAILURES:
        raise DataError(
            f'{episode.episode_id} stopped with {episode.stop_reason}:'
            f' {episode.error}'
        )
    views = lambda episode: episodes_lib.read_views(path, episode.episode_id)
    return tuple(dataclasses.replace(x, views=views(x)) for x in episodes), crc

  def _sum(self, number: int) -> int:
    path = self._path(number)
    crc, views = zlib.crc32(path.read_bytes()), path.with_suffix('.zip')
    return zlib.crc32(views.read_bytes(), crc) if views.exists() else crc

  def _path(self, number: int) -> pathlib.Path:
    return self._folder / f'{number:08d}.jsonl'
