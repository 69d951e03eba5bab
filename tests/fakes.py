"""Stand-ins for what the rollout talks to: an engine, an environment, a policy.

The engine is a real HTTP server on loopback, because the edge is what it is
there to test. The others are objects with the interface of the real ones.
"""

import asyncio
import contextlib
import http.server
import random
import threading
import time

from aiohttp import web

from agentrl.errors import EnvError
from agentrl.types import (
    HORIZON,
    TERMINATED,
    Completion,
    Episode,
    Group,
    StepResult,
    Turn,
)


def pseudo_sample(input_ids, seed, max_new_tokens):
  """Ids that depend on everything a deterministic engine depends on."""
  rng = random.Random(f'{list(input_ids)}/{seed}')
  return [rng.randrange(100) for _ in range(min(max_new_tokens, 5))]


def generate_reply(tokens, *, prompt_tokens=1, finish=None, **meta):
  """A /generate reply of SGLang with made-up log-probabilities."""
  return {
      'text': '',
      'output_ids': list(tokens),
      'meta_info': {
          'finish_reason': finish or {'type': 'stop', 'matched': 2},
          'prompt_tokens': prompt_tokens,
          'completion_tokens': len(tokens),
          'cached_tokens': 0,
          'weight_version': 'default',
          'output_token_logprobs': [
              [-0.25 * (i + 1), token, None] for i, token in enumerate(tokens)
          ],
          **meta,
      },
  }


class FakeEngine:
  """An SGLang server whose next answers can be scripted.

      async with FakeEngine([web.Response(status=500)]) as engine:
        Sampler(session, [engine.url], ...)

  `script` answers the first requests to /generate, one each; an entry may be a
  response, a reply to encode, or a coroutine function of the request. Once it
  is used up, `pseudo_sample` answers.

  Attributes:
    requests: bodies of all /generate requests, in order of arrival.
    calls: routes of all other requests, with their bodies.
  """

  def __init__(self, script=(), *, routes=None):
    self._script = list(script)
    self._routes = routes or {}
    self.requests = []
    self.headers = []
    self.calls = []

  async def __aenter__(self):
    app = web.Application()
    app.router.add_post('/generate', self._generate)
    app.router.add_route('*', '/{route}', self._control)
    app.router.add_route('*', '/v1/{route}', self._control)
    # As SGLang does, end what a client no longer waits for.
    self._runner = web.AppRunner(
        app, handler_cancellation=True, shutdown_timeout=0.1
    )
    await self._runner.setup()
    site = web.TCPSite(self._runner, '127.0.0.1', 0)
    await site.start()
    host, port = self._runner.addresses[0][:2]
    self.url = f'http://{host}:{port}'
    return self

  async def __aexit__(self, *exc_info):
    await self._runner.cleanup()

  async def _generate(self, request):
    body = await request.json()
    self.requests.append(body)
    self.headers.append(dict(request.headers))
    answer = self._script.pop(0) if self._script else None
    if answer is None:
      params = body['sampling_params']
      tokens = pseudo_sample(
          body['input_ids'], params['sampling_seed'], params['max_new_tokens']
      )
      answer = generate_reply(tokens, prompt_tokens=len(body['input_ids']))
    if callable(answer):
      answer = await answer(request)
    if isinstance(answer, dict):
      if isinstance(meta := answer.get('meta_info'), dict):
        answer = answer | {'meta_info': {'id': body.get('rid', 'x'), **meta}}
      answer = web.json_response(answer)
    return answer

  async def _control(self, request):
    route = request.match_info['route']
    body = await request.json() if request.can_read_body else None
    self.calls.append((route, body))
    answer = self._routes.get(route, web.Response(status=404, text='no route'))
    if callable(answer):
      answer = await answer(request)
    if not isinstance(answer, web.StreamResponse):
      answer = web.json_response(answer)
    return answer


def chat_reply(text, *, finish='stop', usage=(5, 2, 1), **fields):
  """A reply of /chat/completions; `usage`: prompt, completion, cached tokens."""
  message = {'role': 'assistant', 'content': text}
  reply = {
      'id': 'x',
      'object': 'chat.completion',
      'model': 'm',
      'choices': [{'index': 0, 'message': message, 'finish_reason': finish}],
  }
  if usage is not None:
    prompt, completion, cached = usage
    reply['usage'] = {
        'prompt_tokens': prompt,
        'completion_tokens': completion,
        'total_tokens': prompt + completion,
        'prompt_tokens_details': {'cached_tokens': cached},
    }
  return reply | fields


class FakeChat:
  """An OpenAI-compatible endpoint whose answers are scripted.

  `script` answers the requests one by one: a response, a reply to encode, or a
  coroutine function of the request. `then` answers those after them: text, or a
  function from the messages to one.

  Attributes:
    requests: bodies of all chats, in order of arrival.
    headers: of each.
    times: of each, on the monotonic clock.
  """

  def __init__(self, script=(), *, then='go', models=('m', 'other')):
    self._script = list(script)
    self._then = then
    self._models = models
    self.requests, self.headers, self.times = [], [], []

  async def __aenter__(self):
    app = web.Application()
    app.router.add_post('/v1/chat/completions', self._chat)
    app.router.add_get('/v1/models', self._list)
    self._runner = web.AppRunner(
        app, handler_cancellation=True, shutdown_timeout=0.1
    )
    await self._runner.setup()
    site = web.TCPSite(self._runner, '127.0.0.1', 0)
    await site.start()
    host, port = self._runner.addresses[0][:2]
    self.url = f'http://{host}:{port}/v1'
    return self

  async def __aexit__(self, *exc_info):
    await self._runner.cleanup()

  async def _chat(self, request):
    body = await request.json()
    self.requests.append(body)
    self.headers.append(dict(request.headers))
    self.times.append(time.monotonic())
    answer = self._script.pop(0) if self._script else None
    if answer is None:
      then = self._then
      text = then(body['messages']) if callable(then) else then
      answer = chat_reply(text)
    if callable(answer):
      answer = await answer(request)
    if isinstance(answer, web.Response):  # each can be sent once
      return web.Response(
          status=answer.status, body=answer.body, headers=answer.headers
      )
    if not isinstance(answer, web.StreamResponse):
      answer = web.json_response(answer)
    return answer

  async def _list(self, request):
    del request
    if self._models is None:
      return web.Response(status=404)
    return web.json_response({'data': [{'id': name} for name in self._models]})


