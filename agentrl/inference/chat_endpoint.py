"""One HTTP exchange with an OpenAI-compatible endpoint."""

import datetime
import json
import os
import urllib.parse
from typing import Any

import aiohttp

from agentrl.errors import ConfigError, EngineError, EngineRefusal, one_line
from agentrl.http import auth, replies, retry_after
from agentrl.inference import chat_replies
from agentrl.inference.options import ChatOptions
from agentrl.types import TextCompletion

_MODELS_S = 20.0  # limit of GET /models


def read_key(options: ChatOptions) -> str | None:
  """The API key; None where the options name none.

  Raises:
    ConfigError: the file or the variable does not hold one.
  """
  if options.token_file:
    return auth.read_token(options.token_file)
  if not options.token_variable:
    return None
  key = os.environ.get(options.token_variable, '').strip()
  if not key or not key.isascii() or not key.isprintable():
    raise ConfigError(
        f'api.token_variable names {options.token_variable}, which holds no key'
        ' of visible ASCII characters; export it, or set api.token_file.'
    )
  return key


class Unreachable(EngineError):
  """No connection to the endpoint could be opened."""


class _Refused(EngineRefusal):
  """A refusal by status, to which a way out is to be added."""

  def __init__(self, message: str, status: int, content: bytes):
    super().__init__(message)
    self.status, self.content = status, content


class ChatEndpoint:
  """Sends requests to one endpoint, each once, and reads what comes back."""

  def __init__(self, session: aiohttp.ClientSession, options: ChatOptions):
    """Reads the key; connects to nothing yet.

    Args:
      session: open HTTP session.
      options: of the endpoint, checked; they name its model.

    Raises:
      ConfigError: there is no key where the options say.
    """
    url, model = options.url, options.model
    assert url is not None and model is not None  # see `check_named`
    self._session = session
    self._options = options
    self._url, self._model = url.rstrip('/'), model
    self._key = read_key(options)

  async def post(self, body: dict[str, Any]) -> TextCompletion:
    """The completion for the body of a chat request.

    Raises:
      EngineError: no answer, a failure or a refusal, with the server's words and
        never with the key.
    """
    try:
      return await self._post(body)
    except _Refused as error:
      way_out = await self._way_out(error)
      message = str(self._without_key(error))
      if way_out and message[-1:] not in '.!?':
        message += '.'
      raise EngineRefusal(f'{message}{way_out}') from None
    except EngineError as error:
      raise self._without_key(error) from None

  async def _post(self, body: dict[str, Any]) -> TextCompletion:
    url = f'{self._url}/chat/completions'
    request = f'POST {url}'
    status, headers, content = await self._exchange(
        'POST', url, self._options.timeout_s, body
    )
    if status == 200:
      return chat_replies.completion(content, request)
    if 300 <= status < 400:
      raise EngineRefusal(
          f'{request} leads to {headers.get("Location", "")[:200]!r}; set'
          ' api.url to the address itself: keys are sent to no other.'
      )
    wait_s = retry_after.parse(
        headers.get('Retry-After'), datetime.datetime.now(datetime.UTC)
    )
    error = chat_replies.refused(
        status, content, f'{request} gave {status}', wait_s
    )
    if error.retryable or isinstance(error, chat_replies.ContextExceeded):
      raise error
    raise _Refused(str(error), status, content)

  def _without_key(self, error: EngineError) -> EngineError:
    """The error without the key, which some servers repeat."""
    if self._key is not None:
      error.args = tuple(
          arg.replace(self._key, '***') if isinstance(arg, str) else arg
          for arg in error.args
      )
    return error

  async def _way_out(self, refused: _Refused) -> str:
    """A sentence about what to change after a refusal."""
    options, content = self._options, refused.content
    if refused.status in (401, 403):
      if options.token_file:
        return f' Its key is that of api.token_file={options.token_file!r}.'
      if options.token_variable:
        return f' Its key is that of the variable {options.token_variable}.'
      return ' No key was sent: set api.token_file or api.token_variable.'
    if field := chat_replies.unknown_field(content):
      return field
    if (
        refused.status != 404
        and 'model' not in chat_replies.words(content).lower()
    ):
      return ''
    names = await self._models()
    if not names:
      return (
          f' api.model={options.model!r}; api.url={options.url!r}, which should'
          ' end in /v1 or the like.'
      )
    if options.model in names:
      return f' It does list the model {options.model!r}.'
    return (
        f' It does not list api.model={options.model!r}, but'
        f' {chat_replies.listed(names)}.'
    )

  async def _models(self) -> list[str]:
    """Names of models; empty where the endpoint does not list them."""
    try:
      status, _, content = await self._exchange(
          'GET', f'{self._url}/models', _MODELS_S
      )
    except EngineError:
      return []
    return chat_replies.models(content) if status == 200 else []

  async def card(self) -> dict[str, Any]:
    """The endpoint's card of its model; {} where it has none.

    Raises:
      Unreachable: no connection could be opened.
    """
    name = urllib.parse.quote(self._model)
    url = f'{self._url}/models/{name}'
    try:
      status, _, content = await self._exchange('GET', url, _MODELS_S)
      reply = json.loads(content) if status == 200 else {}
    except Unreachable as error:
      raise self._without_key(error) from None
    except (EngineError, ValueError, RecursionError):
      return {}  # chats may work all the same
    return reply if isinstance(reply, dict) else {}

  async def _exchange(
      self, method: str, url: str, timeout_s: float, body: Any = None
  ) -> tuple[int, Any, bytes]:
    """Status, headers and body of one reply.

    Raises:
      EngineError: no answer, or one that is too long.
    """
    try:
      async with self._session.request(
          method,
          url,
          data=None if body is None else json.dumps(body).encode(),
          headers=auth.headers(self._key)
          | {'Content-Type': 'application/json'},
          timeout=aiohttp.ClientTimeout(total=timeout_s),
          allow_redirects=False,
      ) as response:
        chat_replies.check_type(
            response.status, response.content_type, f'{method} {url}'
        )
        content = await replies.read(response, chat_replies.MAX_BYTES)
        return response.status, response.headers, content
    except replies.TooLong as error:
      raise EngineRefusal(
          f'{method} {url} gave more than {chat_replies.MAX_BYTES} bytes; is it'
          f' an OpenAI-compatible endpoint? {replies.excerpt(error.body, 200)}'
      ) from error
    except aiohttp.InvalidURL as error:
      raise EngineRefusal(f'{url} is no address; correct api.url.') from error
    except TimeoutError as error:
      raise EngineError(
          f'{method} {url} gave no answer within {timeout_s:g} s.'
      ) from error
    except aiohttp.ClientError as error:
      lost = isinstance(error, aiohttp.ClientConnectorError)
      raise (Unreachable if lost else EngineError)(
          f'{method} {url} failed: {type(error).__name__}'
          f' {one_line(error, 200)}'
      ) from error
