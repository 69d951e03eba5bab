"""Episodes of every environment, played by its expert on a real server."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses

import aiohttp

from agentrl import envs
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import AgentOptions, Limits
from agentrl.rollout.text_agent import make_text_agent

# A short task of each, and what its server needs to know.
TASKS = {
    'textcraft': (120, {}),
    'babyai': (0, {'style': 'compact'}),
    'sciworld': (3000, {}),
    'searchqa': (4000, {}),
    'miniwob': (0, {}),
    'webarena': (24128, {}),
}


async def play(name, *, horizon=12, views=False, task_id=None):
  """One episode of an environment's expert."""
  spec, (task, options) = envs.get(name), TASKS[name]
  agent = make_text_agent(spec, AgentOptions(format='react'))
  async with contextlib.AsyncExitStack() as stack:
    url = await stack.enter_async_context(
        server.running(name, options, expert=True)
    )
    session = await stack.enter_async_context(aiohttp.ClientSession())
    client = EnvClient(session, url, env_name=name)
    return await run_episode(
        client,
        agent,
        Expert(client, agent),
        episode_id=f'{name}-0-0',
        env_name=name,
        task_id=task if task_id is None else task_id,
        split='train',
        seed=7,
        policy_version=0,
        horizon=horizon,
        limits=Limits(save_views=views),
    )


def expert_episode(name, **options):
  """As `play`, in a thread: a browser's loop may run in this one."""
  with concurrent.futures.ThreadPoolExecutor(1) as pool:
    return pool.submit(lambda: asyncio.run(play(name, **options))).result()


def options(name):
  """The options of the environment that `play` uses."""
  return TASKS[name][1]


def without_views(episode):
  """The episode as one that was saved without pictures."""
  return dataclasses.replace(episode, views=())
