r"""Times the engine: decode at fixed batches, and episodes over HTTP.

    python -m experiments.benchmarks.bench_engine
    python -m experiments.benchmarks.bench_engine --models=tiny-1m --episodes=64
    python -m experiments.benchmarks.bench_engine --models=qwen2.5-1.5b \
        --dtype=bfloat16 --batches=1,16,64 --length=1024  # on a GPU

Prints one JSON line a case. `decode`: tokens per second of a full batch at a
given cache length, through the runner, so with padding, transfers and sampling.
`episodes`: clients that each play turns against the HTTP server of this process
(a growing prompt, a few sampled tokens). `roofline` is the time that weights and
cache entries take to read, or the matrix products to compute, whichever is
longer, at the rates measured in this run: products of the model's own shapes and
type with that many rows; `of_roofline` is its ratio to the time that was taken.
"""

import asyncio
import functools
import json
import statistics
import time

import aiohttp
import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from agentrl.engine import decode
from agentrl.engine.model_runner import ModelRunner
from agentrl.models import transformer, variants
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from experiments.benchmarks import engines, reference_rates

_MODELS = flags.DEFINE_list(
    'models', ['tiny-4m', 'smollm2-135m'], 'Names of models.variants.'
)
_BATCHES = flags.DEFINE_list('batches', ['1', '16', '32'], 'Rows that decode.')
_DTYPE = flags.DEFINE_enum(
    'dtype', 'float32', ['float32', 'bfloat16'], 'Of weights and cache.'
)
_LENGTH = flags.DEFINE_integer('length', 256, 'Cache positions in use.')
_REPEATS = flags.DEFINE_integer('repeats', 5, 'Timed dispatches.')
_EPISODES = flags.DEFINE_integer('episodes', 0, 'Clients; 0 skips the case.')
_TURNS = flags.DEFINE_integer('turns', 5, 'Turns of an episode.')
_PROMPT = flags.DEFINE_integer('prompt', 200, 'Tokens of the first prompt.')
_OBSERVATION = flags.DEFINE_integer('observation', 80, 'Tokens after a turn.')
_COMPLETION = flags.DEFINE_integer('completion', 6, 'Sampled tokens a turn.')
_DETERMINISTIC = flags.DEFINE_bool(
    'deterministic', False, 'Episodes of an engine in its determinism mode.'
)


def bench_dispatch(
    config: TransformerConfig, params, batch: int, rates: dict[str, float]
) -> dict[str, float]:
  """Full dispatches of `batch` rows near the end of their cache."""
  length = _LENGTH.value
  runner = ModelRunner(
      Transformer(config, dtype=jnp.dtype(_DTYPE.value)),
      params,
      slots=batch,
      max_len=length,
      max_rows=batch,
  )
  rows = [
      dict(
          slot=i,
          token=1,
          position=length - decode.MAX_STEPS,
          budget=decode.MAX_STEPS,
          seed=i,
          stop_ids=(),
          temperature=1.0,
          top_p=1.0,
          top_k=config.vocab_size,
          min_p=0.0,
          logit_params=None,
          top_logprobs=0,
      )
      for i in range(batch)
  ]
  dispatch = lambda: runner.decode(rows, steps=decode.MAX_STEPS, floor=1)
  seconds = statistics.median(
      reference_rates.timings_s(dispatch, repeats=_REPEATS.value)
  )
  step = seconds / decode.MAX_STEPS
  roofline = roofline_s(config, batch, length, rates)
  return {
      'tokens_per_s': batch / step,
      'step_ms': 1e3 * step,
      'roofline_ms': 1e3 * roofline,
      'of_roofline': roofline / step,
  }


def roofline_s(
    config: TransformerConfig,
    batch: int,
    length: int,
    rates: dict[str, float],
) -> float:
  """The least time of one decode step."""
  entries = 2 * config.num_layers * config.num_kv_heads * config.head_dim
  table = config.vocab_size * config.hidden_size
  # An untied input table is only looked up, a row a token.
  read = config.num_params - (0 if config.tie_embeddings else table)
  numbers = read + batch * length * entries
  width = config.num_heads * config.head_dim
  flops = 2 * read + 4 * config.num_layers * length * width
  return max(
      jnp.dtype(_DTYPE.value).itemsize * numbers / (rates['read_gbps'] * 1e9),
      batch * flops / (rates['gemm_gflops'] * 1e9),
  )


