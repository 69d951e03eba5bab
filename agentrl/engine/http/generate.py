"""The route /generate: one answer, or a stream of chunks."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from absl import logging
from aiohttp import web

from agentrl.engine.http import bodies, body_fields, errors, lengths, replies
from agentrl.engine.http.bodies import Call
from agentrl.engine.http.detokenize import GrowingText
from agentrl.engine.http.errors import BodyError, ContractError
from agentrl.engine.http.replies import Sent
from agentrl.engine.http.submissions import Submissions
from agentrl.engine.request import RequestLimits, Result
from agentrl.text.tokenizer import Tokenizer

# Threads that read large bodies; more would only share the processor.
_READERS = 2

T = TypeVar('T')


class Generate:
  """The handler of /generate; the OpenAI routes read and stream through it."""

  def __init__(
      self,
      submissions: Submissions,
      limits: RequestLimits,
      tokenizer: Tokenizer | None,
      *,
      incremental: bool,
      stream_interval: int,
  ):
    """Keeps what the route needs.

    Args:
      submissions: runs the requests.
      limits: what requests are checked against.
      tokenizer: None takes and gives ids only.
      incremental: chunks hold what is new instead of all so far.
      stream_interval: default of the tokens between two chunks.
    """
    self.submissions = submissions
    self.limits = limits
    self.tokenizer = tokenizer
    self._incremental = incremental
    self._stream_interval = stream_interval
    self._readers = concurrent.futures.ThreadPoolExecutor(
        _READERS, 'engine-reader'
    )

  def close(self) -> None:
    """Ends the threads that read large bodies."""
    self._readers.shutdown(wait=False, cancel_futures=True)

  async def handle(self, request: web.Request) -> web.StreamResponse:
    """POST or PUT /generate."""
    body = await body_fields.read_json(request)
    try:
      # Encoding and checking are the server's: a bad request costs no dispatch.
      call = await self.read(request, lambda: self.parse(body))
      if call.stream:
        return await self._stream(request, call)
    except (BodyError, ContractError):
      raise
    except ValueError as error:
      if isinstance(body, dict) and body.get('stream') is True:
        # SGLang too refuses values inside the stream, which is open by then.
        return await send_events(request, _only(stream_error(str(error), 400)))
      raise
    results = await self.submissions.finish(call.requests)
    failed = replies.failure(results)
    if failed is not None:
      status, message = failed
      return errors.refusal(message, status)
    return web.json_response(replies.write(call, results, self._decode_one))

  async def read(
      self,
      request: web.Request,
      function: Callable[[], T],
      *,
      slow: bool = False,
  ) -> T:
    """`function()`, in another thread if it is slow, or the request's body large.

    To tokenize megabytes takes seconds, in which the loop has to serve others.
    """
    if not slow and len(await request.read()) < body_fields.LARGE:
      return function()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(self._readers, function)

  def parse(self, body: Any) -> Call:
    """Reads a body; see `bodies.parse`."""
    encode = None
    if self.tokenizer is not None:
      # As SGLang: with the tokens that the model's files put around a prompt.
      encode = functools.partial(
          self.tokenizer.encode, allow_special=True, whole=True
      )
      text = body.get('text') if isinstance(body, dict) else None
      # All of them before the first is tokenized.
      for part in text if isinstance(text, list) else [text]:
        if isinstance(part, str):
          lengths.check(part, self.tokenizer, self.limits.max_len)
    return bodies.parse(body, self.limits, encode)

  @property
  def _decode_one(self) -> replies.DecodeOne:
    """Gives the text of one id, control tokens too."""
    tokenizer = self.tokenizer
    if tokenizer is None:
      return None
    return lambda token: tokenizer.decode([token], skip_special=False)

  async def chunks(
      self, call: Call
  ) -> AsyncGenerator[tuple[int, Result, Sent], None]:
    """Yields (index, all there is so far, what was sent before).

    The text of an unfinished result is what no later token can change.
    """
    texts: list[GrowingText | None] = [None] * len(call.requests)
    if self.tokenizer is not None:
      texts = [GrowingText(self.tokenizer, r) for r in call.requests]
    sent = [Sent()] * len(call.requests)
    async with contextlib.aclosing(
        self.submissions.follow(call.requests)
    ) as results:
      async for index, result in results:
        if result.finish_reason is None:
          interval = call.stream_intervals[index] or self._stream_interval
          if len(result.output_ids) - sent[index].tokens < interval:
            continue
          growing = texts[index]
          if growing is not None:
            text = growing.update(result.output_ids)
            result = dataclasses.replace(result, text=text)
        yield index, result, sent[index]
        sent[index] = Sent(len(result.output_ids), result.text or '')

  async def _stream(
      self, request: web.Request, call: Call
  ) -> web.StreamResponse:
    async def events():
      async with contextlib.aclosing(self.chunks(call)) as chunks:
        async for index, result, sent in chunks:
          before = sent if self._incremental else None
          yield replies.chunk(
              call,
              index,
              result,
              before,
              self._decode_one,
              first=not sent.tokens,
          )

    return await send_events(request, events())


async def _only(value: Any) -> AsyncGenerator[Any, None]:
  yield value


async def send_events(
    request: web.Request, events: AsyncGenerator[Any, None]
) -> web.StreamResponse:
  """Sends JSON values as server-sent events, and `[DONE]` after them.

  A failure before the first event is raised, for the caller to answer.
  """
  async with contextlib.aclosing(events):
    first = await anext(events)
    response = web.StreamResponse(
        headers={
            'Content-Type': 'text/event-stream; charset=utf-8',
            'Cache-Control': 'no-cache',
        }
    )
    with contextlib.suppress(ConnectionResetError):  # the client has gone
      await response.prepare(request)
      await response.write(_event(first))
      try:
        async for event in events:
          await response.write(_event(event))
      except ConnectionResetError:
        raise
      except (
          Exception
      ) as error:  # too late for a status, and yet a client reads
        logging.exception('A stream failed.')
        await response.write(_event(stream_error(f'{error!r}', 500)))
      await response.write(b'data: [DONE]\n\n')
      await response.write_eof()
  return response


def stream_error(message: str, status: int) -> dict[str, Any]:
  """An event that reports a failure in place of a chunk."""
  return {
      'error': {
          'message': message,
          'type': 'invalid_request_error',
          'code': status,
          'retryable': False,
      }
  }


def _event(value: Any) -> bytes:
  return b'data: ' + json.dumps(value).encode() + b'\n\n'
