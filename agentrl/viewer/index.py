"""SQLite index of the episodes below a folder.

It lies in the folder, as `.agentrl-viewer.sqlite`, or where that cannot be
written in the user's cache. Whoever deletes it loses nothing: it is made again
from the files. One process at a time keeps it up to date.

Table `files`: file_id, run, file, origin ('train', 'eval', 'warmstart', ...),
step, policy, and what was read of it. Table `episodes`: file_id, the columns of
`scan.COLUMNS`, subtask.
"""

import asyncio
import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from agentrl import envs
from agentrl.errors import AgentrlError
from agentrl.runtime import cache, workdir
from agentrl.viewer import scan

_NAME = '.agentrl-viewer.sqlite'
_VERSION = 1  # of the schema: an index of another is made again
_POLL_S = 1.0
_LAST_BYTES = 256  # before the end of what was read, to know it again
# Folders of a run that hold no episodes and no other run.
_SKIPPED = {'checkpoints', 'tokenizer', 'tensorboard', 'export'}
_MARKS = ('config.json', 'metrics.jsonl', 'evaluation.json', 'comparison.json')
# What pages show of a run besides its episodes.
_FOLLOWED = (
    'lock', 'metrics.jsonl', 'warmstart.jsonl', 'summary.json',
    'evaluation.json',
)  # fmt: skip
_WHERE_EPISODES_ARE = ('episodes', 'diverged')

_SCHEMA = f"""
CREATE TABLE runs (run TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE files (
  file_id INTEGER PRIMARY KEY,
  run TEXT NOT NULL,
  file TEXT NOT NULL,
  origin TEXT NOT NULL,
  step INTEGER,
  policy TEXT NOT NULL,
  changed INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  read INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  broken INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  UNIQUE (run, file)
);
CREATE TABLE episodes (
  file_id INTEGER NOT NULL,
  {', '.join(f'"{name}" {kind}' for name, kind in scan.COLUMNS.items())},
  subtask TEXT NOT NULL
);
CREATE INDEX episodes_by_line ON episodes (file_id, line);
PRAGMA user_version = {_VERSION};
"""
_INSERT = (
    f'INSERT INTO episodes VALUES ({", ".join("?" * (len(scan.COLUMNS) + 2))})'
)


class Index:
  """The index of one folder."""

  def __init__(self, root: pathlib.Path):
    """Opens it, or begins a new one.

    Args:
      root: the folder, absolute.

    Raises:
      EnvError: neither the folder nor the user's cache can be written.
    """
    self._root = root
    self._path = _place_for(root)
    self._lock = self._path.with_suffix('.lock').open('w')
    self._ready = asyncio.Event()
    self._condition = asyncio.Condition()
    self.changes = 0  # times that something new was found
    self._stamps: dict[str, tuple[Any, ...]] = {}
    self._writer = self._open()

  def query(
      self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()
  ) -> list[sqlite3.Row]:
    """The rows of a SELECT; safe in any thread."""
    uri = f'{self._path.as_uri()}?mode=ro'
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
      connection.row_factory = sqlite3.Row
      connection.execute('PRAGMA mmap_size = 268435456')
      return connection.execute(sql, values).fetchall()

  async def follow(self) -> None:
    """Keeps it up to date until it is cancelled."""
    while True:
      if await asyncio.to_thread(self.refresh):
        async with self._condition:
          self.changes += 1
          self._condition.notify_all()
      self._ready.set()
      await asyncio.sleep(_POLL_S)

  async def ready(self) -> None:
    """Returns when all files have been read once."""
    await self._ready.wait()

  async def wait(self, changes: int) -> int:
    """Waits until there have been more than `changes` changes; their number."""
    async with self._condition:
      await self._condition.wait_for(lambda: self.changes > changes)
      return self.changes

  def refresh(self) -> bool:
    """Reads what is new; True if there was something, or less than before.

    Another process that does so right now does it for this one, too.
    """
    try:
      fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      return False
    try:
      return self._refresh()
    finally:
      fcntl.flock(self._lock, fcntl.LOCK_UN)

  def close(self) -> None:
    """Closes its files."""
    self._writer.close()
    self._lock.close()

  def _open(self) -> sqlite3.Connection:
    connection = sqlite3.connect(
        self._path, check_same_thread=False, isolation_level=None
    )
    try:
      (version,) = connection.execute('PRAGMA user_version').fetchone()
      if version == _VERSION:
        return connection
    except sqlite3.DatabaseError as error:
      logging.warning('The index %s is made again: %s', self._path, error)
    connection.close()
    for suffix in ('', '-wal', '-shm'):
      pathlib.Path(f'{self._path}{suffix}').unlink(missing_ok=True)
    connection = sqlite3.connect(
        self._path, check_same_thread=False, isolation_level=None
    )
    connection.execute('PRAGMA journal_mode = WAL')
    connection.execute('PRAGMA synchronous = OFF')  # it can be made again
    connection.executescript(_SCHEMA)
    return connection

  def _refresh(self) -> bool:
    runs, found = set(), {}
    for run, files in walk(self._root):
      runs.add(run)
      found |= {(run, name): stat for name, stat in files.items()}
    known = {
        (row[1], row[2]): row
        for row in self._writer.execute(
            'SELECT file_id, run, file, changed, bytes, read, lines, checksum'
            ' FROM files'
        )
    }
    before = {run for (run,) in self._writer.execute('SELECT run FROM runs')}
    stamps = {run: _stamps(self._root / run) for run in runs}
    changed = stamps != self._stamps
    self._stamps = stamps
    with self._transaction():
      if runs != before:
        changed = True
        self._writer.execute('DELETE FROM runs')
        self._writer.executemany(
            'INSERT INTO runs VALUES (?)', [(run,) for run in sorted(runs)]
        )
      for key in known.keys() - found.keys():
        self._forget(known[key][0])
        changed = True
    for key, stat in found.items():
      row = known.get(key)
      if row and row[3:5] == (stat.st_mtime_ns, stat.st_size):
        continue
      with self._transaction():
        self._read(*key, stat, row)
      changed = True
    return changed

  def _read(
      self, run: str, file: str, stat: os.stat_result, known: tuple | None
  ) -> None:
    """Reads the lines that a file has gained, or all of them."""
    path = self._root / run / file
    offset, line = 0, 0
    if known is not None:
      file_id, read, lines, checksum = known[0], *known[5:]
      if stat.st_size >= read and _checksum(path, read) == checksum:
        offset, line = read, lines
      else:
        self._forget(file_id)
        known = None
    if known is None:
      values = (run, file, *scan.place(file))
      file_id = self._writer.execute(
          'INSERT INTO files VALUES (NULL, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0)',
          values,
      ).lastrowid
    broken, kept = 0, []
    name_of = _subtasks(self._root / run)
    for end, count, row in scan.rows(path, offset, line):
      offset, line = end, count
      if row is None:
        broken += 1
        continue
      kept.append((file_id, *row, name_of(row[4], row[5])))
    self._writer.executemany(_INSERT, kept)
    self._writer.execute(
        'UPDATE files SET changed = ?, bytes = ?, read = ?, lines = ?,'
        ' broken = broken + ?, checksum = ? WHERE file_id = ?',
        (
            *(stat.st_mtime_ns, stat.st_size, offset, line, broken),
            *(_checksum(path, offset), file_id),
        ),
    )

  def _forget(self, file_id: int) -> None:
    for table in ('episodes', 'files'):
      self._writer.execute(f'DELETE FROM {table} WHERE file_id = ?', (file_id,))

  @contextlib.contextmanager
  def _transaction(self) -> Iterator[None]:
    self._writer.execute('BEGIN IMMEDIATE')
    try:
      yield
    except BaseException:
      self._writer.execute('ROLLBACK')
      raise
    self._writer.execute('COMMIT')


