"""MiniWoB's experts solve their pages over HTTP, in a real browser.

    AGENTRL_MINIWOB_SEEDS=20 python -m pytest -m browser \
        tests/envs/miniwob/experts_test.py  # of each page, here 1
"""

import asyncio
import os
import re

import aiohttp
import pytest

from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.envs.miniwob import tasks
from agentrl.envs.miniwob.experts import EXPERTS, NONE
from agentrl.errors import EnvError

SEEDS = int(os.environ.get('AGENTRL_MINIWOB_SEEDS', '1'))
# Their problems of the test split are of other data.
OTHER_DATA = {
    page
    for page in EXPERTS
    if '-transfer' in page or '-nl' in page or page.startswith('flight.')
}
LEAN = {'style': 'lean', 'navigation': 'first'}
_TURNS = 40


async def returns(task_ids, *, concurrency=8):
  """The return of the expert's episode of each task; words where it failed.

  Told in few words, a page has each number that its expert names.
  """
  found = {}
  waiting = iter(task_ids)

  async def play(session, url):
    for task_id in waiting:
      env = EnvClient(session, url, env_name='miniwob', timeout_s=120.0)
      async with env:
        try:
          text = await env.reset(task_id)
          for _ in range(_TURNS):
            action = await env.expert_action()
            number = re.match(r'(?:click|type|hover) (\[\d+\])', action)
            assert number is None or f'{number[1]} ' in text, (task_id, action)
            result = await env.step(action)
            text = result.observation
            if result.terminated:
              break
          found[task_id] = result.reward
        except EnvError as error:
          found[task_id] = str(error)

  async with (
      server.running('miniwob', LEAN, expert=True) as url,
      aiohttp.ClientSession() as session,
  ):
    await asyncio.gather(*(play(session, url) for _ in range(concurrency)))
  return found


@pytest.mark.browser
@pytest.mark.parametrize('part', range(4))
def test_every_expert_earns_1(part):
  pages = [*EXPERTS][part::4]
  ids = [tasks.id_of(page, seed) for seed in range(SEEDS) for page in pages]
  ids += [
      tasks.id_of(page, seed)
      for seed in range(800, 800 + SEEDS)
      for page in pages
      if page in OTHER_DATA
  ]
  found = asyncio.run(returns(ids))
  failed = {
      (tasks.page_of(task_id), tasks.seed_of(task_id)): value
      for task_id, value in found.items()
      if value != 1.0
  }
  assert len(found) == len(ids) and not failed


def test_there_are_many_and_pages_without_one_say_why():
  assert len(EXPERTS) >= 90
  played = set(tasks.check('all'))
  assert set(EXPERTS) <= played
  assert set(NONE) == played - set(EXPERTS)
  assert all(NONE.values())
