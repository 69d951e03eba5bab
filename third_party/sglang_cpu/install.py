"""Makes the environment of a real SGLang server for a machine without a GPU.

    python third_party/sglang_cpu/install.py

prints the Python that starts the server (`PYTHON -m sglang_on_cpu`). The
environment is made once, in the user's cache folder or $AGENTRL_CACHE, and found
again by what is in it: SGLang's version, the list of packages, this Python.
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys

_HERE = pathlib.Path(__file__).parent
_ROOT = _HERE.parents[1]
_REQUIREMENTS = _HERE.parent / 'requirements' / 'sglang_cpu.txt'
# What goes into the environment beside the packages.
_MODULES = ('sglang_on_cpu.py', 'vllm')

if __name__ == '__main__':  # run as a script, from wherever
  sys.path.insert(0, str(_ROOT))

from agentrl.runtime import cache  # noqa: E402


def environment() -> pathlib.Path:
  """The folder of the environment, whether or not it has been made."""
  return cache.root('sglang_cpu') / _key()


def python() -> pathlib.Path:
  """The Python of the environment, which is made if it is missing.

  Raises:
    EnvError: the folder cannot be written.
    CalledProcessError: pip failed, and has said why.
  """
  folder = cache.folder('sglang_cpu', _key(), _make)
  return folder / 'bin' / 'python'


def _key() -> str:
  """Differs wherever the environments would."""
  digest = hashlib.sha256()
  modules = [_HERE / name for name in _MODULES]
  modules = [
      p for m in modules for p in ([m] if m.is_file() else m.rglob('*.py'))
  ]
  files = [_REQUIREMENTS, *sorted(modules)]
  for path in files:
    digest.update(path.read_bytes())
  major, minor = sys.version_info[:2]
  return f'py{major}{minor}-{digest.hexdigest()[:12]}'


def _make(folder: pathlib.Path) -> None:
  print(f'Installing SGLang for CPUs: {environment()}', file=sys.stderr)
  run = lambda *command: subprocess.run(
      list(map(str, command)), check=True, stdout=sys.stderr
  )
  run(sys.executable, '-m', 'venv', folder)
  made = folder / 'bin' / 'python'
  # All of them are in the list; what SGLang names beyond is for GPUs.
  pip = (made, '-m', 'pip', 'install', '--quiet', '--no-deps')
  run(*pip, '-r', _REQUIREMENTS)
  find = 'import sysconfig; print(sysconfig.get_path("purelib"))'
  packages = subprocess.run(
      [made, '-c', find], check=True, capture_output=True, text=True
  ).stdout.strip()
  for name in _MODULES:
    target = pathlib.Path(packages, name)
    if (_HERE / name).is_dir():
      shutil.copytree(_HERE / name, target)
    else:
      shutil.copy(_HERE / name, target)


if __name__ == '__main__':
  print(python())
