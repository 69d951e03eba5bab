"""Reading SGLang's replies: completions, errors, and invalid bodies.

Bodies are decoded into the structures below. Keys that these do not name are
ignored, since releases differ in them; what they name must have its type. A
server that answers otherwise, whatever it says, gives an EngineError.
"""

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, TypeVar

import aiohttp
import msgspec
from msgspec import Meta, Raw, Struct

from agentrl.errors import EngineError, EngineRefusal, one_line
from agentrl.http import replies
from agentrl.types import Completion

T = TypeVar('T')

# The longest part of a server's body that an error message repeats.
_BODY_CHARS = 300
# Larger than any reply: a completion has 100 bytes a token, and 100 rows of the
# widest matrix fill 40 MB.
_MAX_BODY = 2**26
# A probability of 1 may have a logarithm above 0. In torch on a CPU, with which
# SGLang serves here, neither of its two ways does: the largest of 60,000 rows is
# 0. A kernel that divides approximately may give 1 + 1.2e-7, and one that does
# not shift its sum of exponentials is off by 6e-5 at logits of 1,000.
_ROUNDING = 1e-3

# JSON's numbers have no end, those of others do.
Count = Annotated[int, Meta(ge=0, le=2**53)]
_Id = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
# Log-probability (null for NaN), id, and the token's text, if it was asked for.
_Triple = tuple[float | None, _Id, Raw]


class _Finish(Struct):
  """The cause of a completion's end."""

  type: str
  message: Any = None  # of an abort


class _Span(Struct):
  """Ids of a completion, `[start, end)`, that one version of weights sampled."""

  version: str | int
  start: Count
  end: Count


class _MetaInfo(Struct):
  """Metadata of a completion; one that was still queued has no counts."""

  finish_reason: _Finish
  output_token_logprobs: list[_Triple]
  weight_version: str | int
  id: str | None = None
  weight_versions: list[_Span] | None = None
  prompt_tokens: Count | None = None
  completion_tokens: Count | None = None
  cached_tokens: Count | None = None


class _Generated(Struct):
  """A reply of /generate to a request of a run."""

  meta_info: _MetaInfo


class LooseMeta(Struct):
  """The part of `meta_info` that a router may have lost."""

  id: str | None = None
  output_token_logprobs: list[_Triple] | None = None


class _ScoredMeta(Struct):
  finish_reason: _Finish
  input_token_logprobs: list[_Triple]
  id: str | None = None


class _Scored(Struct):
  """A reply of /generate to a request that samples nothing."""

  meta_info: _ScoredMeta


class Loose(Struct):
  """A reply of /generate to a request that tries a server out."""

  output_ids: list[_Id]
  meta_info: LooseMeta


class Done(Struct):
  """The outcome of a command."""

  success: bool
  message: Any = None


class DoneAdapter(Struct):
  """A reply of the routes of adapters."""

  success: bool = True
  error_message: Any = None


class Load(Struct):
  """Requests at a server; releases up to 0.5.20 count both in one number."""

  num_reqs: Count | None = None
  num_running_reqs: Count | None = None
  num_waiting_reqs: Count | None = None

  def __post_init__(self):
    # A server without counts must not look idle.
    if self.num_reqs is None:
      if None in (self.num_running_reqs, self.num_waiting_reqs):
        raise ValueError('neither num_reqs nor both of its parts are numbers')

  @property
  def total(self) -> int:
    if self.num_reqs is not None:
      return self.num_reqs
    running, waiting = self.num_running_reqs, self.num_waiting_reqs
    assert running is not None and waiting is not None  # see `__post_init__`
    return running + waiting


class Loads(Struct):
  """A reply of /v1/loads."""

  loads: list[Load]


class _Worker(Struct):
  url: str


class RouterWorkers(Struct):
  """A router's servers."""

  workers: list[_Worker]


class _Rank(Struct):
  checksums: dict[str, str | int]


class Checksums(Struct):
  """Hashes of tensors, of each rank by itself."""

  ranks: list[_Rank]


class _Card(Struct):
  id: str


class Models(Struct):
  """A reply of /v1/models."""

  data: list[_Card]


