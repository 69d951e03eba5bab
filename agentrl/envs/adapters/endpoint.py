"""The OpenAI endpoint of agent programs: their requests wait for the policy."""

import asyncio
import json
import math
import pathlib
import queue
import secrets
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp.web

from agentrl.envs import functions as functions_lib
from agentrl.envs.functions import Function
from agentrl.http import tools as tools_lib
from agentrl.http.thread import HttpThread

_ROLES = {'system', 'developer', 'user', 'assistant', 'tool'}
_MODEL = 'policy'
# What reading a request of any JSON may raise.
_UNREADABLE = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
)
_USAGE = {'prompt_tokens': 0, 'completion_tokens': 0, 'total_tokens': 0}


class Ask:
  """A request for a completion, which waits for its answer."""

  def __init__(self, body: Mapping[str, Any]):
    """Reads the body of /v1/chat/completions; raises ValueError."""
    messages = body.get('messages')
    if not isinstance(messages, list):
      raise ValueError('messages must be a list')
    self.sent: list[Any] = messages
    self.messages = [message_of(x) for x in self.sent]
    if not self.messages or self.messages[-1]['role'] == 'assistant':
      raise ValueError('messages must end with one to the assistant')
    self.functions = tuple(_function(x) for x in body.get('tools') or ())
    if body.get('n') not in (None, 1):
      raise ValueError('n must be 1')
    self.stream = bool(body.get('stream'))
    options = body.get('stream_options') or {}
    self.usage = bool(options.get('include_usage'))
    self._loop = asyncio.get_running_loop()
    self._answer: asyncio.Future[str] = self._loop.create_future()

  async def answer(self) -> str:
    """The action that the policy answers with."""
    return await self._answer

  def resolve(self, action: str) -> None:
    """Answers, from any thread; nothing where the program has gone."""

    def settle() -> None:
      if not self._answer.done():
        self._answer.set_result(action)

    self._loop.call_soon_threadsafe(settle)

  def fail(self) -> None:
    """Ends the wait of a program whose episode is over."""
    self._loop.call_soon_threadsafe(self._answer.cancel)


class Session:
  """The requests and the reward of one run of a program."""

  def __init__(self):
    self.events: queue.Queue[Ask] = queue.Queue()
    self.reward: tuple[float, bool | None] | None = None
    self.over = False


