"""Tests for the temporary folder of a child process."""

import os
import pathlib
import subprocess
import sys

import pytest

from agentrl.runtime import scratch

_KILLED = (
    'import os, signal; from agentrl.runtime import scratch;'
    ' scratch.Scratch("browser"); os.kill(os.getpid(), signal.SIGKILL)'
)


@pytest.fixture
def folders(tmp_path, monkeypatch):
  """Folders in a folder for temporary files of its own."""
  monkeypatch.setenv('TMPDIR', str(tmp_path))
  monkeypatch.setattr('tempfile.tempdir', None)
  return lambda: sorted(tmp_path.iterdir())


def _kill_one():
  subprocess.run([sys.executable, '-c', _KILLED], check=False)


def test_the_folder_of_a_dead_process_goes_with_the_next_one(folders):
  _kill_one()
  [left] = folders()
  mine = scratch.Scratch('browser')
  [folder] = folders()
  assert folder != left
  _kill_one()
  assert len(folders()) == 2 and folder in folders()
  mine.remove()
  assert folders() == []


def test_a_folder_without_a_lock_goes_once_it_is_old(folders, tmp_path):
  young, old = tmp_path / 'agentrl-browser-a', tmp_path / 'agentrl-browser-b'
  for path in (young, old):
    path.mkdir()
  os.utime(old, (0, 0))
  mine = scratch.Scratch('browser')
  assert young in folders() and old not in folders()
  mine.remove()
  assert folders() == [young]


def test_a_child_has_its_folder_for_temporary_files(folders):
  mine = scratch.Scratch('browser')
  before = os.environ['TMPDIR']
  with mine.as_tmpdir():
    assert [pathlib.Path(os.environ['TMPDIR'])] == folders()
  assert os.environ['TMPDIR'] == before
  mine.remove()
