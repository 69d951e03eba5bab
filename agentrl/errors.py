"""The few errors that a caller tells apart.

Anything a user can cause and mend is one of these: `launch.py` prints it as
one line without a traceback.
"""

import contextlib
import errno
import os
from collections.abc import Iterator

# The system's, XLA's and Python's words for memory that ran out.
_NO_MEMORY = (
    os.strerror(errno.ENOMEM),
    'RESOURCE_EXHAUSTED',
    "can't start new thread",
)


class AgentrlError(Exception):
  """Base of the errors below."""


def one_line(words: object, most: int = 300) -> str:
  """Up to `most` characters of an error's or a server's words, on one line."""
  return ' '.join(str(words).split())[:most]


def is_lack_of_memory(words: str) -> bool:
  """True if these are a library's words for memory that ran out."""
  return any(part in words for part in _NO_MEMORY)


@contextlib.contextmanager
def of_member(name: str) -> Iterator[None]:
  """Makes errors name the member of a mixture; '': the run has no mixture."""
  try:
    yield
  except AgentrlError as error:
    if not name:
      raise
    raise type(error)(f'mixture.{name}: {error}') from error


class ConfigError(AgentrlError, ValueError):
  """A config field is wrong, contradicts another or has no effect."""


class EnvError(AgentrlError):
  """An environment server could not be reached or refused a request."""

  retryable = True


class EnvFault(EnvError):
  """An environment's own code failed, or replied outside of its contract.

  A second try would meet it again.
  """

  retryable = False


class EngineError(AgentrlError):
  """An inference server could not be reached or refused a request.

  Attributes:
    retryable: False when the same request must fail again (a prompt longer
      than the context, say), so that nobody retries it.
  """

  def __init__(self, message: str, *, retryable: bool = True):
    super().__init__(message)
    self.retryable = retryable


class EngineRefusal(EngineError):
  """An error of an inference server that a second try would meet again."""

  def __init__(self, message: str):
    super().__init__(message, retryable=False)


class WeightsError(AgentrlError):
  """A model or tokenizer file is missing, damaged or of an unknown kind."""


class ChatTemplateError(AgentrlError):
  """A chat template cannot be rendered append-only."""


class CheckpointError(AgentrlError):
  """A checkpoint cannot be written or read."""


class ProcessLost(AgentrlError):
  """Another process of the same run is gone."""


class OutOfMemory(AgentrlError):
  """The machine or a device has no memory left."""


class DataError(AgentrlError):
  """A file of episodes, tasks or metrics has a line that cannot be used."""


class PanelError(AgentrlError, ValueError):
  """Evaluations of different tasks cannot be compared in pairs."""


class DivergedError(AgentrlError):
  """The gradient is no longer a finite number."""
