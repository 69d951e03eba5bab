"""The Chromium of this machine."""

import os
import pathlib
import shutil

from agentrl import shipped
from agentrl.errors import EnvError

# The binaries themselves: /usr/bin/chromium is a script that adds flags.
_FILES = (
    '/usr/lib/chromium/chromium-headless-shell',
    '/usr/lib/chromium/chromium',
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
)
_COMMANDS = (
    'chromium-headless-shell',
    'chromium',
    'chromium-browser',
    'google-chrome',
    'google-chrome-stable',
)
INSTALL = (
    'apt-get install chromium-headless-shell (Debian and Ubuntu), or'
    ' python -m playwright install --with-deps --only-shell chromium'
)


def find(path: str | None = None) -> str | None:
  """Chromium's executable; None: Playwright's own download.

  Args:
    path: of the executable, where the user names it.

  Raises:
    EnvError: Playwright is missing, or there is no Chromium.
  """
  try:
    import playwright
  except ImportError as error:
    raise EnvError(
        'Web pages need playwright: pip install -r'
        f' {shipped.requirements("envs")}'
    ) from error
  if path is not None:
    if not os.access(path, os.X_OK) or os.path.isdir(path):
      raise EnvError(f'There is no executable {path!r} (option chromium).')
    return path
  for file in _FILES:
    if os.access(file, os.X_OK):
      return file
  for command in _COMMANDS:
    executable = shutil.which(command)
    if executable:
      return executable
  if _downloads(pathlib.Path(playwright.__file__)):
    return None
  raise EnvError(f'There is no Chromium on this machine: {INSTALL}.')


def _downloads(package: pathlib.Path) -> bool:
  """True if Playwright has downloaded a Chromium."""
  named = os.environ.get('PLAYWRIGHT_BROWSERS_PATH')
  folder = (
      package.parent / 'driver' / 'package' / '.local-browsers'
      if named == '0'
      else pathlib.Path(named or '~/.cache/ms-playwright').expanduser()
  )
  return any(folder.glob('chromium*'))
