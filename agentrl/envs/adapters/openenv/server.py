"""Servers of OpenEnv: found at their URL, or started by their command."""

import contextlib
import pathlib
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence

from agentrl.envs.adapters.openenv.client import Client
from agentrl.errors import ConfigError, EnvError
from agentrl.runtime import children
from agentrl.runtime.children import Child

_PORT = '{port}'
_START_S = 120.0  # it may import much
_POLL_S = 0.1
_CLOSE_S = 5.0


@contextlib.contextmanager
def opened(
    server: str | Sequence[str] | None, timeout_s: float
) -> Iterator[Client]:
  """A client of a server; one that is started for it ends with the block.

  Args:
    server: its URL or command.
    timeout_s: limit of one request.

  Raises:
    ConfigError: no server is named, or a command has no `{port}`.
    EnvError: it cannot be reached, or does not start.
  """
  if not server:
    raise ConfigError(
        'env.options.server is not set: name the URL of an OpenEnv server, or'
        " its command, as in ('python', '-m', 'uvicorn', 'APP', '--port',"
        f" '{_PORT}')."
    )
  if not isinstance(server, str):
    with _started(server, timeout_s) as client:
      yield client
    return
  if not server.startswith(('http://', 'https://')):
    raise ConfigError(
        f'env.options.server={server!r} is no URL: begin it with http://, or'
        ' give a command as a list of words.'
    )
  with contextlib.closing(Client(server, timeout_s)) as client:
    client.check()
    yield client


@contextlib.contextmanager
def _started(command: Sequence[str], timeout_s: float) -> Iterator[Client]:
  """A client of a server on a free port of loopback."""
  if not any(_PORT in word for word in command):
    raise ConfigError(
        f'env.options.server: the command has no {_PORT}, where its port goes.'
    )
  with socket.socket() as probe:
    probe.bind(('127.0.0.1', 0))
    port = probe.getsockname()[1]
  with contextlib.ExitStack() as stack:
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix='agentrl-openenv-')
    )
    child = Child(
        [word.replace(_PORT, str(port)) for word in command],
        name='openenv',
        env=children.environment(),
        log=pathlib.Path(folder) / 'log.txt',
        supervised=True,
    )
    stack.callback(child.stop, _CLOSE_S)
    client = stack.enter_context(
        contextlib.closing(Client(f'http://127.0.0.1:{port}', timeout_s))
    )
    _wait(child, client)
    yield client


def _wait(child: Child, client: Client) -> None:
  """Waits until a server that was started answers."""
  until = time.monotonic() + _START_S
  while time.monotonic() < until:
    if (ending := child.ending()) is not None:
      raise EnvError(f'The OpenEnv server {ending}: {child.last_words()}')
    try:
      return client.check()
    except EnvError:
      time.sleep(_POLL_S)
  raise EnvError(
      f'The OpenEnv server does not answer on {client.url} within'
      f' {_START_S:g} s: does its command use {_PORT}?'
  )
