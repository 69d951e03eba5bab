r"""Troubles the embedded engine for a long time and checks every reply.

    python -m experiments.benchmarks.soak_engine
    python -m experiments.benchmarks.soak_engine --requests=2000 --traffic_seed=7

Clients play turns of episodes over HTTP with all kinds of sampling, alone and
in groups, streamed and not, and leave at times; meanwhile requests are aborted,
decoding is paused in every mode, weights change in every way, the cache is
flushed, updates fail, the queue overflows and bad requests come.

Each round ends idle. Then every request must have had its one answer, every
sampled token the log-probability that the trainer gives it under the weights
that the reply names, every text and finish reason must be what its tokens make
of it, and every slot must be free. Prints a JSON line a round and a report;
exits with 1, the seed and the requests if anything is off.
"""

import asyncio
import collections
import dataclasses
import json
import pathlib
import sys
import tempfile
import time

import aiohttp
import numpy as np
import psutil
from absl import app, flags

from agentrl.engine.options import EngineOptions
from agentrl.engine.request import ABORT
from agentrl.engine.server import Engine
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.weights import hf
from experiments.benchmarks import (
    soak_flags,
    soak_policy,
    soak_replies,
    soak_scores,
)
from experiments.benchmarks.soak_policy import MAX_LEN
from experiments.benchmarks.soak_traffic import (
    MAX_QUEUED,
    Outcome,
    Traffic,
)

_ROUND = flags.DEFINE_integer('round', 500, 'Requests of a round.')

_REQUESTS = 20_000
_SLOTS = 48
_MAX_RUNNING = 24
# Requests between two deeds of the operator.
_CALM = 12
# Between a third of the rounds and the last; with fewer rounds programs are
# still being compiled.
_MEMORY_GROWTH = 0.05
_MEMORY_ROUNDS = 9


@dataclasses.dataclass
class Report:
  """What was done, and what was wrong."""

  seed: int
  requests: int = 0
  tokens: int = 0
  seconds: float = 0.0
  ends: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  operator: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  spans: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  worst_logprob_error: float = 0.0
  cache_hit_rate: float = 0.0
  rss_mb: list[float] = dataclasses.field(default_factory=list)
  failures: list[str] = dataclasses.field(default_factory=list)

  def memory_growth(self) -> float:
    """From the end of a third of the rounds to the end of the last."""
    third = (len(self.rss_mb) - 1) // 3
    return self.rss_mb[-1] / self.rss_mb[third] - 1


def write_folders(base: pathlib.Path, config, trees) -> list[str]:
  """One of each tree, and one that lacks a shard."""
  folders = [base / str(i) for i in range(len(trees))]
  for folder, tree in zip(folders, trees, strict=True):
    hf.save(folder, config, tree)
  damaged = base / 'damaged'
  hf.save(damaged, config, trees[0], shard_bytes=20_000)
  sorted(damaged.glob('*.safetensors'))[-1].unlink()
  return [str(folder) for folder in (*folders, damaged)]


async def soak(
    *, requests: int, seed: int, round_size: int = 500, clients: int = 32
) -> Report:
  """Runs the rounds; raises nothing for what it finds."""
  report = Report(seed)
  config, trees, tokenizer = soak_policy.tiny()
  engine = Engine(
      config,
      weight_sync.engine_layout(trees[0]),
      tokenizer,
      EngineOptions(
          eos_ids=tokenizer.eos_ids,
          model_path='soak',
          max_running=_MAX_RUNNING,
          max_len=MAX_LEN,
          slots=_SLOTS,
          max_queued=MAX_QUEUED,
          weight_version='0',
      ),
  )
  url = engine.start()
  scorer = soak_scores.Scorer(config, trees, MAX_LEN)
  start = time.perf_counter()
  connector = aiohttp.TCPConnector(limit=0)
  try:
    with tempfile.TemporaryDirectory() as base:
      folders = await asyncio.to_thread(
          write_folders, pathlib.Path(base), config, trees
      )
      async with aiohttp.ClientSession(connector=connector) as session:
        rng = np.random.default_rng(seed)
        traffic = Traffic(
            engine, url, session, trees, folders, config.vocab_size, rng
        )
        while report.requests < requests and not report.failures:
          size = min(round_size, requests - report.requests)
          outcomes = await play_round(traffic, size, clients)
          check_round(report, traffic, outcomes, scorer, tokenizer)
          await check_idle(report, engine, session, url)
          report.seconds = time.perf_counter() - start
  finally:
    engine.stop()
  warm = len(report.rss_mb) >= _MEMORY_ROUNDS
  if warm and report.memory_growth() > _MEMORY_GROWTH:
    report.failures.append(f'memory grew: {report.rss_mb} MB by round')
  return report


