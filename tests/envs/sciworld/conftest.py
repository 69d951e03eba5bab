"""Simulators that start fast."""

import pytest


@pytest.fixture(scope='session', autouse=True)
def quick_java():
  """Half the start for half the speed later: tests are short."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv('JAVA_TOOL_OPTIONS', '-XX:TieredStopAtLevel=1')
    yield
