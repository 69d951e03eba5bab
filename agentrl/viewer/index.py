"""SQLite index of the episodes below a folder.

It lies in the folder, as `.agentrl-viewer.sqlite`, or where that cannot be
written in the user's cache. Deleting it is safe: it is rebuilt from the files.
One process at a time keeps it up to date.

Tables: `runs` (run); `files` (file_id, run, file, origin: 'train', 'eval',
'warmstart' ..., step, policy, and what was read of it); `episodes` (file_id, the
columns of `scan.COLUMNS`, subtask), in the order of files and lines, and those that
were played by file and task; `kinds`
(file_id, name, value, episodes), which counts the values of columns with few;
`words`, which FTS5 searches, by `file_id << 32 | line`.
"""

import asyncio
import collections
import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from agentrl import envs
from agentrl.errors import AgentrlError
from agentrl.evaluation.workdirs import folders, run_config
from agentrl.runtime import cache
from agentrl.types import FAILURES
from agentrl.viewer import readers, scan
from agentrl.viewer.scan import Job, Piece

_NAME = '.agentrl-viewer.sqlite'
_VERSION = 7  # of the schema and its values: an index of another is made again
# Columns whose values `kinds` counts.
COUNTED = ('env', 'subtask', 'split', 'stop_reason')
# Episodes that the infrastructure did not fail, as `Episode.valid` says; a query
# uses the index of tasks if it has these words.
PLAYED = 'turns > 0 AND stop_reason NOT IN ({})'.format(
    ', '.join(f"'{reason}'" for reason in FAILURES)
)
_POLL_S = 1.0
_BATCH_ROWS = 4000  # of a transaction, about
_TOLD_S = 0.5  # between news of a reading that takes long

# A word list keeps neither texts nor positions, so removed episodes leave their
# words behind; numbers of files are never used again, so they match nothing.
_SCHEMA = f"""
CREATE TABLE runs (run TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE files (
  file_id INTEGER PRIMARY KEY AUTOINCREMENT,
  run TEXT NOT NULL,
  file TEXT NOT NULL,
  origin TEXT NOT NULL,
  step INTEGER,
  policy TEXT NOT NULL,
  changed INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  read INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  broken INTEGER NOT NULL,
  UNIQUE (run, file)
);
CREATE TABLE episodes (
  file_id INTEGER NOT NULL,
  {', '.join(f'"{name}" {kind}' for name, kind in scan.COLUMNS.items())},
  subtask TEXT NOT NULL,
  PRIMARY KEY (file_id, line)
) WITHOUT ROWID;
CREATE INDEX episodes_by_task ON episodes (file_id, env, task, success)
  WHERE {PLAYED};
CREATE TABLE kinds (
  file_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  episodes INTEGER NOT NULL
);
CREATE INDEX kinds_by_file ON kinds (file_id);
CREATE VIRTUAL TABLE words USING fts5(
  text, content='', detail=none, columnsize=0
);
PRAGMA user_version = {_VERSION};
"""
_INSERT = (
    f'INSERT INTO episodes VALUES ({", ".join("?" * (len(scan.COLUMNS) + 2))})'
)


