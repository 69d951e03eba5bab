"""Tests for agentrl.rollout.environment; play is in episode_test."""

import asyncio
import json
import os
import socket
import sys
import time
import types

import pytest

from agentrl import envs
from agentrl.envs import options as env_options
from agentrl.errors import ConfigError, DataError, EnvError
from agentrl.rollout import (
    collect,
    env_server,
    environment as environment_lib,
    play as play_lib,
    seeds,
)
from agentrl.rollout.env_server import EnvServer
from agentrl.rollout.environment import Environment
from agentrl.rollout.options import Limits
from agentrl.runtime.children import SECRETS
from agentrl.types import Turns
from tests import fakes
from tests.envs.conformance import OF_A_FILE


@pytest.fixture
def items(tmp_path):
  """Writes an item file of these ids and gives its path."""

  def write(*item_ids):
    path = tmp_path / 'items.json'
    path.write_text(json.dumps([{'item_id': x} for x in item_ids]))
    return str(path)

  return write


def environment(name, task_file=None):
  """An environment whose server is not asked: no client is made."""
  host = types.SimpleNamespace(session=None, run=lambda asked: asked.close())
  return Environment(
      host,
      env_options.EnvOptions(name=name, url='http://127.0.0.1:9'),
      task_file=task_file,
  )


@pytest.mark.parametrize('name', sorted(envs.ENVS.keys() - OF_A_FILE))
def test_an_item_file_names_the_tasks_of_training_and_of_evaluation(
    name, items
):
  first, second, *_ = envs.get(name).tasks('train')
  last = envs.get(name).tasks('test')[-1]
  path = items(f'{name}_{second}', f'{name}_{first}', f'{name}_{last}')
  training = environment(name, task_file=path)
  assert training.tasks('train') == (second, first, last)
  assert training.tasks('test') == envs.get(name).tasks('test')
  held_out = environment(name)
  assert held_out.panel('test', 3, path) == (second, first, last)
  assert held_out.panel('test', 2) == training.panel('test', 2)
  with pytest.raises(ConfigError, match='num_tasks=4, but .*items.json has 3'):
    held_out.panel('test', 4, path)


def test_templates_of_tasks_are_those_of_its_options():
  assert environment('babyai').clusters() is None
  goal = environment('textcraft').tasks('test')[0]
  assert environment('textcraft').clusters()(goal) == (
      envs.get('textcraft').clusters()(goal)
  )


def test_items_of_another_environment_and_tasks_that_are_none_are_named(items):
  path = items('babyai_3', 'textcraft_4')
  with pytest.raises(DataError, match='Item 1 of .*textcraft_4'):
    environment('babyai', task_file=path).tasks('train')
  with pytest.raises(DataError, match='Item 0 of .*babyai_3'):
    environment('textcraft').panel('test', 2, path)
  path = items('textcraft_3', 'textcraft_544')
  with pytest.raises(DataError, match='Item 1 of .*items.json: .*544'):
    environment('textcraft').panel('test', 2, path)


def started(monkeypatch, tmp_path, script):
  """An environment server whose process is this shell script."""
  program = tmp_path / 'program'
  program.write_text(f'#!/bin/sh\n{script}\n')
  program.chmod(0o755)
  monkeypatch.setattr(sys, 'executable', str(program))
  return EnvServer('babyai', {})


@pytest.mark.parametrize(
    'script, said',
    [
        (
            'echo No module named jericho >&2; exit 3',
            'ended with exit code 3 before it listened: No module named jeri',
        ),
        (
            'kill -9 $$',
            'was killed by SIGKILL before it listened: it said noth',
        ),
        # What it started lives on, and has its output open.
        (
            'sleep 20 & echo $! >$(dirname $0)/pid; exit 1',
            'ended with exit code 1 before',
        ),
        ('echo Hello; exec sleep 20', 'did not say where it listens'),
        ('echo 5; exec sleep 20', 'did not say where it listens'),
    ],
)
def test_a_server_that_does_not_start_is_told_at_once(
    tmp_path, monkeypatch, script, said
):
  before = time.monotonic()
  with pytest.raises(EnvError, match=f'^The babyai server {said}'):
    started(monkeypatch, tmp_path, script)
  assert time.monotonic() - before < 10
  if (tmp_path / 'pid').exists():
    os.kill(int((tmp_path / 'pid').read_text()), 9)


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(
    tmp_path, monkeypatch
):
  monkeypatch.setattr(env_server, '_START_S', 0.3)
  with pytest.raises(EnvError, match='did not start within 0.3 s: it imports'):
    started(monkeypatch, tmp_path, 'echo it imports >&2; exec sleep 20')