def matrices(config: TransformerConfig) -> list[tuple[int, int]]:
  """(out, in) of every product of a layer and of the output head."""
  hidden, inner = config.hidden_size, config.intermediate_size
  heads = config.num_heads * config.head_dim
  kv_heads = config.num_kv_heads * config.head_dim
  layer = [
      (heads, hidden),
      (kv_heads, hidden),
      (kv_heads, hidden),
      (hidden, heads),
      (inner, hidden),
      (inner, hidden),
      (hidden, inner),
  ]
  return config.num_layers * layer + [(config.vocab_size, hidden)]


def bench_episodes(config: TransformerConfig, params) -> dict[str, float]:
  """Clients that play episodes against the server of this process."""
  clients = _EPISODES.value
  longest = _PROMPT.value + _TURNS.value * (
      _OBSERVATION.value + _COMPLETION.value
  )
  with engines.serving(
      config,
      params,
      max_running=min(clients, 64),
      max_len=min(config.max_positions, longest),
      slots=clients + clients // 2,
      deterministic=_DETERMINISTIC.value,
      dtype=jnp.dtype(_DTYPE.value),
  ) as (engine, url):
    start = time.perf_counter()
    asyncio.run(play(url, config.vocab_size, run=0))
    first_s = time.perf_counter() - start
    # Again, until nothing new is compiled.
    runs = []
    for run in range(1, 1 + _REPEATS.value):
      start, cpu = time.perf_counter(), time.process_time()
      tokens = asyncio.run(play(url, config.vocab_size, run))
      runs.append(dict(
          tokens_per_s=tokens / (time.perf_counter() - start),
          tokens_per_cpu_s=tokens / (time.process_time() - cpu),
      ))  # fmt: skip
    stats = engine.stats()
  return {
      'first_s': first_s,
      'programs': stats['num_compiled_programs'],
      'cache_hit_rate': stats['cache_hit_rate'],
      **{
          name: statistics.median(run[name] for run in runs) for name in runs[0]
      },
      'best_tokens_per_s': max(run['tokens_per_s'] for run in runs),
  }


async def play(url: str, vocab_size: int, run: int) -> int:
  """One episode for each client, at once; gives the sampled tokens."""

  async def episode(session: aiohttp.ClientSession, client: int) -> int:
    rng = np.random.default_rng([run, client])
    draw = lambda count: rng.integers(vocab_size, size=count).tolist()
    tokens, sampled = draw(_PROMPT.value), 0
    for turn in range(_TURNS.value):
      body = {
          'input_ids': tokens,
          'return_logprob': True,
          'sampling_params': {
              'max_new_tokens': int(rng.integers(1, 2 * _COMPLETION.value)),
              'sampling_seed': client * _TURNS.value + turn,
          },
      }
      async with session.post(f'{url}/generate', json=body) as response:
        meta = (await response.json())['meta_info']
      ids = [token for _, token, _ in meta['output_token_logprobs']]
      sampled += len(ids)
      room = _COMPLETION.value - len(ids) + _OBSERVATION.value
      tokens = tokens + ids + draw(room)  # one length for all: easy to bound
    return sampled

  connector = aiohttp.TCPConnector(limit=0)
  async with aiohttp.ClientSession(connector=connector) as session:
    return sum(
        await asyncio.gather(
            *(episode(session, i) for i in range(_EPISODES.value))
        )
    )


def draw(config: TransformerConfig, key: jax.Array):
  """Random parameters of the type that is served."""
  params = transformer.init_params(Transformer(config), key)
  return jax.tree.map(lambda x: x.astype(_DTYPE.value), params)


def main(argv):
  del argv
  device = jax.devices()[0].device_kind
  for name in _MODELS.value:
    config = variants.get(name)
    params = jax.jit(functools.partial(draw, config))(jax.random.key(0))
    rates = {'read_gbps': reference_rates.read_gbps()}
    about = dict(model=name, device=device, dtype=_DTYPE.value)
    for batch in map(int, _BATCHES.value):
      rates['gemm_gflops'] = reference_rates.products_gflops(
          matrices(config), batch, dtype=_DTYPE.value
      )
      result = bench_dispatch(config, params, batch, rates)
      case = dict(case='decode', batch=batch, length=_LENGTH.value)
      print(json.dumps(about | case | result | rates), flush=True)
    if _EPISODES.value:
      rates['empty_requests_per_s'] = reference_rates.empty_requests_per_s(
          _EPISODES.value
      )
      case = dict(
          case='episodes',
          clients=_EPISODES.value,
          deterministic=_DETERMINISTIC.value,
      )
      result = bench_episodes(config, params)
      print(json.dumps(about | case | result | rates), flush=True)


if __name__ == '__main__':
  app.run(main)
