"""Tests for agentrl.runtime.shm, with a run that is killed for real."""

import os
import stat

from agentrl.runtime import shm
from tests.runtime.killed_run import running

RUN = """
import pathlib, sys, time
from agentrl.runtime import shm
with shm.folder(pathlib.Path(sys.argv[1])) as folder:
  (folder / 'version_1').mkdir()
  (folder / 'version_1' / 'weights').write_text('many')
  print(folder, flush=True)
  time.sleep(99)
"""


def test_the_folder_of_a_killed_run_goes_with_the_next_one(tmp_path):
  with running(RUN, tmp_path) as (_, said):
    folder = tmp_path / said
    assert (folder / 'version_1' / 'weights').exists()
    shm.remove_unused(tmp_path)
    assert (folder / 'version_1' / 'weights').exists()  # the run lives
  assert folder.is_dir()
  shm.remove_unused(tmp_path)
  assert not list(tmp_path.iterdir())


def test_weights_in_memory_are_this_users_alone(tmp_path):
  before = os.umask(0)
  try:
    with shm.folder(tmp_path) as folder:
      assert stat.S_IMODE(folder.stat().st_mode) == 0o700
  finally:
    os.umask(before)


def test_nothing_is_removed_but_unused_folders_of_runs(tmp_path, monkeypatch):
  # As a killed run leaves it, under another name, and a folder that a config
  # names: nobody has locked that one.
  (tmp_path / 'weights').mkdir()
  (tmp_path / 'weights' / '.owner').write_text('')
  (tmp_path / 'agentrl-mine').mkdir()
  (tmp_path / 'agentrl-file').write_text('')
  with shm.folder(tmp_path) as mine:
    shm.remove_unused(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        'weights',
        'agentrl-mine',
        'agentrl-file',
        mine.name,
    }
  assert not mine.exists()

  other_users = tmp_path / 'agentrl-left'
  other_users.mkdir()
  (other_users / '.owner').write_text('')
  with monkeypatch.context() as patch:
    patch.setattr(os, 'getuid', lambda: os.stat(tmp_path).st_uid + 1)
    shm.remove_unused(tmp_path)
  assert other_users.exists()
  shm.remove_unused(tmp_path)
  assert not other_users.exists()
