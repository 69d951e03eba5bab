"""Tests for the files of what browsers asked for."""

from agentrl.envs.web import har


def test_a_folder_is_made_where_one_is_asked_for(tmp_path):
  assert har.folder(None) is None and har.folder('') is None
  assert har.folder(str(tmp_path / 'a' / 'b')).is_dir()


def test_servers_with_one_folder_never_write_the_same_file(tmp_path):
  folders = [har.folder(str(tmp_path)) for _ in range(2)]
  paths = [har.path(folder, 7) for folder in folders for _ in range(20)]
  assert len(set(paths)) == 40
  assert all(path.match('007-*.har') and path.exists() for path in paths)