class Leaving:
  """A child that takes connections until it is told, and ends later."""

  url = 'http://127.0.0.1:9'

  def __init__(self, ends_after):
    self.looks, self.starts = None, 0
    self._ends_after = ends_after

  @property
  def alive(self):
    return self.looks is None or self.looks < self._ends_after

  async def listens(self):
    if self.looks is None:
      return True
    self.looks += 1
    return False

  def restart(self):
    self.looks, self.starts = None, self.starts + 1

  def last_words(self):
    return 'ended with exit code 0: it said nothing'

  def wait(self):
    pass


@pytest.mark.parametrize(
    'ends_after, said',
    [(3, 'ended with exit code 0'), (10**9, 'takes no connections for 0.3 s')],
)
def test_a_server_that_is_about_to_end_is_waited_for_and_started_again(
    monkeypatch, ends_after, said
):
  for name, seconds in (
      ('_ENDING_S', 0),
      ('_LOOK_S', 0.01),
      ('_LEAVING_S', 0.3),
  ):
    monkeypatch.setattr(environment_lib, name, seconds)
  child = Leaving(ends_after)
  host = types.SimpleNamespace(session=None)
  found = Environment(
      host,
      env_options.EnvOptions(name='textcraft'),
      begin=lambda name, options, expert, timeout_s: child,
  )
  asyncio.run(found.revive())
  assert not child.starts and not found.deaths
  child.looks = 0  # it was asked to end

  async def both():  # as two episodes that failed
    await asyncio.gather(found.revive(), found.revive())

  asyncio.run(both())
  assert child.starts == 1
  [death] = found.deaths
  assert said in death


def test_a_server_knows_whether_it_listens():
  with socket.create_server(('127.0.0.1', 0)) as server:
    child = object.__new__(EnvServer)
    child._port = server.getsockname()[1]
    assert asyncio.run(child.listens())
  assert not asyncio.run(child.listens())


def test_a_server_gets_no_secret_of_the_run(tmp_path, monkeypatch):
  for name in SECRETS:
    monkeypatch.setenv(name, 'secret')
  monkeypatch.setenv('ITS_OWN', 'known')
  script = f'echo "$ITS_OWN:${SECRETS[0]}${SECRETS[1]}" >&2; exit 1'
  with pytest.raises(EnvError, match='listened: known:$'):
    started(monkeypatch, tmp_path, script)


def test_pictures_of_an_environment_without_any_are_refused():
  environment = types.SimpleNamespace(
      spec=envs.get('textcraft'), name='textcraft'
  )
  with pytest.raises(ConfigError, match='textcraft draws no pictures'):
    play_lib.make_play(
        environment,
        None,
        None,
        Limits(save_views=True),
        name='x',
        split='train',
        horizon=1,
        policy_version=0,
    )


@pytest.mark.parametrize('concurrency', [1, 5])
def test_each_episode_draws_its_horizon_whatever_the_order(agent, concurrency):
  world = types.SimpleNamespace(
      name='walk',
      client=fakes.FakeEnv,
      deaths=(),
      spec=types.SimpleNamespace(
          dialect=types.SimpleNamespace(renders=False), data_version=3
      ),
  )
  play = play_lib.make_play(
      world,
      agent,
      fakes.FakePolicy([tuple(agent.write('go'))]),
      Limits(max_completion_tokens=8, max_context=4096),
      name='train-0',
      split='train',
      horizon=Turns(1, 4),
      policy_version=0,
  )
  tasks = [(0, 3), (1, 3)]
  played = collect.collect(tasks, 8, play, seed=5, concurrency=concurrency)
  episodes = [e for group in asyncio.run(played) for e in group.episodes]
  assert [e.horizon for e in episodes] == [
      seeds.draw_turns(Turns(1, 4), e.seed) for e in episodes
  ]
  assert {e.horizon for e in episodes} == {1, 2, 3, 4}
  assert {e.data_version for e in episodes} == {3}
  # The walk has three steps.
  for e in episodes:
    assert len(e.turns) == min(e.horizon, 3) and e.success == (e.horizon > 2)
