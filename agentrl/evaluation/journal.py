"""The finished episodes of an evaluation on disk, each from the moment it ends.

A process that was killed may leave half a line; that episode is played again.
"""

import dataclasses
import glob
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.types import Episode

Key = tuple[int, int, int]  # task, sample and attempt


def key(episode: Episode) -> Key:
  """The place of an episode in a panel."""
  return episode.task_id, episode.sample, episode.attempt


class PlayedBy(NamedTuple):
  """The player of the episodes of a journal, kept on disk to be compared with.

  Attributes:
    path: of the file that keeps it.
    describe: gives all that decides an episode, JSON values: the weights, the
      panel, the settings.
  """

  path: pathlib.Path
  describe: Callable[[], Mapping[str, Any]]


class Journal:
  """Episodes of one policy in one environment: a line each in one file.

      journal = Journal(path, tokens=True, views=False)
      kept = journal.open(seeds)
      journal.add(episode)  # for each that is played
      journal.finish(episodes)

  Pictures lie in a folder beside it until `finish` puts them into a ZIP file.
  Of several processes each adds to a file of its own, `NAME.jsonl.RANK`, until
  the first one brings them together: when it opens or finishes the journal.
  """

  def __init__(
      self,
      path: pathlib.Path,
      *,
      tokens: bool,
      views: bool,
      rank: int = 0,
      played_by: PlayedBy | None = None,
  ):
    """Keeps the settings; touches no file yet.

    Args:
      path: of the file.
      tokens: whether lines have token arrays.
      views: whether episodes have pictures.
      rank: of this process.
      played_by: what plays now: episodes that anything else has played are
        dropped. None: the caller has made sure that there are none.
    """
    self._path = path
    self._tokens = tokens
    self._views = views
    self._rank = rank
    self._played_by = played_by

  def open(
      self, seeds: Mapping[Key, int], *, data_version: int = 1
  ) -> dict[Key, Episode]:
    """Valid episodes of earlier processes; the file then holds these alone.

    The first process gets them; the others, which wait for it, get nothing. An
    attempt without the valid one before it is left out: it is played again
    once there is one to learn from.

    Args:
      seeds: the seed of each episode of the panel.
      data_version: of the environment's tasks.

    Raises:
      DataError: the file cannot be read or written, or has episodes of another
        panel, or of another version of its tasks.
    """
    if self._rank:
      return {}
    if self._played_by is not None:
      self._drop_unless(self._played_by)
    files = self._files()
    if not files:
      return {}
    episodes = (
        episode
        for file in files
        # A broken line is an episode that is missing.
        for episode in episodes_lib.read(file, on_broken=lambda error: None)
    )
    kept = {}
    for episode in episodes:
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
    self._write(lines)
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
    episodes_lib.append(self._own, episode, tokens=self._tokens)

  def finish(self, episodes: Sequence[Episode]) -> None:
    """Writes all episodes in this order, failed ones included.

    The first process does, once all have added theirs.

    Raises:
      DataError: they cannot be written.
    """
    if not self._rank:
      self._write(episodes)
      shutil.rmtree(self._folder, ignore_errors=True)

  def _write(self, episodes: Sequence[Episode]) -> None:
    """Brings the files together in one, with these episodes."""
    episodes_lib.write(self._path, episodes, tokens=self._tokens)
    for file in self._files():
      if file != self._path:
        file.unlink()

  def _drop_unless(self, played_by: PlayedBy) -> None:
    """Removes all episodes that something else than this has played.

    Raises:
      DataError: a file cannot be removed or written.
    """
    now = f'{json.dumps(played_by.describe(), indent=2)}\n'.encode()
    try:
      if played_by.path.exists() and played_by.path.read_bytes() == now:
        return
      shutil.rmtree(self._folder, ignore_errors=True)
      for file in (*self._files(), self._path.with_suffix('.zip')):
        file.unlink(missing_ok=True)
      played_by.path.parent.mkdir(parents=True, exist_ok=True)
      # Last: until then a kill leaves the record of what was removed.
      played_by.path.write_bytes(now)
    except OSError as error:
      raise DataError(
          f'Cannot begin an evaluation in {self._path}: {error}'
      ) from error

  def _files(self) -> list[pathlib.Path]:
    """The files of all processes that exist, the first one's first."""
    name = glob.escape(self._path.name)
    others = sorted(self._path.parent.glob(f'{name}.[0-9]*'))
    return [*([self._path] if self._path.exists() else []), *others]

  @property
  def _own(self) -> pathlib.Path:
    """The file of this process."""
    name = self._path.name
    return self._path.with_name(f'{name}.{self._rank}' if self._rank else name)

  @property
  def _folder(self) -> pathlib.Path:
    return self._path.with_suffix('.views')

  def _pictures(self, episode: Episode) -> tuple[bytes, ...]:
    """The pictures of an episode, from the folder or the ZIP file."""
    files = sorted((self._folder / episode.episode_id).glob('*.png'))
    if files:
      return tuple(file.read_bytes() for file in files)
    return episodes_lib.read_views(self._path, episode.episode_id)
