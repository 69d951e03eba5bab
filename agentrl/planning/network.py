"""Checks of ports, keys and servers for a config."""

import concurrent.futures
import functools
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentrl import trackers
from agentrl.envs.options import EnvOptions
from agentrl.errors import ConfigError
from agentrl.http import auth
from agentrl.planning.finding import FAULT, OK, Examined, Finding
from agentrl.serving import remote

_ANSWER_S = 3.0
_TOKEN_FILES = ('api.token_file', 'serve.token_file')


def ports(examined: Examined) -> Iterator[Finding]:
  """Ports that the run would listen on."""
  values = examined.values
  wanted = []
  if values.get('serve.port'):
    wanted.append(('serve.port', values['serve.host'], values['serve.port']))
  if values.get('sampler.launch.python') and values['sampler.launch.port']:
    first = values['sampler.launch.port']
    wanted += [
        ('sampler.launch.port', '127.0.0.1', first + replica)
        for replica in range(values['sampler.launch.replicas'])
    ]
  for field, host, port in wanted:
    try:
      # As servers do: a connection that is just closing is no obstacle.
      socket.create_server((host, port)).close()
    except OSError as error:
      yield Finding(
          FAULT,
          'port',
          f'{field}={port} on {host}: {error.strerror or error}',
          f'Another port, or --config.{field}=0 for a free one.',
      )
    else:
      yield Finding(OK, 'port', f'{field}={port} is free')


def tokens(examined: Examined) -> Iterator[Finding]:
  """Files and variables with keys."""
  values, config = examined.values, examined.config
  files = [(path, values.get(path)) for path in _TOKEN_FILES]
  files += [
      ('env.token_file', env.token_file)
      for env in examined.environments
      if isinstance(env, EnvOptions)
  ]
  for path, file in dict.fromkeys(files):
    if file:
      yield from _key(path, functools.partial(auth.read_token, file))
  if values.get('sampler.urls') or values.get('sampler.router'):
    yield from _key('sampler', lambda: remote.read_keys(config.sampler))
  if 'wandb' in values.get('track.to', ()):
    yield from _key('track', lambda: trackers.check(['wandb']))


def _key(subject: str, read: Callable[[], Any]) -> Iterator[Finding]:
  try:
    read()
  except ConfigError as error:
    remedy = 'See the message; a key is one line in a file that you can read.'
    yield Finding(FAULT, subject, str(error), remedy)
  else:
    yield Finding(OK, subject, 'keys can be read')


def urls(examined: Examined) -> Iterator[Finding]:
  """Servers that the config expects to find."""
  values, config = examined.values, examined.config
  of_environments = (url for env in examined.environments for url in env.urls)
  wanted = [('env.url', url) for url in dict.fromkeys(of_environments)]
  for path in ('sampler.urls', 'sampler.router', 'api.url'):
    setting = values.get(path) or ()
    setting = (setting,) if isinstance(setting, str) else setting
    wanted += [(path, url) for url in setting]
  headers: dict[str, dict[str, str]] = dict.fromkeys(
      ('sampler.urls', 'sampler.router'), {}
  )
  if any(path in headers for path, _ in wanted):
    try:
      key = remote.read_keys(config.sampler).api
    except ConfigError:
      key = None  # which `tokens` reports
    headers = dict.fromkeys(headers, auth.headers(key))
  ask = lambda item: _ask(item[1], headers.get(item[0], {}))
  with concurrent.futures.ThreadPoolExecutor(len(wanted) or 1) as pool:
    for (path, url), failure in zip(wanted, pool.map(ask, wanted), strict=True):
      if failure is None:
        yield Finding(OK, path, f'{url} answers')
      else:
        yield Finding(FAULT, path, f'{url}: {failure[0]}', failure[1])


def _ask(url: str, headers: Mapping[str, str]) -> tuple[str, str] | None:
  """Failure and remedy; None if a server answers and takes the key."""
  route = f'{url.rstrip("/")}/get_model_info' if headers else url
  request = urllib.request.Request(route, headers=dict(headers))
  try:
    urllib.request.urlopen(request, timeout=_ANSWER_S).close()
  except urllib.error.HTTPError as error:
    if headers and error.code in (401, 403):
      return f'it refuses the key ({error.code})', 'The key of this server.'
  except (OSError, ValueError) as error:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return (
        f'it does not answer ({reason})',
        (
            'Start the server, mend the URL, or leave it out: the run then'
            ' starts its own.'
        ),
    )
  return None
