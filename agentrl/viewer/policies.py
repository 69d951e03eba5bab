"""Policies that act in live play, one completion at a time.

A run's policy is served by a child process, since this one imports no jax. Keys
of samplers stay in this process.
"""

import asyncio
import dataclasses
import pathlib
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec

from agentrl.envs.spec import EnvSpec
from agentrl.errors import AgentrlError, ConfigError, DataError, EngineError
from agentrl.evaluation.workdirs import run_config
from agentrl.inference import replies
from agentrl.inference.control import ControlClient
from agentrl.rollout import seeds
from agentrl.rollout.agent import Agent, make_agent
from agentrl.rollout.options import AgentOptions
from agentrl.runtime.children import Child
from agentrl.types import Completion, Message, Turn
from agentrl.viewer import python_child
from agentrl.viewer.run_tokenizers import RunTokenizers

_TOPS = 5  # likeliest tokens of each place
_MOST = 2  # policies that are served at a time
_START_S = 300.0  # a large model has to be read
_IDLE_S = 900.0
_LOOK_S = 30.0
_URL = re.compile(r'^Serving .* at (http://[\d.]+:\d+)\s*$')

_Triple = tuple[float | None, int, Any]


class _Meta(msgspec.Struct):
  """The fields of a reply's `meta_info` that are read."""

  finish_reason: dict[str, Any]
  output_token_logprobs: list[_Triple]
  weight_version: str | int = ''
  prompt_tokens: int = 0
  cached_tokens: int | None = None
  output_top_logprobs: list[list[_Triple] | None] = []


class _Reply(msgspec.Struct):
  meta_info: _Meta


@dataclasses.dataclass(frozen=True)
class Said:
  """A completion, and the likeliest tokens at each of its places.

  Attributes:
    completion: ids and log-probabilities.
    tops: for each id, pairs of an id and its log-probability (None: NaN), the
      best first.
  """

  completion: Completion
  tops: Sequence[Sequence[tuple[int, float | None]]]


class _Client(ControlClient):
  """Asks for completions with their likeliest tokens."""

  async def say(self, ids: Sequence[int], params: Mapping[str, Any]) -> Said:
    url = f'{self.urls[0]}/generate'
    start = time.perf_counter()
    payload = {
        'input_ids': list(ids),
        'sampling_params': dict(params),
        'return_logprob': True,
        'top_logprobs_num': _TOPS,
    }
    body = await self._call('POST', url, payload=payload)
    meta = replies.decode(body, url, _Reply).meta_info
    if not meta.output_token_logprobs:
      raise EngineError(f'{url} sampled nothing.')
    logprobs, tokens, _ = zip(*meta.output_token_logprobs, strict=True)
    completion = Completion(
        tokens=tokens,
        logprobs=tuple(x if x is not None else float('nan') for x in logprobs),
        finish_reason=str(meta.finish_reason.get('type', '')),
        weight_version=str(meta.weight_version),
        prompt_tokens=meta.prompt_tokens,
        cached_tokens=meta.cached_tokens,
        latency_s=time.perf_counter() - start,
    )
    tops = [
        [(token, logprob) for logprob, token, _ in place or ()]
        for place in meta.output_top_logprobs
    ]
    return Said(completion, tops)


@dataclasses.dataclass(frozen=True)
class Talk:
  """How a run's policy talks, and within which limits."""

  agent: Agent
  temperature: float
  max_completion_tokens: int
  max_context: int


def talk_of(
    run: pathlib.Path,
    spec: EnvSpec,
    names: tuple[str, ...],
    tokenizers: RunTokenizers,
) -> Talk:
  """How the policy of a run talks in an environment.

  Args:
    run: its workdir.
    spec: of the environment.
    names: of that, see `EnvServers.names`.
    tokenizers: of runs.

  Raises:
    AgentrlError: its config or its tokenizer cannot be read.
  """
  config = run_config.config(run)
  try:
    agent = run_config.section_in(config, 'agent', names)
    options = AgentOptions(
        **{x: agent[x] for x in ('format', 'instructions', 'template')},
        date=agent.get('date'),
    )
    rollout = run_config.section_in(config, 'rollout', names)
    return Talk(
        make_agent(spec, tokenizers.get(run), options),
        float(rollout.get('temperature', 1.0)),
        int(rollout.get('max_completion_tokens', 512)),
        int(rollout.get('max_context', 8192)),
    )
  except (KeyError, TypeError, ValueError) as error:
    if isinstance(error, AgentrlError):
      raise
    raise DataError(
        f'The config of {run.name} does not say how its policy talks: {error!r}'
    ) from error


