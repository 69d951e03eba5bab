"""Async client of SGLang's control routes: health, versions, pauses, weights.

Every replica is called by itself, because SGLang's router does not forward
these routes.
"""

import asyncio
import collections
import os
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

from agentrl.errors import EngineError, EngineRefusal, one_line
from agentrl.http import auth
from agentrl.inference import compatibility, replies
from agentrl.inference.compatibility import Needs

# SGLang's /health samples a token and takes a second or more.
_HEALTH_S = 30.0
_MAX_HEALTH_PAUSE_S = 2.0
# SGLang's words, with a 400, where a model class reads no weights by name.
_UNREADABLE = 'Get parameter by name failed'


class ControlClient:
  """Several inference servers with the same weights, each asked directly."""

  def __init__(
      self,
      session: aiohttp.ClientSession,
      urls: Sequence[str],
      *,
      timeout_s: float = 300.0,
      api_key: str | None = None,
      admin_key: str | None = None,
  ):
    """Keeps the settings; connects to nothing yet.

    Args:
      session: open HTTP session.
      urls: base URLs of the replicas.
      timeout_s: limit of one HTTP exchange.
      api_key: sent as a bearer token.
      admin_key: sent instead where weights, cache or requests are changed; a
        server that has one refuses the other key there. None: `api_key`.
    """
    self._session = session
    self._urls = tuple(url.rstrip('/') for url in urls)
    self._timeout_s = timeout_s
    self._api_key = api_key
    self._admin_key = admin_key or api_key

  @property
  def urls(self) -> tuple[str, ...]:
    return self._urls

  def one(self, url: str) -> 'ControlClient':
    """A client of one replica alone."""
    return ControlClient(
        self._session,
        [url],
        timeout_s=self._timeout_s,
        api_key=self._api_key,
        admin_key=self._admin_key,
    )

  async def wait_ready(self, timeout_s: float, *, resume: bool = False) -> None:
    """Returns once every replica reports health.

    SGLang samples a token for each question, so the pauses in between grow.

    Args:
      timeout_s: limit of it all.
      resume: also end a pause, as of a run that was killed in a push: a server
        that is paused reports no health.

    Raises:
      EngineError: a replica did not within `timeout_s`; quotes its last answer.
        Or it refuses to be resumed.
    """

    async def wait(url: str) -> None:
      last, pause = 'no answer yet', 0.1
      try:
        async with asyncio.timeout(timeout_s):
          while True:
            try:
              if resume:
                await self.one(url).continue_()
              await self._call('GET', f'{url}/health', timeout_s=_HEALTH_S)
              return
            except EngineError as error:
              if resume and not error.retryable:
                raise
              last = str(error)
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _MAX_HEALTH_PAUSE_S)
      except TimeoutError:
        raise EngineError(
            f'{url} was not ready within {timeout_s:g} s; last: {last}'
        ) from None

    await _all(wait(url) for url in self._urls)

  async def probe(self, needs: Needs) -> list[dict[str, Any]]:
    """Checks the replicas' descriptions of themselves.

    Args:
      needs: of the run.

    Returns:
      Their `server_info`, which holds their keys: not to be logged.

    Raises:
      EngineError: one is too old, its context is too short, or it has another
        model.
    """

    async def probe(url: str) -> dict[str, Any]:
      server = self.one(url)
      info = await server.server_info()
      compatibility.check(url, info | await server.model_info(), needs)
      size = needs.vocab_size
      if not await server.knows(size - 1) or await server.knows(size):
        compatibility.refuse_vocabulary(url, size)
      return info

    return await _all(map(probe, self._urls))

  async def knows(self, token: int) -> bool:
    """True if an id is in the vocabulary of the first replica.

    A bias on it is refused where it is not; as part of a prompt it would end
    an SGLang server.
    """
    sampling_params = {
        'max_new_tokens': 1,
        'temperature': 0.0,
        'logit_bias': {str(token): 0.0},
    }
    try:
      await self.ask({'input_ids': [0], 'sampling_params': sampling_params})
    except EngineError as error:
      if error.retryable:
        raise
      return False
    return True

  async def ask(self, payload: dict[str, Any]) -> replies.Loose:
    """The first URL's reply to one /generate, asked once."""
    url = f'{self._urls[0]}/generate'
    body = await self._call('POST', url, payload=payload)
    return replies.decode(body, url, replies.Loose)

  async def tokenize(self, text: str) -> list[int]:
    """The first replica's ids of a text, which it scores to name them.

    Raises:
      EngineError: it does not, as one that was started without its tokenizer.
    """
    payload = {
        'text': text,
        'sampling_params': {'max_new_tokens': 0},
        'return_logprob': True,
        'logprob_start_len': 0,
    }
    url = f'{self._urls[0]}/generate'
    return replies.read_ids(await self._call('POST', url, payload=payload), url)

  async def model_info(self) -> dict[str, Any]:
    """The first replica's description of its model, with `weight_version`."""
    kind = dict[str, Any]
    return await self._get_json('model_info', 'get_model_info', kind)

  async def server_info(self) -> dict[str, Any]:
    """The first replica's arguments and state."""
    kind = dict[str, Any]
    return await self._get_json('server_info', 'get_server_info', kind)

  async def num_requests(self) -> int:
    """Number of all requests that run or wait at the first replica."""
    reply = await self._get_json(
        'v1/loads?include=core',
        'get_load',
        replies.Loads | list[replies.Load],
    )
    loads = reply.loads if isinstance(reply, replies.Loads) else reply
    return sum(load.total for load in loads)

  async def wait_idle(self, timeout_s: float) -> None:
    """Returns once no replica has a request.

    Raises:
      EngineError: one still has some after `timeout_s`.
    """

    async def wait(url: str) -> None:
      deadline = time.perf_counter() + timeout_s
      while count := await self.one(url).num_requests():
        if time.perf_counter() > deadline:
          raise EngineError(
              f'{url} still has {count} requests after {timeout_s:g} s; end'
              " them, or set sampler.push='retract', which does not wait."
          )
        await asyncio.sleep(0.1)

    await _all(wait(url) for url in self._urls)

  async def workers(self) -> tuple[str, ...]:
    """The servers behind the first URL, a router's.

    Raises:
      EngineError: it is no router, or has no worker.
    """
    url = f'{self._urls[0]}/workers'
    body = await self._call('GET', url)
    try:
      reply = replies.decode(body, url, replies.RouterWorkers)
    except EngineError as error:
      raise EngineRefusal(
          f"{url} did not list workers; is an SGLang router's URL in"
          f' sampler.router? A server goes into sampler.urls. {error}'
      ) from error
    urls = tuple(worker.url.rstrip('/') for worker in reply.workers)
    if not urls:
      raise EngineError(
          f'The router at {self._urls[0]} has no worker yet; start some with'
          ' --worker-urls or POST /workers.'
      )
    return urls

  async def get_weights_by_name(
      self, name: str, *, truncate_size: int = 100
  ) -> list[float] | list[list[float]] | None:
    """First rows of one tensor of the first replica, to check a push.

    Args:
      name: the tensor's Hugging Face name.
      truncate_size: rows to give.

    Returns:
      Nested lists of floats; None from a server whose model class cannot read
      its weights by name, as SGLang's are but for the Llama family.
    """
    url = f'{self._urls[0]}/get_weights_by_name'
    payload = {'name': name, 'truncate_size': truncate_size}
    try:
      body = await self._call('POST', url, payload=payload, admin=True)
    except EngineError as error:
      if _UNREADABLE in str(error):
        return None
      raise
    rows: list[float] | list[list[float]] | None
    rows = replies.decode(body, url, replies.Rows)
    lengths = {
        len(row) if isinstance(row, list) else None for row in rows or ()
    }
    if len(lengths) > 1:
      raise EngineRefusal(
          f'{url} gave rows of different lengths for {name!r}:'
          f' {replies.excerpt(body)}'
      )
    return rows

  async def weight_checksums(self, skip: Sequence[str]) -> dict[str, list[str]]:
    """A hash of each tensor of the first replica, one for each of its ranks.

    The server chooses the hash, and differently on CPU and GPU: hashes can only
    be compared with each other.

    Args:
      skip: parts of names; tensors that have one are left out.
    """
    url = f'{self._urls[0]}/weights_checker'
    payload = {'action': 'checksum', 'skip_tensor_list': list(skip)}
    body = await self._call('POST', url, payload=payload, admin=True)
    hashes = collections.defaultdict(list)
    for rank in replies.decode(body, url, replies.Checksums).ranks:
      for name, value in rank.checksums.items():
        hashes[name].append(str(value))
    return dict(hashes)

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
          await self._call('POST', f'{url}/flush_cache', admin=True)
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
    route = 'update_weights_from_disk'
    bodies = await self._control(route, payload)
    for url, body in zip(self._urls, bodies, strict=True):
      reply = replies.decode(body, f'{url}/{route}', replies.Done)
      if not reply.success:
        raise EngineRefusal(
            f'{url} did not take weights {version!r} from {path}:'
            f' {str(reply.message)[:300]}'
        )

  async def models(self) -> list[str]:
    """Names of the first replica's model and of its adapters."""
    url = f'{self._urls[0]}/v1/models'
    reply = replies.decode(await self._call('GET', url), url, replies.Models)
    return [card.id for card in reply.data]

  async def load_lora_adapter(self, name: str, path: str) -> None:
    """Makes every replica serve requests of `name` with an adapter.

    Args:
      name: what requests say as their `lora_path`.
      path: directory in peft's format that every replica can read.

    Raises:
      EngineError: a replica did not take it.
    """
    payload = {'lora_name': name, 'lora_path': path}
    try:
      await self._adapters('load_lora_adapter', payload)
    except EngineError as error:
      raise EngineError(
          f'{error}. An SGLang server takes adapters with --enable-lora,'
          ' --max-lora-rank and --lora-target-modules; sampler.push_lora=False'
          ' needs none of that.',
          retryable=error.retryable,
      ) from error

  async def unload_lora_adapter(self, name: str) -> None:
    """Makes every replica forget an adapter, once its requests have ended."""
    await self._adapters('unload_lora_adapter', {'lora_name': name})

  async def _adapters(self, route: str, payload: dict[str, Any]) -> None:
    bodies = await self._control(route, payload)
    for url, body in zip(self._urls, bodies, strict=True):
      reply = replies.decode(body, f'{url}/{route}', replies.DoneAdapter)
      if not reply.success:
        raise EngineRefusal(
            f'{url}/{route} failed: {str(reply.error_message)[:300]}'
        )

  async def _control(self, route: str, payload: dict[str, Any]) -> list[bytes]:
    return await _all(
        self._call('POST', f'{url}/{route}', payload=payload, admin=True)
        for url in self._urls
    )

  async def _get_json(self, route: str, old_route: str, kind: Any) -> Any:
    """Asks the first replica; servers before the renaming know `old_route`."""
    url = f'{self._urls[0]}/{route}'
    try:
      body = await self._call('GET', url)
    except EngineError as error:
      if error.retryable:
        raise
      url = f'{self._urls[0]}/{old_route}'
      body = await self._call('GET', url)
    return replies.decode(body, url, kind)

  async def _call(
      self,
      method: str,
      url: str,
      *,
      payload: dict[str, Any] | None = None,
      headers: dict[str, str] | None = None,
      admin: bool = False,
      timeout_s: float | None = None,
  ) -> bytes:
    """One HTTP exchange; gives the body of a 200, else raises EngineError."""
    timeout_s = timeout_s or self._timeout_s
    key = self._admin_key if admin else self._api_key
    request = self._session.request(
        method,
        url,
        json=payload,
        headers=auth.headers(key) | (headers or {}),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
    )
    try:
      async with request as response:
        body = await replies.read_body(response, url)
        status = response.status
    except TimeoutError as error:
      raise EngineError(
          f'{method} {url} gave no answer within {timeout_s:g} s.'
      ) from error
    except aiohttp.ClientError as error:
      raise EngineError(f'{method} {url} failed: {_in_words(error)}') from error
    if status in (401, 403):
      name = f'sampler.{"admin" if admin else "api"}_key_file'
      raise EngineRefusal(
          f'{method} {url} gave {status}: {replies.reason(body)}; check {name}.'
      )
    if status != 200:
      raise EngineError(
          f'{method} {url} gave {status}: {replies.reason(body)}',
          retryable=status >= 500,
      )
    return body


def _in_words(error: aiohttp.ClientError) -> str:
  """The error in the operating system's words."""
  number = error.errno if isinstance(error, aiohttp.ClientOSError) else None
  if number is not None and number > 0:
    return os.strerror(number)
  # aiohttp breaks some of its lines.
  return one_line(error) or type(error).__name__


async def _all(calls) -> list[Any]:
  """Awaits all calls to their end, then raises the first failure, if any.

  Unlike a plain gather, no call is still under way when this returns.
  """
  results = await asyncio.gather(*calls, return_exceptions=True)
  for result in results:
    if isinstance(result, BaseException):
      raise result
  return results
