"""Times environment servers over HTTP, beside an empty handler.

    python -m experiments.benchmarks.bench_envs --env=textcraft
    python -m experiments.benchmarks.bench_envs --env=babyai
    python -m experiments.benchmarks.bench_envs --env=searchqa

Prints one JSON line for each number of clients. Every client plays its own
episode with the expert-free actions that the environment offers, chosen by a
seeded generator; an episode that ends is followed by the next one. Client and
server share this machine, as they do in a run.
"""

import asyncio
import json
import random
import statistics
import time

import aiohttp
from absl import app, flags

from agentrl.envs import ENVS
from agentrl.envs.client import EnvClient
from agentrl.modes.host import EnvServer
from experiments.benchmarks import reference_rates

_ENV = flags.DEFINE_enum('env', 'textcraft', list(ENVS), 'Which environment.')
_CLIENTS = flags.DEFINE_list('clients', ['1', '8', '32'], 'Live episodes.')
_STEPS = flags.DEFINE_integer('steps', 2000, 'Steps in all, for each case.')
_ACTIONS = {
    'textcraft': ('inventory', 'get 1 oak logs', 'craft 1 stick using 1 stone'),
    'babyai': ('turn left', 'turn right', 'move forward'),
    'searchqa': (
        '<search>capital of the country where radium was discovered</search>',
        '<search>which neighbour has the longest land border of Peru</search>',
        '<search>Kassaman national anthem</search>',
        '<search>in which country is the city of Zhengzhou</search>',
    ),
}


async def play(session, url, count, ordinal, times):
  """Makes `count` steps over as many episodes as that takes."""
  rng = random.Random(ordinal)
  tasks = ENVS[_ENV.value].tasks('train')
  while count:
    async with EnvClient(session, url, env_name=_ENV.value) as env:
      start = time.perf_counter()
      await env.reset(rng.choice(tasks))
      times['reset'].append(time.perf_counter() - start)
      for _ in range(min(count, 50)):
        start = time.perf_counter()
        result = await env.step(rng.choice(_ACTIONS[_ENV.value]))
        times['step'].append(time.perf_counter() - start)
        count -= 1
        if result.terminated or result.truncated:
          break


async def run_case(url: str, clients: int, steps: int) -> dict:
  times = {'reset': [], 'step': []}
  connector = aiohttp.TCPConnector(limit=0)
  async with aiohttp.ClientSession(connector=connector) as session:
    await play(session, url, 20, 0, {'reset': [], 'step': []})  # warm up
    start = time.perf_counter()
    await asyncio.gather(*(
        play(session, url, steps // clients, i, times) for i in range(clients)
    ))
    seconds = time.perf_counter() - start
  result = {'steps_per_s': round(len(times['step']) / seconds, 1)}
  for name, values in times.items():
    values.sort()
    result[f'{name}_p50_ms'] = round(1e3 * statistics.median(values), 2)
    result[f'{name}_p99_ms'] = round(
        1e3 * values[int(0.99 * (len(values) - 1))], 2
    )
  return result


def main(argv):
  del argv
  server = EnvServer(_ENV.value, {})
  try:
    for clients in map(int, _CLIENTS.value):
      empty = reference_rates.empty_requests_per_s(clients)
      result = asyncio.run(run_case(server.url, clients, _STEPS.value))
      print(
          json.dumps(
              dict(
                  case=f'env {_ENV.value}',
                  clients=clients,
                  **result,
                  empty_aiohttp_per_s=round(empty, 1),
                  share_of_empty=round(result['steps_per_s'] / empty, 3),
              )
          ),
          flush=True,
      )
  finally:
    server.stop()


if __name__ == '__main__':
  app.run(main)
