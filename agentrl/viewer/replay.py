"""Routes of the replay page: all turns at a glance, the environment's view.

`/api/replay` has numbers of all turns; `/api/replay/view` the environment at a
moment; `/api/replay/picture` its picture; `/api/replay/again` plays the episode
again.
"""

import asyncio
import collections
import pathlib
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from agentrl.envs.blocks import Moment
from agentrl.errors import ConfigError, DataError
from agentrl.evaluation.workdirs import files, run_config
from agentrl.types import ACT, Turn
from agentrl.viewer import (
    again as again_lib,
    failures,
    numbers,
    views,
)
from agentrl.viewer.again import Again
from agentrl.viewer.env_servers import EnvServers
from agentrl.viewer.record import Record
from agentrl.viewer.state import STATE, reply

_PLAYED = 16  # episodes whose pictures are kept
_PLAYED_BYTES = 200 * 2**20
_AGAIN_S = 300.0
_MOST_PNG = 20 * 2**20
# What zipfile raises for damaged, encrypted and strangely packed files.
_DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


class _Key(NamedTuple):
  """An episode as its file has it now."""

  path: pathlib.Path
  offset: int
  length: int
  changed: int


class Replays:
  """Episodes that were played again."""

  def __init__(self) -> None:
    self.played: collections.OrderedDict[_Key, Again] = (
        collections.OrderedDict()
    )
    self.locks: dict[_Key, asyncio.Lock] = collections.defaultdict(asyncio.Lock)

  def keep(self, key: _Key, again: Again) -> None:
    """Keeps what was played, and forgets the oldest where it is too much."""
    self.played[key] = again
    while len(self.played) > 1 and (
        len(self.played) > _PLAYED
        or sum(map(again_lib.size, self.played.values())) > _PLAYED_BYTES
    ):
      self.played.popitem(last=False)


REPLAYS = web.AppKey('replays', Replays)
ENV_SERVERS = web.AppKey('env_servers', EnvServers)


def install(app: web.Application, own: Sequence[str]) -> None:
  """Gives an application what these routes need, for as long as it runs.

  Args:
    app: of the viewer.
    own: environments of somebody's own, see `EnvServers`.
  """
  servers = EnvServers(own)
  app[REPLAYS], app[ENV_SERVERS] = Replays(), servers
  app.cleanup_ctx.append(lambda app: servers.run())


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [
      web.get('/api/replay', _replay),
      web.get('/api/replay/view', _view),
      web.get('/api/replay/picture', _picture),
      web.post('/api/replay/again', _again),
  ]


async def _replay(request: web.Request) -> web.Response:
  """GET /api/replay: what is about the whole episode."""
  replays = request.app[REPLAYS]
  key, record = await _open(request)
  saved = await asyncio.to_thread(_saved, key.path, record.episode_id)
  played = replays.played.get(key)
  why_not = await asyncio.to_thread(_why_not_again, request, record)
  spec = request.app[ENV_SERVERS].specs.get(record.env)
  return reply({
      'lanes': lanes(record.turns),
      'faults': faults(record, spec.refuses if spec else None),
      'pictures': len(saved),
      'renders': bool(spec and spec.dialect.renders),
      'why_not_again': why_not,
      'again': played and again_lib.as_json(played),
  })


async def _view(request: web.Request) -> web.Response:
  """GET /api/replay/view: blocks that show the environment after `done` turns."""
  replays = request.app[REPLAYS]
  key, record = await _open(request)
  done = _done(request, record)

  spec = request.app[ENV_SERVERS].specs.get(record.env)

  def draw() -> list[dict[str, Any]]:
    played = replays.played.get(key)
    pictures = len(_saved(key.path, record.episode_id))
    if not pictures and played:
      pictures = len(played.pictures)
    boxes = played.boxes if played else ()
    probed = played.probed if played else ()
    moment = Moment(
        prompt=record.prompt,
        turns=record.turns,
        done=done,
        picture=done < pictures,
        box=boxes[done - 1] if 0 < done <= len(boxes) else None,
        probed=probed[done] if done < len(probed) else '',
        task=record.task_id,
    )
    return views.at(moment, spec.view if spec else None)

  return reply({'blocks': await asyncio.to_thread(draw)})


async def _picture(request: web.Request) -> web.Response:
  """GET /api/replay/picture: the saved PNG after `done` turns, else the new."""
  replays = request.app[REPLAYS]
  key, record = await _open(request)
  done = _done(request, record)
  png = await asyncio.to_thread(_read_saved, key.path, record.episode_id, done)
  played = replays.played.get(key)
  if png is None and played and done < len(played.pictures):
    png = played.pictures[done]
  if png is None:
    raise files.Missing(f'There is no picture after {done} turns.')
  return web.Response(body=png, content_type='image/png')


