"""The secret that a server and its clients share, kept in a file."""

import pathlib

from agentrl.errors import ConfigError


def read(path: str) -> str:
  """The one line of a token file.

  Raises:
    ConfigError: it cannot be read, or is not one line of visible ASCII.
  """
  try:
    token = pathlib.Path(path).read_text().strip()
  except (OSError, UnicodeDecodeError) as error:
    raise ConfigError(f'Cannot read the token file {path}: {error}') from error
  # Shown neither here nor anywhere else.
  if not token or not token.isascii() or not token.isprintable():
    raise ConfigError(
        f'The token file {path} must hold one line of visible ASCII characters.'
    )
  return token
