r"""Measures what an environment server holds after many episodes.

    python -m experiments.benchmarks.bench_env_memory --env=textcraft
    python -m experiments.benchmarks.bench_env_memory --env=sciworld \
        --options='{"simulators": 8}'

Plays `--episodes` of three steps that are closed, then `--unclosed` that are
left to their lease, and prints one JSON line with the memory of the server and
its children after each part. The first fifth is the warm-up.
"""

import asyncio
import json
import random
import subprocess
import sys
import time

import aiohttp
from absl import app, flags

from agentrl.envs import ENVS
from agentrl.envs.client import EnvClient
from experiments.benchmarks import bench_envs

_EPISODES = flags.DEFINE_integer('episodes', 500, 'That are closed.')
_UNCLOSED = flags.DEFINE_integer('unclosed', 50, 'That are not.')
_CONCURRENCY = flags.DEFINE_integer('concurrency', 8, 'Episodes at a time.')
_LEASE_S = flags.DEFINE_float('lease_s', 5.0, 'Of an unused episode.')


async def play(session, url, ordinal, *, close=True):
  env_name = flags.FLAGS.env
  rng = random.Random(ordinal)
  env = EnvClient(session, url, env_name=env_name, timeout_s=600.0)
  await env.reset(rng.choice(ENVS[env_name].tasks('train')))
  for action in rng.sample(bench_envs.ACTIONS[env_name], 3):
    result = await env.step(action)
    if result.terminated or result.truncated:
      break
  if close:
    await env.close()


async def metrics(session, url) -> dict[str, float]:
  async with session.get(f'{url}/metrics') as response:
    lines = (await response.text()).splitlines()
  pairs = (line.rsplit(' ', 1) for line in lines if not line.startswith('#'))
  return {name.partition('{')[0]: float(value) for name, value in pairs}


async def run(url: str) -> None:
  gate = asyncio.Semaphore(_CONCURRENCY.value)

  async def gated(*args, **kwargs):
    async with gate:
      await play(*args, **kwargs)

  async with aiohttp.ClientSession() as session:

    async def report(case, start):
      seen = await metrics(session, url)
      print(
          json.dumps(
              dict(
                  case=f'env {flags.FLAGS.env}, {case}',
                  resident_mb=round(
                      seen['agentrl_env_resident_bytes'] / 2**20, 1
                  ),
                  live=seen['agentrl_env_live_episodes'],
                  seconds=round(time.perf_counter() - start, 1),
                  **{k: v for k, v in seen.items() if 'simulator' in k},
              )
          ),
          flush=True,
      )

    start = time.perf_counter()
    await report('idle', start)
    step = max(_EPISODES.value // 5, 1)
    for first in range(0, _EPISODES.value, step):
      await asyncio.gather(
          *(gated(session, url, first + i) for i in range(step))
      )
      await report(f'{first + step} episodes closed', start)
    await asyncio.gather(
        *(gated(session, url, i, close=False) for i in range(_UNCLOSED.value))
    )
    for _ in range(int(20 * _LEASE_S.value)):
      if not (await metrics(session, url))['agentrl_env_live_episodes']:
        break
      await asyncio.sleep(0.5)
    await report(f'{_UNCLOSED.value} more left to their lease', start)


def main(argv):
  del argv
  child = subprocess.Popen(
      [
          sys.executable,
          '-m',
          'agentrl.envs.server',
          f'--env={flags.FLAGS.env}',
          f'--options={flags.FLAGS.options}',
          f'--lease_s={_LEASE_S.value}',
          '--exit_with_parent',
      ],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
  )
  try:
    url = json.loads(child.stdout.readline())['url']
    asyncio.run(run(url))
  finally:
    child.stdin.close()
    child.wait()


if __name__ == '__main__':
  app.run(main)
