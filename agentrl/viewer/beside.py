"""A viewer beside a run: a child process that ends with the run."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

from agentrl.errors import EnvError
from agentrl.runtime.children import Child

_ROOT = pathlib.Path(__file__).parents[2]  # what `agentrl` is imported from
_START_S = 60.0


@contextlib.contextmanager
def viewer(workdir: pathlib.Path) -> Iterator[str]:
  """Shows a run inside the block; gives the line with the link.

  Raises:
    EnvError: the viewer does not start.
  """
  command = [
      *(sys.executable, '-m', 'agentrl.viewer.server'),
      *('--root', str(workdir.absolute()), '--exit_with_parent'),
  ]
  child = Child(command, name='viewer', cwd=str(_ROOT))
  try:
    try:
      line = child.read_line(_START_S)
    except TimeoutError as error:
      raise EnvError('The viewer did not start within a minute.') from error
    if not line:
      raise EnvError(f'The viewer did not start: {child.last_words()}')
    yield line.strip()
  finally:
    child.stop()
