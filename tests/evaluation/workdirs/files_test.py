"""Tests of names that come from a browser."""

import os

import pytest

from agentrl.errors import DataError
from agentrl.evaluation.workdirs import files, folders


@pytest.fixture
def root(tmp_path):
  (tmp_path / 'secret').write_text('s')
  (tmp_path / 'root-2' / 'run').mkdir(parents=True)
  folder = tmp_path / 'root'
  (folder / 'run/episodes').mkdir(parents=True)
  (folder / 'run/episodes/a.jsonl').write_text('one\ntwo\n')
  (folder / 'out').symlink_to(tmp_path)
  (folder / 'run/secret').symlink_to(tmp_path / 'secret')
  (folder / 'loop').symlink_to(folder / 'loop')
  return folder


def test_what_is_there(root):
  assert files.run_folder(root, 'run') == root / 'run'
  assert files.run_folder(root, '.') == root
  path = files.file_of(root, 'run', 'episodes/a.jsonl')
  assert path == files.file_of(root, '.', 'run/episodes/a.jsonl')
  assert files.read_line(path, 4, 3) == b'two'


@pytest.mark.parametrize(
    'name',
    [
        '..', '../root-2/run', 'run/../..', '/', '/etc', 'out',
        'loop', 'none', 'run\0', 'x' * 5000, '~', 'run/episodes/a.jsonl',
    ],
)  # fmt: skip
def test_no_run_elsewhere(root, name):
  with pytest.raises(files.Missing):
    files.run_folder(root, name)


@pytest.mark.parametrize(
    'name',
    [
        '../../secret', 'secret', '/etc/passwd', 'episodes', '', '.',
        'episodes/../../../secret', 'episodes/%2e%2e/secret', 'a\0b',
        '..\\..\\secret',
    ],
)  # fmt: skip
def test_no_file_elsewhere(root, name):
  with pytest.raises(files.Missing):
    files.file_of(root, 'run', name)


def test_a_root_that_is_a_link_itself(root, tmp_path):
  link = tmp_path / 'link'
  link.symlink_to(root)
  assert files.run_folder(link, 'run').samefile(root / 'run')


def test_a_file_that_has_changed(root):
  path = root / 'run/episodes/a.jsonl'
  with pytest.raises(DataError, match='changed'):
    files.read_line(path, 4, 30)
  os.unlink(path)
  with pytest.raises(DataError, match='No such file'):
    files.read_line(path, 4, 3)


def test_a_stamp_changes_with_each_file_that_is_named(tmp_path):
  stamp = lambda: folders.stamp_of(tmp_path, ('a', 'b/c'))
  assert stamp() == ()
  (tmp_path / 'a').write_text('1')
  (tmp_path / 'other').write_text('1')
  first = stamp()
  assert [name for name, *_ in first] == ['a']
  (tmp_path / 'b').mkdir()
  (tmp_path / 'b' / 'c').write_text('')
  second = stamp()
  assert second != first
  (tmp_path / 'a').write_text('12')
  assert stamp() != second
