"""Routes of live play.

`/api/play` what can be played, and by whom; `/api/play/start` a new session, of a
task or as a branch of an episode or of another session; `/api/play/step` a turn;
`/api/play/session`, `/api/play/picture`, `/api/play/end`.

A session is leased: it ends some minutes after it was last used.
"""

import asyncio
import functools
import pathlib
import random
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from aiohttp import web

from agentrl.envs.blocks import Moment
from agentrl.errors import ConfigError, DataError
from agentrl.evaluation.workdirs import files, folders, run_config
from agentrl.http import bodies, replies
from agentrl.rollout.options import FULL_CONTEXT, NO_PLAN, ONE_ATTEMPT
from agentrl.types import ACT, Turn
from agentrl.viewer import (
    episode as episode_lib,
    numbers,
    policies as policies_lib,
    replay,
    tokens,
    views,
)
from agentrl.viewer.live import Session, Spoken
from agentrl.viewer.policies import Policies
from agentrl.viewer.state import STATE, reply

_MOST = 8  # sessions at a time
_LEASE_S = 900.0
_LOOK_S = 20.0
_CHARS = 6000  # of a text
_SHOWN = 200  # available actions

# Who acts in a turn.
HAND, EXPERT, RANDOM = 'hand', 'expert', 'random'
RUN, SAMPLER = 'run', 'sampler'


class Sessions:
  """The live sessions of a viewer."""

  def __init__(self) -> None:
    self._open: dict[str, Session] = {}

  async def run(self) -> AsyncIterator[None]:
    """A cleanup context: ends sessions whose lease is over, and all at the end."""
    sweep = asyncio.create_task(self._sweep())
    try:
      yield
    finally:
      sweep.cancel()
      for name in list(self._open):
        await self.end(name)

  def __len__(self) -> int:
    return len(self._open)

  def add(self, session: Session) -> None:
    """Adds a session."""
    self._open[session.name] = session

  def get(self, name: str) -> Session:
    """A session, whose lease begins anew.

    Raises:
      Missing: it has ended.
    """
    session = self._open.get(name)
    if session is None:
      raise files.Missing(
          'This session has ended: one that is not used for'
          f' {_LEASE_S / 60:.0f} minutes does. Begin a new one.'
      )
    session.last_used = time.monotonic()
    return session

  async def end(self, name: str) -> None:
    """Ends a session, if there is such a one."""
    session = self._open.pop(name, None)
    if session is not None:
      async with session.lock:
        await session.close()

  async def _sweep(self) -> None:
    while True:
      await asyncio.sleep(_LOOK_S)
      now = time.monotonic()
      for name, session in list(self._open.items()):
        if not session.lock.locked() and now - session.last_used > _LEASE_S:
          await self.end(name)


SESSIONS = web.AppKey('sessions', Sessions)
POLICIES = web.AppKey('policies', Policies)


def install(
    app: web.Application, samplers: Sequence[str], api_key: str | None
) -> None:
  """Gives an application what these routes need, for as long as it runs.

  Args:
    app: that has what `replay.install` gives.
    samplers: URLs of servers that speak SGLang's protocol.
    api_key: of them; it stays in this process.
  """
  sessions, policies = Sessions(), Policies(samplers, api_key)
  app[SESSIONS], app[POLICIES] = sessions, policies
  app.cleanup_ctx.append(lambda app: policies.run())
  # The last to begin is the first to end: sessions hold environments.
  app.cleanup_ctx.append(lambda app: sessions.run())


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [
      web.get('/api/play', _play),
      web.post('/api/play/start', _start),
      web.get('/api/play/session', _session),
      web.get('/api/play/picture', _picture),
      web.post('/api/play/step', _step),
      web.post('/api/play/end', _end),
  ]


class _Episode(msgspec.Struct):
  """An episode of a file, and how many of its turns are kept."""

  run: str
  file: str
  line: str
  turns: int = 0


class _Branch(msgspec.Struct):
  """A session, and how many of its turns are kept."""

  session: str
  turns: int


class _Begin(msgspec.Struct):
  """Body of /api/play/start."""

  env: str = ''
  task: int | None = None  # the first of the dev split
  run: str | None = None  # whose environment's options are taken
  episode: _Episode | None = None
  branch: _Branch | None = None


class _Ended(msgspec.Struct):
  """Body of /api/play/end."""

  session: str


