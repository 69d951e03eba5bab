"""Files that come along beside the package: configs, requirements.

In a clone they lie where they are written, in an installed package below `_shipped`
(pyproject.toml copies them). Commands that are shown to people go by this too.
"""

import os
import pathlib

_PACKAGE = pathlib.Path(__file__).parent
_INSTALLED = _PACKAGE / '_shipped'
ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent


def words(name: str) -> str:
  """A path that works where this process runs, as short as it may be.

  Args:
    name: relative to a clone, such as `third_party/requirements/envs.txt`.
  """
  path = ROOT / name
  return name if path == pathlib.Path(name).absolute() else str(path)


def command() -> str:
  """The words that start `launch` from where this process runs."""
  if os.path.samefile(ROOT, os.curdir) and (ROOT / 'launch.py').is_file():
    return 'python launch.py'
  return 'python -m agentrl.launch'


def requirements(name: str) -> str:
  """The file of an optional part's packages: `third_party/requirements/NAME.txt`."""
  return words(f'third_party/requirements/{name}.txt')
