"""Tests for agentrl.runtime.cache."""

import pathlib
import subprocess
import sys

import pytest

from agentrl.errors import EnvError
from agentrl.runtime import cache


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path))


def test_the_folder_is_the_users_own_choice_first(monkeypatch, tmp_path):
  assert cache.root('x') == tmp_path / 'x'
  monkeypatch.delenv('AGENTRL_CACHE')
  monkeypatch.setenv('XDG_CACHE_HOME', '/shared')
  assert cache.root('x') == pathlib.Path('/shared/agentrl/x')
  monkeypatch.delenv('XDG_CACHE_HOME')
  monkeypatch.setenv('HOME', '/home/somebody')
  assert cache.root('x') == pathlib.Path('/home/somebody/.cache/agentrl/x')


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
  def fail():
    raise RuntimeError('Could not determine home directory.')

  monkeypatch.delenv('AGENTRL_CACHE')
  monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
  monkeypatch.setattr(pathlib.Path, 'home', fail)
  with pytest.raises(EnvError, match='no cache folder: .*; set AGENTRL_CACHE'):
    cache.root('x')


def test_a_private_folder_is_refused_if_others_may_write_there(tmp_path):
  assert cache.private('own') == tmp_path / 'own'
  assert (tmp_path / 'own').stat().st_mode & 0o777 == 0o700
  assert cache.private('own') == tmp_path / 'own'
  (tmp_path / 'own').chmod(0o770)
  with pytest.raises(EnvError, match='has mode 770 and owner'):
    cache.private('own')


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
  (tmp_path / 'file').write_text('')
  for make in (
      lambda: cache.private('file'),
      lambda: cache.folder('file', 'key', lambda path: None),
  ):
    with pytest.raises(EnvError, match='Cannot write .*set AGENTRL_CACHE'):
      make()


BUILD = """
import os, sys, time
from agentrl.runtime import cache

def write(path):
  print('writes', flush=True)
  (path / 'index').write_text('half')
  if sys.argv[1] == 'die':
    os._exit(1)
  time.sleep(0.3)
  (path / 'index').write_text('whole')

path = cache.folder('made', 'key', write)
print((path / 'index').read_text())
"""


def start(how):
  return subprocess.Popen(
      [sys.executable, '-c', BUILD, how], stdout=subprocess.PIPE, text=True
  )


def test_of_several_processes_one_writes():
  said = [x.communicate(timeout=60)[0] for x in [start('live') for _ in 'abc']]
  assert sorted(said) == 2 * ['whole\n'] + ['writes\nwhole\n']


def test_what_a_killed_process_left_is_written_again(tmp_path):
  assert start('die').communicate(timeout=60)[0] == 'writes\n'
  assert not (tmp_path / 'made' / 'key').exists()

  def write(path):
    assert not list(path.iterdir())
    (path / 'index').write_text('whole')

  path = cache.folder('made', 'key', write)
  assert (path / 'index').read_text() == 'whole'
  assert start('die').communicate(timeout=60)[0] == 'whole\n'  # it is there


def test_a_failed_write_leaves_no_folder(tmp_path):
  def fail(folder):
    raise OSError('the disk is full')

  with pytest.raises(EnvError, match='disk is full; set AGENTRL_CACHE'):
    cache.folder('made', 'key', fail)
  assert not (tmp_path / 'made' / 'key').exists()
  made = cache.folder('made', 'key', lambda path: (path / 'x').write_text('y'))
  assert (made / 'x').read_text() == 'y'
