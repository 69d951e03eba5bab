"""An environment as a server process.

    python -m agentrl.envs.server --env=textcraft --port=8000

prints one line of JSON when it is ready: `{"port": 8000, "env": "textcraft",
"url": "http://127.0.0.1:8000"}`. Whatever else is printed here, by an environment
or what it imports, goes to standard error. SIGTERM and SIGINT end it; so does, with
--exit_with_parent, the end of its standard input, which no parent can fail to
give, however it dies.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TextIO

from aiohttp import http, web

from agentrl import envs, fields
from agentrl.envs.base import EnvFactory
from agentrl.envs.options import EnvServerOptions
from agentrl.envs.routes import EnvRoutes
from agentrl.envs.spec import SPLITS
from agentrl.envs.workers import Workers
from agentrl.errors import AgentrlError, ConfigError, EnvError, one_line
from agentrl.http import addresses, auth
from agentrl.runtime import ending, parent

# Seconds after which an environment that does not close is left behind.
_SHUTDOWN_S = 3.0


class _OneLine(logging.Filter):
  """Logs errors of clients in one line: a traceback is for bugs of ours."""

  def filter(self, record: logging.LogRecord) -> bool:
    error = record.exc_info and record.exc_info[1]
    if isinstance(
        error,
        (http.HttpProcessingError, web.RequestPayloadError, ConnectionError),
    ):
      words = one_line(error, 200)
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
    **settings: Any,
) -> AsyncIterator[str]:
  """Serves an environment inside the block, and gives its URL.

  Args:
    env_name: a name in `envs.ENVS`.
    options: of the environment.
    **settings: fields of `EnvServerOptions`; without a port, any free one.

  Raises:
    ConfigError: a name, an option or a setting is wrong.
    EnvError: a package is missing, or the port cannot be had.
  """
  serving = EnvServerOptions(**{'port': 0, **settings})
  for field in dataclasses.fields(serving):
    value = getattr(serving, field.name)
    fields.check(field.name, value, fields.meaning(field))
  runner = web.AppRunner(
      _routes(env_name, dict(options or {}), serving).app(),
      auto_decompress=False,  # see `http.bodies`
      access_log=None,
      logger=_logger,
      shutdown_timeout=_SHUTDOWN_S,
  )
  await runner.setup()
  try:
    site = web.TCPSite(runner, serving.host, serving.port)
    try:
      await site.start()
    except OSError as error:
      raise EnvError(
          f'Cannot serve {env_name} on'
          f' {addresses.listening(serving.host, serving.port)}: {error}'
      ) from error
    yield addresses.base_url(serving.host, runner.addresses[0][1])
  finally:
    await runner.cleanup()


def _routes(
    env_name: str, options: dict[str, Any], serving: EnvServerOptions
) -> EnvRoutes:
  """The routes of an environment, whose factory is opened for them."""
  spec = envs.get(env_name)
  if spec.dialect.foreign and env_name not in envs.AGENTGYM:
    raise ConfigError(
        f'{env_name}: no server of ours speaks what its dialect sets,'
        f' {", ".join(spec.dialect.foreign)}; only its client does.'
    )
  file = serving.token_file
  token = None if file is None else auth.read_token(file)
  tasks: Sequence[int] = ()
  if spec.dialect.create_resets:
    tasks = sorted(task for x in SPLITS for task in spec.tasks(x, **options))
  if serving.workers == 1:
    factory: EnvFactory = spec.open(**options)
  else:
    factory = Workers(env_name, options, count=serving.workers)
  return EnvRoutes(spec, factory, serving, tasks=tasks, token=token)


async def serve(
    env_name: str,
    options: Mapping[str, Any] | None = None,
    *,
    exit_with_parent: bool = False,
    out: TextIO | None = None,
    **settings: Any,
) -> None:
  """Serves until SIGTERM or SIGINT; prints one line of JSON when ready.

  Args:
    env_name: as `running` has it, like all that follows.
    options: of the environment.
    exit_with_parent: whether to end with standard input, too.
    out: takes the line; None: standard output.
    **settings: likewise.
  """
  loop, stop = asyncio.get_running_loop(), asyncio.Event()
  for number in (signal.SIGTERM, signal.SIGINT):
    loop.add_signal_handler(number, stop.set)
  if exit_with_parent:
    parent.watch(loop, stop.set, 2 * _SHUTDOWN_S)
  async with running(env_name, options, **settings) as url:
    ready = {'port': int(url.rpartition(':')[2]), 'env': env_name, 'url': url}
    print(json.dumps(ready), file=out, flush=True)
    await stop.wait()


def _apart() -> TextIO:
  """Standard output, for the one line; what is printed from now on goes elsewhere.

  The parent reads that line and no other, and a pipe that nobody reads fills up and
  stops whoever prints.
  """
  out = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
  os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
  return out


def main(argv: Sequence[str] | None = None, *, apart: bool = False) -> int:
  """Runs a server from the command line; returns its exit code.

  Args:
    argv: arguments; None: those of the process.
    apart: whether the process is its own, so that `_apart` may act.
  """
  parser = argparse.ArgumentParser(
      prog='python -m agentrl.envs.server',
      description='Serves an environment over HTTP.',
  )
  parser.add_argument('--env', required=True, help=', '.join(envs.ENVS))
  parser.add_argument('--options', default='{}', help='a JSON object')
  for field in dataclasses.fields(EnvServerOptions):
    kind = fields.base_type(field.type)
    how = {'action': 'store_true'} if kind is bool else {'type': kind}
    how |= {'default': 0 if field.name == 'port' else field.default}
    parser.add_argument(
        f'--{field.name}', help=fields.meaning(field).text, **how
    )
  parser.add_argument(
      '--exit_with_parent', action='store_true', help='end with standard input'
  )
  args = vars(parser.parse_args(argv))
  text = args.pop('options')
  try:
    try:
      options = json.loads(text)
    except ValueError as error:
      raise ConfigError(f'--options is not JSON: {error}') from error
    if not isinstance(options, dict):
      raise ConfigError(f'--options must be an object, got {text}.')
    out = _apart() if apart else None
    asyncio.run(serve(args.pop('env'), options, out=out, **args))
  except AgentrlError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return 0


if __name__ == '__main__':
  ending.end(main(apart=True))  # whatever calls beyond their deadline do
