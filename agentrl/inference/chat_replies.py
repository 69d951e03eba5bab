"""Reading the replies of OpenAI-compatible endpoints, which may be anybody's.

A reply becomes a `TextCompletion`, or an EngineError that says whether another
try may succeed. Keys that no structure names are ignored, since servers differ
in them.
"""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from agentrl.errors import EngineError, EngineRefusal, one_line
from agentrl.http import replies
from agentrl.types import TextCompletion

MAX_BYTES = 8 * 2**20  # of a reply, unpacked
_MAX_CHARS = 2**21  # of a completion
_SHOWN = 300  # characters of a server's words that an error repeats
_NAMED = 20  # models that an error names
# Of the moment, beside those of 500 and above.
_COME_AGAIN = (408, 409, 425, 429)
# No standard code: OpenAI, vLLM, SGLang, llama.cpp and Anthropic each have words
# of their own.
_TOO_LONG = re.compile(
    r'context[ _-]?(length|window|size)|prompt is too long'
    r'|(prompt|input)\b.{0,60}\blonger than\b.{0,60}\b(context|maximum)',
    re.IGNORECASE | re.DOTALL,
)

# Request fields that some endpoints refuse.
_WAYS_OUT = {
    'temperature': 'api.temperature=None sends none',
    'seed': 'api.send_seed=False sends none',
    'max_completion_tokens': (
        "api.limit_name='max_tokens' sends the other limit"
    ),
    'max_tokens': (
        "api.limit_name='max_completion_tokens' sends the other limit"
    ),
}

_MANY = Meta(ge=0, le=2**53)
# Some servers write 12.0; see `_count`.
Count = Annotated[int, _MANY] | Annotated[float, _MANY]

# Of a reply whose server says nothing of how it ended.
UNKNOWN = 'unknown'

# Types of parts whose text is what the model answers, and whose is not.
_TEXTS = {'text': 'text', 'output_text': 'text', 'refusal': 'refusal'}
_THOUGHTS = ('thinking', 'reasoning', 'redacted_thinking')


class ContextExceeded(EngineRefusal):
  """The conversation does not fit the context of the model."""


class Overloaded(EngineError):
  """A failure of the moment.

  Attributes:
    retry_after_s: pause that the server asks for; None: it names none.
  """

  def __init__(self, message: str, retry_after_s: float | None = None):
    super().__init__(message)
    self.retry_after_s = retry_after_s


class _Details(Struct):
  cached_tokens: Count | None = None


class _Usage(Struct):
  prompt_tokens: Count | None = None
  completion_tokens: Count | None = None
  prompt_tokens_details: _Details | None = None


class _Message(Struct):
  content: Annotated[str, Meta(max_length=_MAX_CHARS)] | list[Any] | None = None
  refusal: Annotated[str, Meta(max_length=_MAX_CHARS)] | None = None
  tool_calls: list[Any] | None = None


class _Choice(Struct):
  message: _Message
  finish_reason: Annotated[str, Meta(max_length=80)] | None = None


class _Chat(Struct):
  """A reply of /chat/completions."""

  choices: list[_Choice]
  usage: _Usage | None = None
  model: Any = None
  system_fingerprint: Any = None
  metadata: Any = None  # of our engine: names the weights


class _Failed(Struct):
  """An error body: `{"error": ...}`, or the fields of an error alone."""

  error: Any = None
  message: Any = None
  detail: Any = None  # of FastAPI
  type: Any = None
  code: Any = None
  object: Any = None


class _Card(Struct):
  id: Annotated[str, Meta(max_length=200)]


class _Cards(Struct):
  data: list[_Card]


_CHAT = msgspec.json.Decoder(_Chat)
_FAILED = msgspec.json.Decoder(_Failed)
_CARDS = msgspec.json.Decoder(_Cards)


def completion(body: bytes, request: str) -> TextCompletion:
  """Reads the body of a reply with status 200.

  A completion may be empty: a reasoning that used all of its tokens, a filter.
  The words of a refusal are its text; reasoning beside it is not, nor are calls
  of tools beside words.

  Args:
    body: of the reply.
    request: the request, for errors.

  Raises:
    EngineError: it is an error, or not a chat completion.
  """
  check_error_body(body, request)
  try:
    reply = replies.decode(body, _CHAT.decode)
  except replies.OutsideContract as error:
    raise EngineRefusal(
        f'{request} gave JSON outside its contract ({error}): {_shown(body)}'
    ) from error
  except replies.NotJson as error:
    raise EngineRefusal(
        f'{request} gave no JSON ({error}); api.url must be the address of an'
        f' OpenAI-compatible endpoint, up to /v1. It said: {_shown(body)}'
    ) from error
  if not reply.choices:
    raise EngineError(f'{request} gave no choice: {_shown(body)}')
  choice = reply.choices[0]
  usage = reply.usage or _Usage()
  details = usage.prompt_tokens_details or _Details()
  prompt = _count('prompt_tokens', usage.prompt_tokens, request)
  return TextCompletion(
      text=_text(choice.message, request),
      finish_reason=choice.finish_reason or UNKNOWN,
      weight_version=_version(reply),
      prompt_tokens=prompt,
      cached_tokens=_cached(details.cached_tokens, prompt, request),
      completion_tokens=_count(
          'completion_tokens', usage.completion_tokens, request
      ),
      latency_s=0.0,  # the caller has the clock
  )