class Index:
  """The index of one folder.

  Attributes:
    changes: times that something new was found.
    progress: share of the bytes to read that has been read; 1 once all was.
    problem: why it cannot be brought up to date; empty where it can.
  """

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
    self._news = asyncio.Event()
    self._stamps: dict[str, tuple[Any, ...]] = {}
    self.changes, self.progress, self.problem = 0, 0.0, ''
    self._busy, self._closed = threading.Lock(), False
    self._writer = self._open()
    self._writer.execute('PRAGMA synchronous = OFF')  # it can be made again
    self._version = 0  # of the data, as others change it
    self._is_changed()

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
    loop = asyncio.get_running_loop()
    tell = lambda: loop.call_soon_threadsafe(self._changed)
    while True:
      start = time.monotonic()
      try:
        if await asyncio.to_thread(self.refresh, tell):
          self._changed()
      except (OSError, sqlite3.Error) as error:
        # A full disk, say. Episodes that are known are shown meanwhile.
        self.problem = f'The index cannot be brought up to date: {error}'
        logging.warning('%s', self.problem)
      self._ready.set()
      # Of a folder on a slow disk, looking is no more than a third of the time.
      took = time.monotonic() - start
      await asyncio.sleep(max(_POLL_S, 2 * took))

  async def ready(self) -> None:
    """Returns when all files have been read once."""
    await self._ready.wait()

  async def wait(self, changes: int) -> int:
    """Waits until there have been more than `changes` changes; their number."""
    while self.changes <= changes:
      await self._news.wait()
    return self.changes

  def _changed(self) -> None:
    self.changes += 1
    self._news.set()
    self._news = asyncio.Event()

  def refresh(self, tell: Callable[[], object] = lambda: None) -> bool:
    """Reads what is new; True if there was something, or less than before.

    Another process that does so right now does it for this one, too.

    Args:
      tell: called from time to time while it goes on.
    """
    with self._busy:
      if self._closed:
        return False
      try:
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
      except BlockingIOError:
        return self._is_changed()
      try:
        changed = self._is_changed()
        return self._refresh(tell) or changed
      finally:
        self.progress = 1.0
        fcntl.flock(self._lock, fcntl.LOCK_UN)

  def _is_changed(self) -> bool:
    """True if another process has changed the index since the last time."""
    before = self._version
    (self._version,) = self._writer.execute('PRAGMA data_version').fetchone()
    return self._version != before

  def close(self) -> None:
    """Closes its files; a reading in another thread ends before."""
    self._closed = True
    with self._busy:
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
    connection.executescript(_SCHEMA)
    return connection

  def _refresh(self, tell: Callable[[], object]) -> bool:
    stats: dict[tuple[str, str], os.stat_result] = {}
    runs: set[str] = set()
    stamps: dict[str, tuple[Any, ...]] = {}
    for run, files in folders.walk(self._root):
      runs.add(run)
      stamps[run] = folders.stamp(self._root / run)
      stats |= {(run, name): stat for name, stat in files.items()}
    entries = {
        (row[1], row[2]): row
        for row in self._writer.execute(
            'SELECT file_id, run, file, changed, bytes, read, lines, checksum'
            ' FROM files'
        )
    }
    gone = entries.keys() - stats.keys()
    before = {run for (run,) in self._writer.execute('SELECT run FROM runs')}
    if gone or runs != before:
      with self._transaction():
        for key in gone:
          self._forget(entries[key][0])
        self._writer.execute('DELETE FROM runs')
        self._writer.executemany(
            'INSERT INTO runs VALUES (?)', [(run,) for run in sorted(runs)]
        )
    keys = [
        key
        for key, stat in stats.items()
        if key not in entries
        or entries[key][3:5] != (stat.st_mtime_ns, stat.st_size)
    ]
    self.problem = ''
    if keys:
      self._read(keys, entries, stats, tell)
    written = stamps != self._stamps
    self._stamps = stamps
    return bool(gone or keys or runs != before or written)

  def _read(self, keys, entries, stats, tell: Callable[[], object]) -> None:
    """Reads the lines that these files have gained, or all of them."""
    jobs = [
        Job(str(self._root / run / file), *entries.get((run, file), ())[5:])
        for run, file in keys
    ]
    left = [
        stats[key].st_size - job.read
        for key, job in zip(keys, jobs, strict=True)
    ]
    total = max(sum(map(abs, left)), 1)
    file_ids = [entries.get(key, (None,))[0] for key in keys]
    kinds = functools.cache(lambda run: _subtasks(self._root / run))
    done, told, rows = 0, time.monotonic(), 0
    problems = []
    with contextlib.closing(readers.pieces(jobs, total)) as pieces:
      self._writer.execute('BEGIN IMMEDIATE')
      try:
        for number, piece in pieces:
          if self._closed:
            break
          run, file = keys[number]
          if piece.problem:
            problems.append(f'{run}/{file}: {piece.problem}')
            continue
          file_ids[number] = self._write(
              run, file, file_ids[number], piece, kinds(run)
          )
          rows += len(piece.rows)
          if piece.job is not None:
            done += sum(row[2] + 1 for row in piece.rows)
          if rows < _BATCH_ROWS:
            continue
          self._writer.execute('COMMIT')
          self._writer.execute('BEGIN IMMEDIATE')
          rows, self.progress = 0, min(done / total, 1.0)
          if time.monotonic() - told > _TOLD_S:
            tell()
            told = time.monotonic()
      except BaseException:
        if self._writer.in_transaction:  # not where SQLite ended it itself
          self._writer.execute('ROLLBACK')
        raise
      self._writer.execute('COMMIT')
    if problems:
      raise OSError(f'{problems[0]}; files like this: {len(problems)}')

  def _write(
      self,
      run: str,
      file: str,
      file_id: int | None,
      piece: Piece,
      kind_of: Callable[[str, int], str],
  ) -> int | None:
    """Adds a piece of a file; its number, None where there is no such file."""
    if file_id is not None and (piece.again or piece.job is None):
      self._forget(file_id)
      file_id = None
    if piece.job is None:
      return None
    if file_id is None:
      file_id = self._writer.execute(
          'INSERT INTO files VALUES (NULL, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0)',
          (run, file, *scan.place(file)),
      ).lastrowid
      assert file_id is not None  # an INSERT gives one
    subtasks = [kind_of(row[scan.ENV], row[scan.TASK]) for row in piece.rows]
    self._writer.executemany(
        _INSERT,
        [
            (file_id, *row, subtask)
            for row, subtask in zip(piece.rows, subtasks, strict=True)
        ],
    )
    counts = collections.Counter(('subtask', value) for value in subtasks)
    for name in COUNTED:
      if name != 'subtask':
        column = list(scan.COLUMNS).index(name)
        counts.update((name, row[column]) for row in piece.rows)
    self._writer.executemany(
        'INSERT INTO kinds VALUES (?, ?, ?, ?)',
        [(file_id, *key, count) for key, count in counts.items()],
    )
    self._writer.executemany(
        'INSERT INTO words (rowid, text) VALUES (?, ?)',
        [
            (file_id << 32 | row[0], words)
            for row, words in zip(piece.rows, piece.words, strict=True)
        ],
    )
    # A file with more to read is taken for changed until that was read.
    changed = 0 if piece.more else piece.changed
    self._writer.execute(
        'UPDATE files SET changed = ?, bytes = ?, read = ?, lines = ?,'
        ' checksum = ?, broken = broken + ? WHERE file_id = ?',
        (
            *(changed, piece.size, piece.job.read, piece.job.lines),
            *(piece.job.checksum, piece.broken, file_id),
        ),
    )
    return file_id

  def _forget(self, file_id: int) -> None:
    for table in ('episodes', 'kinds', 'files'):
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


def _place_for(root: pathlib.Path) -> pathlib.Path:
  """The index's path: in the folder if it can be written, else the cache."""
  try:
    tempfile.TemporaryFile(dir=root).close()
  except OSError:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return cache.private('viewer') / f'{name}.sqlite'
  return root / _NAME


def _subtasks(run: pathlib.Path) -> Callable[[str, int], str]:
  """The kind of a task, by environment and id, under the run's options."""
  config = run_config.known(run_config.config, run)

  @functools.cache
  def kinds(env: str) -> Callable[[int], str]:
    try:
      options = run_config.env_options(config, (env,))
      return functools.cache(envs.get(env).subtasks(**options))
    except AgentrlError:
      # An environment of somebody's own, or one under several options.
      return lambda task: ''

  def of(env: str, task: int) -> str:
    try:
      return kinds(env)(task)
    except (AgentrlError, LookupError, ValueError):  # an id of other options
      return ''

  return of
