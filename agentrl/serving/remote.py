"""Servers that somebody else started: their keys, connections, and watch."""

import concurrent.futures
import os
import pathlib
import socket
import sys
import urllib.parse
from collections.abc import Mapping

from absl import logging

from agentrl.errors import ConfigError
from agentrl.http import auth
from agentrl.http.auth import Keys
from agentrl.runtime.children import SECRETS
from agentrl.serving.options import Launch, SamplerOptions

_CONNECT_S = 3.0  # timeout of a connection


class Found:
  """A server that somebody else starts and stops; `sglang.Fleet` watches it."""

  AGAIN = 'asking it again'
  RESUMES = True  # its machine may have been cut off in the middle of a push

  def __init__(self, url: str, keys: Keys):
    """Keeps the settings.

    Args:
      url: of the server.
      keys: that it asks for.
    """
    self.url = url
    self.keys = keys
    self._left = False

  def start(self, model: pathlib.Path) -> None:
    """Does nothing: it has a model, and gets the weights in the next push."""
    del model

  def ending(self) -> str | None:
    """None while it is watched: its process is out of sight."""
    return 'is no longer watched' if self._left else None

  def hang_up(self) -> None:
    """Ends the watch."""
    self._left = True

  def stop(self) -> None:
    """Does nothing."""

  def epilogue(self) -> str:
    """Nothing: its log is elsewhere."""
    return ''


def patience(sampler: SamplerOptions) -> Launch:
  """The limits of a server that is away: as long as another one serves, none."""
  return Launch(start_timeout_s=sampler.timeout_s, restarts=sys.maxsize)


def read_keys(
    sampler: SamplerOptions, environ: Mapping[str, str] = os.environ
) -> Keys:
  """The keys of servers that somebody else started, from files or variables.

  Args:
    sampler: names the servers; files that it names come before `environ`.
    environ: variables of this process, see `SECRETS`.

  Raises:
    ConfigError: a key cannot be read, or is not one line of visible ASCII.
  """
  if not sampler.urls and not sampler.router:
    return Keys()  # the run's own servers listen on loopback, without keys
  keys = []
  files = (sampler.api_key_file, sampler.admin_key_file)
  for file, variable in zip(files, SECRETS, strict=True):
    key = auth.read_token(file) if file else environ.get(variable, '').strip()
    if not key.isascii() or (key and not key.isprintable()):
      raise ConfigError(f'{variable} must be one line of visible ASCII.')
    keys.append(key or None)
  return Keys(*keys)


def warn_unreachable(sampler: SamplerOptions) -> None:
  """Warns of servers that refuse connections; they may still be starting."""
  urls = (sampler.router,) if sampler.router else sampler.urls
  with concurrent.futures.ThreadPoolExecutor(len(urls) or 1) as pool:
    for url, failure in zip(urls, pool.map(_connect, urls), strict=True):
      if failure is not None:
        logging.warning(
            '%s does not answer: %s. The run waits for it, up to'
            ' sampler.timeout_s=%g s from when it samples.',
            *(url, failure, sampler.timeout_s),
        )


def _connect(url: str) -> str | None:
  """The reason why a connection fails; None if it succeeds."""
  parts = urllib.parse.urlsplit(url)
  port = parts.port or (443 if parts.scheme == 'https' else 80)
  try:
    socket.create_connection((parts.hostname, port), _CONNECT_S).close()
  except OSError as error:
    return error.strerror or str(error)
  return None
