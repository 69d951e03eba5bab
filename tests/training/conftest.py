"""Compiling is nearly all that the tests of the training do."""

import pytest


@pytest.fixture(scope='module', autouse=True)
def _quick(quick_compilation):
  """Applies `quick_compilation` to every test of this folder."""