class _Act(msgspec.Struct):
  """Body of /api/play/step."""

  session: str
  actor: str
  action: str = ''
  run: str | None = None
  checkpoint: int | None = None
  sampler: int | None = None


async def _play(request: web.Request) -> web.Response:
  """GET /api/play: environments, policies of runs and exported ones, samplers."""
  state = request.app[STATE]
  rows = await state.query('SELECT run FROM runs ORDER BY run')

  def gather() -> list[dict[str, Any]]:
    checkpoints: dict[str, list[int]] = {}
    for (run,) in rows:
      folder = state.root / run / 'checkpoints'
      numbered = [int(x.name) for x in folder.glob('*') if x.name.isdecimal()]
      if numbered:
        checkpoints[run] = sorted(numbered)
    for policy in sorted(folders.exported(state.root)):
      checkpoints[policy] = []
    runs = []
    for run, numbered in checkpoints.items():
      config = run_config.known(run_config.config, state.root / run)
      env, *_ = run_config.env_sections(config) or [{}]
      runs.append({
          'run': run,
          'checkpoints': numbered,
          'env': env.get('name') or '',
          'unheeded': _unheeded(config.get('agent')),
      })
    return runs

  return reply({
      'environments': list(request.app[replay.ENV_SERVERS].specs),
      'runs': await asyncio.to_thread(gather),
      'samplers': list(request.app[POLICIES].samplers),
      'sessions': len(request.app[SESSIONS]),
      'most': _MOST,
  })


def _unheeded(agent: Any) -> list[str]:
  """Settings of a run's agent that live play does not follow.

  Its policies see whole conversations, and are asked for actions alone.
  """
  settings = []
  for name, without in (
      ('context.kind', FULL_CONTEXT.kind),
      ('plan.kind', NO_PLAN.kind),
      ('reflect.attempts', ONE_ATTEMPT.attempts),
  ):
    section, field = name.split('.')
    options = (agent or {}).get(section)
    value = (
        options.get(field, without) if isinstance(options, dict) else without
    )
    if value != without:
      settings.append(f'agent.{name}={value}')
  return settings


async def _start(request: web.Request) -> web.Response:
  """POST /api/play/start: a new session."""
  body = await _body(request, _Begin)
  state, sessions = request.app[STATE], request.app[SESSIONS]
  if len(sessions) >= _MOST:
    raise DataError(f'{_MOST} sessions are open; end one of them.')
  past: list[Turn] = []
  env, task, run = body.env, body.task, body.run
  if body.branch is not None:
    parent = sessions.get(body.branch.session)
    env, task, run = parent.spec.name, parent.task_id, parent.run
    past = parent.turns[: body.branch.turns]
  elif body.episode is not None:
    named = body.episode
    row = await state.find(named.run, named.file, named.line)
    record = await state.read(row)
    env, task, run = record.env, record.task_id, body.episode.run
    # Live play has no plans, notes or sub-tasks: it goes on from the actions.
    played = record.turns[: body.episode.turns]
    past = [turn for turn in played if turn.kind == ACT]
  config = replay.config_of(state.root, run) if run is not None else {}
  servers = request.app[replay.ENV_SERVERS]
  options = servers.options(env, config)
  spec = await asyncio.to_thread(
      functools.partial(servers.specs[env].under, **options)
  )
  if task is None:
    task = (await asyncio.to_thread(spec.tasks, 'dev', **options))[0]
  session = Session(
      spec, task, random.randrange(2**31), secrets.token_urlsafe(12), run
  )
  client = servers.client(env, options)
  sessions.add(session)  # its place is taken while it opens
  try:
    async with session.lock:
      await session.open(client)
      await session.follow(past)
      return reply(await _shown(session))
  except BaseException:
    await sessions.end(session.name)
    raise


async def _session(request: web.Request) -> web.Response:
  """GET /api/play/session: a session as it is."""
  session = request.app[SESSIONS].get(request.query.get('session', ''))
  async with session.lock:
    return reply(await _shown(session))


async def _picture(request: web.Request) -> web.Response:
  """GET /api/play/picture: the environment after `done` turns."""
  session = request.app[SESSIONS].get(request.query.get('session', ''))
  done = numbers.query(request, 'done', 0, 0, 10**6)
  if done not in session.pictures:
    raise files.Missing(f'There is no picture after {done} turns.')
  return web.Response(body=session.pictures[done], content_type='image/png')