# A reply of /get_weights_by_name; `Any`, since to mypy a union is no `type`.
Rows: Any = list[float | list[float]] | None


class Aborted(EngineError):
  """The server ended the request before its time; worth another try.

  Attributes:
    num_tokens: sampled until then.
  """

  def __init__(self, message: str, num_tokens: int):
    super().__init__(message)
    self.num_tokens = num_tokens


async def read_body(response: aiohttp.ClientResponse, url: str) -> bytes:
  """Reads a body of any content type and encoding.

  Raises:
    EngineError: it is longer than any reply.
  """
  try:
    return await replies.read(response, _MAX_BODY)
  except replies.TooLong as error:
    raise EngineRefusal(
        f'{url} answers with more than {_MAX_BODY >> 20} MiB, which no reply'
        f' of SGLang has. It begins: {excerpt(error.body)}'
    ) from error


def excerpt(body: bytes) -> str:
  """The beginning of a body, on one line."""
  return replies.excerpt(body, _BODY_CHARS)


def reason(body: bytes) -> str:
  """The server's own words, from any of SGLang's three error bodies."""
  try:
    reply = msgspec.json.decode(body)
    # {'error': text}, {'error': {'message': text}} or {'message': text}; of the
    # routes of adapters {'error_message': text}.
    if isinstance(reply, dict):
      reply = reply.get('error', reply)
    if isinstance(reply, dict):
      reply = reply.get('message', reply.get('error_message', reply))
    return one_line(reply, _BODY_CHARS)
  except (ValueError, RecursionError):  # no JSON, or numbers without an end
    return excerpt(body)


def decode(body: bytes, url: str, type: type[T]) -> T:
  """Reads a JSON body of a type.

  Raises:
    EngineError: it is something else; names the field, where one is wrong.
  """
  try:
    return replies.decode(
        body, functools.partial(msgspec.json.decode, type=type)
    )
  except replies.OutsideContract as error:
    _refuse(url, str(error), body, error)
  except replies.NotJson as error:
    if b'NaN' in body or b'Infinity' in body:
      raise EngineError(
          f'{url} answered with a number that is none, NaN or Infinity: the'
          ' weights or the kernels of the server are broken. It said:'
          f' {excerpt(body)}'
      ) from error
    raise EngineRefusal(
        f'{url} did not answer with JSON ({error}); is an SGLang server there?'
        f' It said: {excerpt(body)}'
    ) from error


def _refuse(
    url: str, why: str, body: bytes, cause: Exception | None = None
) -> NoReturn:
  raise EngineRefusal(
      f'{url} answered outside its contract ({why}): {excerpt(body)}'
  ) from cause


def read_completion(
    body: bytes,
    url: str,
    latency_s: float,
    *,
    max_new_tokens: int,
    vocab_size: int | None = None,
    partial: bool = False,
    rid: str | None = None,
) -> Completion:
  """Reads a /generate reply; ids and log-probabilities from the same triples.

  `output_ids` and the text may be trimmed at a stop; the triples never are.

  Args:
    body: what the server said.
    url: of the server.
    latency_s: for the record.
    max_new_tokens: as they were asked for.
    vocab_size: of the policy; ids are below it. None: not known.
    partial: whether what was sampled before an abort is an answer; if that is
      nothing, there is no answer in any case.
    rid: name of the request; None: it has none.

  Raises:
    Aborted: the server ended it.
    EngineError: not as the contract says, or to another request.
  """
  url = f'{url}/generate'
  meta = decode(body, url, _Generated).meta_info
  finish = meta.finish_reason
  tokens = tuple(token for _, token, _ in meta.output_token_logprobs)
  if finish.type == 'abort' and not (partial and tokens):
    raise Aborted(
        f'{url} was aborted: {str(finish.message)[:_BODY_CHARS]}', len(tokens)
    )
  _check_request(meta.id, rid, url)
  if finish.type not in ('stop', 'length', 'abort'):
    raise EngineRefusal(
        f'{url} gave the unknown finish reason {finish.type[:40]!r}.'
    )
  if meta.prompt_tokens is None:
    _refuse(url, 'meta_info has no prompt_tokens', body)
  if not tokens or len(tokens) != meta.completion_tokens:
    raise EngineRefusal(
        f'{url} gave {len(tokens)} scored ids and counted'
        f' {meta.completion_tokens}; both should be the same and at least 1.'
    )
  if len(tokens) > max_new_tokens:
    raise EngineRefusal(
        f'{url} gave {len(tokens)} tokens where max_new_tokens was'
        f' {max_new_tokens}, the most it may sample.'
    )
  return Completion(
      tokens=tokens,
      logprobs=_logprobs(meta.output_token_logprobs, url, vocab_size),
      finish_reason=finish.type,
      weight_version=str(meta.weight_version),
      prompt_tokens=meta.prompt_tokens,
      cached_tokens=meta.cached_tokens,
      latency_s=latency_s,
      spans=_spans(meta.weight_versions or [], len(tokens), url),
  )


