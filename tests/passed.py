"""Tests of the web sites that have passed on this machine, to be left out.

They are many, and what they test changes rarely. Whoever sets
$AGENTRL_SKIP_PASSED leaves out those that have passed here, with it set, with
the very same content, packages and settings; without it all of them run, and
nothing is remembered. Any change to what they test, or to themselves, makes all
of them run again.
"""

import hashlib
import importlib.metadata
import os
import pathlib
import sys

import pytest

from agentrl.envs.web import chromium
from agentrl.errors import EnvError
from agentrl.runtime import cache

ROOT = pathlib.Path(__file__).parents[1]
TESTS = ('tests/sites/', 'tests/envs/webarena/')
# What these tests import, which tests/layers_test.py holds, and themselves.
CONTENT = (
    *('agentrl/sites', 'agentrl/envs', 'agentrl/http', 'agentrl/runtime'),
    *('agentrl/*.py', 'tests/sites', 'tests/envs', 'tests/*.py'),
    'third_party/requirements',
)
_MOST = 32  # contents that are remembered


class Passed:
  """A pytest plugin that knows which tests have passed with this content.

  One process knows and remembers; workers are told.

  Attributes:
    before: names of those that are left out.
  """

  def __init__(self, config: pytest.Config):
    told = getattr(config, 'workerinput', None)
    keeps = os.environ.get('AGENTRL_SKIP_PASSED') and not told
    self._path = _file() if keeps else None
    if told:
      self.before = set(told['passed'])
    elif self._path and self._path.exists():
      self.before = set(self._path.read_text().splitlines())
    else:
      self.before = set()
    self._now, self._bad = set(), set()

  @pytest.hookimpl(optionalhook=True)
  def pytest_configure_node(self, node):
    node.workerinput['passed'] = sorted(self.before)

  def pytest_collection_modifyitems(self, config, items):
    passed = [item for item in items if item.nodeid in self.before]
    items[:] = [item for item in items if item.nodeid not in self.before]
    config.hook.pytest_deselected(items=passed)

  def pytest_runtest_logreport(self, report):
    if report.nodeid.startswith(TESTS):
      if report.when == 'call' and report.passed:
        self._now.add(report.nodeid)
      elif not report.passed:
        self._bad.add(report.nodeid)

  def pytest_sessionfinish(self):
    if self._path and (new := self._now - self._bad - self.before):
      with self._path.open('a') as file:
        file.write(''.join(f'{name}\n' for name in sorted(new)))
      files = sorted(self._path.parent.iterdir(), key=os.path.getmtime)
      for old in files[:-_MOST]:
        old.unlink(missing_ok=True)

  def pytest_terminal_summary(self, terminalreporter):
    if self.before:
      terminalreporter.write_line(
          f'{len(self.before)} tests of the sites have passed here with the'
          ' very same content: those of them that this part has are left out'
      )


def _file() -> pathlib.Path | None:
  """Has the names of what has passed; None: there is no folder to keep it."""
  try:
    return cache.private('passed') / digest()
  except EnvError:
    return None


def digest() -> str:
  """SHA-256 of all that the outcome of the tests depends on."""
  state = hashlib.sha256()
  for pattern in CONTENT:
    for path in sorted(ROOT.glob(pattern)):
      files = sorted(path.rglob('*')) if path.is_dir() else [path]
      for file in files:
        if file.is_file() and '__pycache__' not in file.parts:
          _add(state, str(file.relative_to(ROOT)).encode())
          _add(state, file.read_bytes())
  packages = {(x.name, x.version) for x in importlib.metadata.distributions()}
  settings = {k: v for k, v in os.environ.items() if k.startswith('AGENTRL_')}
  settings.pop('AGENTRL_SKIP_PASSED', None)
  for part in (sys.version, sorted(packages), sorted(settings.items())):
    _add(state, repr(part).encode())
  try:
    program = pathlib.Path(chromium.find())
    _add(state, repr((str(program), program.stat().st_mtime_ns)).encode())
  except EnvError:  # their tests in a browser are not run
    pass
  return state.hexdigest()


def _add(state, content: bytes) -> None:
  state.update(len(content).to_bytes(8, 'little') + content)
