"""Runs this folder's tests in a child process with eight simulated devices.

JAX fixes the number of devices at their first use, and all other tests should
see the one that they were written for. The child is a pytest that has collected
this folder and runs one test after the other, as it is asked to; its reports
are relayed, so that selection, names and failures are as everywhere else. In a
process that has eight devices from its start, tests run where they are, as for
a debugger:

    JAX_NUM_CPU_DEVICES=8 NPROC=64 pytest -n0 --pdb tests/parallel/...
"""

import contextlib
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import types
from multiprocessing.connection import Connection

import jax
import pytest

from tests.parallel import eight_devices

_FOLDER = pathlib.Path(__file__).parent
_CHILD = pytest.StashKey()
# Only in the child: the file descriptor of its end of the pipe.
_PIPE = 'AGENTRL_TEST_PIPE'


class _Child:
  """The process with eight devices, and this end of the pipe to it."""

  def __init__(self, config):
    self._output = tempfile.TemporaryFile('w+')
    self._pipe, other = multiprocessing.Pipe()
    with other:
      self._process = subprocess.Popen(
          [
              sys.executable,
              '-m',
              'pytest',
              '-m',
              '',
              _FOLDER,
          ],
          cwd=config.rootpath,
          env=os.environ
          | eight_devices.environment(8)
          | {_PIPE: str(other.fileno())},
          pass_fds=[other.fileno()],
          stdout=self._output,
          stderr=subprocess.STDOUT,
      )

  def run(self, name, following):
    """Yields the reports of a test as plain data."""
    try:
      self._pipe.send((name, following))
      yield from iter(self._pipe.recv, None)
    except (EOFError, OSError):
      self._process.wait()
      self._output.seek(0)
      pytest.fail(
          'The process with eight devices ended with exit status'
          f' {self._process.returncode}:\n{self._output.read()}',
          pytrace=False,
      )

  def stop(self):
    self._pipe.close()
    self._process.wait()
    self._output.close()


def pytest_runtest_protocol(item, nextitem):
  """In the parent: relays what the child reports of a test."""
  if _FOLDER not in item.path.parents or jax.config.jax_num_cpu_devices == 8:
    return None
  config, hook = item.config, item.ihook
  if _CHILD not in config.stash:
    config.stash[_CHILD] = _Child(config)
    config.add_cleanup(config.stash[_CHILD].stop)

  def relay():
    following = nextitem and nextitem.nodeid
    for data in config.stash[_CHILD].run(item.nodeid, following):
      report = hook.pytest_report_from_serializable(config=config, data=data)
      hook.pytest_runtest_logreport(report=report)

  hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
  call = pytest.CallInfo.from_call(relay, 'call', (KeyboardInterrupt,))
  if call.excinfo:
    del config.stash[_CHILD]  # the next test gets another
    report = hook.pytest_runtest_makereport(item=item, call=call)
    hook.pytest_runtest_logreport(report=report)
  hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
  return True


def pytest_runtestloop(session):
  """In the child: runs the tests that the parent names, until it stops."""
  if _PIPE not in os.environ:
    return None
  config = session.config
  items = {item.nodeid: item for item in session.items}
  pipe = Connection(int(os.environ[_PIPE]))

  def send(report):
    pipe.send(
        config.hook.pytest_report_to_serializable(config=config, report=report)
    )

  relay = types.SimpleNamespace(pytest_runtest_logreport=send)
  config.pluginmanager.register(relay)
  with contextlib.suppress(EOFError):
    while True:
      name, following = pipe.recv()
      items[name].ihook.pytest_runtest_protocol(
          item=items[name], nextitem=items.get(following)
      )
      pipe.send(None)
  return True
