"""Async client of SGLang's native HTTP API: token ids in, token ids out.

The embedded engine speaks the same contract, so nothing here knows which of the
two it talks to. Weight pushes and other control calls go to every replica,
because SGLang's router does not hand them on.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
from absl import logging

from agentrl.errors import ConfigError, EngineError
from agentrl.rollout import replies, seeds
from agentrl.types import Completion


class Policy(Protocol):
  """Whatever continues a transcript: a `Sampler`, an expert, a test's fake."""

  async def generate(
      self,
      input_ids: Sequence[int],
      *,
      max_new_tokens: int,
      seed: int,
      stop_token_ids: Sequence[int] = (),
      rid: str | None = None,
      routing_key: str | None = None,
  ) -> Completion:
    """Continues `input_ids` by at least one token."""


class Sampler:
  """One policy behind one or more inference servers with the same weights.

      sampler = Sampler(session, [url], temperature=1.0)
      await sampler.wait_ready(60)
      completion = await sampler.generate(ids, max_new_tokens=64, seed=7)

  The session is the caller's; give its connector `limit=0`, since aiohttp's
  default of 100 connections would quietly cap the concurrency.
  """

  def __init__(
      self,
      session: aiohttp.ClientSession,
      urls: Sequence[str],
      *,
      temperature: float,
      top_p: float = 1.0,
      top_k: int = -1,
      timeout_s: float = 300.0,
      max_attempts: int = 4,
      backoff_s: float = 0.5,
      api_key: str | None = None,
  ):
    """Keeps the settings; connects to nothing yet.

    Args:
      session: open HTTP session.
      urls: base URLs of the replicas, at least one.
      temperature: of sampling; 0 is greedy. The reported log-probabilities are
        taken at this temperature, so the trainer has to apply it too.
      top_p: 1 is off. Below 1, what is reported is not what was sampled from.
      top_k: -1 is off; as `top_p`.
      timeout_s: limit of one HTTP exchange.
      max_attempts: tries of one request before `EngineError`.
      backoff_s: pause before the second try; doubles with each further one.
      api_key: sent as a bearer token.

    Raises:
      ConfigError: a value is out of range.
    """
    if not urls:
      raise ConfigError('A sampler needs at least one URL; got none.')
    for url in urls:
      if not url.startswith(('http://', 'https://')):
        raise ConfigError(
            f'Sampler URL {url!r} must start with http:// or https://.'
        )
    if max_attempts < 1:
      raise ConfigError(f'max_attempts must be at least 1, got {max_attempts}.')
    self._session = session
    self._urls = tuple(url.rstrip('/') for url in urls)
    self._sampling_params = {
        'temperature': temperature,
        'top_p': top_p,
        'top_k': top_k,
    }
    self._timeout_s = timeout_s
    self._max_attempts = max_attempts
    self._backoff_s = backoff_s
    self._headers = {'Authorization': f'Bearer {api_key}'} if api_key else {}
    self._next_replica = itertools.count()
    self._serial = itertools.count()

  async def generate(
      self,
      input_ids: Sequence[int],
      *,
      max_new_tokens: int,
      seed: int,
      stop_token_ids: Sequence[int] = (),
      rid: str | None = None,
      routing_key: str | None = None,
  ) -> Completion:
    """Samples a continuation of `input_ids`.

    A try that fails for a reason of the moment (5xx, no connection, timeout,
    aborted by a weight push) is repeated with the same seed, on the next
    replica where there are several. A refusal (4xx) is not repeated.

    Args:
      input_ids: the whole transcript so far.
      max_new_tokens: limit, at least 1; the caller subtracts from the context.
      seed: of this request; the same seed gives the same tokens where the
        server is deterministic.
      stop_token_ids: ids that end the completion; kept as its last id.
      rid: what the name of the request starts with, for the server's log and
        for aborting, which goes by prefix; a serial number follows.
      routing_key: requests with one key go to one replica, whose prefix cache
        then knows the earlier turns.

    Returns:
      At least one sampled id, with log-probabilities.

    Raises:
      EngineError: all tries failed, the request was refused, or the reply does
        not follow the contract (a NaN log-probability included).
    """
    sampling_params = self._sampling_params | {
        'max_new_tokens': max_new_tokens,
        'sampling_seed': seed,
    }
    if stop_token_ids:
      sampling_params['stop_token_ids'] = list(stop_token_ids)
    payload = {
        'input_ids': list(input_ids),
        'sampling_params': sampling_params,
        'return_logprob': True,
    }
    # A router in front of the replicas has its own idea of stickiness.
    headers = {'X-SMG-Routing-Key': routing_key} if routing_key else {}
    home = (
        next(self._next_replica)
        if routing_key is None
        else seeds.derive_seed(routing_key)
    )
    start = time.perf_counter()
    for attempt in range(self._max_attempts):
      url = self._urls[(home + attempt) % len(self._urls)]
      if rid is not None:
        # A server may still be ending the try that timed out, and refuses a
        # name that is in use.
        payload['rid'] = f'{rid}.{next(self._serial)}'
      try:
        text = await self._call(
            'POST', f'{url}/generate', payload=payload, headers=headers
        )
        return replies.read_completion(text, url, time.perf_counter() - start)
      except EngineError as error:
        if not error.retryable or attempt == self._max_attempts - 1:
          raise
        logging.warning('Repeating a request to %s: %s', url, error)
      await asyncio.sleep(self._backoff_s * 2**attempt)
    raise AssertionError('The last try returns or raises.')

  async def wait_ready(self, timeout_s: float) -> None:
    """Returns once every replica reports health.

    Raises:
      EngineError: a replica did not within `timeout_s`; quotes its last answer.
    """

    async def wait(url: str) -> None:
      last = 'no answer yet'
      try:
        async with asyncio.timeout(timeout_s):
          while True:
            try:
              await self._call('GET', f'{url}/health')
              return
            except EngineError as error:
              last = str(error)
            await asyncio.sleep(0.2)
      except TimeoutError:
        raise EngineError(
            f'{url} was not ready within {timeout_s:g} s; last: {last}'
        ) from None

    await _all(wait(url) for url in self._urls)

  async def model_info(self) -> dict[str, Any]:
    """What the first replica says of its model, `weight_version` included."""
    return await self._get_json('model_info', 'get_model_info')

  async def server_info(self) -> dict[str, Any]:
    """The first replica's arguments and state."""
    return await self._get_json('server_info', 'get_server_info')

  async def get_weights_by_name(
      self, name: str, *, truncate_size: int = 100
  ) -> list[Any]:
    """First rows of one tensor of the first replica, to check a push.

    Args:
      name: the tensor's Hugging Face name.
      truncate_size: rows to give.

    Returns:
      Nested lists of floats.
    """
    query = f'name={quote(name, safe="")}&truncate_size={truncate_size}'
    url = f'{self._urls[0]}/get_weights_by_name?{query}'
    return replies.decode(await self._call('GET', url), url)

  async def flush_cache(self, *, timeout_s: float = 30.0) -> None:
    """Empties the prefix cache of every replica.

    SGLang refuses with 400 while a request runs or waits, so this asks again
    until `timeout_s`.

    Raises:
      EngineError: a replica still refused then, or could not be reached.
    """

    async def flush(url: str) -> None:
      deadline = time.perf_counter() + timeout_s
      while True:
        try:
          await self._call('POST', f'{url}/flush_cache')
          return
        except EngineError as error:
          if error.retryable or time.perf_counter() > deadline:
            raise
        await asyncio.sleep(0.1)

    await _all(flush(url) for url in self._urls)

  async def pause(self, mode: str = 'retract') -> None:
    """Stops decoding everywhere.

    Args:
      mode: 'retract' keeps the requests and forgets their cache, 'in_place'
        keeps both, 'abort' ends the requests.
    """
    await self._control('pause_generation', {'mode': mode})

  async def continue_(self) -> None:
    """Resumes decoding everywhere, after `pause`."""
    await self._control('continue_generation', {})

  async def update_weights_from_disk(
      self, path: str, version: str, *, flush_cache: bool = True
  ) -> None:
    """Makes every replica load a Hugging Face directory.

    Args:
      path: directory that every replica can read.
      version: what completions then report as their `weight_version`.
      flush_cache: also drop cached prefixes, which the old weights computed.

    Raises:
      EngineError: a replica did not take the weights.
    """
    payload = {
        'model_path': path,
        'weight_version': version,
        'flush_cache': flush_cache,
    }
    texts = await self._control('update_weights_from_disk', payload)
    for url, text in zip(self._urls, texts, strict=True):
      reply = replies.decode(text, url)
      if not reply['success']:
        raise EngineError(
            f'{url} did not take weights {version!r} from {path}:'
            f' {reply["message"]}',
            retryable=False,
        )

  async def _control(self, route: str, payload: dict[str, Any]) -> list[str]:
    return await _all(
        self._call('POST', f'{url}/{route}', payload=payload)
        for url in self._urls
    )

  async def _get_json(self, route: str, old_route: str) -> dict[str, Any]:
    """Asks the first replica; servers before the renaming know `old_route`."""
    url = f'{self._urls[0]}/{route}'
    try:
      return replies.decode(await self._call('GET', url), url)
    except EngineError as error:
      if error.retryable:
        raise
      url = f'{self._urls[0]}/{old_route}'
      return replies.decode(await self._call('GET', url), url)

  async def _call(
      self,
      method: str,
      url: str,
      *,
      payload: dict[str, Any] | None = None,
      headers: dict[str, str] | None = None,
  ) -> str:
    """One HTTP exchange; gives the body of a 200, else raises EngineError."""
    request = self._session.request(
        method,
        url,
        json=payload,
        headers=self._headers | (headers or {}),
        timeout=aiohttp.ClientTimeout(total=self._timeout_s),
    )
    try:
      async with request as response:
        body = await response.text(errors='replace')
        status = response.status
    except TimeoutError as error:
      raise EngineError(
          f'{method} {url} gave no answer within {self._timeout_s:g} s.'
      ) from error
    except aiohttp.ClientError as error:
      raise EngineError(f'{method} {url} failed: {error!r}') from error
    if status != 200:
      raise EngineError(
          f'{method} {url} gave {status}: {replies.reason(body)}',
          retryable=status >= 500,
      )
    return body


async def _all(calls) -> list[Any]:
  """Awaits all calls to their end, then raises the first failure, if any.

  Unlike a plain gather, no call is still under way when this returns.
  """
  results = await asyncio.gather(*calls, return_exceptions=True)
  for result in results:
    if isinstance(result, BaseException):
      raise result
  return results
