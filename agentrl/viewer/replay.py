"""Routes of the replay page: turns, the environment's view, pictures.

`/api/replay` facts, lanes and prompt; `/api/replay/turns` a window of turns;
`/api/replay/text` a whole text; `/api/replay/view` the environment at a moment;
`/api/replay/picture` its picture; `/api/replay/again` plays the episode again.
"""

import asyncio
import collections
import contextlib
import pathlib
import zipfile
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from aiohttp import web

from agentrl import envs
from agentrl.errors import AgentrlError, ConfigError, DataError
from agentrl.runtime import workdir
from agentrl.viewer import again as again_lib, files, record, turns, views
from agentrl.viewer.again import Again
from agentrl.viewer.env_servers import EnvServers, safe_options
from agentrl.viewer.record import Record
from agentrl.viewer.state import STATE
from agentrl.viewer.views.blocks import Moment

_MOST_TURNS = 100  # of a window
_RECENT = 4  # records that are kept decoded: one may be 100 MB
_PLAYED = 16  # episodes whose pictures are kept
_PLAYED_BYTES = 200 * 2**20
_AGAIN_S = 300.0
_MOST_PNG = 20 * 2**20


class _Key(NamedTuple):
  """An episode as its file has it now."""

  path: pathlib.Path
  offset: int
  length: int
  changed: int


class Replays:
  """Episodes that were opened lately, and those that were played again."""

  def __init__(self) -> None:
    self._records: collections.OrderedDict[_Key, Record] = (
        collections.OrderedDict()
    )
    self.played: collections.OrderedDict[_Key, Again] = (
        collections.OrderedDict()
    )
    self.locks: dict[_Key, asyncio.Lock] = collections.defaultdict(asyncio.Lock)

  async def open(self, request: web.Request) -> tuple[_Key, Record]:
    """The episode that a request names.

    Raises:
      Missing: there is no such episode.
      DataError: it cannot be read.
    """
    state = request.app[STATE]
    row = await state.entry(request)
    path = files.file_of(state.root, row['run'], row['file'])
    key = _Key(path, row['offset'], row['length'], path.stat().st_mtime_ns)
    if key not in self._records:

      def read() -> Record:
        return record.decode(files.read_line(path, key.offset, key.length))

      self._records[key] = await asyncio.to_thread(read)
    self._records.move_to_end(key)
    while len(self._records) > _RECENT:
      self._records.popitem(last=False)
    return key, self._records[key]

  def keep(self, key: _Key, found: Again) -> None:
    """Keeps what was played, and forgets the oldest where it is too much."""
    self.played[key] = found
    while len(self.played) > 1 and (
        len(self.played) > _PLAYED
        or sum(map(again_lib.size, self.played.values())) > _PLAYED_BYTES
    ):
      self.played.popitem(last=False)


REPLAYS = web.AppKey('replays', Replays)
ENV_SERVERS = web.AppKey('env_servers', EnvServers)


async def context(app: web.Application) -> AsyncIterator[None]:
  """Keeps environment servers while the viewer runs."""
  app[REPLAYS] = Replays()
  app[ENV_SERVERS] = EnvServers()
  async with contextlib.asynccontextmanager(app[ENV_SERVERS].run)():
    yield


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [
      web.get('/api/replay', _replay),
      web.get('/api/replay/turns', _turns),
      web.get('/api/replay/text', _text),
      web.get('/api/replay/view', _view),
      web.get('/api/replay/picture', _picture),
      web.post('/api/replay/again', _again),
  ]


async def _replay(request: web.Request) -> web.Response:
  """GET /api/replay: what is about the whole episode."""
  replays = request.app[REPLAYS]
  key, found = await replays.open(request)
  saved = await asyncio.to_thread(_saved, key.path, found.episode_id)
  played = replays.played.get(key)
  why_not = await asyncio.to_thread(_why_not_again, request, found)
  return web.json_response({
      'facts': turns.facts(found),
      'prompt': turns.prompt(found),
      'lanes': turns.lanes(found.turns),
      'has_tokens': bytes(found.tokens).strip() not in (b'', b'[]'),
      'pictures': len(saved),
      'renders': _renders(found.env),
      'why_not_again': why_not,
      'again': played and again_lib.as_json(played),
  })


async def _turns(request: web.Request) -> web.Response:
  """GET /api/replay/turns: `count` turns from `first` on."""
  _, found = await request.app[REPLAYS].open(request)
  first = number(request, 'first', 0)
  count = min(number(request, 'count', 20), _MOST_TURNS)
  return web.json_response({'turns': turns.window(found.turns, first, count)})