async def _step(request: web.Request) -> web.Response:
  """POST /api/play/step: one turn, by hand or by a policy."""
  body = await _body(request, _Act)
  session = request.app[SESSIONS].get(body.session)
  async with session.lock:
    if body.actor == HAND:
      await session.act(body.action, HAND)
    elif body.actor in (EXPERT, RANDOM):
      await session.act(await session.suggest(body.actor), body.actor)
    elif body.actor in (RUN, SAMPLER):
      await _say(request, session, body)
    else:
      raise DataError(f'Nobody is called {body.actor!r:.40} here.')
    session.last_used = time.monotonic()
    return reply(await _shown(session))


async def _end(request: web.Request) -> web.Response:
  """POST /api/play/end: ends a session."""
  body = await _body(request, _Ended)
  await request.app[SESSIONS].end(body.session)
  return reply({})


async def _say(request: web.Request, session: Session, body: _Act) -> None:
  """A turn by the policy of a run, or by a sampler that has one."""
  state = request.app[STATE]
  tokenizers = request.app[tokens.SOURCES].tokenizers
  names = request.app[replay.ENV_SERVERS].names(session.spec.name)
  folder = files.run_folder(state.root, body.run or '')
  talk = await asyncio.to_thread(
      policies_lib.talk_of, folder, session.spec, names, tokenizers
  )
  source: pathlib.Path | int = folder
  name = f'{body.run}'
  if body.actor == SAMPLER:
    if body.sampler is None:
      raise ConfigError('Name a sampler by its number.')
    source, name = body.sampler, f'sampler {body.sampler}'
  elif body.checkpoint is not None:
    source = folder / 'checkpoints' / str(body.checkpoint)
    name = f'{body.run} at {body.checkpoint}'
    if not source.is_dir():
      raise files.Missing(f'There is no checkpoint {body.checkpoint}.')
  own = {
      turn: spoken.output.completion.tokens
      for turn, spoken in session.spoken.items()
      if spoken.policy == name
  }
  ids = policies_lib.transcript(
      talk.agent, session.prompt(talk.agent), session.turns, own
  )
  output = await request.app[POLICIES].say(
      source, talk, ids, seed=session.seed, turn=len(session.turns)
  )
  tokenizer = tokenizers.get(folder)
  seen = {
      *output.completion.tokens,
      *(token for place in output.tops for token, _ in place),
  }
  texts = {i: tokenizer.decode([i], skip_special=False) for i in seen}
  text = tokenizer.decode(output.completion.tokens)
  await session.say(Spoken(name, output, texts), talk.agent, text)


async def _shown(session: Session) -> dict[str, Any]:
  """A session as the page draws it."""
  done = len(session.turns)
  actions = []
  if not session.over:
    actions = await session.available_actions()
  prompt = session.prompt(session.plain_agent())
  moment = Moment(
      prompt,
      session.turns,
      done,
      picture=done in session.pictures,
      task=session.task_id,
  )
  return {
      'session': session.name,
      'env': session.spec.name,
      'task': session.task_id,
      'run': session.run,
      'opening': {
          'text': session.opening[:_CHARS],
          'chars': len(session.opening),
      },
      'turns': [
          {
              **episode_lib.turn_json(i, turn, _CHARS),
              'actor': session.actors[i],
              'said': _said(session.spoken.get(i)),
          }
          for i, turn in enumerate(session.turns)
      ],
      'blocks': await asyncio.to_thread(views.at, moment, session.spec.view),
      'over': session.over,
      'success': session.success,
      'return': sum(turn.reward for turn in session.turns),
      'available': actions[:_SHOWN],
      'differences': session.differences,
      'lease_s': _LEASE_S,
  }


def _said(spoken: Spoken | None) -> list[dict[str, Any]] | None:
  """Each sampled token beside the likeliest ones at its place."""
  if spoken is None:
    return None
  completion, texts = spoken.output.completion, spoken.texts
  tops = list(spoken.output.tops) + [()] * len(completion.tokens)
  return [
      {
          'text': texts[token],
          'logprob': logprob,
          'tops': [[texts[other], value] for other, value in top],
      }
      for token, logprob, top in zip(
          completion.tokens, completion.logprobs, tops, strict=False
      )
  ]


async def _body(request: web.Request, kind: type) -> Any:
  """The JSON body of a request.

  Raises:
    DataError: it is not what the route takes.
  """
  decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
  try:
    return replies.decode(await bodies.read(request), decoder.decode)
  except (replies.OutsideContract, replies.NotJson) as error:
    raise DataError(f'The request cannot be read: {error}') from error
