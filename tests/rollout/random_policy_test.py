"""Tests for agentrl.rollout.random_policy, on real servers over HTTP."""

import asyncio
import collections
import re
import types

import aiohttp
import pytest

from agentrl import envs
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.errors import EnvError
from agentrl.rollout.agent import Agent
from agentrl.rollout.collect import collect
from agentrl.rollout.episode import run_episode
from agentrl.rollout.options import AgentOptions, Limits
from agentrl.rollout.play import make_play
from agentrl.rollout.random_policy import RandomPolicy
from agentrl.rollout.text_agent import TextAgent, make_text_agent

FORM = re.compile(r'[{}]')


class StillEnv:
  """Shows one observation for ever, and offers the same actions."""

  def __init__(self, name, observation, offered):
    self.name, self.spec = name, envs.get(name)
    self._observation, self._offered = observation, offered

  async def observation(self):
    return self._observation

  async def available_actions(self):
    return self._offered


def draws(name, observation, offered, count=400, agent=None):
  """How often each action is drawn, one seed each."""
  agent = agent or TextAgent(instructions='', format='plain')

  async def main():
    policy = RandomPolicy(StillEnv(name, observation, offered), agent)
    return [await policy.action(seed) for seed in range(count)]

  return collections.Counter(asyncio.run(main()))


def play(env_name, agent, *, seeds, horizon=12, task=0):
  async def main():
    async with (
        server.running(env_name) as url,
        aiohttp.ClientSession() as session,
    ):
      episodes = []
      for seed in seeds:
        env = EnvClient(session, url, env_name=env_name)
        episodes.append(
            await run_episode(
                env,
                agent,
                RandomPolicy(env, agent),
                episode_id='e',
                env_name=env_name,
                task_id=envs.get(env_name).tasks('test')[task],
                split='test',
                seed=seed,
                policy_version=0,
                horizon=horizon,
                limits=Limits(max_completion_tokens=99, max_context=90_000),
            )
        )
      return episodes

  return asyncio.run(main())


def said(episode):
  return [(t.action, t.observation, t.reward) for t in episode.turns]


@pytest.mark.parametrize('env_name', ['textcraft', 'babyai'])
def test_a_seed_repeats_an_episode_and_another_does_not(env_name):
  agent = make_text_agent(envs.get(env_name), AgentOptions(format='react'))
  first, again, other = play(env_name, agent, seeds=(1, 1, 2), task=1)
  assert first.error is None and len(first.turns) > 1
  assert said(first) == said(again) != said(other)
  assert not any(turn.parse_error for turn in first.turns)
  assert {turn.weight_version for turn in first.turns} == {'random'}


def test_with_a_tokenizer_the_same_actions_have_tokens(chat):
  style = dict(instructions='', format='plain')
  [text] = play('babyai', TextAgent(**style), seeds=(3,))
  [tokens] = play('babyai', Agent(chat, **style), seeds=(3,))
  assert said(text) == said(tokens)
  assert tokens.tokens and not text.tokens


def test_a_collection_may_be_played_by_an_expert_or_at_random():
  agent = make_text_agent(envs.get('textcraft'), AgentOptions(format='plain'))
  tasks = list(enumerate(envs.get('textcraft').tasks('test')[:2]))

  async def main():
    async with (
        server.running('textcraft', expert=True) as url,
        aiohttp.ClientSession() as session,
    ):
      place = types.SimpleNamespace(
          spec=envs.get('textcraft'),
          name='textcraft',
          deaths=(),
          client=lambda: EnvClient(session, url, env_name='textcraft'),
      )
      settings = dict(name='x', split='test', horizon=20, policy_version=0)
      return [
          await collect(
              tasks,
              2,
              make_play(place, agent, None, Limits(), **settings, **acting),
              seed=0,
              concurrency=2,
          )
          for acting in ({}, {'acting': RandomPolicy})
      ]

  expert, at_random = asyncio.run(main())
  episodes = lambda groups: [e for group in groups for e in group.episodes]
  versions = lambda groups: {
      t.weight_version for e in episodes(groups) for t in e.turns
  }
  assert all(e.success for e in episodes(expert))
  assert versions(expert) == {'expert'} and versions(at_random) == {'random'}
  first, second = at_random[0].episodes
  assert said(first) != said(second)  # samples of one task have their own seeds


