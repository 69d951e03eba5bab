"""Cases of environments, some of whose packages a machine may lack."""

import importlib.util

import pytest

from agentrl import envs


def param(name, *marks):
  """A case of an environment; skipped where its packages are missing."""
  missing = [
      package
      for package in envs.get(name).packages
      if importlib.util.find_spec(package) is None
  ]
  if missing:
    marks = (*marks, pytest.mark.skip(reason=f'needs {", ".join(missing)}'))
  return pytest.param(name, marks=marks)
