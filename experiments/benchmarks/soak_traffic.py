"""Clients and an operator that trouble an engine at random, over HTTP."""

import asyncio
import collections
import contextlib
import dataclasses
import json
import time
from typing import Any

import aiohttp

from agentrl.serving.weight_sync.push import EmbeddedPush
from experiments.benchmarks.soak_policy import MAX_LEN
from experiments.benchmarks.soak_replies import Ask

# Waiting requests; clients alone never fill the queue, a crowd does.
MAX_QUEUED = 256
_CROWD = 200
_COPIES = 4
# Nothing here takes seconds; a request without an answer by then is lost.
LOST_S = 300.0

_STOPS = ('e', 'th', 'at ', ' the', 'cat', 'z')
# Bodies that must be refused, whatever else is in them.
_BAD = (
    {'input_ids': [1] * MAX_LEN},
    {'input_ids': [1, 10**6]},
    {'input_ids': [-1]},
    {'input_ids': [1] * 250, 'sampling_params': {'max_new_tokens': 7}},
    {'input_ids': [1], 'sampling_params': {'max_new_tokens': -1}},
    {'input_ids': [1], 'sampling_params': {'seed': 3}},
    {'input_ids': [1], 'sampling_params': {'stop_token_ids': [2**40]}},
    {'input_ids': [1], 'sampling_params': {'temperature': float('nan')}},
    {'input_ids': [1], 'return_logprob': True, 'logprob_start_len': 0.5},
    {'input_ids': [1], 'stream': True, 'sampling_params': {'top_p': 2}},
    {'input_ids': [1], 'sampling_params': {'n': MAX_QUEUED + 1}},
)


@dataclasses.dataclass
class Outcome:
  """What became of an `Ask`; times are of `time.monotonic`.

  `status` is that of HTTP, or 'left' (the client did) or 'lost'. `replies` has
  the last that was heard of each copy.
  """

  ask: Ask
  sent: float
  ended: float = 0.0
  status: int | str = 'lost'
  replies: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
  error: str = ''
  problems: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Window:
  """A time in which something may happen to ids that begin with `prefix`."""

  start: float
  prefix: str = ''
  end: float = float('inf')

  def covers(self, outcome: Outcome, rid: str) -> bool:
    overlap = self.start <= outcome.ended and outcome.sent <= self.end
    return overlap and rid.startswith(self.prefix)


