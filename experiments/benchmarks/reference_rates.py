"""What this machine can do at best, measured in the run that quotes it.

Shared machines drift, so a figure means something only beside its limit of the
same minutes: matrix products for training, memory reads for decoding, an empty
handler for servers.
"""

import asyncio
import collections
import functools
import statistics
import time
from collections.abc import Callable, Sequence

import aiohttp
import jax
import jax.numpy as jnp
from aiohttp import web


def timings_s(fn: Callable[[], object], *, repeats: int) -> list[float]:
  """Wall times of `fn()`, after one call that compiles and warms up."""
  jax.block_until_ready(fn())
  times = []
  for _ in range(repeats):
    start = time.perf_counter()
    jax.block_until_ready(fn())
    times.append(time.perf_counter() - start)
  return times


def matmul_gflops(
    size: int = 1024, *, dtype: str = 'float32', repeats: int = 7
) -> float:
  """Rate of a square matrix product, in GFLOP/s."""
  x = jax.random.normal(jax.random.key(0), (size, size)).astype(dtype)
  product = jax.jit(jnp.matmul)
  seconds = statistics.median(timings_s(lambda: product(x, x), repeats=repeats))
  return 2 * size**3 / seconds / 1e9


def products_gflops(
    matrices: Sequence[tuple[int, int]],
    rows: int,
    *,
    dtype: str = 'float32',
    repeats: int = 7,
) -> float:
  """Rate of products of `rows` rows with each matrix once, in GFLOP/s.

  Args:
    matrices: (out, in) of each.
    rows: of the other factor.
    dtype: of both.
    repeats: timed calls a shape; each shape counts by its faster order.
  """
  seconds = 0.0
  counts = collections.Counter(matrices)
  for (out, size), count in counts.items():
    orders = (((rows, size), (size, out)), ((out, size), (size, rows)))
    times = []
    for first, second in orders:
      factors = jnp.ones(first, dtype), jnp.ones(second, dtype)
      product = functools.partial(jax.jit(jnp.matmul), *factors)
      times += timings_s(product, repeats=repeats)
    seconds += count * min(times)
  flops = sum(2 * rows * out * size for out, size in matrices)
  return flops / seconds / 1e9


def read_gbps(megabytes: int = 512, *, repeats: int = 7) -> float:
  """Rate of reading memory once, in GB/s: a matrix-vector product's."""
  columns = 4096
  rows = megabytes * 2**20 // 4 // columns
  matrix = jnp.ones((rows, columns), jnp.float32)
  vector = jnp.ones((columns,), jnp.float32)
  product = jax.jit(jnp.matmul)
  seconds = statistics.median(
      timings_s(lambda: product(matrix, vector), repeats=repeats)
  )
  return matrix.size * 4 / seconds / 1e9


def empty_requests_per_s(clients: int, *, requests: int = 2000) -> float:
  """Rate of POSTs to a handler that does nothing, client and server here.

  Args:
    clients: requests in flight.
    requests: in all.
  """
  return asyncio.run(_empty_requests_per_s(clients, requests))


async def _empty_requests_per_s(clients: int, requests: int) -> float:
  async def handle(request):
    await request.json()
    return web.json_response({'observation': '', 'reward': 0.0, 'done': False})

  app = web.Application()
  app.router.add_post('/step', handle)
  runner = web.AppRunner(app, access_log=None)
  await runner.setup()
  site = web.TCPSite(runner, '127.0.0.1', 0)
  await site.start()
  url = f'http://127.0.0.1:{runner.addresses[0][1]}/step'
  connector = aiohttp.TCPConnector(limit=0)
  async with aiohttp.ClientSession(connector=connector) as session:

    async def work(count: int) -> None:
      for _ in range(count):
        async with session.post(url, json={'id': 0, 'action': 'x'}) as reply:
          await reply.json()

    await asyncio.gather(*(work(5) for _ in range(clients)))
    start = time.perf_counter()
    await asyncio.gather(*(work(requests // clients) for _ in range(clients)))
    seconds = time.perf_counter() - start
  await runner.cleanup()
  return requests // clients * clients / seconds
