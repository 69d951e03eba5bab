"""A clock that can be set, for some processes alone."""

import pathlib
import subprocess

from agentrl.errors import ConfigError

_SOURCE = pathlib.Path(__file__).parent / 'inside' / 'clock.c'


class Clock:
  """The machine's clock and some seconds, for processes that are given it.

  Attributes:
    environment: of such processes; their children inherit it.
  """

  def __init__(self, folder: pathlib.Path):
    """Builds the library that they preload, in a folder that they can read."""
    library, self._file = folder / 'clock.so', folder / 'clock'
    command = ['cc', '-O1', '-shared', '-fPIC', '-o', str(library)]
    try:
      subprocess.run([*command, str(_SOURCE)], check=True)
    except FileNotFoundError as error:
      raise ConfigError(f'The clock needs a C compiler: {error}.') from error
    self._file.write_bytes(bytes(8))
    self.environment = {
        'LD_PRELOAD': str(library),
        'FAULTS_CLOCK': str(self._file),
    }

  def set(self, seconds: int) -> None:
    """Puts it forward by so many seconds, or back, from the machine's."""
    with self._file.open('r+b') as file:  # mapped: it has to keep its length
      file.write(seconds.to_bytes(8, 'little', signed=True))
