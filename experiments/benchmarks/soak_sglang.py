r"""Troubles a real SGLang server through the project's client; scores each reply.

    python -m experiments.benchmarks.soak_sglang --requests=2000
    python -m experiments.benchmarks.soak_sglang --url=URL --weights=DIR

Clients play turns of episodes through `Sampler` while weights are pushed by
`DiskPush` in each of its modes in turn, requests are aborted by name or all at
once, clients leave, decoding is paused and the cache flushed. Every reply that
the server gave, also one that was cut off and asked again, is scored by the
trainer's float32 forward under the versions that its spans name.

Spans over entries of several versions, which pushes in place leave, are counted
apart, see `soak_spans`. Prints a report; exits with 1 if anything is off.
"""

import asyncio
import collections
import contextlib
import dataclasses
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import numpy as np
from absl import app, flags

from agentrl.errors import EngineError
from agentrl.inference.sampler import Sampler
from agentrl.runtime.event_loop import KEEP_ALIVE_S
from agentrl.serving import sglang
from agentrl.serving.options import PUSHES, Launch
from agentrl.serving.weight_sync.disk import DiskPush
from agentrl.serving.weight_sync.files import ModelFiles
from agentrl.weights import hf
from experiments.benchmarks import (
    soak_flags,
    soak_policy,
    soak_scores,
    soak_spans,
)
from experiments.benchmarks.soak_policy import MAX_LEN
from experiments.benchmarks.soak_scores import Span
from third_party.sglang_cpu import install

_URL = flags.DEFINE_string('url', None, 'Of a server; default: a new one.')
_WEIGHTS = flags.DEFINE_string('weights', None, 'What the server of --url has.')

_REQUESTS, _TEMPERATURES = 2000, (1.0, 0.7, 0.0)
_CALM, _DEEDS = 20, 3  # requests between deeds, deeds between pushes
_START_S, _LEAVE = 600.0, 0.08  # patience; share of clients that leave


@dataclasses.dataclass
class Report:
  """What was done, and what was wrong."""

  seed: int
  requests: int = 0
  ends: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  operator: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  replies: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  versions: int = 0
  tokens: int = 0
  spans: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  worst: dict[str, float] = dataclasses.field(default_factory=dict)
  seconds: float = 0.0
  # Of pushes in place, see `soak_spans`; nothing that the client did wrong.
  unexplained: list[str] = dataclasses.field(default_factory=list)
  failures: list[str] = dataclasses.field(default_factory=list)


class Recorder(Sampler):
  """Keeps each /generate as it was sent and answered."""

  def __init__(self, *args, live: dict[str, Any], **kwargs):
    super().__init__(*args, **kwargs)
    self._live = live
    self.heard: list[tuple[dict[str, Any], dict[str, Any]]] = []

  async def _call(self, method, url, *, payload=None, **kwargs):
    if not url.endswith('/generate'):
      return await super()._call(method, url, payload=payload, **kwargs)
    payload = dict(payload)
    self._live[payload['rid']] = payload
    try:
      text = await super()._call(method, url, payload=payload, **kwargs)
    finally:
      del self._live[payload['rid']]
    self.heard.append((payload, json.loads(text)))
    return text


