r"""Times the same requests on the embedded engine and on other servers, in turns.

    python -m experiments.benchmarks.bench_servers \
        --sglang=$(python third_party/sglang_cpu/install.py) \
        --llama_server=llama.cpp/build/bin/llama-server

All serve the same weights, at once and on the same cores, and are asked one
after the other: the engine, a real SGLang server, and llama.cpp's in float32 and
in its 8 bits (Q8_0, cache in float16). tiny-4m has random weights. Cases:

  start: from the command until a server takes requests, and until it has
    sampled a token after 200 others.
  first_token: one token after a prompt of 1,500 (768 on SmolLM2-135M).
  generate: 1 and 16 prompts of 64 tokens, 128 sampled tokens each.
  turns: 16 episodes of 10 turns, a turn 60 observed and 30 sampled tokens.

Prints one JSON line a case, medians and ranges over `--repeats` runs of each
side (`--starts` starts), after some that compile. `times_as_long` is a server's
median over the engine's, `prefilled` the prompt tokens that it computed, `least`
those that must be. `greedy_equal` is how many of 32 greedy tokens are the
engine's before the first that is not. `programs` were compiled in runs that
count, and should be 0.

llama.cpp's server can be built out of the sources in a Python package:

    pip download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36
    tar xzf llama_cpp_python-0.3.36.tar.gz
    cmake -S llama_cpp_python-0.3.36/vendor/llama.cpp -B llama.cpp/build \
        -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
    cmake --build llama.cpp/build --target llama-server -j 2

Where a sandbox forbids AMX on a CPU that has it, 8 bits end that server; then add
-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_VBMI=ON.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import tempfile
import time
from typing import Any

import aiohttp
import jax
import numpy as np
from absl import app, flags

from agentrl.models import variants
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer, init_params
from agentrl.runtime.event_loop import EventLoop
from agentrl.serving import sglang
from agentrl.serving.options import Launch
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import language_model
from agentrl.weights import hf
from experiments.benchmarks import gguf_files, loops, peers, servers
from experiments.benchmarks.loops import Case
from experiments.benchmarks.servers import Server

_MODELS = flags.DEFINE_list(
    'models', ['tiny-4m', 'smollm2-135m'], 'Which models.'
)
_CASES = flags.DEFINE_list(
    'cases', ['first_token', 'generate', 'turns'], 'Cases after the start.'
)
_SGLANG = flags.DEFINE_string(
    'sglang', None, 'Interpreter that has SGLang; none leaves it out.'
)
_LLAMA_SERVER = flags.DEFINE_string(
    'llama_server', None, "llama.cpp's server; none leaves it out."
)
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Runs that count, of each side.')
_WARMUP = flags.DEFINE_integer(
    'warmup', 40, 'Most runs before them, see _SETTLE_S.'
)
_STARTS = flags.DEFINE_integer('starts', 2, 'Of each server.')

# Each side first runs a case for so long, and until a run compiles nothing: the
# engine serves a new shape by a larger one until that has wasted two seconds.
_SETTLE_S = 15.0
_BATCH = 16
_CONTEXT = {'tiny-4m': 2048, 'smollm2-135m': 1024}
_FIRST_TOKEN = {'tiny-4m': 1500, 'smollm2-135m': 768}
_START_PROMPT, _GREEDY = 200, 32


def write_files(name: str, folder: pathlib.Path) -> TransformerConfig:
  """Writes a model for all servers: `hf`, `f32.gguf` and `q8_0.gguf`."""
  if name == 'tiny-4m':
    config = variants.get(name)
    init = lambda key: init_params(Transformer(config, scan_layers=True), key)
    params = jax.device_get(jax.jit(init)(jax.random.key(0)))
    tokenizer = tokenizer_lib.train_bpe(['the cat sat on the mat'], 300)
  else:
    model, _ = language_model.load_policy(name)
    config, params, tokenizer = model.config, model.params, model.tokenizer
  companions = [tokenizer.save]
  eos_ids = tokenizer.eos_ids
  hf.save(folder / 'hf', config, params, eos_ids=eos_ids, companions=companions)
  if _LLAMA_SERVER.value:
    words = folder / 'hf' / 'tokenizer.json'
    for kind in ('f32', 'q8_0'):
      path = folder / f'{kind}.gguf'
      gguf_files.write(path, config, params, words, kind=kind)
  return config


def make_servers(folder: pathlib.Path, context: int) -> list[Server]:
  """The engine first, then those that flags name."""
  sizes = dict(context=context, batch=_BATCH)
  ports = iter(sglang.ports(Launch(replicas=4)))
  log = lambda name: folder / f'{name}.log'
  model = folder / 'hf'
  made = [servers.engine(model, log('engine'), next(ports), **sizes)]
  if _SGLANG.value:
    made.append(
        servers.real(model, log('sglang'), next(ports), _SGLANG.value, **sizes)
    )
  if _LLAMA_SERVER.value:
    for kind in ('f32', 'q8_0'):
      made.append(
          servers.llama(
              folder / f'{kind}.gguf',
              log(kind),
              next(ports),
              _LLAMA_SERVER.value,
              **sizes,
          )
      )
  return made


class Bench:
  """Servers of one model, and a client in a thread of its own."""

  def __init__(
      self, host: EventLoop, sides: list[Server], config: TransformerConfig
  ):
    self._host = host
    self._sides = sides
    self._vocab_size = config.vocab_size
    self._runs = iter(range(10**6))

  def start(self, stack: contextlib.ExitStack) -> dict[str, Any]:
    """Starts each server some times; the last start stays until `stack` ends."""
    result = {}
    for side in self._sides:
      stack.callback(side.stop)
      ready, first = [], []
      for _ in range(_STARTS.value):
        side.stop()
        begin = time.perf_counter()
        ready.append(side.start())
        self._complete(side, self._draw(_START_PROMPT), 1)
        first.append(time.perf_counter() - begin)
      result[side.name] = dict(
          ready_s=peers.spread(ready), first_token_s=peers.spread(first)
      )
    prompt = self._draw(_START_PROMPT)
    said = [
        self._complete(side, prompt, _GREEDY, temperature=0.0)
        for side in self._sides
    ]
    for side, tokens in zip(self._sides, said, strict=True):
      differ = np.nonzero(np.array(tokens) != np.array(said[0]))[0]
      equal = int(differ[0]) if differ.size else _GREEDY
      result[side.name]['greedy_equal'] = equal
    return dict(starts=_STARTS.value) | result

  def run(self, case: Case) -> dict[str, Any]:
    """All sides of one case."""
    for side in self._sides:
      begin = time.perf_counter()
      for _ in range(_WARMUP.value):
        compiled = self._num_compiled(side)
        self._play(side, case)
        settled = time.perf_counter() - begin > _SETTLE_S
        if settled and self._num_compiled(side) == compiled:
          break
    compiled = self._num_compiled(self._sides[0])
    plays = {
        side.name: lambda side=side: self._play(side, case)
        for side in self._sides
    }
    runs = peers.alternate(plays, _REPEATS.value)
    compiled = self._num_compiled(self._sides[0]) - compiled
    sides = {name: loops.summary(case, side) for name, side in runs.items()}
    for name, side in sides.items():
      last = runs[name][-1]
      side['prefilled'] = last['prompted'] - last['cached']
    loops.compare(sides, self._sides[0].name)
    least = case.batch * case.turns * case.observation
    return dict(least=least, programs=compiled, runs=_REPEATS.value) | sides

  def _play(self, side: Server, case: Case) -> dict[str, Any]:
    ask = lambda ids, row, _: side.complete(
        self._host.session, ids, case.new, row=row
    )
    return self._host.run(
        loops.play(ask, case, self._vocab_size, next(self._runs))
    )

  def _complete(self, side: Server, ids, new: int, **how: Any) -> list[int]:
    async def ask():
      # A session that is kept would send over connections to an earlier start.
      async with aiohttp.ClientSession() as session:
        return await side.complete(session, ids, new, **how)

    return self._host.run(ask()).tokens

  def _num_compiled(self, side: Server) -> int:
    return self._host.run(side.num_compiled(self._host.session))

  def _draw(self, count: int) -> list[int]:
    rng = np.random.default_rng(next(self._runs))
    return rng.integers(self._vocab_size, size=count).tolist()


def main(argv):
  del argv
  for name in _MODELS.value:
    with contextlib.ExitStack() as stack:
      folder = pathlib.Path(
          stack.enter_context(tempfile.TemporaryDirectory(prefix='bench-'))
      )
      config = write_files(name, folder)
      host = stack.enter_context(EventLoop())
      bench = Bench(host, make_servers(folder, _CONTEXT[name]), config)
      about = dict(model=name, cores=os.cpu_count())
      print(
          json.dumps(dict(case='start') | about | bench.start(stack)),
          flush=True,
      )
      cases = loops.CASES | {
          'first_token': (Case(1, 1, _FIRST_TOKEN[name], 1),)
      }
      for kind in _CASES.value:
        for case in cases[kind]:
          shape = dataclasses.asdict(case)
          print(
              json.dumps(dict(case=kind) | about | shape | bench.run(case)),
              flush=True,
          )


if __name__ == '__main__':
  app.run(main)
