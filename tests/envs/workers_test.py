"""Tests for agentrl.envs.workers: real processes behind a real server."""

import asyncio
import os
import signal

import aiohttp
import psutil
import pytest

from agentrl import envs
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.envs.workers import Workers
from agentrl.errors import ConfigError, EnvError, EnvFault


@pytest.fixture(name='factory', scope='module')
def _factory():
  factory = Workers('textcraft', {'max_depth': 2}, count=2)
  yield factory
  factory.close()


def test_episodes_are_spread_and_play_as_without_workers(factory):
  remote = [factory.make() for _ in range(4)]
  assert [len(worker.live) for worker in factory._workers] == [2, 2]
  local = envs.get('textcraft').open().make()
  for number, env in enumerate(remote):
    task_id = 100 + number
    assert env.reset(task_id, 0) == local.reset(task_id, 0)
    for _ in range(3):
      assert env.available_actions() == local.available_actions()
      action = local.expert_action()
      assert env.expert_action() == action
      assert env.step(action) == local.step(action)
  for env in remote:
    env.close()
    env.close()
  assert [len(worker.live) for worker in factory._workers] == [0, 0]


def test_errors_of_the_environment_come_through(factory):
  env = factory.make()
  with pytest.raises(EnvError, match='no task 9999; ids are 0 to 543'):
    env.reset(9999, 0)
  env.reset(3, 0)
  with pytest.raises(EnvFault, match='TypeError: '):
    env.step(17)
  env.close()


def test_a_dead_worker_loses_its_episodes_and_nothing_else(factory):
  lost, other = factory.make(), factory.make()
  for env in (lost, other):
    env.reset(100, 0)
  os.kill(lost._worker._process.pid, signal.SIGKILL)
  with pytest.raises(EnvError, match='died'):
    lost.step('inventory')
  with pytest.raises(EnvError, match='died.*reset it'):
    lost.step('inventory')
  assert other.step('inventory').observation
  assert lost.reset(100, 0) == other.reset(100, 0)
  assert factory.gauges()['worker_restarts'] == 1
  lost.close(), other.close()


def test_a_close_that_fails_is_logged_and_takes_no_worker_along(
    tmp_path, capfd
):
  path = tmp_path / 'mine.py'
  path.write_text("""
import dataclasses
from agentrl import envs
from agentrl.envs import base
from agentrl.envs.textcraft.env import TextCraft

class Breaks(TextCraft):
  def close(self):
    raise OSError('it hangs on')

SPEC = dataclasses.replace(
    envs.get('textcraft'),
    open_factory=lambda **options: base.Independent(Breaks),
)
""")
  factory = Workers(f'{path}:SPEC', {}, count=1)
  closed, other = factory.make(), factory.make()
  for env in (closed, other):
    env.reset(100, 0)
  closed.close()
  assert other.step('inventory').observation
  factory.close()
  words = f'OSError: it hangs on ({path}, line 9, in close) (environment'
  assert words in capfd.readouterr().err


def test_wrong_options_are_the_callers_error():
  with pytest.raises(ConfigError, match='max_depth must be 1 to 4'):
    Workers('textcraft', {'max_depth': 9}, count=1)


def test_a_server_with_workers_serves_and_leaves_none_behind():
  async def play(session, url, task_id):
    async with EnvClient(session, url, env_name='textcraft') as env:
      await env.reset(task_id)
      while True:
        result = await env.step(await env.expert_action())
        if result.terminated:
          return result.success

  async def main():
    async with (
        server.running('textcraft', expert=True, workers=2) as url,
        aiohttp.ClientSession() as session,
    ):
      plays = [play(session, url, task_id) for task_id in range(200, 224)]
      assert all(await asyncio.gather(*plays))
      async with session.get(f'{url}/metrics') as response:
        text = await response.text()
    assert 'agentrl_env_workers{env="textcraft"} 2.0' in text

  before = set(psutil.Process().children(recursive=True))
  asyncio.run(main())
  left = set(psutil.Process().children(recursive=True)) - before
  # Python's own helper of spawned processes stays.
  assert [
      x for x in left if 'resource_tracker' not in ' '.join(x.cmdline())
  ] == []
