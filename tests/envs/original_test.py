"""Our client on an unmodified server of AgentGym's TextCraft.

    AGENTRL_TEXTCRAFT_URL=http://127.0.0.1:8000 python -m pytest -m slow \
        tests/envs/original_test.py

It is started in AgentGym's folder agentenv-textcraft by `textcraft --port 8000`.
"""

import asyncio
import os
import re

import aiohttp
import pytest

from agentrl.envs.pool import EnvPool
from agentrl.envs.textcraft import recipes
from agentrl.errors import ConfigError, EnvError

URL = os.environ.get('AGENTRL_TEXTCRAFT_URL')
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(URL is None, reason='needs $AGENTRL_TEXTCRAFT_URL'),
]


def with_pool(body, env_name='textcraft'):
  async def main():
    async with aiohttp.ClientSession() as session:
      pool = EnvPool(session, [URL], env_name=env_name, retry_s=2.0)
      return await body(pool)

  return asyncio.run(main())


def test_it_is_told_from_other_environments_and_has_no_expert():
  with_pool(lambda pool: pool.probe(0))
  with pytest.raises(ConfigError, match='has no expert .*GET /expert gave 404'):
    with_pool(lambda pool: pool.probe(0, expert=True))
  with pytest.raises(ConfigError, match="serves 'TextCraft', and env.name is"):
    with_pool(lambda pool: pool.probe(0), env_name='babyai')


def test_a_task_of_one_recipe_is_solved_and_paid_once():
  # Ids are another order of the same goals there: look for an easy one.
  async def body(pool):
    for task_id in range(125):  # depth 1
      async with pool.client() as env:
        observation = await env.reset(task_id)
        goal = re.search(r'Goal: craft (.*)\.', observation)[1]
        line = re.search(
            rf'^craft \d+ {goal} using (.*)$', observation, re.MULTILINE
        )
        if line is None or not _gettable(line[1]):
          continue
        results = [
            await env.step(f'get {part}') for part in line[1].split(', ')
        ]
        results.append(await env.step(line[0]))
        assert await env.observation() == results[-1].observation
        return results
    raise AssertionError('No such task.')

  results = with_pool(body)
  assert [x.reward for x in results[:-1]] == [0.0] * (len(results) - 1)
  last = results[-1]
  assert (last.reward, last.terminated, last.success) == (1.0, True, True)
  assert last.observation.startswith('Crafted ')


def _gettable(inputs):
  """Whether all inputs are items that are found, not made."""
  book = recipes.load()
  names = [
      recipes.full_name(part.partition(' ')[2]) for part in inputs.split(', ')
  ]
  return all(x in book.items and x not in book.recipes for x in names)


def test_an_id_that_it_does_not_know_is_an_error_in_its_words():
  async def body(pool):
    async with pool.client() as env:
      await env.reset(3)
      env._episode = 10**9
      with pytest.raises(EnvError, match='The id 1000000000 is not valid'):
        await env.step('inventory')

  with_pool(body)
