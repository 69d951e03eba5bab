"""The state that the handlers of all routes share."""

import asyncio
import dataclasses
import pathlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from agentrl.evaluation.workdirs import files
from agentrl.viewer.index import Index
from agentrl.viewer.record import Reader, Record


@dataclasses.dataclass(frozen=True)
class State:
  """The folder that is shown, and the index of its episodes.

  Attributes:
    root: the folder, absolute.
    index: of the episodes below it.
    reader: of the episodes' files.
  """

  root: pathlib.Path
  index: Index
  reader: Reader = dataclasses.field(default_factory=Reader)

  async def query(
      self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()
  ) -> list[sqlite3.Row]:
    """The rows of a SELECT over the index, read in a thread."""
    return await asyncio.to_thread(self.index.query, sql, values)

  async def runs(self) -> list[str]:
    """Names of all runs, in order."""
    names = 'SELECT run FROM runs ORDER BY run'
    rows = await self.query(names)
    if not rows:  # none, or not looked for yet
      await self.index.ready()
      rows = await self.query(names)
    return [row['run'] for row in rows]

  async def entry(self, request: web.Request) -> sqlite3.Row:
    """The index's row of the episode that a request names.

    Its query has `run`, `file` and `line`, counted from 0.

    Raises:
      Missing: there is no such episode.
    """
    names = ('run', 'file', 'line')
    return await self.find(*(request.query.get(name, '') for name in names))

  async def find(self, run: str, file: str, line: str) -> sqlite3.Row:
    """The index's row of an episode; `line` counts from 0.

    Raises:
      Missing: there is no such episode.
    """
    number = line.isascii() and line.isdecimal() and len(line) < 19
    rows = number and await self.query(
        'SELECT * FROM episodes JOIN files USING (file_id)'
        ' WHERE run = ? AND file = ? AND line = ?',
        (run, file, int(line)),
    )
    if not rows:
      raise files.Missing(
          f'There is no episode in line {line:.40} of {file!r} of the run'
          f' {run!r}.'
      )
    return rows[0]

  async def record(self, request: web.Request) -> Record:
    """The episode that a request names, read from its file.

    Raises:
      Missing: there is no such episode.
      DataError: it cannot be read.
    """
    return await self.read(await self.entry(request))

  async def read(self, row: sqlite3.Row) -> Record:
    """The episode of a row of the index.

    Raises:
      Missing: its file is gone.
      DataError: it cannot be read.
    """
    path = files.file_of(self.root, row['run'], row['file'])
    return await asyncio.to_thread(
        self.reader.read, path, row['offset'], row['length']
    )


def reply(value: Any) -> web.Response:
  """A response with JSON, in which NaN and infinities are null."""
  return web.Response(
      body=msgspec.json.encode(value), content_type='application/json'
  )


STATE = web.AppKey('state', State)
