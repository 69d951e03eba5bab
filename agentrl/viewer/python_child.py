"""Modules of agentrl as child processes of the viewer."""

import os
import pathlib
import sys

from agentrl.runtime import children
from agentrl.runtime.children import Child

_ROOT = pathlib.Path(__file__).parents[2]  # what `agentrl` is imported from


def start(
    module: str, *arguments: str, name: str, supervised: bool = False
) -> Child:
  """Starts `python -m module arguments`, which ends with this process.

  Args:
    module: its full name.
    *arguments: of it.
    name: in the log.
    supervised: see `Child`.
  """
  path = filter(None, [str(_ROOT), os.environ.get('PYTHONPATH')])
  return Child(
      [sys.executable, '-m', module, *arguments],
      name=name,
      env=children.environment() | {'PYTHONPATH': os.pathsep.join(path)},
      supervised=supervised,
  )
