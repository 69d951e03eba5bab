"""Modules of agentrl as child processes of the viewer."""

import sys

from agentrl.runtime import children
from agentrl.runtime.children import Child


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
  return Child(
      [sys.executable, '-m', module, *arguments],
      name=name,
      env=children.module_environment(),
      supervised=supervised,
  )
