"""Makes the environment of SGLang's router.

    python third_party/sglang_router/install.py

prints the Python that starts it (`PYTHON -m sglang_router.launch_router`). Made
once, in the user's cache folder or $AGENTRL_CACHE, and found again by what is in
it.
"""

import hashlib
import pathlib
import subprocess
import sys

_HERE = pathlib.Path(__file__).parent
_REQUIREMENTS = _HERE.parent / 'requirements' / 'sglang_router.txt'

if __name__ == '__main__':  # run as a script, from wherever
  sys.path.insert(0, str(_HERE.parents[1]))

from agentrl.runtime import cache  # noqa: E402


def environment() -> pathlib.Path:
  """The folder of the environment, whether or not it has been made."""
  digest = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:12]
  major, minor = sys.version_info[:2]
  return cache.root('sglang_router') / f'py{major}{minor}-{digest}'


def python() -> pathlib.Path:
  """The Python of the environment, which is made if it is missing.

  Raises:
    EnvError: the folder cannot be written.
    CalledProcessError: pip failed, and has said why.
  """
  folder = cache.folder('sglang_router', environment().name, _make)
  return folder / 'bin' / 'python'


def _make(folder: pathlib.Path) -> None:
  print(f'Installing the router of SGLang: {environment()}', file=sys.stderr)
  run = lambda *command: subprocess.run(
      list(map(str, command)), check=True, stdout=sys.stderr
  )
  run(sys.executable, '-m', 'venv', folder)
  pip = (folder / 'bin' / 'python', '-m', 'pip', 'install', '--quiet')
  run(*pip, '-r', _REQUIREMENTS)


if __name__ == '__main__':
  print(python())
