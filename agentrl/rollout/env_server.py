"""Environment servers as child processes."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentrl.errors import EnvError
from agentrl.runtime import children
from agentrl.runtime.children import Child

_START_S = 60.0
_LAST_WORDS_S = 2.0  # for a server that ends
_CONNECT_S = 1.0  # to itself


def command(
    name: str,
    options: Mapping[str, Any],
    *,
    expert: bool = False,
    flags: Sequence[str] = (),
) -> tuple[str, ...]:
  """The command of a server; the arguments are those of `EnvServer`."""
  return (
      sys.executable,
      '-m',
      'agentrl.envs.server',
      f'--env={name}',
      '--port=0',
      f'--options={json.dumps(dict(options))}',
      '--exit_with_parent',
      *(['--expert'] if expert else []),
      *flags,
  )


class EnvServer:
  """The server; it ends with this process.

  Attributes:
    command: that started it.
  """

  def __init__(
      self,
      name: str,
      options: Mapping[str, Any],
      *,
      expert: bool = False,
      flags: Sequence[str] = (),
      wait: bool = True,
  ):
    """Starts the server.

    Args:
      name: of the environment.
      options: its options.
      expert: whether it offers the expert's actions.
      flags: more of `python -m agentrl.envs.server`.
      wait: whether to return when it listens; else at once, and it is of no use
        before `wait` was called.

    Raises:
      EnvError: as `wait`.
    """
    self.command = command(name, options, expert=expert, flags=flags)
    self._name = name
    self._spawn()
    if wait:
      self.wait()

  @property
  def url(self) -> str:
    """Changes when the server is started again."""
    return f'http://127.0.0.1:{self._port}'

  @property
  def pid(self) -> int:
    """The process id of the child."""
    return self._child.pid

  @property
  def alive(self) -> bool:
    return self._child.ending() is None

  async def listens(self) -> bool:
    """True if it takes connections; one that is about to end takes none."""
    try:
      _, writer = await asyncio.wait_for(
          asyncio.open_connection('127.0.0.1', self._port), _CONNECT_S
      )
    except ConnectionRefusedError:
      return False
    except (OSError, TimeoutError):
      return True  # it is stopped, or too busy
    writer.close()
    return True

  def last_words(self) -> str:
    """The ending of a server that died, and the last lines that it wrote."""
    return f'{self._child.ending()}: {self._child.last_words()}'

  def wait(self) -> None:
    """Returns when the server listens.

    Raises:
      EnvError: it did not start; quotes its last words.
    """
    try:
      line = self._child.read_line(_START_S)
      self._port = int(json.loads(line)['port'])
    except (TimeoutError, ValueError, KeyError, TypeError) as error:
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

  def restart(self) -> None:
    """Starts the server again after it died, on another port."""
    self.stop()
    self._spawn()
    self.wait()

  def hang_up(self) -> None:
    """Asks the child to end; returns at once."""
    self._child.hang_up()

  def stop(self) -> None:
    """Ends the child; never hangs."""
    self._child.stop()

  def _spawn(self) -> None:
    self._child = Child(
        self.command,
        name=f'{self._name} server',
        env=children.module_environment(),
    )


class Begin(Protocol):
  """Begins to start a server, for whoever calls its `wait`."""

  def __call__(
      self,
      name: str,
      options: Mapping[str, Any],
      *,
      expert: bool,
      timeout_s: float,
  ) -> EnvServer:
    ...


def begin(
    name: str,
    options: Mapping[str, Any],
    *,
    expert: bool = False,
    timeout_s: float = 60.0,
) -> EnvServer:
  """A server that is starting.

  Args:
    name: as `EnvServer` has it.
    options: as `EnvServer` has them.
    expert: as `EnvServer` has it.
    timeout_s: of its clients' requests. Its own deadline of a call is the same: a
      shorter one would take a longer timeout's effect, and nobody waits any longer.
  """
  flags = (f'--deadline_s={timeout_s:g}',)
  return EnvServer(name, options, expert=expert, flags=flags, wait=False)


class Starting:
  """Servers that start while this process does something else.

  Its `take` is a `Begin`: it gives a server that was begun with the same
  arguments, once, or else a new one.
  """

  def __init__(self) -> None:
    self._begun: list[tuple[Any, EnvServer]] = []  # with its arguments

  def begin(
      self,
      name: str,
      options: Mapping[str, Any],
      *,
      expert: bool,
      timeout_s: float,
  ) -> None:
    """Begins to start a server; the arguments are those of `begin`."""
    server = begin(name, options, expert=expert, timeout_s=timeout_s)
    self._begun.append(((name, dict(options), expert, timeout_s), server))

  def take(
      self,
      name: str,
      options: Mapping[str, Any],
      *,
      expert: bool,
      timeout_s: float,
  ) -> EnvServer:
    """A server that is starting; it is the caller's from now on."""
    wanted = (name, dict(options), expert, timeout_s)
    for begun in self._begun:
      if begun[0] == wanted:
        self._begun.remove(begun)
        return begun[1]
    return begin(name, options, expert=expert, timeout_s=timeout_s)

  def __enter__(self) -> 'Starting':
    return self

  def __exit__(self, *exc_info) -> None:
    """Stops those that nobody took."""
    for _, server in self._begun:
      server.hang_up()
    for _, server in self._begun:
      server.stop()
