"""A collection whose environment server is killed and started again."""

import asyncio
import json
import pathlib
import subprocess
import sys

import aiohttp

from agentrl.envs.pool import EnvPool
from agentrl.rollout.collect import collect
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import Limits

ROOT = pathlib.Path(__file__).parents[2]
TASKS = [(ordinal, task_id) for ordinal, task_id in enumerate(range(0, 48, 2))]


def start(port=0):
  """A server of TextCraft, and its URL."""
  child = subprocess.Popen(
      [
          *(sys.executable, '-m', 'agentrl.envs.server', '--env=textcraft'),
          *(f'--port={port}', '--expert'),
      ],
      stdout=subprocess.PIPE,
      text=True,
      cwd=ROOT,
  )
  return child, json.loads(child.stdout.readline())['url']


class Disturbed(Expert):
  """An expert that takes its time; `disturb` hears of each of its turns."""

  def __init__(self, env, agent, disturb):
    super().__init__(env, agent)
    self._disturb = disturb

  async def generate(self, *args, **kwargs):
    await asyncio.sleep(0.02)
    await self._disturb()
    return await super().generate(*args, **kwargs)


async def play_all(url, agent, disturb):
  """All groups, and how many attempts they took."""
  attempts = 0
  async with aiohttp.ClientSession() as session:
    pool = EnvPool(session, [url], env_name='textcraft', retry_s=120.0)
    await pool.probe(0, expert=True)

    async def play(assignment):
      nonlocal attempts
      attempts += 1
      env = pool.client()
      return await run_episode(
          env,
          agent,
          Disturbed(env, agent, disturb),
          episode_id=f'{assignment.ordinal}-{assignment.replica}',
          env_name='textcraft',
          task_id=assignment.task_id,
          split='train',
          seed=assignment.seed,
          policy_version=0,
          horizon=30,
          limits=Limits(
              max_completion_tokens=10**4, max_context=10**5, deadline_s=300.0
          ),
      )

    groups = await collect(
        TASKS, 2, play, seed=5, concurrency=12, attempts=3, retry_wait_s=0.1
    )
  return groups, attempts


def test_a_killed_server_costs_attempts_and_nothing_else(agent):
  children = []

  async def calm():
    pass

  async def main():
    child, url = start()
    children.append(child)
    undisturbed, attempts = await play_all(url, agent, calm)
    assert attempts == 2 * len(TASKS)

    turns = 0

    async def disturb():
      nonlocal turns
      turns += 1
      if turns == 40:
        children[-1].kill()
        children[-1].wait()
        await asyncio.sleep(1.0)
        port = int(url.rpartition(':')[2])
        again, _ = await asyncio.to_thread(start, port)
        children.append(again)

    disturbed, attempts = await play_all(url, agent, disturb)
    assert len(children) == 2 and attempts > 2 * len(TASKS)
    return undisturbed, disturbed

  try:
    undisturbed, disturbed = asyncio.run(main())
  finally:
    for child in children:
      child.kill()
      child.wait()
      child.stdout.close()
  for before, after in zip(undisturbed, disturbed, strict=True):
    for one, other in zip(before.episodes, after.episodes, strict=True):
      assert other.valid and other.success and other.episode_return == 1.0
      assert (one.seed, one.tokens) == (other.seed, other.tokens)
