"""Tests for agentrl.viewer.again and .env_servers, with real environments."""

import asyncio
import contextlib
import dataclasses

import pytest

from agentrl import envs
from agentrl.data import episodes as episodes_lib
from agentrl.errors import ConfigError
from agentrl.viewer import again, env_servers, record
from tests.viewer import played
from tests.waiting import gone


def to_record(episode):
  return record.decode(episodes_lib.to_line(episode).encode())


def play_again(*episodes, options=None):
  """Plays them on servers of their own, which are gone afterwards."""

  async def play():
    servers = env_servers.EnvServers()
    found = []
    async with contextlib.asynccontextmanager(servers.run)():
      for episode in episodes:
        config = {'env': {'name': episode.env, 'options': options or {}}}
        checked = servers.options(episode.env, config)
        async with servers.client(episode.env, checked) as client:
          found.append(await again.play(to_record(episode), client))
      pids = servers.pids
      assert len(pids) == len({episode.env for episode in episodes})
    assert all(map(gone, pids))
    return found

  return asyncio.run(play())


def change_turn(episode, index, **changes):
  turns = list(episode.turns)
  turns[index] = dataclasses.replace(turns[index], **changes)
  return dataclasses.replace(episode, turns=tuple(turns))


def test_the_same_actions_give_the_same_observations_or_it_is_said():
  episode = played.expert_episode('textcraft')
  other = change_turn(episode, 1, observation='Got 99 dragons')
  # Without an action nothing is done, and nothing compared.
  mute = change_turn(episode, 0, parse_error='no action', observation='What?')
  shorter = dataclasses.replace(
      episode, turns=(*episode.turns, episode.turns[0])
  )
  same, differs, muted, over = play_again(episode, other, mute, shorter)
  assert not same.differences and same.done == len(episode.turns)
  assert same.ended == '' and not same.pictures
  [one] = differs.differences
  assert one.done == 2 and 'dragons' in one.recorded
  assert one.found == episode.turns[1].observation
  assert all(x.done > 1 for x in muted.differences)
  assert over.done == len(episode.turns) and 'ended the episode' in over.ended


def test_babyai_is_drawn_as_when_it_was_played():
  episode = played.expert_episode('babyai', views=True)
  [found] = play_again(
      played.without_views(episode), options={'style': 'compact'}
  )
  assert not found.differences
  assert tuple(found.pictures) == episode.views


@pytest.mark.parametrize(
    'env, options, said',
    [
        ('my_module:SPEC', {}, 'no environment of agentrl'),
        ('searchqa', {'retriever_url': 'http://a'}, 'retriever_url'),
        ('webarena', {'tasks': 'raw'}, "ran with tasks='raw'"),
    ],
)
def test_what_names_files_or_services_is_not_played(env, options, said):
  with pytest.raises(ConfigError, match=said):
    env_servers.EnvServers().options(
        env, {'env': {'name': env, 'options': options}}
    )


@pytest.mark.parametrize(
    'config',
    [
        {
            'env': {'name': 'babyai', 'options': {'style': 'compact'}},
            'mixture': {
                'a': {'env': {'name': 'textcraft', 'options': {'distractors': 2}}},
                'b': {},
            },
        },
        {
            'env': {
                'name': 'babyai;textcraft',
                'options': {
                    'babyai': {'style': 'compact'},
                    'textcraft': {'distractors': 2},
                },
            }
        },
    ],
)  # fmt: skip
def test_each_environment_of_a_run_has_its_own_options(config):
  servers = env_servers.EnvServers()
  assert servers.options('textcraft', config) == {'distractors': 2}
  assert servers.options('babyai', config) == {'style': 'compact'}
  assert servers.options('searchqa', config) == {}


def test_programs_and_unknown_names_in_options_are_left_out():
  options = {'chromium': '/tmp/evil', 'style': 'compact', 'surprise': 1}
  spec = envs.get('miniwob')
  assert env_servers.safe_options(spec, options) == {'style': 'compact'}
