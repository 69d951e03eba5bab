"""A viewer beside a run: a child process that ends with the run."""

import contextlib
import pathlib
from collections.abc import Iterator

from agentrl.errors import EnvError
from agentrl.viewer import python_child

_SERVER = 'agentrl.viewer.server'
_START_S = 60.0


@contextlib.contextmanager
def viewer(workdir: pathlib.Path) -> Iterator[str]:
  """Shows a run inside the block; gives the line with the link.

  Raises:
    EnvError: the viewer does not start.
  """
  root = str(workdir.absolute())
  child = python_child.start(
      _SERVER, '--root', root, '--exit_with_parent', name='viewer'
  )
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
