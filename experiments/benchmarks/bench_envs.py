"""Times environment servers over HTTP, and watches their memory.

    python -m experiments.benchmarks.bench_envs --env=textcraft
    python -m experiments.benchmarks.bench_envs --env=babyai --workers=2
    python -m experiments.benchmarks.bench_envs --env=searchqa
    python -m experiments.benchmarks.bench_envs --env=sciworld --phases=memory

Prints one JSON line a case. Client and server share this machine, as they do in
a run. Phases:

load: every client plays its own episodes with the expert-free actions below,
  chosen by a seeded generator; an episode that ends is followed by the next one.
  Beside it, in the same run, the rate of an empty aiohttp handler.
creates: 64 episodes are created at once while somebody asks for /health.
memory: resident memory of the server and its children before and after many
  episodes with a close, and then without one, once their leases have run out.
"""

import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence

import aiohttp
from absl import app, flags

from agentrl import envs
from agentrl.envs.client import EnvClient
from agentrl.rollout.env_server import EnvServer
from experiments.benchmarks import reference_rates

_ENV = flags.DEFINE_enum(
    'env', 'textcraft', list(envs.ENVS), 'Which environment.'
)
_PHASES = flags.DEFINE_list('phases', ['load'], 'load, creates, memory.')
_CLIENTS = flags.DEFINE_list('clients', ['1', '8', '32'], 'Live episodes.')
_OPTIONS = flags.DEFINE_string('options', '{}', 'Of the environment, as JSON.')
_STEPS = flags.DEFINE_integer('steps', 2000, 'Steps in all, for each load.')
_WARMUP = flags.DEFINE_integer(
    'warmup', 0, 'Steps before each load; Java gets fast in some thousands.'
)
_WORKERS = flags.DEFINE_integer('workers', 1, 'Processes of the server.')
_EPISODES = flags.DEFINE_integer('episodes', 2000, 'Closed ones, for memory.')
_OPEN = flags.DEFINE_integer('open', 500, 'Abandoned ones, for memory.')
_LEASE_S = 5.0
_ACTIONS = {
    'textcraft': ('inventory', 'get 1 oak logs', 'craft 1 stick using 1 stone'),
    'babyai': ('turn left', 'turn right', 'move forward'),
    'sciworld': (
        'look around',
        'inventory',
        'open door to hallway',
        'go to hallway',
        'open door to kitchen',
        'go to kitchen',
        'examine thermometer',
    ),
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
  tasks = envs.get(_ENV.value).tasks('train')
  while count:
    async with EnvClient(
        session, url, env_name=_ENV.value, timeout_s=600
    ) as env:
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


def percentiles(name: str, seconds: list[float]) -> dict[str, float]:
  seconds.sort()
  return {
      f'{name}_p50_ms': round(1e3 * statistics.median(seconds), 2),
      f'{name}_p99_ms': round(1e3 * seconds[int(0.99 * (len(seconds) - 1))], 2),
  }


async def load(session, url: str, clients: int, steps: int) -> dict:
  async def play_all(steps: int) -> dict[str, list[float]]:
    times = {'reset': [], 'step': []}
    await asyncio.gather(*(
        play(session, url, steps // clients, i, times) for i in range(clients)
    ))
    return times

  await play(session, url, 20, 0, {'reset': [], 'step': []})
  await play_all(_WARMUP.value)
  start = time.perf_counter()
  times = await play_all(steps)
  seconds = time.perf_counter() - start
  result = {'steps_per_s': round(len(times['step']) / seconds, 1)}
  for name, values in times.items():
    result |= percentiles(name, values)
  return result


async def creates(session, url: str, count: int = 64) -> dict:
  """Creates at once; the episodes are closed again."""
  clients = [
      EnvClient(session, url, env_name=_ENV.value, timeout_s=600)
      for _ in range(count)
  ]
  task_id = envs.get(_ENV.value).tasks('train')[0]
  start = time.perf_counter()
  work = asyncio.gather(*(client.probe(task_id) for client in clients))
  health = []
  while not work.done():
    asked = time.perf_counter()
    async with session.get(f'{url}/health') as response:
      assert response.status == 200
    health.append(time.perf_counter() - asked)
  await work
  seconds = time.perf_counter() - start
  await asyncio.gather(*(client.close() for client in clients))
  return {
      'creates': count,
      'wall_ms': round(1e3 * seconds, 1),
      'worst_health_ms': round(1e3 * max(health), 1),
  }


async def resident_mb(session, url: str) -> float:
  async with session.get(f'{url}/metrics') as response:
    text = await response.text()
  [line] = [
      line
      for line in text.splitlines()
      if line.startswith('agentrl_env_resident_bytes{')
  ]
  return float(line.split()[-1]) / 1e6


async def churn(session, url: str, episodes: int, *, close: bool) -> None:
  """Short episodes, eight at a time: create, reset, three steps, close."""
  gate = asyncio.Semaphore(8)
  tasks = envs.get(_ENV.value).tasks('train')

  async def one(ordinal: int) -> None:
    async with gate:
      env = EnvClient(session, url, env_name=_ENV.value, timeout_s=600)
      await env.reset(random.Random(ordinal).choice(tasks))
      for turn in range(3):
        result = await env.step(
            _ACTIONS[_ENV.value][(ordinal + turn) % len(_ACTIONS[_ENV.value])]
        )
        if result.terminated or result.truncated:
          break
      if close:
        await env.close()

  await asyncio.gather(*map(one, range(episodes)))


async def memory(session, url: str, episodes: int, abandoned: int) -> dict:
  await churn(session, url, max(episodes // 10, 20), close=True)
  warm = await resident_mb(session, url)
  start = time.perf_counter()
  await churn(session, url, episodes, close=True)
  seconds = time.perf_counter() - start
  closed = await resident_mb(session, url)
  await churn(session, url, abandoned, close=False)
  live = abandoned
  while live:
    await asyncio.sleep(1.0)
    async with session.get(f'{url}/health') as response:
      live = (await response.json())['live']
  expired = await resident_mb(session, url)
  return {
      'warm_mb': round(warm, 1),
      'episodes': episodes,
      'episodes_s': round(seconds, 1),
      'after_closed_mb': round(closed, 1),
      'abandoned': abandoned,
      'after_expired_mb': round(expired, 1),
      'growth': round(max(closed, expired) / warm - 1, 4),
  }


def run(flags_of_server: Sequence[str], phase) -> dict:
  """`phase(session, url)` against a fresh server."""
  server = EnvServer(
      _ENV.value, json.loads(_OPTIONS.value), flags=flags_of_server
  )

  async def main():
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
      return await phase(session, server.url)

  try:
    return asyncio.run(main())
  finally:
    server.stop()


def main(argv):
  del argv
  workers = f'--workers={_WORKERS.value}'
  for phase in _PHASES.value:
    case = {'env': _ENV.value, 'phase': phase, 'workers': _WORKERS.value}
    match phase:
      case 'load':
        for clients in map(int, _CLIENTS.value):
          empty = reference_rates.empty_requests_per_s(clients)
          result = run(
              [workers],
              lambda *at, clients=clients: load(*at, clients, _STEPS.value),
          )
          result |= {
              'empty_aiohttp_per_s': round(empty, 1),
              'share_of_empty': round(result['steps_per_s'] / empty, 3),
          }
          print(json.dumps(case | {'clients': clients} | result), flush=True)
      case 'creates':
        print(json.dumps(case | run([workers], creates)), flush=True)
      case 'memory':
        result = run(
            [workers, f'--lease_s={_LEASE_S}'],
            lambda *at: memory(*at, _EPISODES.value, _OPEN.value),
        )
        print(json.dumps(case | result), flush=True)
      case _:
        raise app.UsageError(
            f'Unknown phase {phase!r}; known: load, creates, memory.'
        )


if __name__ == '__main__':
  app.run(main)
