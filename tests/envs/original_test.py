"""Our client on unmodified servers of AgentGym: TextCraft's, and Weather's of its tools.

    AGENTRL_TEXTCRAFT_URL=http://127.0.0.1:8000 \\
        AGENTRL_WEATHER_URL=http://127.0.0.1:8001 python -m pytest -m slow \\
        tests/envs/original_test.py

They are started in AgentGym's folders agentenv-textcraft by `textcraft --port 8000`, and
agentenv-tool by `weather --port 8001`. Weather's needs fastapi, uvicorn and geopy, with
`PYTHONPATH=Toolusage/toolusage`; without a network its calls of weather services answer
with their errors.
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
WEATHER = os.environ.get('AGENTRL_WEATHER_URL')
pytestmark = pytest.mark.slow
textcraft = pytest.mark.skipif(
    URL is None, reason='needs $AGENTRL_TEXTCRAFT_URL'
)
weather = pytest.mark.skipif(
    WEATHER is None, reason='needs $AGENTRL_WEATHER_URL'
)


def with_pool(body, env_name='textcraft', url=URL):
  async def main():
    async with aiohttp.ClientSession() as session:
      pool = EnvPool(session, [url], env_name=env_name, retry_s=2.0)
      return await body(pool)

  return asyncio.run(main())


@textcraft
def test_it_is_told_from_other_environments_and_has_no_expert():
  with_pool(lambda pool: pool.probe(0))
  with pytest.raises(ConfigError, match='has no expert .*GET /expert gave 404'):
    with_pool(lambda pool: pool.probe(0, expert=True))
  with pytest.raises(ConfigError, match="serves 'TextCraft', and env.name is"):
    with_pool(lambda pool: pool.probe(0), env_name='babyai')


@textcraft
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


@weather
def test_a_question_about_the_weather_is_played_to_its_end():
  calls = [
      'get_user_current_date with Action Input: {}',
      'get_user_current_location with Action Input: {}',
      'what now?',
      'finish with Action Input: {"answer": "0"}',
  ]

  async def body(pool):
    await pool.probe(0)
    async with pool.client() as env:
      first = await env.reset(0)
      results = [await env.step(call) for call in calls]
      assert await env.reset(0) == first  # and so may the next task begin
      return first, results

  first, results = with_pool(body, 'tool_weather', WEATHER)
  assert 'What was the average temperature in Celsius yesterday?' in first
  date, place, refused, end = results
  assert 'Observation: 2023-06-15' in date.observation
  assert 'Observation: New York' in place.observation
  assert refused.observation.startswith('Format error')
  assert not any(x.terminated for x in results[:-1])
  # None of its subgoals was reached.
  assert (end.terminated, end.success, end.reward) == (True, False, 0.0)


@pytest.mark.parametrize(
    ('env_name', 'url', 'action', 'message'),
    [
        pytest.param(
            *('textcraft', URL, 'inventory', 'The id 1000000000 is not valid'),
            marks=textcraft,
        ),
        pytest.param(
            'tool_weather',
            WEATHER,
            'check_valid_actions with Action Input: {}',
            'gave 500',
            marks=weather,
        ),
    ],
)
def test_an_episode_that_it_does_not_know_is_an_error_in_its_words(
    env_name, url, action, message
):
  async def body(pool):
    async with pool.client() as env:
      await env.reset(3)
      env._episode = 10**9
      with pytest.raises(EnvError, match=message):
        await env.step(action)

  with_pool(body, env_name, url)