def transcript(
    agent: Agent,
    prompt: Sequence[Message],
    turns: Sequence[Turn],
    sampled: Mapping[int, Sequence[int]],
) -> list[int]:
  """Ids of a conversation up to its next completion.

  Args:
    agent: whose ids.
    prompt: of this agent.
    turns: so far.
    sampled: turn -> the ids that this very policy sampled for it; the words of
      the others are written as this policy would have.
  """
  ids = list(agent.prompt_ids(prompt))
  for index, turn in enumerate(turns):
    completion_ids = sampled.get(index)
    if completion_ids is None:
      ended = turn.finish_reason != 'length'
      completion_ids = agent.completion_ids(turn.completion, ended=ended)
    ids += completion_ids
    ids += agent.observation_ids(turn.observation, completion_ids)
  return ids


class _Served:
  """One policy's server."""

  def __init__(self) -> None:
    self.lock = asyncio.Lock()
    self.child: Child | None = None
    self.url = ''
    self.last_used = time.monotonic()


class Policies:
  """Servers of policies: children for runs, and samplers that were configured."""

  def __init__(
      self,
      samplers: Sequence[str] = (),
      api_key: str | None = None,
  ):
    """Starts nothing.

    Args:
      samplers: URLs of servers that speak SGLang's protocol.
      api_key: of them.
    """
    self.samplers = tuple(samplers)
    self._api_key = api_key
    self._served: dict[pathlib.Path, _Served] = {}
    self._session: aiohttp.ClientSession | None = None

  async def run(self) -> AsyncIterator[None]:
    """A cleanup context: stops servers that are idle, and all at the end."""
    async with aiohttp.ClientSession() as self._session:
      sweep = asyncio.create_task(self._sweep())
      try:
        yield
      finally:
        sweep.cancel()
        for path in list(self._served):
          await self._stop(path)

  async def say(
      self,
      source: pathlib.Path | int,
      talk: Talk,
      ids: Sequence[int],
      *,
      seed: int,
      turn: int,
  ) -> Said:
    """The next completion.

    Args:
      source: a run or a checkpoint of one, or the number of a sampler.
      talk: its limits.
      ids: the conversation.
      seed: of the session.
      turn: of it.

    Raises:
      AgentrlError: the policy cannot be served, or did not answer.
    """
    room = talk.max_context - len(ids)
    if room < 1:
      raise DataError(
          f'The conversation has {len(ids)} tokens; the context of'
          f' {talk.max_context} is full.'
      )
    params = {
        'temperature': talk.temperature,
        'max_new_tokens': min(talk.max_completion_tokens, room),
        'stop_token_ids': list(talk.agent.stop_token_ids),
        'sampling_seed': seeds.derive_seed(seed, turn),
    }
    if isinstance(source, int):
      if not 0 <= source < len(self.samplers):
        raise ConfigError('There is no such sampler; see config.view.samplers.')
      url, key = self.samplers[source], self._api_key
    else:
      url, key = await self._url(source, talk.max_context), None
    assert self._session is not None  # `run` has opened it
    client = _Client(self._session, [url], api_key=key)
    return await client.say(ids, params)

  async def _url(self, path: pathlib.Path, context: int) -> str:
    """The URL of a run's server, which is started if need be."""
    while path not in self._served and len(self._served) >= _MOST:
      idle = [key for key, one in self._served.items() if not one.lock.locked()]
      if not idle:
        raise EngineError(f'{_MOST} policies are being loaded; try again.')
      await self._stop(min(idle, key=lambda key: self._served[key].last_used))
    served = self._served.setdefault(path, _Served())
    async with served.lock:
      served.last_used = time.monotonic()
      if served.child is not None and served.child.ending() is not None:
        await asyncio.to_thread(served.child.stop)
        served.child = None
      if served.child is None:
        served.child, served.url = await asyncio.to_thread(
            _start, path, context
        )
      return served.url

  async def _stop(self, path: pathlib.Path) -> None:
    child = self._served.pop(path).child
    if child is not None:
      await asyncio.to_thread(child.stop)

  async def _sweep(self) -> None:
    while True:
      await asyncio.sleep(_LOOK_S)
      now = time.monotonic()
      for path, served in list(self._served.items()):
        if not served.lock.locked() and now - served.last_used > _IDLE_S:
          await self._stop(path)


def _start(path: pathlib.Path, context: int) -> tuple[Child, str]:
  """Serves a policy in a child, which ends with this process."""
  child = python_child.start(
      'agentrl.serving.launch_server',
      f'--model-path={path}',
      '--port=0',
      f'--context-length={context}',
      '--max-running-requests=2',
      '--skip-server-warmup',
      name=f'policy {path.name}',
      supervised=True,
  )
  try:
    line = child.read_line(_START_S)
  except TimeoutError:
    line = ''
  match = _URL.match(line)
  if match is None:
    child.hang_up()
    child.ending(2.0)
    words = child.last_words()
    child.stop()
    raise EngineError(f'The policy of {path.name} cannot be served: {words}')
  return child, match[1]
