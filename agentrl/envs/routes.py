"""AgentGym's HTTP routes over one environment, without AgentGym's leaks.

Failures are answered with a 4xx or 5xx status and `{"error": ...}`; episodes
that nobody uses are closed when their lease runs out; their number is limited.
Beyond the original: GET /health, /metrics, /available_actions and /expert.
"""

import asyncio
import base64
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from absl import logging
from aiohttp import web

from agentrl import plugins
from agentrl.envs import EnvSpec, dialect, faults, requests
from agentrl.envs.base import Env, EnvFactory
from agentrl.envs.live_episodes import (
    GivenUp,
    LiveEpisode,
    LiveEpisodes,
    TooManyEpisodes,
    UnknownEpisode,
)
from agentrl.envs.metrics import EnvMetrics
from agentrl.envs.options import EnvServerOptions
from agentrl.envs.requests import Refusal
from agentrl.errors import AgentrlError, EnvFault
from agentrl.http import auth, errors, surrogates
from agentrl.http.errors import Handler

# Threads beyond those of the factory, in place of such as never come back from a call.
_SPARE = 32
_PATIENCE = 0.25  # share of a deadline after which a call's place is others'
# Texts of an environment may have half of a surrogate pair.
_json = functools.partial(web.json_response, dumps=surrogates.dumps)


class _DeadlineExceeded(Exception):
  """A call into an environment took too long."""


