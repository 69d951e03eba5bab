"""Compiling is nearly all that the tests of the training do."""

import jax
import pytest


@pytest.fixture(scope='module', autouse=True)
def quick_compilation():
  """What is checked here is mathematics, so slower code will do."""
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', False)
