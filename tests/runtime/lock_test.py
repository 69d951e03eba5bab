"""Tests for agentrl.runtime.lock, with a run that is killed for real."""

import errno
import fcntl
import os
import re
import socket
import subprocess
import sys
import threading

import pytest
from absl import logging

from agentrl.errors import ConfigError
from agentrl.runtime import lock
from tests.runtime.killed_run import running

RUN = """
import pathlib, sys, time
from agentrl.runtime import lock
with lock.hold(pathlib.Path(sys.argv[1])):
  print('held', flush=True)
  time.sleep(99)
"""


def test_a_second_run_is_refused_until_the_first_is_killed(tmp_path):
  with running(RUN, tmp_path) as (run, said):
    assert said == 'held'
    holder = f'process {run.pid} on {socket.gethostname()}, since '
    # Also a third time: who was refused has changed nothing.
    for _ in range(2):
      with pytest.raises(ConfigError, match=re.escape(holder) + '2.*UTC'):
        with lock.hold(tmp_path):
          raise AssertionError('two runs hold it')
  with lock.hold(tmp_path):
    said = (tmp_path / 'lock').read_text()
    assert said.startswith(f'process {os.getpid()} on ')


def test_a_run_that_ended_holds_nothing_and_names_nobody(tmp_path):
  for _ in range(2):
    with pytest.raises(KeyError):
      with lock.hold(tmp_path):
        raise KeyError('the run fails')
    assert (tmp_path / 'lock').read_text() == ''


def test_children_of_a_run_do_not_keep_its_lock(tmp_path):
  with lock.hold(tmp_path):
    child = subprocess.Popen(
        [sys.executable, '-c', 'input()'],
        stdin=subprocess.PIPE,
        close_fds=False,
    )
  try:
    with lock.hold(tmp_path):
      pass
  finally:
    child.communicate()


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch, caplog):
  def refuse(file, operation):
    raise OSError(errno.ENOLCK, 'No locks available')

  monkeypatch.setattr(fcntl, 'flock', refuse)
  logging.use_absl_handler()
  with caplog.at_level('WARNING', logger='absl'):
    with lock.hold(tmp_path):
      pass
  assert 'cannot be locked (No locks available)' in caplog.text


def test_the_holder_of_a_workdir_is_the_run_that_writes_there(tmp_path):
  assert lock.holder(tmp_path) is None
  with running(RUN, tmp_path) as (run, _):
    assert lock.holder(tmp_path).startswith(f'process {run.pid} on ')
  # Killed: the file still names it.
  assert (tmp_path / 'lock').read_text()
  assert lock.holder(tmp_path) is None
  with lock.hold(tmp_path):
    assert lock.holder(tmp_path).startswith(f'process {os.getpid()} on ')
  assert lock.holder(tmp_path) is None


def test_a_run_starts_while_somebody_looks_who_holds_its_workdir(tmp_path):
  (tmp_path / 'lock').write_text('process 1 on here, since long')
  with (tmp_path / 'lock').open() as reader:
    fcntl.flock(reader, fcntl.LOCK_SH)
    timer = threading.Timer(0.03, fcntl.flock, (reader, fcntl.LOCK_UN))
    timer.start()
    with lock.hold(tmp_path):
      pass
    timer.join()
