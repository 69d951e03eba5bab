"""Whether an inference server is one that a run can use, by its own account."""

import re
from collections.abc import Mapping
from typing import Any

from absl import logging

from agentrl.errors import EngineError

# Releases of SGLang whose contract was read, the first and the last.
_FIRST, _LAST = (0, 5, 11), (0, 5, 23)
_OWN_ENGINE = 'agentrl'


def check(url: str, info: Mapping[str, Any], max_context: int) -> None:
  """Refuses a server that cannot do what a run needs; warns of unknown ones.

  Args:
    url: of the server.
    info: its reply to `server_info`; what it leaves out is not checked.
    max_context: tokens of the longest request.

  Raises:
    EngineError: it is too old, or its context is too short.
  """
  _check_version(url, info.get('version'))
  context = info.get('context_length')
  if context is not None and context < max_context:
    raise EngineError(
        f'{url} takes {context} tokens, fewer than'
        f' rollout.max_context={max_context}; lower that, or start the'
        f' server with --context-length {max_context}.',
        retryable=False,
    )


def _check_version(url: str, version: Any) -> None:
  """Refuses what is older than the contract that was read; warns of the rest."""
  if str(version).startswith(_OWN_ENGINE):
    return
  supported = f'{".".join(map(str, _FIRST))} to {".".join(map(str, _LAST))}'
  found = re.match(r'(\d+)\.(\d+)\.(\d+)', str(version))
  if found is None:
    logging.warning(
        '%s gives the version %r; SGLang %s are supported.',
        url,
        version,
        supported,
    )
    return
  number = tuple(map(int, found.groups()))
  if number < _FIRST:
    raise EngineError(
        f'{url} runs SGLang {version}; {supported} are supported, and older'
        ' ones lack what a weight push needs. Install'
        ' third_party/requirements/sglang.txt in its virtual environment.',
        retryable=False,
    )
  if number > _LAST:
    logging.warning(
        '%s runs SGLang %s, newer than the supported %s.',
        url,
        version,
        supported,
    )
