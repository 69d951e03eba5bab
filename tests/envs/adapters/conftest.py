"""Environments of adapters, opened and closed."""

import contextlib

import pytest


@pytest.fixture
def open_env():
  """Opens an environment of a spec with options; all are closed at the end."""
  with contextlib.ExitStack() as stack:

    def make(spec, **options):
      factory = spec.open(**options)
      stack.callback(factory.close)
      env = factory.make()
      stack.callback(env.close)
      return env

    yield make
