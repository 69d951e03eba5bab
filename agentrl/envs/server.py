"""An environment as a server process.

    python -m agentrl.envs.server --env=textcraft --port=8000

prints one line of JSON when it is ready: `{"port": 8000, "env": "textcraft",
"url": "http://127.0.0.1:8000"}`. SIGTERM and SIGINT end it; so does, with
--exit_with_parent, the end of its standard input, which no parent can fail to
give, however it dies.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from aiohttp import http, web

from agentrl import envs
from agentrl.envs.routes import Routes
from agentrl.envs.spec import SPLITS
from agentrl.envs.workers import Workers
from agentrl.errors import AgentrlError, ConfigError, EnvError
from agentrl.http import auth

# An environment that does not let go is left behind after so long.
_SHUTDOWN_S = 3.0


class _OneLine(logging.Filter):
  """Says in one line what clients did wrong: a traceback is for bugs of ours."""

  def filter(self, record: logging.LogRecord) -> bool:
    error = record.exc_info and record.exc_info[1]
    if isinstance(
        error,
        (http.HttpProcessingError, web.RequestPayloadError, ConnectionError),
    ):
      words = ' '.join(str(error).split())[:200]
      record.msg, record.args = f'{record.getMessage()}: %s', (words,)
      record.levelno, record.levelname = logging.INFO, 'INFO'
      record.exc_info = None
    return True


_logger = logging.getLogger(__name__)
_logger.addFilter(_OneLine())


@contextlib.asynccontextmanager
async def running(
    env_name: str,
    options: Mapping[str, Any] | None = None,
    *,
    host: str = '127.0.0.1',
    port: int = 0,
    expert: bool = False,
    lease_s: float = 600.0,
    max_episodes: int = 4096,
    deadline_s: float = 120.0,
    workers: int = 1,
    token_file: str | None = None,
) -> AsyncIterator[str]:
  """Serves an environment inside the block, and gives its URL.

  Args:
    env_name: a name in `envs.ENVS`.
    options: of the environment.
    host: to listen on.
    port: to listen on; 0: any free one.
    expert: whether to offer the expert's actions.
    lease_s: an episode that nobody used for so long is closed.
    max_episodes: most that may be live at a time.
    deadline_s: a call into an environment that takes so long is given up, and
      its episode closed.
    workers: processes that the episodes are spread over; 1: this one.
    token_file: holds what requests must carry as `Authorization: Bearer TOKEN`,
      but for /health; None: nothing.

  Raises:
    ConfigError: a name or an option is wrong.
    EnvError: a package is missing, or the port cannot be had.
  """
  if not 0 <= port < 2**16:
    raise ConfigError(f'port must be 0 to 65535, got {port}.')
  for name, value in (('lease_s', lease_s), ('deadline_s', deadline_s)):
    if value <= 0:
      raise ConfigError(f'{name} must be above 0, got {value}.')
  for name, value in (('max_episodes', max_episodes), ('workers', workers)):
    if value < 1:
      raise ConfigError(f'{name} must be at least 1, got {value}.')
  spec, options = envs.get(env_name), dict(options or {})
  token = None if token_file is None else auth.read_token(token_file)
  tasks = ()
  if spec.dialect.create_resets:
    tasks = sorted(task for x in SPLITS for task in spec.tasks(x, **options))
  if workers == 1:
    factory = spec.open(**options)
  else:
    factory = Workers(env_name, options, count=workers)
  routes = Routes(
      spec,
      factory,
      tasks,
      expert=expert,
      lease_s=lease_s,
      max_episodes=max_episodes,
      deadline_s=deadline_s,
      token=token,
  )
  runner = web.AppRunner(
      routes.app(),
      access_log=None,
      logger=_logger,
      shutdown_timeout=_SHUTDOWN_S,
  )
  await runner.setup()
  try:
    site = web.TCPSite(runner, host, port)
    try:
      await site.start()
    except OSError as error:
      raise EnvError(
          f'Cannot serve {env_name} on {host}:{port}: {error}'
      ) from error
    port = runner.addresses[0][1]
    yield f'http://{host}:{port}'
  finally:
    await runner.cleanup()


async def serve(
    env_name: str,
    options: Mapping[str, Any] | None = None,
    *,
    exit_with_parent: bool = False,
    **server: Any,
) -> None:
  """Serves until SIGTERM or SIGINT; prints one line of JSON when ready.

  Args:
    env_name: as `running` has it, like all that follows.
    options: of the environment.
    exit_with_parent: whether to end with standard input, too.
    **server: the other arguments of `running`.
  """
  loop, stop = asyncio.get_running_loop(), asyncio.Event()
  for number in (signal.SIGTERM, signal.SIGINT):
    loop.add_signal_handler(number, stop.set)
  if exit_with_parent:
    threading.Thread(
        target=_watch_parent, args=(loop, stop), daemon=True
    ).start()
  async with running(env_name, options, **server) as url:
    ready = {'port': int(url.rpartition(':')[2]), 'env': env_name, 'url': url}
    print(json.dumps(ready), flush=True)
    await stop.wait()


def _watch_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
  # Not sys.stdin: its lock, held here, would abort the interpreter at exit.
  while os.read(0, 4096):
    pass
  # Nobody is left to end us if an environment hangs.
  last = threading.Timer(2 * _SHUTDOWN_S, os._exit, args=(1,))
  last.daemon = True
  last.start()
  with contextlib.suppress(RuntimeError):  # the loop has ended already
    loop.call_soon_threadsafe(stop.set)


def main(argv: Sequence[str] | None = None) -> int:
  """Runs a server from the command line; returns its exit code."""
  parser = argparse.ArgumentParser(
      prog='python -m agentrl.envs.server',
      description='Serves an environment over HTTP.',
  )
  parser.add_argument('--env', required=True, help=', '.join(envs.ENVS))
  parser.add_argument('--options', default='{}', help='a JSON object')
  parser.add_argument('--host', default='127.0.0.1')
  parser.add_argument('--port', type=int, default=0, help='0: any free one')
  parser.add_argument('--expert', action='store_true', help='serve GET /expert')
  parser.add_argument('--lease_s', type=float, default=600.0)
  parser.add_argument('--max_episodes', type=int, default=4096)
  parser.add_argument('--deadline_s', type=float, default=120.0)
  parser.add_argument('--workers', type=int, default=1, help='processes')
  parser.add_argument('--token_file', help='what requests must know')
  parser.add_argument(
      '--exit_with_parent', action='store_true', help='end with standard input'
  )
  args = parser.parse_args(argv)
  try:
    try:
      options = json.loads(args.options)
    except ValueError as error:
      raise ConfigError(f'--options is not JSON: {error}') from error
    if not isinstance(options, dict):
      raise ConfigError(f'--options must be an object, got {args.options}.')
    asyncio.run(
        serve(
            args.env,
            options,
            exit_with_parent=args.exit_with_parent,
            host=args.host,
            port=args.port,
            expert=args.expert,
            lease_s=args.lease_s,
            max_episodes=args.max_episodes,
            deadline_s=args.deadline_s,
            workers=args.workers,
            token_file=args.token_file,
        )
    )
  except AgentrlError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return 0


if __name__ == '__main__':
  sys.exit(main())
