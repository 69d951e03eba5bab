"""Times what hands a policy over: files for servers, a swap in the engine.

    python -m experiments.benchmarks.bench_weight_sync --folder=/dev/shm

Prints one JSON line per case. Random weights.

  disk: writing a version for SGLang. `write_gbps` is that of the files,
    `folder_gbps` that of as many bytes from one buffer into the same folder, by
    as many threads, in turns with it; `share` is their ratio. `install_s` is
    what a server (here the embedded engine, behind HTTP) takes to load and to
    be checked. `seconds_7b` scales the writing to 15.2 GB, 7B in bfloat16.
  swap: the embedded engine. `copy_ms` passes while it decodes, `pause_ms` is
    the swap of an idle engine, `busy_ms` that of one that decodes, with the
    steps under way, which it waits for.
"""

import asyncio
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable

import aiohttp
import jax
import numpy as np
from absl import app, flags

from agentrl.engine.options import EngineOptions
from agentrl.engine.request import Request, SamplingParams
from agentrl.engine.server import Engine
from agentrl.inference.control import ControlClient
from agentrl.models import transformer, variants
from agentrl.models.transformer import Transformer
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.serving.weight_sync.disk import DiskPush
from agentrl.serving.weight_sync.files import ModelFiles
from agentrl.weights import names, shards

_MODELS = flags.DEFINE_list(
    'models', ['tiny-4m', 'smollm2-135m'], 'Names of agentrl.models.variants.'
)
_DTYPES = flags.DEFINE_list('dtypes', ['bfloat16', 'float32'], 'In the files.')
_FOLDER = flags.DEFINE_string('folder', '/dev/shm', 'Where files are written.')
_SHARD_MB = flags.DEFINE_integer('shard_mb', 1000, 'Most of one file.')
_REPEATS = flags.DEFINE_integer('repeats', 5, 'Timed calls per case.')
_BUSY = flags.DEFINE_integer('busy', 4, 'Requests that decode during a swap.')

_BYTES_7B = 15.2e9
_WARM_S = 20


def seconds(fn: Callable[[], object]) -> float:
  start = time.perf_counter()
  fn()
  return time.perf_counter() - start


def write_plain(folder: pathlib.Path, sizes: list[int]) -> None:
  """Files of these sizes from one buffer, at once: what the folder can do."""
  folder.mkdir()
  block = memoryview(np.ones(64 * 2**20, np.uint8))

  def write(i: int) -> None:
    left = sizes[i]
    with (folder / str(i)).open('wb', buffering=0) as file:
      while left:
        left -= file.write(block[:left])

  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(write, range(len(sizes))))


def bench_disk(config, params, engine, dtype: str) -> dict[str, float]:
  """Writing versions, in turns with plain files of the same sizes."""
  base = pathlib.Path(tempfile.mkdtemp(prefix='bench-', dir=_FOLDER.value))
  entries = names.disassemble(config, params, dtype=dtype)
  size = shards.total_bytes(entries)
  most = _SHARD_MB.value * 10**6
  try:
    push = DiskPush(
        ControlClient(None, []),
        base,
        ModelFiles(config, dtype=dtype, shard_bytes=most),
    )
    push.write(params, 0)  # compiles
    files = (base / 'version_0').glob('*.safetensors')
    sizes = [path.stat().st_size for path in files]
    ours, plain = [], []
    for _ in range(_REPEATS.value):
      shutil.rmtree(base / 'version_0')
      ours.append(seconds(lambda: push.write(params, 0)))
      plain.append(seconds(lambda: write_plain(base / 'plain', sizes)))
      shutil.rmtree(base / 'plain')
    version = push.write(params, 0)
    url = engine.start()

    async def install() -> float:
      async with aiohttp.ClientSession() as session:
        start = time.perf_counter()
        await push.install(ControlClient(session, [url]), version)
        return time.perf_counter() - start

    install_s = asyncio.run(install())
  finally:
    engine.stop()
    shutil.rmtree(base)
  write_s, plain_s = statistics.median(ours), statistics.median(plain)
  return {
      'mb': size / 1e6,
      'files': len(sizes),
      'write_ms': 1e3 * write_s,
      'write_gbps': size / write_s / 1e9,
      'folder_gbps': size / plain_s / 1e9,
      'share': plain_s / write_s,
      'install_s': install_s,
      'seconds_7b': _BYTES_7B / (size / write_s),
  }


def bench_swap(config, params, engine) -> dict[str, float]:
  """Swaps of an idle and of a decoding engine."""
  push = weight_sync.EmbeddedPush(engine)
  copies, idle, busy = [], [], []

  def swap(version: int) -> float:
    copy = jax.block_until_ready(weight_sync.engine_layout(params))
    return seconds(lambda: engine.update_params(copy, str(version)))

  engine.start()
  try:
    asyncio.run(push(params, 1))  # compiles
    for i in range(_REPEATS.value):
      copies.append(
          seconds(
              lambda: jax.block_until_ready(weight_sync.engine_layout(params))
          )
      )
      idle.append(swap(i))
    stopped = threading.Event()

    def keep_busy(seed: int) -> None:
      serial = 0
      while not stopped.is_set():
        serial += 1
        request = Request(
            rid=f'{seed}.{serial}',
            tokens=(seed, 1, 2, 3),
            params=SamplingParams(max_new_tokens=64, sampling_seed=serial),
        )
        engine.submit(request).result()

    with concurrent.futures.ThreadPoolExecutor(_BUSY.value) as pool:
      jobs = [pool.submit(keep_busy, i) for i in range(_BUSY.value)]
      # Until all programs that they need are compiled; they do not end.
      concurrent.futures.wait(jobs, timeout=_WARM_S)
      busy += [swap(i) for i in range(_REPEATS.value)]
      stopped.set()
  finally:
    engine.stop()
  return {
      'copy_ms': 1e3 * statistics.median(copies),
      'pause_ms': 1e3 * statistics.median(idle),
      'pause_max_ms': 1e3 * max(idle),
      'busy_ms': 1e3 * statistics.median(busy),
      'busy_max_ms': 1e3 * max(busy),
  }


def main(argv):
  del argv
  device = jax.devices()[0].device_kind
  for name in _MODELS.value:
    config = variants.get(name)
    module = Transformer(config, scan_layers=True)
    params = jax.block_until_ready(
        transformer.init_params(module, jax.random.key(0))
    )

    def make_engine(config=config, params=params) -> Engine:
      return Engine(
          config,
          weight_sync.engine_layout(params),
          None,
          EngineOptions(
              eos_ids=(),
              model_path='random',
              max_running=max(_BUSY.value, 1),
              max_len=256,
              slots=max(_BUSY.value, 1),
          ),
      )

    about = dict(model=name, device=device, cores=os.cpu_count())
    for dtype in _DTYPES.value:
      result = bench_disk(config, params, make_engine(), dtype)
      case = dict(case='disk', folder=_FOLDER.value, dtype=dtype)
      print(json.dumps(about | case | result), flush=True)
    result = bench_swap(config, params, make_engine())
    print(json.dumps(about | dict(case='swap') | result), flush=True)


if __name__ == '__main__':
  app.run(main)
