"""Settings of the servers of our own pages, which the browser alone reads."""

import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

# Chromium's own limit of an address: a form that is sent by GET may hold several
# typed texts, each of whose characters is written with up to 12 bytes.
_LONGEST_LINE = 2 * 2**20


def runner(app: web.Application, **options: Any) -> web.AppRunner:
  """A runner that takes every address that Chromium sends.

  Args:
    app: the pages.
    **options: further ones of `web.AppRunner`.
  """
  return web.AppRunner(
      app,
      access_log=None,
      max_line_size=_LONGEST_LINE,
      logger=_LOGGER,
      **options,
  )


def _in_one_line(record: logging.LogRecord) -> bool:
  """Shortens the record of a malformed request: no fault of ours, no traceback."""
  error = record.exc_info[1] if record.exc_info else None
  if isinstance(error, HttpProcessingError):
    record.exc_info = None
    record.msg, record.args = 'A request was refused: %.200r', (error.message,)
  return True


_LOGGER = logging.getLogger('agentrl.envs.web.serving')
_LOGGER.addFilter(_in_one_line)