async def _text(request: web.Request) -> web.Response:
  """GET /api/replay/text: a text of a turn, or message `index` of the prompt."""
  _, found = await request.app[REPLAYS].open(request)
  index, field = number(request, 'index', 0), request.query.get('field', '')
  if field == 'prompt' and index < len(found.prompt):
    text = found.prompt[index].content
  elif field in turns.TEXTS and index < len(found.turns):
    text = getattr(found.turns[index], field)
  else:
    raise files.Missing(f'The episode has no text {field!r} {index}.')
  return web.json_response({'text': text})


async def _view(request: web.Request) -> web.Response:
  """GET /api/replay/view: blocks that show the environment after `done` turns."""
  replays = request.app[REPLAYS]
  key, found = await replays.open(request)
  done = min(number(request, 'done', 0), len(found.turns))

  def draw() -> list[dict[str, Any]]:
    played = replays.played.get(key)
    pictures = len(_saved(key.path, found.episode_id))
    if not pictures and played:
      pictures = len(played.pictures)
    boxes = played.boxes if played else ()
    moment = Moment(
        prompt=found.prompt,
        turns=found.turns,
        done=done,
        picture=done < pictures,
        box=boxes[done - 1] if 0 < done <= len(boxes) else None,
    )
    return views.at(found.env, moment)

  return web.json_response({'blocks': await asyncio.to_thread(draw)})


async def _picture(request: web.Request) -> web.Response:
  """GET /api/replay/picture: the saved PNG after `done` turns, else the new."""
  replays = request.app[REPLAYS]
  key, found = await replays.open(request)
  done = number(request, 'done', 0)
  png = await asyncio.to_thread(_read_saved, key.path, found.episode_id, done)
  played = replays.played.get(key)
  if png is None and played and done < len(played.pictures):
    png = played.pictures[done]
  if png is None:
    raise files.Missing(f'There is no picture after {done} turns.')
  return web.Response(body=png, content_type='image/png')


async def _again(request: web.Request) -> web.Response:
  """POST /api/replay/again: plays the episode again in a real environment."""
  replays = request.app[REPLAYS]
  key, found = await replays.open(request)
  async with replays.locks[key]:
    if key not in replays.played:
      options = safe_options(found.env, run_options(request, found.env))
      servers = request.app[ENV_SERVERS]
      try:
        async with asyncio.timeout(_AGAIN_S):
          async with servers.client(found.env, options) as client:
            replays.keep(key, await again_lib.play(found, client))
      except TimeoutError as error:
        raise DataError(
            f'The episode could not be played again within {_AGAIN_S:g} s.'
        ) from error
    found = replays.played[key]
  return web.json_response(again_lib.as_json(found))


def number(request: web.Request, name: str, default: int) -> int:
  """A number in a request's query.

  Raises:
    DataError: it is none.
  """
  text = request.query.get(name, str(default))
  if not text.isdecimal() or len(text) > 9:
    raise DataError(f'{name} must be a number from 0 on, got {text!r:.40}.')
  return int(text)


def run_options(request: web.Request, env: str) -> dict[str, Any]:
  """The options of the environment in the run that a request names."""
  folder = files.run_folder(
      request.app[STATE].root, request.query.get('run', '')
  )
  try:
    config = workdir.read_record(folder / workdir.CONFIG)
  except AgentrlError:  # no run of ours: its episodes are of default options
    return {}
  return dict(again_lib.environment_of(config, env))


def _why_not_again(request: web.Request, found: Record) -> str | None:
  """Why an episode cannot be played again; None: it can."""
  if not found.turns:
    return 'The episode has no turn.'
  try:
    safe_options(found.env, run_options(request, found.env))
  except ConfigError as error:
    return str(error)
  return None


def _renders(env: str) -> bool:
  return env in envs.ENVS and envs.get(env).dialect.renders


def _saved(path: pathlib.Path, episode_id: str) -> list[str]:
  """Names of an episode's saved pictures, in order."""
  try:
    with zipfile.ZipFile(path.with_suffix('.zip')) as file:
      start = f'{episode_id}/'
      return sorted(x for x in file.namelist() if x.startswith(start))
  except (OSError, zipfile.BadZipFile):
    return []


def _read_saved(path: pathlib.Path, episode_id: str, done: int) -> bytes | None:
  """A saved picture; None: there is none, or the file is damaged."""
  name = f'{episode_id}/{done:03d}.png'
  try:
    with zipfile.ZipFile(path.with_suffix('.zip')) as file:
      if file.getinfo(name).file_size > _MOST_PNG:
        return None
      png = file.read(name)
  except (OSError, KeyError, zipfile.BadZipFile):
    return None
  return png if png.startswith(b'\x89PNG\r\n\x1a\n') else None
