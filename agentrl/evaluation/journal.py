"""The finished episodes of an evaluation on disk, each from the moment it ends.

A process that was killed may leave half a line; that episode is played again.
"""

import dataclasses
import pathlib
import shutil
import zipfile
from collections.abc import Mapping, Sequence

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.types import Episode

Key = tuple[int, int, int]  # task, sample and attempt


def key(episode: Episode) -> Key:
  """The place of an episode in a panel."""
  return episode.task_id, episode.sample, episode.attempt


class Journal:
  """Episodes of one policy in one environment: a line each in one file.

      journal = Journal(path, tokens=True, views=False)
      kept = journal.open(seeds)
      journal.add(episode)  # for each that is played
      journal.finish(episodes)

  Pictures lie in a folder beside it until `finish` puts them into a ZIP file.
  """

  def __init__(self, path: pathlib.Path, *, tokens: bool, views: bool):
    """Keeps the settings; touches no file yet.

    Args:
      path: of the file.
      tokens: whether lines have token arrays.
      views: whether episodes have pictures.
    """
    self._path = path
    self._tokens = tokens
    self._views = views

  def open(
      self, seeds: Mapping[Key, int], *, data_version: int = 1
  ) -> dict[Key, Episode]:
    """Valid episodes of earlier processes; the file then holds these alone.

    An attempt without the valid one before it is left out: it is played again
    once there is one to learn from.

    Args:
      seeds: the seed of each episode of the panel.
      data_version: of the environment's tasks.

    Raises:
      DataError: the file cannot be read or written, or has episodes of another
        panel, or of another version of its tasks.
    """
    if not self._path.exists():
      return {}
    kept = {}
    # A broken line is an episode that is missing.
    for episode in episodes_lib.read(self._path, on_broken=lambda error: None):
      place = key(episode)
      if seeds.get(place) != episode.seed:
        raise DataError(
            f'{self._path} has episodes of another panel, such as'
            f' {episode.episode_id} (task {place[0]}, sample {place[1]}): the'
            ' item file has changed, or an earlier version of agentrl chose'
            ' other tasks. Use another --workdir.'
        )
      if episode.data_version != data_version:
        raise DataError(
            f'{self._path} has episodes of data_version'
            f' {episode.data_version} of {episode.env}, which now has'
            f' {data_version}: the same ids mean other tasks. Use another'
            ' --workdir.'
        )
      if episode.valid:
        if self._views:
          episode = dataclasses.replace(episode, views=self._pictures(episode))
          if len(episode.views) != 1 + len(episode.turns):
            continue
        kept[place] = episode
    ordered = {}
    for task, sample, attempt in seeds:
      place = task, sample, attempt
      # The order of the panel has attempts one after the other.
      can_learn = not attempt or (task, sample, attempt - 1) in ordered
      if place in kept and can_learn:
        ordered[place] = kept[place]
    # Also without what a kill left of a last line: the next begins a new one.
    # Pictures stay where they are.
    lines = [dataclasses.replace(x, views=()) for x in ordered.values()]
    episodes_lib.write(self._path, lines, tokens=self._tokens)
    return ordered

  def add(self, episode: Episode) -> None:
    """Writes an episode that has just ended.

    Raises:
      DataError: it cannot be written.
    """
    folder = self._folder / episode.episode_id
    try:
      for turn, picture in enumerate(episode.views):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f'{turn:03d}.png').write_bytes(picture)
    except OSError as error:
      raise DataError(f'Cannot write {folder}: {error}') from error
    episodes_lib.append(self._path, episode, tokens=self._tokens)

  def finish(self, episodes: Sequence[Episode]) -> None:
    """Writes all episodes in this order, failed ones included.

    Raises:
      DataError: they cannot be written.
    """
    episodes_lib.write(self._path, episodes, tokens=self._tokens)
    shutil.rmtree(self._folder, ignore_errors=True)

  @property
  def _folder(self) -> pathlib.Path:
    return self._path.with_suffix('.views')

  def _pictures(self, episode: Episode) -> tuple[bytes, ...]:
    """The pictures of an episode, from the folder or the ZIP file."""
    name, archive = episode.episode_id, self._path.with_suffix('.zip')
    files = sorted((self._folder / name).glob('*.png'))
    if files or not archive.exists():
      return tuple(file.read_bytes() for file in files)
    with zipfile.ZipFile(archive) as found:
      names = [x for x in found.namelist() if x.startswith(f'{name}/')]
      return tuple(found.read(x) for x in sorted(names))
