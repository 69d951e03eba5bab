"""Async client of OpenAI-compatible chat endpoints: messages in, text out.

It stands beside the client of SGLang's API, and not in `evaluation/`, because
`rollout/` plays with it and judges are asked by it.
"""

import asyncio
import dataclasses
import random
import time
from collections.abc import Sequence
from typing import Any, Protocol

import aiohttp
from absl import logging

from agentrl.errors import EngineError, EngineRefusal
from agentrl.inference.chat_endpoint import ChatEndpoint, Unreachable
from agentrl.inference.chat_replies import Overloaded
from agentrl.inference.options import ChatOptions
from agentrl.types import Message, TextCompletion


class ChatPolicy(Protocol):
  """Continues a conversation: a `ChatClient`, an expert, a random policy."""

  async def complete(
      self,
      messages: Sequence[Message],
      *,
      max_completion_tokens: int,
      seed: int,
  ) -> TextCompletion:
    """The message of the assistant that follows `messages`."""


@dataclasses.dataclass
class Usage:
  """Sums over the completions of a client.

  Attributes:
    requests: tries.
    retries: tries that failed and were repeated.
    completions: replies with a completion.
    unreported: those of them whose tokens the endpoint did not report; the sums
      below lack them.
    prompt_tokens: the cached ones included.
    cached_tokens: where the endpoint reports them.
    completion_tokens: with the tokens of a reasoning.
    cost: see `ChatOptions.cost`; 0 without prices.
  """

  requests: int = 0
  retries: int = 0
  completions: int = 0
  unreported: int = 0
  prompt_tokens: int = 0
  cached_tokens: int = 0
  completion_tokens: int = 0
  cost: float = 0.0

  def add(self, completion: TextCompletion, cost: float | None) -> None:
    self.completions += 1
    counts = completion.prompt_tokens, completion.completion_tokens
    if None in counts:
      self.unreported += 1
    self.prompt_tokens += completion.prompt_tokens or 0
    self.cached_tokens += completion.cached_tokens or 0
    self.completion_tokens += completion.completion_tokens or 0
    self.cost += cost or 0.0


class ChatClient:
  """One model behind a chat endpoint; a `ChatPolicy`.

      client = ChatClient(session, options)
      await client.check()
      completion = await client.complete(messages, max_completion_tokens=64,
                                         seed=7)

  The caller limits how many requests run at a time. When the server asks one of
  them to wait, all of them wait.

  Attributes:
    usage: sums since the start.
  """

  def __init__(
      self,
      session: aiohttp.ClientSession,
      options: ChatOptions,
      *,
      usage: Usage | None = None,
  ):
    """Reads the key; connects to nothing yet.

    Args:
      session: the caller's; give its connector `limit=0`.
      options: of the endpoint.
      usage: sums to add to, where clients share them; None: sums of its own.

    Raises:
      ConfigError: the options contradict each other, or there is no key.
    """
    options.check()
    options.check_named()
    self._options = options
    self._endpoint = ChatEndpoint(session, options)
    self._resume_at = 0.0  # on the monotonic clock: no request before
    self.usage = Usage() if usage is None else usage

  async def check(self, max_completion_tokens: int) -> None:
    """Refuses a wrong address, key or model before the first episode.

    One short completion is paid for: some endpoints lack /models, and others
    answer it without a key.

    Args:
      max_completion_tokens: as episodes will ask for. A reasoning model may
        refuse a limit of a few tokens.

    Raises:
      EngineError: the endpoint cannot be reached, which is not tried again, or
        refuses; says the way out.
    """
    hello = [Message('user', 'Say hello.')]
    await self._complete(
        self._body(hello, max_completion_tokens, 0), first=True
    )

  async def complete(
      self,
      messages: Sequence[Message],
      *,
      max_completion_tokens: int,
      seed: int,
  ) -> TextCompletion:
    """The message of the assistant that follows `messages`.

    A try that fails for a reason of the moment (429, 5xx, no connection, no
    answer in time) is repeated with the same body, after the pause that the
    server names, else after one that doubles with each try.

    Args:
      messages: the conversation so far.
      max_completion_tokens: limit of the completion, its reasoning included.
      seed: of this request, sent where `ChatOptions.send_seed` is set. Few
        endpoints promise to repeat themselves.

    Raises:
      ContextExceeded: the conversation does not fit the model's context.
      EngineError: all tries failed, or the request was refused.
    """
    return await self._complete(
        self._body(messages, max_completion_tokens, seed)
    )

  async def _complete(
      self, body: dict[str, Any], first: bool = False
  ) -> TextCompletion:
    start = time.perf_counter()
    completion = await self._post(body, first)
    completion = dataclasses.replace(
        completion, latency_s=time.perf_counter() - start
    )
    self.usage.add(completion, self._options.cost(*_counts(completion)))
    return completion

  def _body(
      self, messages: Sequence[Message], limit: int, seed: int
  ) -> dict[str, Any]:
    options = self._options
    body: dict[str, Any] = {
        'model': options.model,
        'messages': [dataclasses.asdict(message) for message in messages],
        options.limit_name: limit,
    }
    if options.temperature is not None:
      body['temperature'] = options.temperature
    if options.send_seed:
      body['seed'] = seed
    return body | (options.extra or {})

  async def _post(self, body: dict[str, Any], first: bool) -> TextCompletion:
    """Sends a body until it is answered, refused or tried often enough.

    Args:
      body: of the request.
      first: True fails at once where no connection can be opened: the address
        is more likely wrong than its server away.
    """
    attempts = self._options.attempts
    for attempt in range(1, attempts + 1):
      await self._wait()
      self.usage.requests += 1
      try:
        return await self._endpoint.post(body)
      except EngineError as error:
        if first and isinstance(error, Unreachable):
          raise EngineRefusal(
              f'{error}. Is api.url={self._options.url!r} the address of a'
              ' server that runs?'
          ) from error
        if not error.retryable or attempt == attempts:
          raise
        pause = self._pause(error, attempt)
        self.usage.retries += 1
        logging.warning('Try %d of %d: %s', attempt, attempts, error)
      await asyncio.sleep(pause)
    raise AssertionError('The last try returns or raises.')

  async def _wait(self) -> None:
    """Waits while the server wants no request."""
    if (left := self._resume_at - time.monotonic()) > 0:
      await asyncio.sleep(left + random.uniform(0, self._options.backoff_s))

  def _pause(self, error: EngineError, attempt: int) -> float:
    """Seconds until the next try, with jitter: clients must not come at once.

    Raises:
      EngineError: the server asks for a longer pause than is allowed.
    """
    options = self._options
    pause_s = error.retry_after_s if isinstance(error, Overloaded) else None
    jitter = random.uniform(0.5, 1.0) * options.backoff_s
    if pause_s is None:
      return min(2 ** min(attempt - 1, 30) * jitter, options.max_wait_s)
    if pause_s > options.max_wait_s:
      raise EngineError(
          f'{error} It asks to wait {pause_s:g} s, longer than'
          f' api.max_wait_s={options.max_wait_s:g}; raise that, or come later.'
      ) from error
    self._resume_at = max(self._resume_at, time.monotonic() + pause_s)
    return pause_s + min(jitter, options.max_wait_s)


def _counts(completion: TextCompletion) -> tuple[int | None, ...]:
  return (
      completion.prompt_tokens,
      completion.cached_tokens,
      completion.completion_tokens,
  )
