"""Tests for agentrl.envs.sciworld.pool and what dies in it: real processes."""

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import urllib.request

import aiohttp
import psutil
import pytest

from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.envs.sciworld import simulator as simulator_lib, tasks
from agentrl.envs.sciworld.env import SciWorld
from agentrl.envs.sciworld.pool import Pool
from agentrl.errors import EnvError
from tests.waiting import stopped, wait_until

pytestmark = pytest.mark.slow  # each starts simulators of its own

ROOT = pathlib.Path(__file__).parents[3]
ANIMAL = tasks.id_of('find-animal', 0)
MANY = 10**6
LARGE = 600 * 2**20


def is_gone(pid):
  try:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return True


def play(pool):
  """One short episode; the process that it was played on."""
  simulator = pool.take()
  simulator.load('find-animal', 0, '')
  pool.give_back(simulator)
  return simulator.pid


def test_a_simulator_is_reused_and_replaced_in_time(monkeypatch):
  pool = Pool(1, max_episodes=3, max_bytes=LARGE)
  first, *same = [play(pool) for _ in range(3)]
  assert same == [first, first] and wait_until(lambda: is_gone(first))
  assert pool.gauges() == {
      'simulators': 0,
      'simulators_recycled': 1,
      'simulator_bytes_max': 0,
  }
  second = play(pool)
  assert second != first and pool.gauges()['simulators'] == 1
  size = pool.gauges()['simulator_bytes_max']
  assert 50 * 2**20 < size < LARGE
  monkeypatch.setattr(pool, '_max_bytes', size // 2)  # as if it had grown
  assert play(pool) == second
  assert wait_until(lambda: is_gone(second))
  assert (pool.recycled, pool.gauges()['simulators']) == (2, 0)
  pool.close()
  with pytest.raises(EnvError, match='were closed'):
    pool.take()


def test_a_killed_simulator_fails_its_episode_alone_and_is_replaced():
  pool = Pool(2, max_episodes=MANY, max_bytes=LARGE)
  env, other = SciWorld(pool), SciWorld(pool)
  observation = env.reset(ANIMAL, 0)
  other.reset(ANIMAL, 0)
  with pytest.raises(EnvError, match='All 2 ScienceWorld simulators play'):
    SciWorld(pool).reset(ANIMAL, 0)
  os.kill(env._simulator.pid, signal.SIGKILL)
  with pytest.raises(
      EnvError, match="could not do 'look around'.*killed by SIGKILL"
  ):
    env.step('look around')
  with pytest.raises(EnvError, match='not running; reset it first'):
    env.step('look around')
  assert not other.step('look around').terminated
  assert env.reset(ANIMAL, 0) == observation
  assert pool.recycled == 1
  # One that dies between episodes is found out before the next.
  idle = env._simulator
  env.close()
  idle.kill()
  assert wait_until(lambda: not idle.alive)
  other.close()
  assert play(pool) != idle.pid
  pool.close()


def test_closing_ends_a_simulator_that_hangs():
  pool = Pool(1, max_episodes=MANY, max_bytes=LARGE)
  env = SciWorld(pool)
  env.reset(ANIMAL, 0)
  pid = env._simulator.pid
  os.kill(pid, signal.SIGSTOP)
  assert wait_until(lambda: stopped(pid))
  failures = []

  def step():
    try:
      env.step('look around')
    except EnvError as error:
      failures.append(str(error))

  thread = threading.Thread(target=step)
  thread.start()
  thread.join(0.5)
  assert thread.is_alive()
  env.close()
  thread.join(120)
  assert len(failures) == 1 and 'look around' in failures[0]
  assert wait_until(lambda: is_gone(pid))
  assert pool.gauges()['simulators'] == 0
  pool.close()


def test_closing_while_a_simulator_starts_leaves_none_in_use(monkeypatch):
  started, go_on = threading.Event(), threading.Event()
  real = simulator_lib._greeting

  def greeting(process):
    started.set()
    go_on.wait(120)
    return real(process)

  monkeypatch.setattr(simulator_lib, '_greeting', greeting)
  pool = Pool(1, max_episodes=MANY, max_bytes=LARGE)
  env, failures = SciWorld(pool), []

  def reset():
    try:
      env.reset(ANIMAL, 0)
    except EnvError as error:
      failures.append(str(error))

  thread = threading.Thread(target=reset)
  thread.start()
  assert started.wait(120)
  env.close()
  go_on.set()
  thread.join(120)
  assert len(failures) == 1 and 'not running' in failures[0]
  assert pool.take().alive  # it was given back
  pool.close()


def test_java_that_does_not_start_is_an_error_with_its_words(monkeypatch):
  monkeypatch.setattr(simulator_lib, '_JAVA_FLAGS', ('-XX:NoSuchFlag=1',))
  with pytest.raises(EnvError, match='Java ended before.*NoSuchFlag'):
    simulator_lib.Simulator()


def test_a_missing_package_names_the_way_out(monkeypatch):
  monkeypatch.setitem(sys.modules, 'scienceworld', None)
  with pytest.raises(
      EnvError, match='pip install -r third_party/requirements/envs.txt'
  ):
    simulator_lib.load()


def test_more_episodes_than_simulators_wait_for_their_turn():
  async def main():
    async with (
        server.running('sciworld', {'simulators': 2}) as url,
        aiohttp.ClientSession() as session,
    ):

      async def play(task_id):
        async with EnvClient(session, url, env_name='sciworld') as env:
          observation = await env.reset(task_id)
          # Some end by a wrong focus, some by closing.
          for action in ('inventory', 'open door to hallway', 'focus on agent'):
            result = await env.step(action)
            if result.terminated:
              break
          return observation, result.terminated

      results = await asyncio.gather(*(play(x) for x in [ANIMAL, 1, 2] * 2))
      async with session.get(f'{url}/metrics') as response:
        lines = (await response.text()).splitlines()
      values = dict(x.rsplit(' ', 1) for x in lines if 'sciworld' in x)
      return results, values

  results, values = asyncio.run(main())
  assert results[:3] == results[3:] and len({x for x, _ in results}) == 3
  metric = lambda name: float(values[f'agentrl_env_{name}{{env="sciworld"}}'])
  assert metric('simulators') == 2
  assert metric('simulators_recycled') == 0
  assert metric('live_episodes') == metric('queued_episodes') == 0
  assert metric('resets_total') == 6


def test_no_simulator_outlives_a_server_that_was_killed():
  child = subprocess.Popen(
      [sys.executable, '-m', 'agentrl.envs.server', '--env=sciworld'],
      stdout=subprocess.PIPE,
      text=True,
      cwd=ROOT,
  )
  url = json.loads(child.stdout.readline())['url']
  for route, body in (('create', {}), ('reset', {'id': 0, 'data_idx': 0})):
    request = urllib.request.Request(
        f'{url}/{route}', json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=60) as response:
      assert response.status == 200
  (java,) = psutil.Process(child.pid).children(recursive=True)
  assert 'java' in java.name()
  child.kill()
  child.wait()
  child.stdout.close()
  assert wait_until(lambda: is_gone(java.pid))