def _spans(
    spans: Sequence[_Span], count: int, url: str
) -> tuple[tuple[str, int], ...]:
  """(version, ids) of each span; none where one version sampled all."""
  # Servers before 0.5.19 report none.
  if len(spans) < 2:
    return ()
  ends = [0, *(span.end for span in spans)]
  if [span.start for span in spans] != ends[:-1] or ends[-1] != count:
    raise EngineRefusal(
        f'{url} gave weight_versions from {[span.start for span in spans][:8]}'
        f' to {ends[1:9]}, which are not {count} ids one after the other.'
    )
  return tuple((str(span.version), span.end - span.start) for span in spans)


def read_ids(body: bytes, url: str) -> list[int]:
  """The ids of a prompt that a server has scored."""
  meta = decode(body, url, _Scored).meta_info
  return [token for _, token, _ in meta.input_token_logprobs]


def _check_request(answered: str | None, rid: str | None, url: str) -> None:
  """Refuses the reply to another request: its ids continue another transcript.

  A second try may get its own.
  """
  if rid is not None and answered != rid:
    raise EngineError(
        f'{url} answered request {rid!r} with the reply to {answered!r:.80};'
        ' does something between repeat or mix replies? Name the server'
        ' itself.'
    )


def read_scores(
    body: bytes, url: str, ids: Sequence[int], *, rid: str | None = None
) -> tuple[float, ...]:
  """Reads the log-probabilities of ids of a prompt but the first of them.

  Args:
    body: what the server said.
    url: of the server.
    ids: those that it was to score, after one that it repeats.
    rid: see `read_completion`.

  Raises:
    Aborted: the server ended it.
    EngineError: not as the contract says, or about other ids.
  """
  url = f'{url}/generate'
  meta = decode(body, url, _Scored).meta_info
  if meta.finish_reason.type == 'abort':
    raise Aborted(
        f'{url} was aborted: {str(meta.finish_reason.message)[:_BODY_CHARS]}', 0
    )
  _check_request(meta.id, rid, url)
  told = [token for _, token, _ in meta.input_token_logprobs]
  if told != list(ids):
    raise EngineRefusal(
        f'{url} scored {len(told)} ids where {len(ids)} others were asked for.'
    )
  return _logprobs(meta.input_token_logprobs[1:], url, None)


def _logprobs(
    triples: list[_Triple], url: str, vocab_size: int | None
) -> tuple[float, ...]:
  """The log-probabilities of sampled ids.

  Raises:
    EngineError: one of them, or an id, is impossible.
  """
  limit = math.inf if vocab_size is None else vocab_size
  logprobs: list[float] = []
  for index, (logprob, token, _) in enumerate(triples):
    if not 0 <= token < limit:
      raise EngineRefusal(
          f'{url} gave the id {token} at index {index}, outside the'
          f' vocabulary of {limit}; was the server started with the model of'
          ' this run?'
      )
    if logprob is None or logprob > _ROUNDING:
      raise EngineError(
          f'{url} gave the log-probability {logprob!r} for id {token} at index'
          f' {index}; the weights or the kernels of the server are broken.'
      )
    logprobs.append(logprob)
  return tuple(logprobs)
