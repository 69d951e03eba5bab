"""Async client of SGLang's native HTTP API: token ids in, token ids out.

The embedded engine speaks the same contract, so nothing here knows which of the
two it talks to.
"""

import asyncio
import collections
import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import aiohttp
from absl import logging

from agentrl.errors import ConfigError, EngineError
from agentrl.inference import replies
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.types import Completion

T = TypeVar('T')

# Seconds between two looks at whether a held server is back.
_HELD_S = 0.1


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


class Adapter(NamedTuple):
  """A LoRA adapter that servers have loaded."""

  name: str  # there
  version: str  # of the policy that it and the servers' weights make


class _Sent(NamedTuple):
  """A try, by what held when it was sent."""

  rid: str | None
  adapter: Adapter | None
  accepts: Callable[[str], bool] | None  # see `Sampler`


class Sampler(ControlClient):
  """One policy behind one or more inference servers with the same weights.

      sampler = Sampler(session, [url], temperature=1.0)
      await sampler.wait_ready(60)
      completion = await sampler.generate(ids, max_new_tokens=64, seed=7)

  The session is the caller's; give its connector `limit=0`, since aiohttp's
  default of 100 connections would quietly cap the concurrency.

  Attributes:
    counts: since the start, `requests` (tries), `retries` (tries that failed
      and were repeated), `aborts` (those of them that the server ended) and
      `aborted_tokens` (sampled before an abort, and thrown away).
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
      admin_key: str | None = None,
      replicas: Replicas | None = None,
      accepts: Callable[[], Callable[[str], bool]] | None = None,
      adapter: Callable[[], Adapter] | None = None,
      vocab_size: int | None = None,
  ):
    """Keeps the settings; connects to nothing yet.

    Args:
      session: open HTTP session.
      urls: base URLs of the replicas, at least one.
      temperature: of sampling; 0 is greedy. The reported log-probabilities are
        taken at this temperature, so the trainer has to apply it too.
      top_p: 1 is off. Below 1, what is reported is not what was sampled from.
      top_k: -1 is off; as `top_p`. 1 is refused: SGLang scores it at
        temperature 1 or at `temperature`, as the requests beside it have it.
      timeout_s: limit of one HTTP exchange.
      max_attempts: tries of one request before `EngineError`; at least 1.
      backoff_s: pause before the second try; doubles with each further one.
      api_key: sent as a bearer token.
      admin_key: see `ControlClient`.
      replicas: the balancer of requests, shared among samplers, or a router that
        stands before `urls`; None: `urls`, counted by this sampler alone.
      accepts: called as a request is sent; gives the test of the weight version
        that its completion may report. One that may not counts as a failure of
        its server. None: all may.
      adapter: gives what requests ask for at each try. A server then goes on
        reporting the version of its own weights; the completion gets that of
        the adapter. None: requests ask for none.
      vocab_size: of the policy; ids are below it. None: not known.

    Raises:
      ConfigError: `top_k` is 1.
    """
    if top_k == 1:
      raise ConfigError(
          'top_k=1 has no definite log-probability in SGLang;'
          ' temperature=0 is greedy too.'
      )
    self._replicas = replicas or Replicas(urls)
    self._accepts = accepts
    self._adapter = adapter
    self._vocab_size = vocab_size
    super().__init__(
        session,
        urls,
        timeout_s=timeout_s,
        api_key=api_key,
        admin_key=admin_key,
    )
    self._sampling_params: dict[str, Any] = {
        'temperature': temperature,
        'top_p': top_p,
        'top_k': top_k,
    }
    self._max_attempts = max_attempts
    self._backoff_s = backoff_s
    self._serial = itertools.count()
    self.counts: collections.Counter[str] = collections.Counter()

  async def generate(
      self,
      input_ids: Sequence[int],
      *,
      max_new_tokens: int,
      seed: int,
      stop_token_ids: Sequence[int] = (),
      rid: str | None = None,
      routing_key: str | None = None,
      partial: bool = False,
  ) -> Completion:
    """Samples a continuation of `input_ids`.

    A try that fails for a reason of the moment (5xx, no connection, timeout,
    aborted by a weight push) is repeated with the same seed, on another replica
    where there are several. A refusal (4xx) is not repeated. While all replicas
    are being started again, the request waits, and that is no try.

    Args:
      input_ids: the whole transcript so far.
      max_new_tokens: limit, at least 1; the caller subtracts from the context.
      seed: of this request. The engine gives the same tokens for it, and
        SGLang one with --enable-deterministic-inference; others ignore it.
      stop_token_ids: ids that end the completion; kept as its last id.
      rid: what the name of the request starts with, for the server's log; a
        serial number follows.
      routing_key: requests with one key go to one replica, whose prefix cache
        then knows the earlier turns.
      partial: whether a request that was aborted with some ids is answered
        with them, its finish_reason 'abort', rather than repeated.

    Returns:
      At least one sampled id, with log-probabilities.

    Raises:
      EngineError: all tries failed, the request was refused, or the reply does
        not follow the contract (a NaN log-probability, an id outside the
        vocabulary or more than `max_new_tokens` ids included) or is that to
        another request.
      ValueError: an id is outside the vocabulary, or the prompt is empty; not
        sent, since it can end an SGLang server.
    """
    self._check_ids(input_ids)
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
    start = time.perf_counter()

    def read(body: bytes, url: str, sent: _Sent) -> Completion:
      completion = replies.read_completion(
          body,
          url,
          time.perf_counter() - start,
          max_new_tokens=max_new_tokens,
          vocab_size=self._vocab_size,
          partial=partial,
          rid=sent.rid,
      )
      if sent.adapter is not None:
        completion = dataclasses.replace(
            completion, weight_version=sent.adapter.version
        )
      _check_version(completion, url, sent)
      return completion

    return await self._generate(payload, read, rid, routing_key)

  async def score(
      self,
      input_ids: Sequence[int],
      *,
      start: int,
      rid: str | None = None,
      routing_key: str | None = None,
  ) -> tuple[float, ...]:
    """Log-probabilities of `input_ids[start:]`, each after all ids before it.

    They are taken at temperature 1, whatever the sampler's is, and nothing is
    sampled. Tries are repeated as those of `generate`.

    Args:
      input_ids: the whole transcript.
      start: from 1, since nothing comes before the first id.
      rid: see `generate`.
      routing_key: see `generate`.

    Raises:
      EngineError: as `generate`.
      ValueError: an id is outside the vocabulary, or none is to be scored.
    """
    self._check_ids(input_ids)
    if not 1 <= start < len(input_ids):
      raise ValueError(
          f'start={start} leaves nothing to score in {len(input_ids)} ids.'
      )
    payload = {
        'input_ids': list(input_ids),
        'sampling_params': {'max_new_tokens': 0, 'temperature': 1.0},
        'return_logprob': True,
        # The first id from here on comes without a log-probability.
        'logprob_start_len': start - 1,
    }
    ids = input_ids[start - 1 :]
    read = lambda body, url, sent: replies.read_scores(
        body, url, ids, rid=sent.rid
    )
    return await self._generate(payload, read, rid, routing_key)

  async def _generate(
      self,
      payload: dict[str, Any],
      read: Callable[[bytes, str, _Sent], T],
      rid: str | None,
      routing_key: str | None,
  ) -> T:
    """A reply of /generate, asked for as often as is worth it.

    Args:
      payload: of the request.
      read: reads a reply of a server to a try.
      rid: see `generate`.
      routing_key: see `generate`.
    """
    # A router in front of the replicas has its own idea of stickiness.
    headers = {'X-SMG-Routing-Key': routing_key} if routing_key else {}
    for attempt in range(self._max_attempts):
      url = await self._take(routing_key)
      if rid is not None:
        # A server may still be ending the try that timed out, and refuses a
        # name that is in use. No name may be the beginning of another: when a
        # client leaves, SGLang ends all requests whose names begin so.
        payload['rid'] = f'{rid}.{next(self._serial)}.'
      sent = _Sent(
          payload.get('rid'),
          self._adapter() if self._adapter is not None else None,
          self._accepts() if self._accepts is not None else None,
      )
      if sent.adapter is not None:
        payload['lora_path'] = sent.adapter.name
      self.counts['requests'] += 1
      failed = None  # cancelled, which says nothing of the replica
      try:
        body = await self._call(
            'POST', f'{url}/generate', payload=payload, headers=headers
        )
        answer = read(body, url, sent)
        failed = False
        return answer
      except EngineError as error:
        # Neither a refusal nor an abort is the replica's fault.
        failed = error.retryable and not isinstance(error, replies.Aborted)
        if isinstance(error, replies.Aborted):
          self.counts['aborts'] += 1
          self.counts['aborted_tokens'] += error.num_tokens
        if not error.retryable or attempt == self._max_attempts - 1:
          raise
        self.counts['retries'] += 1
        logging.warning('Repeating a request to %s: %s', url, error)
      finally:
        self._replicas.give_back(url, failed=failed)
      await asyncio.sleep(self._backoff_s * 2**attempt)
    raise AssertionError('The last try returns or raises.')

  def _check_ids(self, input_ids: Sequence[int]) -> None:
    if not input_ids:
      raise ValueError('The prompt has no token; a completion needs one.')
    limit = math.inf if self._vocab_size is None else self._vocab_size
    for index, token in enumerate(input_ids):
      if not 0 <= token < limit:
        raise ValueError(
            f'The prompt has the id {token} at index {index}, outside the'
            f' vocabulary of {limit}; do tokenizer and model belong together?'
        )

  async def _take(self, routing_key: str | None) -> str:
    """A replica for a request, once one is not held."""
    while True:
      url = self._replicas.take(routing_key)
      if url is not None:
        return url
      await asyncio.sleep(_HELD_S)


def _check_version(completion: Completion, url: str, sent: _Sent) -> None:
  """Refuses a server that was restarted and has other weights than the rest."""
  version = completion.weight_version
  if sent.accepts is not None and not sent.accepts(version):
    raise EngineError(
        f'{url} answered with weights {version!r}, which this run did not push'
        ' last. If the server was started again, the next push reaches it;'
        ' until then it is not used.'
    )
