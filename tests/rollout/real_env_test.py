"""The rollout against real environment servers, over HTTP."""

import asyncio

import aiohttp
import pytest

from agentrl import envs
from agentrl.data import collate
from agentrl.envs import formats, server
from agentrl.envs.client import EnvClient
from agentrl.envs.textcraft.spec import FUNCTIONS
from agentrl.errors import EnvError
from agentrl.evaluation.evaluate import seeded
from agentrl.inference.sampler import Sampler
from agentrl.rollout import options
from agentrl.rollout.agent import Agent
from agentrl.rollout.collect import collect, rollout_metrics
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import Limits
from tests import fakes
from tests.rollout import scripts


def make_play(session, url, env_name, agent, policy=None, **settings):
  """Plays with `policy`, or with the expert when there is none."""
  values = dict(
      env_name=env_name,
      split='train',
      policy_version=0,
      horizon=30,
      limits=Limits(
          max_completion_tokens=200, max_context=20000, deadline_s=60.0
      ),
  )

  async def play(assignment):
    env = EnvClient(session, url, env_name=env_name)
    return await run_episode(
        env,
        agent,
        policy or Expert(env, agent),
        episode_id=f'{assignment.ordinal}-{assignment.replica}',
        task_id=assignment.task_id,
        seed=assignment.seed,
        attempt=assignment.attempt,
        previous=assignment.previous,
        **(values | settings),
    )

  return play


def strip(groups):
  """The parts of episodes that two collections with one seed have alike."""
  return [
      (e.episode_id, e.tokens, e.completion_mask, e.stop_reason)
      for group in groups
      for e in group.episodes
  ]


@pytest.mark.parametrize('format', formats.FORMATS)
def test_expert_solves_textcraft_in_the_agents_words(chat, format):
  agent = Agent(
      chat,
      instructions='Craft.',
      format=format,
      functions=FUNCTIONS,
  )
  task_ids = envs.get('textcraft').tasks('test')[:6]

  async def main():
    async with (
        server.running('textcraft', expert=True) as url,
        aiohttp.ClientSession() as session,
    ):
      play = make_play(session, url, 'textcraft', agent)
      tasks = list(enumerate(task_ids))
      return await collect(tasks, 1, seeded(play, 0), seed=0, concurrency=3)

  groups = asyncio.run(main())
  assert [e.success for g in groups for e in g.episodes] == [True] * 6
  metrics = rollout_metrics(groups, 30)
  assert metrics['rollout/stop_terminated'] == 1.0
  assert metrics['rollout/parse_error_share'] == 0.0


def test_policy_behind_http_plays_a_group(chat):
  agent = Agent(chat, instructions='', format='plain')
  [task_id, *_] = envs.get('textcraft').tasks('train')

  async def main():
    async with (
        server.running('textcraft') as url,
        fakes.FakeEngine() as engine,
        aiohttp.ClientSession() as session,
    ):
      sampler = Sampler(session, [engine.url], temperature=1.0)
      play = make_play(session, url, 'textcraft', agent, sampler, horizon=3)
      return await collect([(0, task_id)], 3, play, seed=1, concurrency=3)

  first, second = asyncio.run(main()), asyncio.run(main())
  assert [e.stop_reason for e in first[0].episodes] == ['horizon'] * 3
  # One task: the same first observation for all, but samples of their own.
  assert len({e.prompt for e in first[0].episodes}) == 1
  assert len({e.tokens for e in first[0].episodes}) == 3
  assert strip(first) == strip(second)


SAID = {
    'full': ('inventory',),
    'window': ('inventory',),
    'summary': ('inventory',),
    'fold': ('branch: look', 'inventory', 'return: nothing', 'inventory'),
    'notes': ('note: look', 'inventory'),
}


@pytest.mark.parametrize('kind', options.CONTEXTS)
def test_each_context_with_plans_and_lessons(chat, kind):
  limits = Limits(max_completion_tokens=60, max_context=6000, deadline_s=60.0)
  agent = scripts.make_agent(
      chat,
      context=options.ContextOptions(
          kind=kind, window=1, budget=800, summary_tokens=8
      ),
      plan=options.PlanOptions(kind='every', every=2, tokens=8),
      reflect=options.ReflectOptions(attempts=2, tokens=8),
  )
  task_ids = envs.get('textcraft').tasks('train')[:2]

  async def main():
    async with (
        server.running('textcraft') as url,
        aiohttp.ClientSession() as session,
    ):

      def play(assignment):
        # A lesson or not, then what the policy says for ever.
        said = ['try'] * (assignment.previous is not None)
        policy = scripts.scripted(agent, *said, 'plan', *SAID[kind])
        return make_play(
            session, url, 'textcraft', agent, policy, horizon=4, limits=limits
        )(assignment)

      tasks = list(enumerate(task_ids))
      return await collect(tasks, 2, play, seed=1, concurrency=2, chain=2)

  groups = asyncio.run(main())
  assert strip(groups) == strip(asyncio.run(main()))
  for episode in (e for group in groups for e in group.episodes):
    assert episode.stop_reason == 'horizon' and len(episode.acts) == 4
    found = scripts.kinds(episode)
    assert found.count('lesson') == episode.attempt
    assert found.count('plan') == 2
    for command in ('branch', 'return'):
      assert found.count(command) == (kind == 'fold')
    assert found.count('note') == (kind == 'notes')
    assert found.count('summary') == 0 or kind == 'summary'
    cut = kind in ('window', 'notes', 'fold') or 'summary' in found
    assert len(episode.segments) > episode.attempt or not cut
  batch = collate.collate(groups)
  assert batch.completion_mask.sum() == sum(
      turn.completion_tokens
      for group in groups
      for episode in group.episodes
      for turn in episode.turns
  )


def test_environment_server_that_is_gone_is_one_clear_error(chat):
  agent = Agent(chat, instructions='', format='plain')

  async def main():
    async with aiohttp.ClientSession() as session:
      play = make_play(session, 'http://127.0.0.1:9', 'textcraft', agent)
      await collect(
          [(i, i) for i in range(6)],
          2,
          play,
          seed=0,
          concurrency=4,
          retry_wait_s=0.0,
      )

  with pytest.raises(
      EnvError,
      match='7 of 12 episodes failed.*env_error: POST http://127.0.0.1:9',
  ):
    asyncio.run(main())


def test_server_without_an_expert_says_so(chat):
  agent = Agent(chat, instructions='', format='plain')
  [task_id, *_] = envs.get('textcraft').tasks('train')

  async def main():
    async with (
        server.running('textcraft') as url,
        aiohttp.ClientSession() as session,
    ):
      play = make_play(session, url, 'textcraft', agent)
      await collect([(0, task_id)], 1, play, seed=0, concurrency=1, attempts=1)

  with pytest.raises(EnvError, match='expert'):
    asyncio.run(main())
