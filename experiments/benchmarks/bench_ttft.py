"""Times a long prompt's first token, and what it costs those who decode.

    python -m experiments.benchmarks.bench_ttft

Eight streams decode behind HTTP. After `--steady_s` a prompt of 1,500 tokens (768
on SmolLM2-135M) arrives and samples one token. Random weights, float32, and no
token that ends a completion.

Prints one JSON line a model, medians and ranges over the trials, after some
that compile. `ttft_ms` is from sending the prompt to its first token, `alone_ms`
the same on an idle engine. A token's time is that between two chunks of its
stream over the tokens of the second; its 50th and 99th percentile are told
`before` the prompt is sent and `during` its prefill, chunks that waited for it
included. `ratio` is the mean during over the mean before, `worst_ratio` the 99th
percentile during over the median before. `programs` were compiled in trials that
count, and should be 0.
"""

import asyncio
import contextlib
import json
import os
import time
from typing import Any

import aiohttp
import jax
import numpy as np
from absl import app, flags

from agentrl.models import transformer, variants
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.runtime.event_loop import EventLoop
from experiments.benchmarks import engines, peers

_MODELS = flags.DEFINE_list(
    'models', ['tiny-4m', 'smollm2-135m'], 'Names of models.variants.'
)
_STREAMS = flags.DEFINE_integer('streams', 8, 'That decode meanwhile.')
_STEADY_S = flags.DEFINE_float('steady_s', 4.0, 'Before the prompt arrives.')
_TRIALS = flags.DEFINE_integer('trials', 3, 'That count.')
_WARMUP = flags.DEFINE_integer(
    'warmup', 6, 'Most trials before them; one that compiles nothing is enough.'
)

_PROMPTS = {'tiny-4m': 1500, 'smollm2-135m': 768}
_STREAM_PROMPT = 64
_PATIENCE_S = 300
_MAX_LEN = 2048

# When a chunk came, and how many tokens it brought.
Chunk = tuple[float, int]


async def stream(
    session: aiohttp.ClientSession,
    url: str,
    ids: list[int],
    max_new_tokens: int,
    chunks: list[Chunk],
    came: asyncio.Event,
) -> None:
  """Reads a stream to its end, into `chunks`; `came` is set by each."""
  body = {
      'input_ids': ids,
      'stream': True,
      'sampling_params': {'max_new_tokens': max_new_tokens, 'temperature': 1.0},
  }
  seen = 0
  async with session.post(f'{url}/generate', json=body) as response:
    response.raise_for_status()
    async for line in response.content:
      if not line.startswith(b'data: {'):
        continue
      count = json.loads(line[6:])['meta_info']['completion_tokens']
      chunks.append((time.perf_counter(), count - seen))
      came.set()
      seen = count


async def trial(
    session: aiohttp.ClientSession,
    url: str,
    config: TransformerConfig,
    prompt: int,
    rng: np.random.Generator,
) -> dict[str, float]:
  """One arrival of a long prompt."""
  draw = lambda count: rng.integers(config.vocab_size, size=count).tolist()

  async def first_token_ms() -> float:
    start, chunks = time.perf_counter(), []
    await stream(session, url, draw(prompt), 1, chunks, asyncio.Event())
    return 1e3 * (chunks[0][0] - start)

  alone_ms = await first_token_ms()
  chunks = [[] for _ in range(_STREAMS.value)]
  came = [asyncio.Event() for _ in chunks]
  room = _MAX_LEN - _STREAM_PROMPT
  async with asyncio.timeout(_PATIENCE_S), asyncio.TaskGroup() as group:
    tasks = [
        group.create_task(
            stream(session, url, draw(_STREAM_PROMPT), room, row, event)
        )
        for row, event in zip(chunks, came, strict=True)
    ]
    for event in came:
      await event.wait()
    steady = time.perf_counter()
    await asyncio.sleep(_STEADY_S.value)
    sent = time.perf_counter()
    ttft_ms = await first_token_ms()
    answered = time.perf_counter()
    if any(task.done() for task in tasks):
      raise ValueError('A stream has ended; use a smaller --steady_s.')
    # The chunks under way waited for the prompt, too.
    for event in came:
      event.clear()
    for event in came:
      await event.wait()
    for task in tasks:  # a client that leaves aborts its request
      task.cancel()
  before = token_ms(chunks, steady, sent)
  during = token_ms(chunks, sent, answered)
  p50, p99 = np.percentile(before, [50, 99])
  worst = np.percentile(during, 99)
  return dict(
      alone_ms=alone_ms,
      ttft_ms=ttft_ms,
      before_p50_ms=p50,
      before_p99_ms=p99,
      during_p50_ms=np.percentile(during, 50),
      during_p99_ms=worst,
      ratio=np.mean(during) / np.mean(before),
      worst_ratio=worst / p50,
  )


def token_ms(rows: list[list[Chunk]], start: float, end: float) -> list[float]:
  """What each token took whose wait lay in part between two moments."""
  times = []
  for row in rows:
    for (last, _), (now, count) in zip(row, row[1:], strict=False):
      if last < end and now > start:
        times += [1e3 * (now - last) / count] * count
  return times


def bench(
    config: TransformerConfig, params: Any, prompt: int
) -> dict[str, Any]:
  """All trials of a model."""
  with contextlib.ExitStack() as stack:
    engine, url = stack.enter_context(
        engines.serving(
            config,
            params,
            max_running=_STREAMS.value + 1,
            max_len=_MAX_LEN,
            slots=_STREAMS.value + 2,
        )
    )
    host = stack.enter_context(EventLoop())
    rng = np.random.default_rng(0)
    run = lambda: host.run(trial(host.session, url, config, prompt, rng))
    engines.warm_up(engine, run, _WARMUP.value)
    compiled = engines.num_compiled(engine)
    trials = [run() for _ in range(_TRIALS.value)]
    compiled = engines.num_compiled(engine) - compiled
  values = {
      name: peers.spread([measured[name] for measured in trials])
      for name in trials[0]
  }
  return values | dict(trials=len(trials), programs=compiled)


def main(argv):
  del argv
  device = jax.devices()[0].device_kind
  for name in _MODELS.value:
    config = variants.get(name)
    params = transformer.init_params(Transformer(config), jax.random.key(0))
    about = dict(case='ttft', model=name, device=device, cores=os.cpu_count())
    about |= dict(streams=_STREAMS.value, prompt=_PROMPTS[name])
    result = bench(config, params, _PROMPTS[name])
    print(json.dumps(about | result), flush=True)


if __name__ == '__main__':
  app.run(main)