@pytest.mark.parametrize('env_name', ['textcraft', 'babyai'])
def test_every_function_format_can_say_what_is_drawn(env_name):
  for format in ('function_calling', 'code'):
    agent = make_text_agent(envs.get(env_name), AgentOptions(format=format))
    [episode] = play(env_name, agent, seeds=(5,), horizon=20)
    assert episode.error is None
    assert not any(turn.parse_error for turn in episode.turns)


def test_whole_actions_are_drawn_uniformly():
  offered = ['turn left', 'turn right', 'move forward', 'toggle']
  counts = draws('babyai', 'You see: nothing.', offered, 4000)
  assert set(counts) == set(offered)
  # Five standard deviations of a binomial count: sqrt(4000 * 0.25 * 0.75) = 27.
  assert all(abs(count - 1000) < 137 for count in counts.values())


def test_textcraft_draws_from_the_commands_it_has_seen():
  page = (
      'Crafting commands:\n'
      'craft 4 oak planks using 1 oak logs\n'
      'craft 1 ladder using 7 stick, 1 oak logs\n\n'
      'Goal: craft ladder.'
  )
  assert set(draws('textcraft', page, ['get {count} {item}'])) == {
      'craft 4 oak planks using 1 oak logs',
      'craft 1 ladder using 7 stick, 1 oak logs',
      'get 1 oak logs',
      'get 7 stick',
      'inventory',
  }


def test_textcraft_remembers_the_commands_of_the_first_observation():
  env = StillEnv('textcraft', 'craft 2 a using 1 b', [])
  policy = RandomPolicy(env, TextAgent(instructions='', format='plain'))

  async def main():
    await policy.action(0)
    env._observation = 'Got 1 b'
    return {await policy.action(seed) for seed in range(60)}

  assert asyncio.run(main()) == {'craft 2 a using 1 b', 'get 1 b', 'inventory'}


def test_random_play_solves_some_easy_tasks():
  """The floor is above zero: one command crafts, two draws may be enough."""
  agent = TextAgent(instructions='', format='plain')
  tasks = envs.get('textcraft').tasks('test')
  kind = envs.get('textcraft').subtasks()
  easy = next(i for i, x in enumerate(tasks) if kind(x) == 'depth 1')
  episodes = play('textcraft', agent, seeds=range(4), horizon=30, task=easy)
  assert any(episode.success for episode in episodes)


def test_forms_are_filled_with_words_of_the_page():
  offered = ['<search>{words}</search>', '<answer>{answer}</answer>']
  question = "Who wrote the king's own book?"
  counts = draws('searchqa', question, offered)
  searches = sum(n for x, n in counts.items() if x.startswith('<search>'))
  assert 140 < searches < 260
  for action in counts:
    inside = re.fullmatch(r'<(search|answer)>(.+)</\1>', action)[2]
    assert inside in question and 1 <= len(inside.split()) <= 4


def test_browser_forms_are_filled_from_the_page():
  from agentrl.envs.web import commands

  page = 'Tab 0 (current): Shop\n[1] link News\n[12] textbox Search here'
  offered = ['click [1]', 'click [12]', *commands.FORMS.values()]
  counts = draws('miniwob', page, offered)
  for action in counts:
    command = commands.parse(action)  # each is one that the browser reads
    if command.name in ('click', 'type', 'hover'):
      assert command.number in (1, 12)
  names = {commands.parse(action).name for action in counts}
  # No address is on the page, so there is none to go to.
  assert names == set(commands.FORMS) - {'goto'}
  there = draws('miniwob', page + ' http://shop.test/a', offered)
  assert 'goto [http://shop.test/a]' in there


def test_an_action_that_the_format_cannot_say_is_drawn_again():
  agent = make_text_agent(
      envs.get('babyai'), AgentOptions(format='function_calling')
  )
  counts = draws('babyai', 'x', ['fly', 'turn left'], agent=agent)
  assert set(counts) == {'turn left'}
  with pytest.raises(EnvError, match='set another agent.format'):
    draws('babyai', 'x', ['fly'], agent=agent)


def test_a_server_that_offers_nothing_is_an_error():
  with pytest.raises(EnvError, match='No action can be drawn'):
    draws('babyai', 'x', [])