def _text(message: _Message, request: str) -> str:
  """What the model answers.

  Raises:
    EngineRefusal: it only calls a tool, or holds what is no text.
  """
  content = message.content
  if isinstance(content, list):
    content = ''.join(_part(part, request) for part in content)
  content = content or message.refusal or ''
  if len(content) > _MAX_CHARS:
    raise EngineRefusal(
        f'{request} gave {len(content)} characters; at most {_MAX_CHARS} are'
        ' read.'
    )
  if not content.strip() and message.tool_calls:
    raise EngineRefusal(
        f'{request} gave a call of a tool and no text, and no tool was offered;'
        " switch off the server's tool parser, or choose another model."
    )
  return content


def _part(part: Any, request: str) -> str:
  """The answer in a part of a content; '' of a thought."""
  if isinstance(part, str):
    return part
  kind = part.get('type', 'text') if isinstance(part, dict) else None
  kind = kind if isinstance(kind, str) else None
  if kind in _THOUGHTS:
    return ''
  text = part.get(_TEXTS[kind]) if kind in _TEXTS else None
  if not isinstance(text, str):
    raise EngineRefusal(
        f'{request} gave content with a part that is no text:'
        f' {str(part)[:_SHOWN]}'
    )
  return text


def _count(name: str, value: float | None, request: str) -> int | None:
  """A whole number of tokens, however it is written."""
  if value is None:
    return None
  if value == int(value):
    return int(value)
  raise EngineRefusal(f'{request} counted {name}={value}.')


def _version(reply: _Chat) -> str:
  if isinstance(reply.metadata, dict) and 'weight_version' in reply.metadata:
    return str(reply.metadata['weight_version'])[:200]
  names = (reply.model, reply.system_fingerprint)
  return ' '.join(str(name)[:200] for name in names if name)


def _cached(
    value: float | None, prompt: int | None, request: str
) -> int | None:
  cached = _count('cached_tokens', value, request)
  if cached is None or prompt is None:
    return None
  if cached > prompt:
    raise EngineRefusal(
        f'{request} counted {cached} cached tokens in a prompt of {prompt}.'
    )
  return cached


def check_error_body(body: bytes, request: str) -> None:
  """Refuses an error that came with status 200, by the code that it names."""
  if b'"error"' not in body:
    return
  try:
    failed = _FAILED.decode(body)
  except (ValueError, RecursionError):  # other JSON, or none
    return
  # Ours and vLLM's are {"object": "error", "message": ...}.
  if failed.error is None and failed.object != 'error':
    return
  code = _code(failed)
  status = 400 if _TOO_LONG.search(f'{code} {words(body)}') else 500
  if re.fullmatch('[45][0-9]{2}', code):
    status = int(code)
  raise refused(status, body, f'{request} gave 200 with the error')


def check_type(status: int, content_type: str, request: str) -> None:
  """Refuses a page or a stream in place of a reply, before it is read."""
  if status == 200 and content_type in ('text/html', 'text/event-stream'):
    raise EngineRefusal(
        f'{request} gave {content_type} and not JSON; api.url must be the'
        ' address of an OpenAI-compatible endpoint, up to /v1.'
    )


def refused(
    status: int, body: bytes, request: str, retry_after_s: float | None = None
) -> EngineError:
  """The error of a reply with such a status.

  Args:
    status: 400 or above.
    body: of the reply.
    request: the request and its outcome, for the message.
    retry_after_s: pause that the server asks for.

  Returns:
    `ContextExceeded`, `Overloaded` where another try may succeed, or an
    `EngineRefusal`.
  """
  reason = words(body)
  message = f'{request}: {reason}'
  code = _code(_failed(body))
  if status in (400, 413, 422) and _TOO_LONG.search(f'{code} {reason}'):
    return ContextExceeded(message)
  if code == 'insufficient_quota':
    return EngineRefusal(f'{message} Another try would be refused as well.')
  if status in _COME_AGAIN or status >= 500:
    return Overloaded(message, retry_after_s)
  return EngineRefusal(message)


def words(body: bytes) -> str:
  """The server's own words, from any form of an error body, in one line."""
  failed = _failed(body)
  text = failed.error if failed.error is not None else failed.message
  if isinstance(text, dict):
    text = text.get('message', text)
  if text is None:
    text = failed.detail
  if text is None:
    return _shown(body)
  return one_line(text, _SHOWN)


def unknown_field(body: bytes) -> str:
  """A sentence about the request field that an error names; '' without one."""
  text = words(body)
  for name, way_out in _WAYS_OUT.items():
    if re.search(rf'\b{name}\b', text):
      return f' {way_out}.'
  return ''


def models(body: bytes) -> list[str]:
  """Names in a reply of /models, sorted; empty where it is something else."""
  try:
    return sorted({card.id for card in _CARDS.decode(body).data})
  except (ValueError, RecursionError):
    return []


def listed(names: list[str]) -> str:
  """Names of models in a sentence."""
  more = len(names) - _NAMED
  return ', '.join(names[:_NAMED]) + (f' and {more} more' if more > 0 else '')


def _failed(body: bytes) -> _Failed:
  try:
    return _FAILED.decode(body)
  except (ValueError, RecursionError):  # a page of a proxy, say
    return _Failed()


def _code(failed: _Failed) -> str:
  """The code that an error body names; '' without one."""
  error = failed.error if isinstance(failed.error, dict) else {}
  for code in (error.get('code'), failed.code, error.get('type')):
    if isinstance(code, str | int) and not isinstance(code, bool):
      return str(code)[:80]
  return ''


def _shown(body: bytes) -> str:
  return replies.excerpt(body, _SHOWN)