class Endpoint:
  """The routes that programs speak to: a base URL for each session.

  Attributes:
    log: what programs print.
  """

  def __init__(self):
    self._sessions: dict[str, Session] = {}
    app = aiohttp.web.Application(client_max_size=2**26)
    app.router.add_post('/sessions/{id}/v1/chat/completions', self._chat)
    app.router.add_get('/sessions/{id}/v1/models', self._models)
    app.router.add_post('/sessions/{id}/reward', self._reward)
    self._folder = tempfile.TemporaryDirectory(prefix='agentrl-programs-')
    self.log = pathlib.Path(self._folder.name) / 'log.txt'
    self._thread = HttpThread(app)
    self._port = self._thread.start('127.0.0.1', 0)

  def open(self) -> tuple[str, Session]:
    """A new session, and its base URL."""
    name, session = secrets.token_hex(16), Session()
    self._sessions[name] = session
    return f'http://127.0.0.1:{self._port}/sessions/{name}/v1', session

  def end(self, url: str) -> None:
    """Forgets a session."""
    self._sessions.pop(url.split('/')[-2], None)

  def close(self) -> None:
    self._thread.stop()
    self._folder.cleanup()

  def _session(self, request: aiohttp.web.Request) -> Session:
    session = self._sessions.get(request.match_info['id'])
    if session is None or session.over:
      raise aiohttp.web.HTTPGone(
          text='{"error": {"message": "This episode is over."}}'
      )
    return session

  async def _chat(
      self, request: aiohttp.web.Request
  ) -> aiohttp.web.StreamResponse:
    session = self._session(request)
    try:
      ask = Ask(await request.json())
    except _UNREADABLE as error:
      return _refusal(f'{type(error).__name__}: {error}')
    session.events.put(ask)
    action = await ask.answer()
    message = reply_of(action, ask.functions)
    reason = 'tool_calls' if message.get('tool_calls') else 'stop'
    common = {
        'id': f'chatcmpl-{uuid.uuid4().hex}',
        'created': int(time.time()),
        'model': _MODEL,
    }
    if not ask.stream:
      choice = {'index': 0, 'message': message, 'finish_reason': reason}
      return aiohttp.web.json_response(
          common
          | {'object': 'chat.completion', 'choices': [choice], 'usage': _USAGE}
      )
    response = aiohttp.web.StreamResponse(
        headers={'Content-Type': 'text/event-stream'}
    )
    await response.prepare(request)
    if calls := message.get('tool_calls'):
      message = message | {
          'tool_calls': [{'index': i} | call for i, call in enumerate(calls)]
      }
    chunk = lambda choices, **more: common | {
        'object': 'chat.completion.chunk',
        'choices': choices,
        **more,
    }
    events = [
        chunk([{'index': 0, 'delta': message, 'finish_reason': None}]),
        chunk([{'index': 0, 'delta': {}, 'finish_reason': reason}]),
    ]
    if ask.usage:
      events.append(chunk([], usage=_USAGE))
    for event in events:
      await response.write(f'data: {json.dumps(event)}\n\n'.encode())
    await response.write(b'data: [DONE]\n\n')
    await response.write_eof()
    return response

  async def _models(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
    self._session(request)
    card = {
        'id': _MODEL,
        'object': 'model',
        'created': 0,
        'owned_by': 'agentrl',
    }
    return aiohttp.web.json_response({'object': 'list', 'data': [card]})

  async def _reward(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
    session = self._session(request)
    try:
      body = await request.json()
      reward, success = float(body['reward']), body.get('success')
      verdict = success is None or isinstance(success, bool)
      if not math.isfinite(reward) or not verdict:
        raise ValueError('reward must be a finite number, success a boolean')
    except _UNREADABLE as error:
      return _refusal(
          f'{{"reward": 1.0, "success": true}} is what is posted: {error}'
      )
    session.reward = reward, success
    return aiohttp.web.json_response({'reward': reward})


def _refusal(words: str) -> aiohttp.web.Response:
  error = {'message': words, 'type': 'invalid_request_error'}
  return aiohttp.web.json_response({'error': error}, status=400)


def message_of(message: Mapping[str, Any]) -> dict[str, Any]:
  """A message of a request in few words: role and content, or a call."""
  role = message.get('role')
  if role not in _ROLES:
    raise ValueError(f'a message has the role {role!r}')
  calls = message.get('tool_calls')
  if calls:
    if len(calls) > 1:
      raise ValueError('a message has several tool calls; the policy makes one')
    call = calls[0]['function']
    arguments = json.loads(call['arguments'] or '{}')
    return {
        'role': role,
        'call': functions_lib.write_call(call['name'], arguments),
    }
  content = message.get('content')
  if isinstance(content, list):
    content = ''.join(str(part['text']) for part in content)
  if content is not None and not isinstance(content, str):
    raise ValueError('content must be a text, or a list of text parts')
  role = 'system' if role == 'developer' else role
  return {'role': role, 'content': content or ''}


def _function(tool: Mapping[str, Any]) -> Function:
  function = tool['function']
  name, schema = function['name'], function.get('parameters') or {}
  properties = schema.get('properties', {})
  if not isinstance(name, str) or not isinstance(properties, Mapping):
    raise ValueError("a tool must have a name, a text, and its schema's fields")
  return functions_lib.of_tool(
      name,
      function.get('description'),
      schema or {'type': 'object', 'properties': {}},
  )


def reply_of(action: str, functions: Sequence[Function]) -> dict[str, Any]:
  """The assistant's message that an action is."""
  call = functions_lib.called(functions, action)
  if call is None:
    return {'role': 'assistant', 'content': action}
  return {
      'role': 'assistant',
      'content': None,
      'tool_calls': [tools_lib.call(*call)],
  }
