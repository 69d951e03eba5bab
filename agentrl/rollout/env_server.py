"""An environment server as a child process."""

import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import EnvError
from agentrl.runtime import children
from agentrl.runtime.children import Child

_ROOT = pathlib.Path(__file__).parents[2]  # what `agentrl` is imported from
_START_S = 60.0
_LAST_WORDS_S = 2.0  # for a server that ends


class EnvServer:
  """The server; it ends with this process."""

  def __init__(
      self,
      name: str,
      options: Mapping[str, Any],
      *,
      expert: bool = False,
      flags: Sequence[str] = (),
  ):
    """Starts the server and waits until it listens.

    Args:
      name: of the environment.
      options: its options.
      expert: whether it offers the expert's actions.
      flags: more of `python -m agentrl.envs.server`.

    Raises:
      EnvError: it did not start; quotes its last words.
    """
    self._command = [
        sys.executable,
        '-m',
        'agentrl.envs.server',
        f'--env={name}',
        '--port=0',
        f'--options={json.dumps(dict(options))}',
        '--exit_with_parent',
        *(['--expert'] if expert else []),
        *flags,
    ]
    self._name = name
    self._start()

  @property
  def url(self) -> str:
    """Changes when the server is started again."""
    return self._url

  @property
  def pid(self) -> int:
    """The process id of the child."""
    return self._child.pid

  @property
  def alive(self) -> bool:
    return self._child.ending() is None

  def last_words(self) -> str:
    """The ending of a server that died, and the last lines that it wrote."""
    return f'{self._child.ending()}: {self._child.last_words()}'

  def restart(self) -> None:
    """Starts the server again after it died, on another port."""
    self.stop()
    self._start()

  def stop(self) -> None:
    """Ends the child; never hangs."""
    self._child.stop()

  def _start(self) -> None:
    path = filter(None, [str(_ROOT), os.environ.get('PYTHONPATH')])
    self._child = Child(
        self._command,
        name=f'{self._name} server',
        env=children.environment() | {'PYTHONPATH': os.pathsep.join(path)},
    )
    try:
      line = self._child.read_line(_START_S)
      self._url = f'http://127.0.0.1:{json.loads(line)["port"]}'
    except (TimeoutError, json.JSONDecodeError, KeyError, TypeError) as error:
      how = f'did not start within {_START_S:g} s'
      if not isinstance(error, TimeoutError):
        # Its output may have ended just before it did.
        ending = self._child.ending(_LAST_WORDS_S)
        how = 'did not say where it listens'
        if ending is not None:
          how = f'{ending} before it listened'
      self._child.kill()
      raise EnvError(
          f'The {self._name} server {how}: {self._child.last_words()}'
      ) from error