async def _again(request: web.Request) -> web.Response:
  """POST /api/replay/again: plays the episode again in a real environment."""
  replays = request.app[REPLAYS]
  key, record = await _open(request)
  async with replays.locks[key]:
    if key not in replays.played:
      options = _options(request, record.env)
      servers = request.app[ENV_SERVERS]
      try:
        async with asyncio.timeout(_AGAIN_S):
          async with servers.client(record.env, options) as client:
            replays.keep(key, await again_lib.play(record, client))
      except TimeoutError as error:
        raise DataError(
            f'The episode could not be played again within {_AGAIN_S:g} s.'
        ) from error
    played = replays.played[key]
  return reply(again_lib.as_json(played))


async def _open(request: web.Request) -> tuple[_Key, Record]:
  """The episode that a request names, and its place now."""
  state = request.app[STATE]
  row = await state.entry(request)
  path = files.file_of(state.root, row['run'], row['file'])
  record = await state.record(request)
  key = _Key(path, row['offset'], row['length'], path.stat().st_mtime_ns)
  return key, record


def _done(request: web.Request, record: Record) -> int:
  """The number of turns before the moment that a request asks about."""
  return numbers.query(request, 'done', 0, 0, len(record.turns))


def lanes(turns: Sequence[Turn]) -> dict[str, list[Any]]:
  """Numbers of all turns, to be drawn as lanes over the whole episode."""
  return {
      'sampler_s': [x.sampler_s for x in turns],
      'env_s': [x.env_s for x in turns],
      'reward': [x.reward for x in turns],
      'progress': [x.progress for x in turns],
      'parse_error': [x.parse_error is not None for x in turns],
      'weight_version': [x.weight_version for x in turns],
  }


def faults(
    record: Record, refuses: Callable[[str], bool] | None
) -> dict[str, list[int]]:
  """The turns at which something went wrong, by kind, in order.

  Args:
    record: the episode.
    refuses: of its environment, see `EnvSpec`.
  """
  unread, refused = [], []
  for number, turn in enumerate(record.turns):
    if turn.parse_error is not None:
      unread.append(number)
    elif turn.kind == ACT and refuses and refuses(turn.observation):
      refused.append(number)
  repeated = [number for number, *_ in failures.repetitions(record)]
  return {'no_action': unread, 'refused': refused, 'repeated': repeated}


def config_of(root: pathlib.Path, run: str) -> dict[str, Any]:
  """The config of a run; {}, default options, where it has none.

  Raises:
    Missing: there is no such run.
    DataError: it is damaged.
  """
  return run_config.config(files.run_folder(root, run))


def _options(request: web.Request, env: str) -> dict[str, Any]:
  """The options of the environment in the run that a request names."""
  config = config_of(request.app[STATE].root, request.query.get('run', ''))
  return request.app[ENV_SERVERS].options(env, config)


def _why_not_again(request: web.Request, record: Record) -> str | None:
  """Why an episode cannot be played again; None: it can."""
  if not record.turns:
    return 'The episode has no turn.'
  try:
    _options(request, record.env)
  except (ConfigError, DataError) as error:
    return str(error)
  return None


def _saved(path: pathlib.Path, episode_id: str) -> list[str]:
  """Names of an episode's saved pictures, in order."""
  try:
    with zipfile.ZipFile(path.with_suffix('.zip')) as file:
      start = f'{episode_id}/'
      return sorted(x for x in file.namelist() if x.startswith(start))
  except _DAMAGED:
    return []


def _read_saved(path: pathlib.Path, episode_id: str, done: int) -> bytes | None:
  """A saved picture; None: there is none, or the file is damaged."""
  name = f'{episode_id}/{done:03d}.png'
  try:
    with zipfile.ZipFile(path.with_suffix('.zip')) as file:
      if file.getinfo(name).file_size > _MOST_PNG:
        return None
      png = file.read(name)
  except (KeyError, *_DAMAGED):
    return None
  return png if png.startswith(b'\x89PNG\r\n\x1a\n') else None


def saved_pictures(
    path: pathlib.Path, record: Record, most_bytes: int
) -> list[bytes]:
  """The saved pictures of an episode; none where they are too large together."""
  pictures = []
  for done in range(len(_saved(path, record.episode_id))):
    png = _read_saved(path, record.episode_id, done)
    if png is None:
      break
    pictures.append(png)
    if sum(map(len, pictures)) > most_bytes:
      return []
  return pictures