class EnvRoutes:
  """The handlers of one environment's server and what they share.

  Args:
    spec: the environment.
    factory: makes its environments; closed at the end.
    serving: whether the expert is offered, and limits of episodes and calls.
    tasks: started by /create, where it starts anything.
    token: what a request must carry as `Authorization: Bearer TOKEN`, but for
      /health; None: nothing.
  """

  def __init__(
      self,
      spec: EnvSpec,
      factory: EnvFactory,
      serving: EnvServerOptions,
      *,
      tasks: Sequence[int] = (),
      token: str | None = None,
  ):
    self._spec = spec
    self._dialect = spec.dialect
    self._serving = serving
    self._token = token
    self._factory = factory
    self._episodes = LiveEpisodes(
        spec.name,
        self._factory.make,
        slots=self._factory.slots,
        max_episodes=serving.max_episodes,
        lease_s=serving.lease_s,
    )
    self._metrics = EnvMetrics(spec.name, self._episodes, self._factory)
    self._tasks = tasks
    self._pool = ThreadPoolExecutor(
        self._factory.threads + _SPARE, thread_name_prefix=spec.name
    )
    self._free = asyncio.Semaphore(self._factory.threads)
    self._stuck: set[asyncio.Future] = set()  # calls beyond their deadline

  def app(self) -> web.Application:
    """The application; its start and end open and close what it needs."""
    app = web.Application(
        client_max_size=requests.MAX_BODY_BYTES,
        middlewares=[
            errors.middleware(
                self._answer, lambda reply: self._metrics.errors.inc()
            ),
            self._authorize,
        ],
    )
    app.add_routes([
        web.get('/', self._name),
        web.get('/health', self._health),
        web.get('/metrics', self._metrics.handle),
        web.post('/create', self._create),
        web.post('/reset', self._reset),
        web.post('/step', self._step),
        web.post('/close', self._close),
        web.get('/observation', self._observation),
        web.get('/detail', self._detail),
        web.get('/available_actions', self._available_actions),
    ])
    for name in self._dialect.queries:
      app.router.add_get(f'/{name}', self._query)
    if self._dialect.renders:
      app.router.add_post('/render', self._render)
    if self._serving.expert:
      app.router.add_get('/expert', self._expert_action)
    app.cleanup_ctx.append(self._run)
    return app

  async def _run(self, app: web.Application) -> AsyncIterator[None]:
    """Sweeps expired leases while the application runs."""
    del app
    sweeper = asyncio.create_task(self._sweep())
    yield
    sweeper.cancel()
    with contextlib.suppress(asyncio.CancelledError):
      await sweeper
    # A call that still runs is waited for: its environment is in use. One that is
    # beyond its deadline may never come back.
    await asyncio.to_thread(
        self._pool.shutdown, wait=not self._stuck, cancel_futures=True
    )
    await self._episodes.close_all(self._serving.deadline_s)
    await asyncio.to_thread(self._factory.close)

  async def _sweep(self) -> None:
    while True:
      await asyncio.sleep(min(self._serving.lease_s / 4, 10.0))
      self._metrics.lease_expiries.inc(self._episodes.close_expired())

  def _answer(self, request: web.Request, error: Exception) -> web.Response:
    headers, message, fault = {}, str(error), {}
    match error:
      case Refusal():
        status = error.status
        if status == 401:
          headers['WWW-Authenticate'] = 'Bearer'
      case UnknownEpisode():
        status = 404
      case TooManyEpisodes():
        status = 429
        headers['Retry-After'] = '1'
      case GivenUp():
        status = 409
      case _DeadlineExceeded():
        self._metrics.deadlines.inc()
        status = 504
      case EnvFault():
        logging.error('%s', error, exc_info=error)
        status, fault = 500, {'fault': True}
      case AgentrlError():  # the environment names what is wrong
        status = 422
      case web.HTTPRequestEntityTooLarge():
        status = error.status
        message = f'The request has more than {requests.MAX_BODY_BYTES} bytes.'
      case web.HTTPException():  # aiohttp's own: 404, 405
        status, message = error.status, error.reason
      case _:
        logging.exception('%s %s failed', request.method, request.path)
        status, fault = 500, {'fault': True}
        message = f'{self._spec.name} server: {plugins.words(error)}'
    response = _json({'error': message} | fault, status=status, headers=headers)
    if request.content.exception() is not None:
      response.force_close()  # the start of the next request is unknown
    return response

  @web.middleware
  async def _authorize(
      self, request: web.Request, handler: Handler
  ) -> web.StreamResponse:
    if (
        self._token is None
        or request.path == '/health'
        or auth.is_authorized(request, self._token)
    ):
      return await handler(request)
    raise Refusal(
        401, 'This server wants its token: "Authorization: Bearer TOKEN".'
    )

  async def _name(self, request: web.Request) -> web.Response:
    return _json(dialect.own_greeting(self._spec.name))

  async def _health(self, request: web.Request) -> web.Response:
    return _json({
        'status': 'ok',
        'env': self._spec.name,
        'data_version': self._spec.data_version,
        'live': len(self._episodes),
        'running': self._episodes.running,
        'queued': self._episodes.queued,
    })

  async def _create(self, request: web.Request) -> web.Response:
    if request.can_read_body:
      # Its fields are unused, but what is not JSON is refused.
      await requests.read_body(request)
    number, live = self._episodes.create()
    reply = {self._dialect.episode_key: number}
    if self._dialect.create_resets:
      task_id = self._tasks[number % len(self._tasks)]
      async with live.lock:
        reply |= await self._start(request, number, task_id, 0)
    return _json(number if self._dialect.created_key is None else reply)

  async def _reset(self, request: web.Request) -> web.Response:
    body = await requests.read_body(request)
    number = requests.integer(body, self._dialect.episode_key)
    live = self._episodes.get(number)
    task_id = requests.integer(
        body, self._dialect.task_key, self._dialect.default_task
    )
    seed = requests.integer(body, 'seed', 0)
    async with live.lock:
      reply = await self._start(request, number, task_id, seed)
    if not self._dialect.prompt_keys:
      return _json(reply['observation'])
    return _json({self._dialect.episode_key: number} | reply)

  async def _step(self, request: web.Request) -> web.Response:
    body = await requests.read_body(request)
    number = requests.integer(body, self._dialect.episode_key)
    live = self._episodes.get(number)
    action = requests.text(body, 'action')
    async with live.lock:
      _check_started(live)
      if live.ended:
        raise Refusal(409, 'The episode has ended; reset it first.')
      start = time.perf_counter()
      live.steps += 1
      result = await self._call(number, live, 'step', action)
      self._metrics.step_seconds.observe(time.perf_counter() - start)
      live.observation, live.reward = result.observation, result.reward
      live.score += result.reward
      live.ended = result.terminated or result.truncated
      if live.ended:
        self._episodes.release(live)
    reply = {
        'observation': result.observation,
        'reward': result.reward,
        'done': live.ended,
        'success': result.success,
        'terminated': result.terminated,
        'truncated': result.truncated,
        **self._dialect.step_extra,
    }
    if result.progress is not None:
      reply['progress'] = result.progress
    if self._dialect.has_score:
      reply['score'] = live.score
    return _json(reply | live.details)

  async def _close(self, request: web.Request) -> web.Response:
    number = requests.integer(
        await requests.read_body(request), self._dialect.episode_key
    )
    closed, key = False, self._dialect.closed_key
    with contextlib.suppress(UnknownEpisode):  # a second close says false
      live = self._episodes.get(number)
      if live.waiting is not None:  # it has nothing to be waited for
        closed = await self._end(number)
      else:
        async with live.lock:  # not under a step's feet
          closed = await self._end(number)
    return _json(closed if key is None else {key: closed})

  async def _end(self, number: int) -> bool:
    """Ends an episode and waits for it; False if it is not live."""
    closing = self._episodes.close(number)
    if closing is None:
      return False
    await asyncio.wait([closing])  # which a client that leaves does not cancel
    return True

  async def _observation(self, request: web.Request) -> web.Response:
    live = self._queried(request)
    if self._dialect.observation_is_state:
      return _json(live.state)
    return _json(live.observation)

  async def _detail(self, request: web.Request) -> web.Response:
    return _json(self._queried(request).state)

  async def _available_actions(self, request: web.Request) -> web.Response:
    actions = await self._ask_running(request, 'available_actions')
    return _json({'available_actions': actions})

  async def _query(self, request: web.Request) -> web.Response:
    number = self._queried_number(request)
    live = self._episodes.get(number)
    async with live.lock:
      _check_started(live)
      answer = await self._call(number, live, 'query', request.path.strip('/'))
    return _json(answer)

  async def _render(self, request: web.Request) -> web.Response:
    number = requests.integer(
        await requests.read_body(request), self._dialect.episode_key
    )
    live = self._episodes.get(number)
    async with live.lock:
      _check_started(live)
      png = await self._call(number, live, 'picture')
    data = base64.b64encode(png).decode()
    return _json(f'data:image/png;base64,{data}')

  async def _expert_action(self, request: web.Request) -> web.Response:
    action = await self._ask_running(request, 'expert_action')
    return _json({'action': action})

  async def _ask_running(self, request: web.Request, method: str) -> Any:
    """The value of a method of the episode's environment, while it runs."""
    number = self._queried_number(request)
    live = self._episodes.get(number)
    async with live.lock:
      if not live.started or live.ended:
        raise Refusal(409, 'The episode is not running; reset it first.')
      return await self._call(number, live, method)

  async def _start(
      self, request: web.Request, number: int, task_id: int, seed: int
  ) -> dict[str, Any]:
    live = self._episodes.get(number)
    live.started, live.steps = False, 0  # until it worked
    await self._episodes.admit(live)
    try:
      if request.transport is None or request.transport.is_closing():
        # Nobody waits for the answer: do not keep others from running.
        raise Refusal(499, 'The client went away.')
      observation = await self._call(number, live, 'reset', task_id, seed)
    except BaseException:
      self._episodes.release(live)
      raise
    live.started, live.ended = True, False
    live.observation, live.reward, live.score = observation, 0.0, 0.0
    self._metrics.resets.inc()
    reply = {'observation': observation, 'reward': 0.0, 'done': False}
    if self._dialect.has_score:
      reply |= {'score': 0.0, 'deleted': False}
    return reply | live.details

  async def _call(
      self, number: int, live: LiveEpisode, method: str, *args: Any
  ) -> Any:
    """Calls a method of an environment without holding up other requests.

    Raises:
      EnvFault: it raised what no environment raises on purpose, or returned
        what `base.Env` does not allow; says where.
      _DeadlineExceeded: it took too long; the episode was closed.
    """
    place = f'step {live.steps}' if live.steps else method
    where = f'environment {self._spec.name}, {place}'
    try:
      value = await self._reply(number, live.env, method, *args)
    except EnvFault as error:  # of a worker
      raise EnvFault(f'{error} ({where})') from error
    except (AgentrlError, _DeadlineExceeded):
      raise
    except Exception as error:  # the edge: a user's code may raise anything
      raise EnvFault(f'{plugins.words(error)} ({where})') from error
    faults.check(method, value, where)
    return value

  async def _reply(self, number: int, env: Env, method: str, *args: Any) -> Any:
    """The value of a method of an environment, within the deadline."""
    function = getattr(env, method)
    if method in self._factory.inline:
      return function(*args)
    deadline_s = self._serving.deadline_s
    call = await self._in_thread(deadline_s, function, *args)
    if call is not None:
      return call.result()
    self._episodes.close(number)
    raise _DeadlineExceeded(
        f'The environment did not answer within {deadline_s:g} s; the'
        ' episode was closed.'
    )

  async def _in_thread(
      self, deadline_s: float, function: Callable[..., Any], *args: Any
  ) -> asyncio.Future | None:
    """The call of a function in a thread, once it is done; None: it takes longer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    try:
      async with asyncio.timeout_at(deadline):
        await self._free.acquire()
    except TimeoutError:
      return None
    call = loop.run_in_executor(self._pool, function, *args)
    free = lambda _: self._free.release()
    call.add_done_callback(free)
    patience_s = _PATIENCE * (deadline - loop.time())
    done, _ = await asyncio.wait([call], timeout=patience_s)
    if not done:
      # It may hang for ever: others get its place, in good time before their deadline.
      call.remove_done_callback(free)
      self._free.release()
      done, _ = await asyncio.wait([call], timeout=deadline - loop.time())
    if done:
      return call
    self._stuck.add(call)
    call.add_done_callback(self._came_back)
    return None

  def _came_back(self, call: asyncio.Future) -> None:
    """Forgets a call that was given up; nobody looks at what it failed by."""
    self._stuck.discard(call)
    if not call.cancelled():
      call.exception()

  def _queried(self, request: web.Request) -> LiveEpisode:
    return self._episodes.get(self._queried_number(request))

  def _queried_number(self, request: web.Request) -> int:
    return requests.queried(request, self._dialect.episode_key)


def _check_started(live: LiveEpisode) -> None:
  if not live.started:
    raise Refusal(409, 'The episode has no task yet; reset it first.')
