"""Tests for agentrl.shipped."""

import pathlib

from agentrl import shipped

ROOT = pathlib.Path(__file__).parents[1]
ENVS = 'third_party/requirements/envs.txt'


def test_paths_and_commands_work_where_they_are_shown(monkeypatch, tmp_path):
  monkeypatch.chdir(ROOT)
  assert shipped.requirements('envs') == ENVS
  assert shipped.command() == 'python launch.py'
  monkeypatch.chdir(tmp_path)
  assert shipped.requirements('envs') == str(ROOT / ENVS)
  assert shipped.command() == 'python -m agentrl.launch'