class Traffic:
  """Clients and an operator of one server."""

  def __init__(self, session, url, pushes, trees, vocab_size, rng):
    self.version, self._may_retract = 0, False
    self.carried: dict[int, bool] = {}  # whether a push left entries alone
    self.found: list[Span] = []
    self.ends = collections.Counter()
    self.replies = collections.Counter()
    self.done = collections.Counter()
    self.problems: list[str] = []
    self._session, self._url = session, url
    self._pushes, self._trees = pushes, trees
    self._vocab, self._rng = vocab_size, rng
    self._live: dict[str, Any] = {}
    self._serial = self._episodes = 0
    self._admitted = asyncio.Event()
    self._admitted.set()

  def sampler(self, temperature: float) -> Recorder:
    return Recorder(
        self._session,
        [self._url],
        temperature=temperature,
        live=self._live,
        max_attempts=30,
        backoff_s=0.05,
        timeout_s=900.0,
        vocab_size=self._vocab,
    )

  def _ids(self, size: int) -> list[int]:
    return self._rng.integers(self._vocab, size=size).tolist()

  async def client(self, budget: list[int]) -> None:
    """Plays episodes while there is a budget of requests left."""
    tokens, runs = [], ()
    while budget[0]:
      budget[0] -= 1
      if not tokens or len(tokens) > MAX_LEN - 80 or self._rng.random() < 0.2:
        # Its first id is no other's for as many episodes as there are ids, and
        # a push empties the cache long before.
        self._episodes += 1
        tokens = [self._episodes % self._vocab, *self._ids(20)]
        runs = ()
      prompt = tokens + self._ids(int(self._rng.integers(1, 25)))
      tokens, runs = await self._ask(prompt, runs)

  async def _ask(self, prompt: list[int], runs) -> tuple[list[int], Any]:
    """One request; gives the episode so far, empty if that is not known."""
    await self._admitted.wait()
    asked = self.version
    sampler = self.sampler(float(self._rng.choice(_TEMPERATURES)))
    self._serial += 1
    request = sampler.generate(
        prompt,
        max_new_tokens=int(self._rng.choice((1, 4, 8, 8, 16, 30))),
        seed=self._serial,
        rid=f'r{self._serial}',
        partial=bool(self._rng.random() < 0.5),
    )
    leave = self._rng.random() < _LEAVE
    patience = float(self._rng.exponential(1.0)) if leave else None
    try:
      async with asyncio.timeout(patience):
        completion = await request
    except TimeoutError:
      self.ends['left'] += 1
      completion = None
    except EngineError as error:
      self.ends['failed'] += 1
      self.problems.append(f'{prompt}: {error}')
      completion = None
    else:
      self.ends[completion.finish_reason] += 1
    for payload, reply in sampler.heard:
      runs = self._take(payload, reply, runs)
    if completion is None:
      return [], ()
    if list(completion.tokens) != sampler.heard[-1][1]['output_ids']:
      self.problems.append(f'the client gave other ids for {prompt}')
    latest, _ = runs[-1]
    if any(self.carried[v] for v in range(asked + 1, latest + 1)):
      return [], ()
    return prompt + list(completion.tokens), runs

  def _take(self, payload, reply, runs):
    """Adds the spans of a reply; gives the runs of its episode's entries."""
    meta, prompt = reply['meta_info'], payload['input_ids']
    self.replies[meta['finish_reason']['type']] += 1
    if meta.get('num_retractions'):  # queued ones that end have no such key
      self.replies['retracted'] += 1
    if not reply['output_ids']:
      self.replies['empty'] += 1
      return runs
    spans = list(soak_spans.spans_of(payload, reply, runs, self.carried))
    if spans[-1].end != len(prompt) + len(reply['output_ids']):
      self.problems.append(f'spans {meta["weight_versions"]} of {reply}')
    versions = [version for span in spans for version, _ in span.runs[-1:]]
    if versions != sorted(versions) or versions[-1] > len(self.carried):
      self.problems.append(f'versions {versions} of {reply}')
    if str(versions[-1]) != meta['weight_version']:
      self.problems.append(f'{meta["weight_version"]} after {versions}')
    self.found += spans
    return spans[-1].runs

  async def operate(self, ended: asyncio.Event) -> None:
    """Deeds in turn with pushes, until there is no client left."""
    seen, count = 0, 0
    while not ended.is_set():
      total = sum(self.ends.values())
      if total - seen < _CALM:
        await asyncio.sleep(0.02)
        continue
      seen, count = total, count + 1
      if count % _DEEDS == 0:
        name = await self.push(PUSHES[count // _DEEDS % len(PUSHES)])
        following = PUSHES[(count // _DEEDS + 1) % len(PUSHES)]
        # See `soak_spans`: what is retracted must not meet two versions.
        self._may_retract = 'in_place' not in (name.split()[1], following)
      else:
        deeds = (self._abort, self._abort_all, self._pause, self._flush)
        name = await deeds[self._rng.integers(len(deeds))]()
      self.done[name] += 1

  async def push(self, mode: str) -> str:
    """The next version in a mode; draining needs that nobody asks anew."""
    version = self.version + 1
    self.carried[version] = mode == 'in_place'
    if mode == 'drain':
      self._admitted.clear()
    tree = self._trees[version % len(self._trees)]
    await self._pushes[mode](tree, version)
    self.version = version
    self._admitted.set()
    return f'push {mode}'

  async def _post(self, route: str, **body) -> int:
    async with self._session.post(f'{self._url}/{route}', json=body) as reply:
      await reply.read()
      return reply.status

  async def _abort(self) -> str:
    if not self._live:
      return 'abort of nothing'
    rid = list(self._live)[self._rng.integers(len(self._live))]
    await self._post('abort_request', rid=rid)
    return 'abort'

  async def _abort_all(self) -> str:
    await self._post('abort_request', abort_all=True)
    return 'abort_all'

  async def _pause(self) -> str:
    modes = ('in_place', 'abort', 'retract')[: 3 if self._may_retract else 2]
    mode = modes[self._rng.integers(len(modes))]
    await self._post('pause_generation', mode=mode)
    await asyncio.sleep(self._rng.uniform(0, 0.5))
    await self._post('continue_generation')
    return f'pause {mode}'

  async def _flush(self) -> str:
    return f'flush {await self._post("flush_cache")}'


async def soak(
    url: str,
    weights: pathlib.Path,
    base: pathlib.Path,
    *,
    requests: int,
    clients: int,
    seed: int,
) -> Report:
  """Sends the requests and scores the replies.

  Args:
    url: of a server.
    weights: the model that it was started with.
    base: a folder that it can read.
    requests: in all.
    clients: at once.
    seed: of all that is drawn.
  """
  start, (config, params) = time.perf_counter(), hf.load(weights)
  trees = soak_policy.near(params, 4, seed)
  report = Report(seed, requests=requests)
  connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
  timeout = aiohttp.ClientTimeout(total=900)
  async with aiohttp.ClientSession(
      connector=connector, timeout=timeout
  ) as session:
    traffic = Traffic(
        session, url, {}, trees, config.vocab_size, np.random.default_rng(seed)
    )
    control = traffic.sampler(1.0)
    for mode in PUSHES:
      traffic._pushes[mode] = DiskPush(
          control, base / mode, ModelFiles(config), mode=mode
      )
    await traffic.push('retract')
    budget, ended = [requests], asyncio.Event()
    async with asyncio.TaskGroup() as group:
      group.create_task(traffic.operate(ended))
      async with asyncio.TaskGroup() as players:
        for _ in range(clients):
          players.create_task(traffic.client(budget))
      ended.set()
    await control.wait_idle(60.0)
  report.ends, report.operator = traffic.ends, traffic.done
  report.replies, report.versions = traffic.replies, traffic.version
  report.failures += traffic.problems
  scorer = soak_scores.Scorer(config, trees, MAX_LEN)
  score(report, traffic.found, traffic.carried, scorer)
  report.seconds = round(time.perf_counter() - start, 1)
  return report


def score(report: Report, found: list[Span], carried, scorer) -> None:
  """Adds what the trainer makes of the spans."""
  kinds = {
      'one version': [span for span in found if len(span.runs) == 1],
      'several versions': [span for span in found if len(span.runs) > 1],
  }
  for kind, spans in kinds.items():
    scorer.worst = 0.0
    report.spans[kind] = len(spans)
    report.tokens += sum(span.end - span.start for span in spans)
    for index, problem in scorer.problems(spans):
      span = spans[index]
      guess = soak_spans.late(span, carried)
      if guess is not None and not scorer.problems([guess]):
        report.spans['late'] += 1
        continue
      where = f'tokens {span.start} to {span.end}, {span.cached} cached'
      words = f'{problem}; {where}, {span.params}'
      if len(span.runs) > 1:
        report.unexplained.append(words)
      else:
        report.failures.append(words)
    report.worst[kind] = scorer.worst


@contextlib.contextmanager
def serving(base: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
  """A real server of a tiny policy; gives its URL and its model."""
  config, trees, tokenizer = soak_policy.tiny()
  model = base / 'model'
  hf.save(
      model,
      config,
      trees[0],
      eos_ids=tokenizer.eos_ids,
      companions=[tokenizer.save],
  )
  launch = Launch(python=str(install.python()), module='sglang_on_cpu')
  server = sglang.Server(launch, sglang.ports(launch)[0], base / 'server.log')
  server.start(model)
  try:
    asyncio.run(_ready(server))
    yield server.url, model
  finally:
    server.stop()


async def _ready(server: sglang.Server) -> None:
  async with aiohttp.ClientSession() as session:
    sampler = Sampler(session, [server.url], temperature=1.0)
    ready = asyncio.create_task(sampler.wait_ready(_START_S))
    while not (await asyncio.wait([ready], timeout=0.5))[0]:
      if server.ending() is not None:
        ready.cancel()
        raise EngineError(f'it {server.ending()}: {server.last_words()}')
    ready.result()


def main(argv):
  del argv
  with contextlib.ExitStack() as stack:
    base = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if _URL.value:
      url, weights = _URL.value.rstrip('/'), pathlib.Path(_WEIGHTS.value)
    else:
      url, weights = stack.enter_context(serving(base))
    report = asyncio.run(
        soak(
            url,
            weights,
            base,
            requests=soak_flags.REQUESTS.value or _REQUESTS,
            clients=soak_flags.CLIENTS.value,
            seed=soak_flags.SEED.value,
        )
    )
  print(json.dumps(vars(report), indent=1))
  if report.failures:
    print(f'{len(report.failures)} failures with --traffic_seed={report.seed}')
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