class Traffic:
  """One engine's clients and operator.

  Attributes:
    version: of the last swap that has ended.
    carried: version -> whether running requests kept their entries.
    aborts: when which requests could be aborted.
    crowds: when the queue could be full.
    done: what the operator did, counted.
    problems: what is wrong beyond single requests.
  """

  def __init__(self, engine, url, session, trees, folders, vocab_size, rng):
    """Sends nothing yet.

    Args:
      engine: for the push that a training run in its process uses.
      url: of the engine.
      session: without a limit of connections.
      trees: parameters in the trainer's layout; version v has `trees[v % n]`.
      folders: the same as files, and at the end one that lacks a shard.
      vocab_size: of the policy.
      rng: draws everything.
    """
    self.version = 0
    self.carried: dict[int, bool] = {}
    self.aborts: list[Window] = []
    self.crowds: list[Window] = []
    self.done = collections.Counter()
    self.problems: list[str] = []
    self.live: dict[str, Outcome] = {}
    self._push = EmbeddedPush(engine)
    self._url = url
    self._session = session
    self._trees, (*self._folders, self._damaged) = trees, folders
    self._vocab = vocab_size
    self._rng = rng
    self._system = [self._ids(n) for n in (3, 20, 70, 130)]
    self._serial = 0

  def _ids(self, size: int) -> list[int]:
    return self._rng.integers(self._vocab, size=size).tolist()

  def _chance(self, share: float) -> bool:
    return self._rng.random() < share

  def _pick(self, *values):
    return values[self._rng.integers(len(values))]

  def draw(self, history: list[int]) -> Ask:
    """A request that goes on after `history`, or another one."""
    self._serial += 1
    rid = f'{self._pick("a", "b", "c")}{self._serial}-'
    if self._chance(0.03):
      return Ask({'rid': rid} | self._pick(*_BAD), self.version, bad=True)
    prompt = history + self._ids(int(self._rng.integers(1, 25)))
    room = MAX_LEN - 2 - len(prompt)  # at least 29
    most = self._pick(0, 1, 8, 8, 16, 30, 60)
    params = {
        'max_new_tokens': min(most, room),
        'temperature': self._pick(0.0, 0.6, 1.0, 1.0, 1.0, 1.4),
        'top_p': self._pick(1.0, 1.0, 1.0, 0.8),
        'top_k': self._pick(-1, -1, -1, 7, 200),
        'min_p': self._pick(0.0, 0.0, 0.0, 0.1),
        'n': self._pick(1, 1, 1, 1, 2, _COPIES),
        'stop': list(self._pick((), (), _STOPS[:2], _STOPS[2:])),
        'stop_regex': list(self._pick((), (), (), ('[aeiou]{2}',))),
        'stop_token_ids': self._ids(self._pick(0, 0, 1, 12)),
        'ignore_eos': self._chance(0.3),
        'no_stop_trim': self._chance(0.3),
        'skip_special_tokens': self._chance(0.7),
    }
    if self._chance(0.003):
      params |= {'max_new_tokens': 8, 'n': _CROWD}
    if self._chance(0.3):
      params['sampling_seed'] = int(self._rng.integers(100))
    start = int(self._rng.integers(len(prompt))) if self._chance(0.1) else -1
    body = {
        'rid': rid,
        'input_ids': prompt,
        'sampling_params': params,
        'stream': self._chance(0.3),
        'return_logprob': self._chance(0.9),
        'logprob_start_len': start,
        'cache_salt': self._pick(None, None, None, 'salt'),
    }
    return Ask(body, self.version)

  async def client(self, budget: list[int], outcomes: list[Outcome]) -> None:
    """Plays turns of episodes while there is a budget of requests left."""
    history = []
    while budget[0]:
      budget[0] -= 1
      if len(history) > 180 or self._chance(0.3):
        history = []
      outcome = await self._send(
          self.draw(history or self._pick(*self._system))
      )
      outcomes.append(outcome)
      if outcome.status == 'lost':
        budget[0] = 0  # the others would wait as long
      if outcome.status == 200:
        reply = outcome.replies[0]
        history = outcome.ask.prompt + reply['output_ids']

  async def _send(self, ask: Ask) -> Outcome:
    """Sends one request; leaves early at times."""
    outcome = Outcome(ask, sent=time.monotonic())
    self.live[ask.rid] = outcome
    window = Window(outcome.sent)
    leave = LOST_S
    if not ask.bad and ask.params['n'] == _CROWD:
      self.crowds.append(window)
    elif self._chance(0.06):
      leave = self._rng.exponential(0.05)
    try:
      async with asyncio.timeout(leave):
        await self._talk(outcome)
    except TimeoutError:
      outcome.status = 'lost' if leave == LOST_S else 'left'
    except (aiohttp.ClientError, ValueError) as error:
      outcome.status, outcome.error = 'broken', repr(error)
    finally:
      outcome.ended = window.end = time.monotonic()
      del self.live[ask.rid]
    return outcome

  async def _talk(self, outcome: Outcome) -> None:
    ask = outcome.ask
    # Python writes NaN as it is, which is no JSON: it must be refused.
    data = json.dumps(ask.body)
    async with self._session.post(
        f'{self._url}/generate',
        data=data,
        headers={'Content-Type': 'application/json'},
    ) as response:
      if response.content_type == 'text/event-stream':
        await self._events(outcome, response)
        return
      reply = json.loads(await response.text())
      outcome.status = response.status
      if response.status != 200:
        outcome.error = str(reply)
        if response.status == 503 and 'Retry-After' not in response.headers:
          outcome.problems.append('503 without Retry-After')
      else:
        several = reply if isinstance(reply, list) else [reply]
        outcome.replies = dict(enumerate(several))

  async def _events(self, outcome: Outcome, response) -> None:
    """Reads a stream; each chunk must go on where the one before ended."""
    async for line in response.content:
      if not line.strip():
        continue
      data = line.decode().removeprefix('data: ').rstrip('\n')
      if data == '[DONE]':
        outcome.status = outcome.status if outcome.error else 200
        continue
      chunk = json.loads(data)
      if 'error' in chunk:
        outcome.status = chunk['error']['code']
        outcome.error = chunk['error']['message']
        continue
      index = chunk.get('index', 0)
      before = outcome.replies.get(index)
      outcome.replies[index] = chunk
      if before is None:
        continue
      size = len(before['output_ids'])
      if (
          before['meta_info']['finish_reason'] is not None
          or chunk['output_ids'][:size] != before['output_ids']
          or not chunk['text'].startswith(before['text'])
      ):
        outcome.problems.append(f'{chunk} does not go on after {before}')

  async def operate(self) -> None:
    """One thing that an operator, or a training run, may do."""
    action = self._pick(
        *(self._abort, self._flush, self._pause, self._fail_to_update),
        *(self._push_params, self._update_idle),
        *(self._update_paused,) * 4,
    )
    name = action.__name__.strip('_')
    detail = await action()
    self.done[f'{name} {detail}'.rstrip()] += 1

  async def _post(self, route: str, *statuses: int, **body) -> tuple[int, str]:
    try:
      async with asyncio.timeout(LOST_S):
        async with self._session.post(
            f'{self._url}/{route}', json=body
        ) as response:
          text = await response.text()
    except TimeoutError:
      self.problems.append(f'{route} {body} had no answer in {LOST_S:g} s')
      return 0, ''
    if response.status not in (statuses or (200,)):
      self.problems.append(f'{route} {body} gave {response.status}: {text}')
    return response.status, text

  @contextlib.asynccontextmanager
  async def _aborting(self, prefix: str):
    window = Window(time.monotonic(), prefix)
    self.aborts.append(window)
    yield
    window.end = time.monotonic()

  async def _abort(self) -> str:
    how = self._pick('rid', 'rid', 'prefix', 'all')
    rid = self._pick(*self.live) if self.live else 'none'
    prefix = {'rid': rid, 'prefix': rid[:3], 'all': ''}[how]
    async with self._aborting(prefix):
      await self._post('abort_request', rid=prefix, abort_all=how == 'all')
    return how

  async def _flush(self) -> str:
    status, _ = await self._post('flush_cache', 200, 400)
    return 'done' if status == 200 else 'refused'

  async def _pause(self) -> str:
    mode = self._pick('in_place', 'abort')
    async with self._paused(mode):
      await asyncio.sleep(0.02)
    return mode

  @contextlib.asynccontextmanager
  async def _paused(self, mode: str):
    prefix = '' if mode == 'abort' else 'nobody'
    async with self._aborting(prefix):
      await self._post('pause_generation', mode=mode)
    yield
    await self._post('continue_generation')

  async def _fail_to_update(self) -> str:
    # While requests go on, or held: the old weights must stay either way.
    paused = self._chance(0.5)
    async with contextlib.AsyncExitStack() as stack:
      if paused:
        await stack.enter_async_context(self._paused('in_place'))
      _, text = await self._post(
          'update_weights_from_disk', 400, model_path=self._damaged
      )
    if 'lacks' not in text:
      self.problems.append(f'a missing shard gave {text}')
    return 'paused' if paused else ''

  @contextlib.contextmanager
  def _next_version(self, *, carried: bool):
    version = self.version + 1
    self.carried[version] = carried
    yield version
    self.version = version

  async def _push_params(self) -> str:
    # Running requests compute their entries anew.
    with self._next_version(carried=False) as version:
      tree = self._trees[version % len(self._trees)]
      # The push blocks, as it may between a training run's own steps.
      await asyncio.to_thread(lambda: asyncio.run(self._push(tree, version)))
    return ''

  async def _update(self, version: int, *statuses: int) -> tuple[int, str]:
    return await self._post(
        'update_weights_from_disk',
        *statuses,
        model_path=self._folders[version % len(self._folders)],
        weight_version=str(version),
    )

  async def _update_idle(self) -> str:
    # Waits until nothing runs.
    with self._next_version(carried=False) as version:
      await self._update(version)
    return ''

  async def _update_paused(self) -> str:
    mode = self._pick('retract', 'in_place', 'abort')
    frozen = mode == 'in_place'
    with self._next_version(carried=frozen) as version:
      async with self._paused(mode):
        status, text = await self._update(version, 200, *[400] * frozen)
    if status == 400 and 'cache was not flushed' not in text:
      self.problems.append(f'an update while frozen gave {text}')
    return mode
