"""The experts solve their tasks over HTTP."""

import asyncio

import aiohttp
import pytest

from agentrl.envs import server
from agentrl.envs.babyai import levels
from agentrl.envs.client import EnvClient
from agentrl.envs.sciworld import tasks as sciworld_tasks
from agentrl.envs.textcraft import tasks as textcraft_tasks

# One level for each of the paper's sub-tasks, and those for which minigrid's bot
# had to be mended. The others take more than a minute in all.
QUICK = {
    'GoToLocalS8N7', 'Pickup', 'ActionObjDoor', 'FindObjS7', 'OneRoomS20',
    'SynthLoc', 'OpenDoorsOrderN4Debug', 'PutNextS7N4Carrying', 'KeyInBox',
    'UnlockToUnlock',
}  # fmt: skip


def solved(env_name, task_ids, options=None, *, limit=600, concurrency=8):
  """The tasks that the expert solves."""

  async def play(session, url, gate, task_id):
    async with (
        gate,
        EnvClient(session, url, env_name=env_name, timeout_s=120.0) as env,
    ):
      await env.reset(task_id)
      for _ in range(limit):
        result = await env.step(await env.expert_action())
        if result.terminated or result.truncated:
          return result.success is True
      return False

  async def main():
    gate = asyncio.Semaphore(concurrency)
    async with (
        server.running(env_name, options, expert=True) as url,
        aiohttp.ClientSession() as session,
    ):
      plays = [play(session, url, gate, task_id) for task_id in task_ids]
      ends = await asyncio.gather(*plays)
      return {x for x, end in zip(task_ids, ends, strict=True) if end}

  return asyncio.run(main())


def test_the_textcraft_expert_solves_all_544():
  assert len(solved('textcraft', range(textcraft_tasks.NUM_TASKS))) == 544


@pytest.mark.parametrize(
    'level',
    [
        pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow)
        for x in levels.NAMES
    ],
)
def test_the_babyai_expert_solves_95_percent_of_a_level(level):
  ids = [seed * 40 + levels.NAMES.index(level) for seed in range(20)]
  assert len(solved('babyai', ids)) >= 19


# Tasks of a topic are alike: the first of each, and all with $AGENTRL_EXTRA=1.
FIRST = {
    next(
        name
        for name in sciworld_tasks.NAMES
        if sciworld_tasks.ROWS[name] == row
    )
    for row in sciworld_tasks.ROWS.values()
}


@pytest.fixture(scope='module')
def gold(request):
  """SciWorld's tasks whose gold path reaches 100, of the first variations.

  Those that this run asks for are played side by side.
  """
  # The longest is of 178 actions.
  options = {'tasks': 'all', 'max_moves': 600, 'simulators': 2}
  names = [
      item.callspec.params['name']
      for item in request.session.items
      if item.path == request.path and 'gold' in item.fixturenames
  ]
  ids = [sciworld_tasks.id_of(name, 0) for name in names]
  return solved('sciworld', ids, options, concurrency=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    'name',
    [
        pytest.param(x, marks=[] if x in FIRST else pytest.mark.extra)
        for x in sciworld_tasks.NAMES
    ],
)
def test_the_gold_paths_of_sciworld_reach_100(gold, name):
  assert sciworld_tasks.id_of(name, 0) in gold