class FakeEnv:
  """A corridor: `task_id` actions 'go' reach the end, which gives reward 1.

  `fails` maps a method name to the error that it raises. `live` counts open
  environments, over all of them.
  """

  def __init__(self, *, fails=None, step_s=0.0, live=None, cut_after=None):
    self._fails = fails or {}
    self._step_s = step_s
    self._live = live if live is not None else set()
    self._cut_after = cut_after
    self.actions = []

  def _enter(self, method):
    if method in self._fails:
      raise self._fails[method]

  async def __aenter__(self):
    self._enter('create')
    self._live.add(id(self))
    return self

  async def __aexit__(self, *exc_info):
    await asyncio.sleep(0)  # a cancelled close has to survive an await
    self._live.discard(id(self))

  async def reset(self, task_id, seed=None):
    self._enter('reset')
    self._left = task_id
    return f'Walk {task_id} steps.'

  async def step(self, action):
    self._enter('step')
    await asyncio.sleep(self._step_s)
    self.actions.append(action)
    if action == 'go':
      self._left -= 1
    done = self._left == 0
    return StepResult(
        observation='You arrived.' if done else f'{self._left} to go.',
        reward=float(done),
        terminated=done,
        truncated=len(self.actions) == self._cut_after,
        success=done,
    )

  async def picture(self):
    self._enter('picture')
    return b'PNG after %d' % len(self.actions)

  async def expert_action(self):
    self._enter('expert_action')
    return 'go'


class FakePolicy:
  """Says what it was given, id by id, and remembers what it was asked."""

  def __init__(self, completions, *, repeat=True):
    self._completions = [tuple(ids) for ids in completions]
    self._repeat = repeat
    self.requests = []

  async def generate(self, input_ids, *, max_new_tokens, **request):
    index = len(self.requests)
    self.requests.append(
        dict(request, input_ids=tuple(input_ids), max_new_tokens=max_new_tokens)
    )
    ids = self._completions[index % len(self._completions)]
    kept = ids[:max_new_tokens]
    return Completion(
        tokens=kept,
        logprobs=tuple(-0.5 - 0.01 * i for i in range(len(kept))),
        finish_reason='stop' if kept == ids else 'length',
        weight_version='7',
        prompt_tokens=len(input_ids),
        cached_tokens=0,
        latency_s=0.0,
    )


def make_turn(reward=0.0, completion_tokens=2, **fields):
  """A turn in which only what is named matters."""
  values = dict(
      completion='go',
      action='go',
      parse_error=None,
      observation='on',
      reward=reward,
      finish_reason='stop',
      prompt_tokens=4,
      cached_tokens=0,
      completion_tokens=completion_tokens,
      weight_version='0',
      sampler_s=0.0,
      env_s=0.0,
  )
  return Turn(**(values | fields))


def make_episode(rewards=(0.0,), **fields):
  """An episode of four prompt ids, then two sampled and one inserted a turn."""
  turns = tuple(make_turn(reward) for reward in rewards)
  mask = (False,) * 4 + (True, True, False) * len(turns)
  values = dict(
      episode_id='e',
      env='fake',
      task_id=0,
      split='train',
      seed=0,
      policy_version=0,
      horizon=10,
      stop_reason=TERMINATED,
      success=sum(rewards) > 0,
      prompt=(),
      turns=turns,
      tokens=tuple(range(len(mask))),
      completion_mask=mask,
      sampler_logprobs=tuple(-0.5 if value else 0.0 for value in mask),
  )
  return Episode(**(values | fields))


def make_group(*returns, task_id=0, ordinal=0):
  """A group of one-turn episodes with these returns; None is a failed one."""
  return Group(
      task_id=task_id,
      ordinal=ordinal,
      episodes=tuple(
          make_episode(
              (value or 0.0,),
              stop_reason='env_error' if value is None else HORIZON,
              error='down' if value is None else None,
          )
          for value in returns
      ),
  )


@contextlib.contextmanager
def no_waiting_tasks():
  """Fails when a block leaves asyncio tasks behind."""
  before = asyncio.all_tasks()
  yield
  assert asyncio.all_tasks() == before


def env_down(message='the environment is down'):
  return EnvError(message)


@contextlib.contextmanager
def page_server(body, seen=None, **headers):
  """A web server that says the same to everybody; its URL.

  Args:
    body: of each reply.
    seen: gets path and Authorization of each request.
    **headers: of each reply.
  """

  class Handler(http.server.BaseHTTPRequestHandler):

    def do_GET(self):
      if seen is not None:
        seen.append((self.path, self.headers.get('Authorization')))
      self.send_response(200)
      for item in headers.items():
        self.send_header(*item)
      self.end_headers()
      self.wfile.write(body)

    def log_message(self, *args):
      pass

  with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler) as server:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
      yield f'http://127.0.0.1:{server.server_port}'
    finally:
      server.shutdown()
      thread.join()
