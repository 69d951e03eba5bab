"""Runs and exported policies are told apart, and links are left alone."""

from agentrl.evaluation.workdirs import folders
from agentrl.runtime import workdir


def write(path):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text('{}\n')


def test_runs_and_exported_policies_are_two_things(tmp_path):
  write(tmp_path / 'b' / 'config.json')
  write(tmp_path / 'b' / 'episodes' / 'train' / '000000.jsonl')
  write(tmp_path / 'b' / 'export' / workdir.EXPORTED)
  write(tmp_path / 'a' / 'c' / 'config.json')
  write(tmp_path / 'policy' / 'config.json')
  write(tmp_path / 'policy' / workdir.EXPORTED)
  found = dict(folders.walk(tmp_path))
  assert [*found] == ['a/c', 'b']  # in this order, whatever the file system's
  assert [*found['b']] == ['episodes/train/000000.jsonl']
  assert [*folders.exported(tmp_path)] == ['policy']


def test_episodes_behind_a_link_are_not_read(tmp_path):
  root = tmp_path / 'root'
  write(tmp_path / 'outside' / '000000.jsonl')
  write(root / 'run' / 'config.json')
  (root / 'run' / 'episodes').symlink_to(tmp_path / 'outside')
  assert dict(folders.walk(root)) == {'run': {}}
