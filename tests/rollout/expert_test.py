"""Tests for agentrl.rollout.expert: its stumbles, on a real server."""

import asyncio

import aiohttp
import numpy as np
import pytest

from agentrl import envs
from agentrl.data import collate
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.envs.textcraft.spec import FUNCTIONS
from agentrl.rollout import seeds
from agentrl.rollout.agent import Agent
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert, without_stumbles
from agentrl.rollout.options import Limits
from agentrl.types import Group

LIMITS = Limits(max_completion_tokens=200, max_context=20000, deadline_s=60.0)


def play(agent, stumbles, *, tasks=8, seed=0):
  """Episodes of an expert on TextCraft's first tasks."""

  async def main():
    async with (
        server.running('textcraft', expert=True) as url,
        aiohttp.ClientSession() as session,
    ):
      episodes = []
      for task_id in envs.get('textcraft').tasks('train')[:tasks]:
        env = EnvClient(session, url, env_name='textcraft')
        episodes.append(
            await run_episode(
                env,
                agent,
                Expert(env, agent, stumbles),
                episode_id=f'{task_id}',
                env_name='textcraft',
                split='train',
                policy_version=0,
                task_id=task_id,
                seed=seeds.derive_seed(seed, task_id),
                horizon=30,
                limits=LIMITS,
            )
        )
      return episodes

  return asyncio.run(main())


def actions(episodes):
  return [[turn.action for turn in e.turns] for e in episodes]


def test_it_solves_its_tasks_although_it_stumbles(chat):
  agent = Agent(chat, instructions='', format='plain')
  straight, stumbling = play(agent, 0.0), play(agent, 0.4)
  assert all(e.success for e in straight + stumbling)
  versions = [t.weight_version for e in stumbling for t in e.turns]
  assert 0.2 < np.mean([v == 'stumble' for v in versions]) < 0.6
  assert {t.weight_version for e in straight for t in e.turns} == {'expert'}
  # What is no nonsense is what it would have done anyway.
  kept = [
      [t.action for t in e.turns if t.weight_version == 'expert']
      for e in stumbling
  ]
  assert kept == actions(straight)


def test_the_seed_says_where_it_stumbles(chat):
  agent = Agent(chat, instructions='', format='plain')
  first, same, other = (play(agent, 0.4, seed=seed) for seed in (0, 0, 1))
  assert actions(first) == actions(same) != actions(other)


def test_nonsense_is_not_learnt_and_stays_in_the_transcript(chat):
  agent = Agent(chat, instructions='', format='plain')
  for episode in play(agent, 0.4, tasks=4):
    cleaned = without_stumbles(episode)
    assert cleaned.tokens == episode.tokens
    for before, after in zip(episode.turns, cleaned.turns, strict=True):
      assert after.learn == (before.weight_version == 'expert')
    batch = collate.collate([Group(0, 0, (cleaned,))])
    learnt = sum(t.completion_tokens for t in cleaned.turns if t.learn)
    assert batch.completion_mask.sum() == learnt
    assert batch.rewards.sum() == 1.0  # of the last turn


def test_a_format_that_cannot_say_nonsense_says_none(chat):
  agent = Agent(
      chat,
      instructions='',
      format='function_calling',
      functions=FUNCTIONS,
  )
  episodes = play(agent, 0.5, tasks=3)
  assert all(e.success for e in episodes)
  assert not [t for e in episodes for t in e.turns if t.parse_error]


@pytest.mark.parametrize('stumbles', [0.0, 0.4])
def test_an_episode_without_stumbles_stays_as_it_is(chat, stumbles):
  agent = Agent(chat, instructions='', format='plain')
  [episode] = play(agent, stumbles, tasks=1)
  cleaned = without_stumbles(episode)
  assert (cleaned == episode) == all(
      t.weight_version == 'expert' for t in episode.turns
  )