async def play_round(
    traffic: Traffic, size: int, clients: int
) -> list[Outcome]:
  """Sends `size` requests, with an operator beside them."""
  outcomes, budget = [], [size]

  async def operate() -> None:
    seen = 0
    while budget[0]:
      if len(outcomes) - seen >= _CALM:
        seen = len(outcomes)
        await traffic.operate()
      await asyncio.sleep(0.005)

  async with asyncio.TaskGroup() as group:
    group.create_task(operate())
    for _ in range(clients):
      group.create_task(traffic.client(budget, outcomes))
  return outcomes


def check_round(report, traffic, outcomes, scorer, tokenizer) -> None:
  """Judges every request of a round; adds to the report."""
  found, owners = [], []
  for outcome in outcomes:
    report.requests += 1
    end, *wrong = problems_of_outcome(traffic, outcome)
    report.ends[end] += 1
    for reply in outcome.replies.values():
      if outcome.ask.bad:
        break  # it should have none, which is told already
      report.tokens += len(reply['output_ids'])
      wrong += soak_replies.problems_of_reply(outcome.ask, reply, tokenizer)
      new = list(soak_scores.spans(outcome.ask, reply, traffic.carried))
      found += new
      owners += [outcome] * len(new)
    report.failures += [describe(outcome, problem) for problem in wrong]
  for span in found:
    report.spans['carried' if len(span.runs) > 1 else 'fresh'] += 1
  for index, problem in scorer.problems(found):
    report.failures.append(describe(owners[index], problem))
  report.spans['searched'] = scorer.searched
  report.worst_logprob_error = scorer.worst
  report.operator = traffic.done
  report.failures += traffic.problems
  traffic.problems.clear()
  traffic.aborts.clear()
  traffic.crowds.clear()


def describe(outcome: Outcome, problem: str) -> str:
  status, body = outcome.status, outcome.ask.body
  spans = [
      reply['meta_info']['weight_versions']
      for reply in outcome.replies.values()
  ]
  return (
      f'{problem}: status {status} {outcome.error} for {json.dumps(body)}, sent'
      f' under version {outcome.ask.version}, sampled by {spans}'
  )


def problems_of_outcome(traffic: Traffic, outcome: Outcome) -> list[str]:
  """How a request ended, and what is wrong with that."""
  ask, status = outcome.ask, outcome.status
  if ask.bad:
    refused = status in (400, 'left')
    return [f'bad {status}', *['no refusal'] * (not refused)]
  problems = list(outcome.problems)
  if status == 503:
    full = 'max_queued' in outcome.error and any(
        window.covers(outcome, ask.rid) for window in traffic.crowds
    )
    return ['503', *problems, *['the queue was not full'] * (not full)]
  if status == 'left':
    return ['left', *problems]
  if status != 200:
    return [str(status), *problems, 'no answer']
  copies = ask.params['n']
  if sorted(outcome.replies) != list(range(copies)):
    return ['200', *problems, f'{len(outcome.replies)} of {copies} replies']
  kinds = set()
  for reply in outcome.replies.values():
    reason, rid = reply['meta_info']['finish_reason'], reply['meta_info']['id']
    kinds.add(reason['type'] if reason else 'unfinished')
    if reason and reason['type'] == ABORT:
      if not any(window.covers(outcome, rid) for window in traffic.aborts):
        problems.append('aborted by nobody')
  if 'unfinished' in kinds:
    problems.append('a stream without an end')
  stream = 'stream ' * ask.body['stream']
  return [stream + '+'.join(sorted(kinds)), *problems]


async def check_idle(report, engine, session, url) -> None:
  """Nothing may be left of the requests of a round, nor of those that left."""
  route = f'{url}/flush_cache?timeout=30'
  async with session.post(route) as response:
    if response.status != 200:
      report.failures.append(f'not idle after 30 s: {engine.stats()}')
  async with session.get(f'{url}/server_info') as response:
    (state,) = (await response.json())['internal_states']
  if state['num_free_slots'] != _SLOTS or state['num_used_tokens']:
    report.failures.append(f'leaked slots: {state}')
  report.cache_hit_rate = state['cache_hit_rate']
  report.rss_mb.append(psutil.Process().memory_info().rss / 1e6)
  facts = dict(
      requests=report.requests,
      rss_mb=round(report.rss_mb[-1]),
      programs=state['num_compiled_programs'],
      failures=len(report.failures),
  )
  print(json.dumps(facts), flush=True)


def main(argv):
  del argv
  report = asyncio.run(
      soak(
          requests=soak_flags.REQUESTS.value or _REQUESTS,
          seed=soak_flags.SEED.value,
          round_size=_ROUND.value,
          clients=soak_flags.CLIENTS.value,
      )
  )
  facts = vars(report) | dict(memory_growth=report.memory_growth())
  print(json.dumps(facts, indent=1))
  if report.failures:
    print(f'{len(report.failures)} failures with --traffic_seed={report.seed}')
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
