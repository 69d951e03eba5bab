"""Environments of outside clients, and running their scripts.

A list in third_party/requirements/ is one environment, made once in the user's
cache folder and found again by what is in the list.
"""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

from agentrl.runtime import cache

ROOT = pathlib.Path(__file__).parents[2]
_REQUIREMENTS = ROOT / 'third_party' / 'requirements'
_SCRIPTS = pathlib.Path(__file__).parent / 'clients'
_TIMEOUT_S = 900  # some compile, and cores may be busy


def python(name: str) -> pathlib.Path:
  """The Python of the environment `name`; fails the test if pip fails."""
  requirements = _REQUIREMENTS / f'{name}.txt'
  digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
  major, minor = sys.version_info[:2]

  def make(folder: pathlib.Path) -> None:
    _run(sys.executable, '-m', 'venv', folder)
    pip = (folder / 'bin' / 'python', '-m', 'pip', 'install', '--quiet')
    # All of them are in the list.
    _run(*pip, '--no-deps', '-r', requirements)

  key = f'{name}-py{major}{minor}-{digest}'
  return cache.folder('clients', key, make) / 'bin' / 'python'


def _run(*command: object) -> None:
  done = subprocess.run([*map(str, command)], capture_output=True, text=True)
  if done.returncode:
    pytest.fail(f'{command[-1]} cannot be installed: {done.stderr[-3000:]}')


def run(python: object, *command: object, **variables: str) -> str:
  """What a client prints; fails the test if it fails.

  Args:
    python: of the client's environment.
    *command: a script's name in clients/, or `-m` and a module, and arguments.
    **variables: of the process's environment, beside those that every client
      has: no network but the server's.
  """
  first, *rest = map(str, command)
  if first != '-m':
    first = str(_SCRIPTS / first)
  offline = dict.fromkeys(('HF_HUB_OFFLINE', 'HF_DATASETS_OFFLINE'), '1')
  environment = os.environ | offline | variables
  environment.pop('PYTHONPATH', None)
  done = subprocess.run(
      [str(python), first, *rest],
      env=environment,
      capture_output=True,
      text=True,
      timeout=_TIMEOUT_S,
  )
  if done.returncode:
    pytest.fail(
        f'{command} ended with {done.returncode}:'
        f' {done.stdout[-3000:]}{done.stderr[-3000:]}'
    )
  return done.stdout
