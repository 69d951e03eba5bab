"""Tests for agentrl.modes.early, with real servers."""

import contextlib
import dataclasses

import pytest

from agentrl.config import mixture
from agentrl.modes import build, early, reading
from agentrl.rollout import env_server
from configs import (
    babyai_agentevol,
    babyai_dpo,
    babyai_sft,
    mixture_grpo,
    quickstart,
)


@pytest.fixture
def begun(monkeypatch):
  """The servers that were begun in this process."""
  servers = []
  real = env_server.begin

  def begin(*args, **kwargs):
    servers.append(real(*args, **kwargs))
    return servers[-1]

  monkeypatch.setattr(env_server, 'begin', begin)
  return servers


@pytest.mark.parametrize(
    'config',
    [quickstart, babyai_sft, babyai_dpo, babyai_agentevol, mixture_grpo],
)
def test_a_run_takes_the_servers_that_were_begun_for_it(
    config, make_session, begun
):
  config = config.get_config('tiny')
  config.env.workers = 2
  checked = reading.read(config)
  members = mixture.members(checked) if checked.mode == 'train' else ()
  with early.servers(checked) as starting:
    count = 2 * max(len(members), 1)
    assert len(begun) == count
    session = make_session(checked)
    session = dataclasses.replace(session, begin_env=starting.take)
    build.make_setup(session, expert=checked.plays_expert, members=members)
    assert len(begun) == count  # and none of its own
  assert all(server.alive for server in begun)  # what was taken is the run's


def test_servers_that_nobody_takes_are_stopped(begun):
  checked = reading.read(quickstart.get_config('tiny'))
  with contextlib.suppress(ZeroDivisionError):
    with early.servers(checked) as starting:
      other = starting.take(
          'babyai', {'levels': ['GoToDoor']}, expert=False, timeout_s=60.0
      )
      raise ZeroDivisionError
  first, second = begun
  assert not first.alive and second is other
  other.wait()
  assert other.url
  other.stop()


def test_servers_at_urls_are_nobodys_to_start(begun):
  config = quickstart.get_config('tiny')
  config.env.url = 'http://127.0.0.1:9'
  with early.servers(reading.read(config)):
    assert not begun