def walk(
    root: pathlib.Path,
) -> Iterator[tuple[str, dict[str, os.stat_result]]]:
  """Runs below a folder, each with its episode files by path in the run.

  Symbolic links and hidden folders are not followed.
  """
  waiting = [root]
  while waiting:
    folder = waiting.pop()
    entries = _entries(folder)
    inner = [name for name, entry in entries.items() if _is_folder(entry)]
    holds = [name for name in _WHERE_EPISODES_ARE if name in inner]
    if holds or any(name in entries for name in _MARKS):
      files = {}
      for name in holds:
        for path, entry in _jsonl(folder / name):
          with contextlib.suppress(OSError):
            files[path.relative_to(folder).as_posix()] = entry.stat()
      yield folder.relative_to(root).as_posix(), files
      inner = [name for name in inner if name not in _SKIPPED]
    waiting += [folder / name for name in inner if name not in holds]


def _stamps(run: pathlib.Path) -> tuple[Any, ...]:
  """Changes when a run has written something besides episodes."""
  found = []
  for name in _FOLLOWED:
    with contextlib.suppress(OSError):
      stat = (run / name).stat()
      found.append((name, stat.st_mtime_ns, stat.st_size))
  return tuple(found)


def _jsonl(
    folder: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, os.DirEntry[str]]]:
  for name, entry in sorted(_entries(folder).items()):
    if _is_folder(entry):
      yield from _jsonl(folder / name)
    elif name.endswith('.jsonl') and not entry.is_symlink():
      yield folder / name, entry


def _entries(folder: pathlib.Path) -> dict[str, os.DirEntry[str]]:
  try:
    with os.scandir(folder) as found:
      return {x.name: x for x in found if not x.name.startswith('.')}
  except OSError:  # gone, or not ours to read
    return {}


def _is_folder(entry: os.DirEntry[str]) -> bool:
  return entry.is_dir(follow_symlinks=False)


def _checksum(path: pathlib.Path, end: int) -> int:
  """Of the bytes before `end`."""
  with path.open('rb') as file:
    file.seek(max(end - _LAST_BYTES, 0))
    return zlib.crc32(file.read(min(end, _LAST_BYTES)))


def _place_for(root: pathlib.Path) -> pathlib.Path:
  """The index's path: in the folder if it can be written, else the cache."""
  if os.access(root, os.W_OK | os.X_OK):
    return root / _NAME
  name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
  return cache.private('viewer') / f'{name}.sqlite'


def _subtasks(run: pathlib.Path) -> Callable[[str, int], str]:
  """The kind of a task, by environment and id, under the run's options."""
  try:
    config = workdir.read_record(run / workdir.CONFIG)
  except AgentrlError:
    config = {}
  section = config.get('env', {})

  @functools.cache
  def kinds(env: str) -> Callable[[int], str]:
    own = section.get('name') == env
    try:
      options = section.get('options', {}) if own else {}
      return functools.cache(envs.get(env).subtasks(**options))
    except AgentrlError:  # not known here: an environment of somebody's own
      return lambda task: ''

  def of(env: str, task: int) -> str:
    try:
      return kinds(env)(task)
    except (AgentrlError, LookupError, ValueError):  # an id of other options
      return ''

  return of
