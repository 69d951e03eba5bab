"""Tests for agentrl.serving.launch_server; serving is in policy_server_test."""

import pytest

from agentrl.serving import launch_server


def test_launch_server_tells_what_it_cannot_serve(capsys):
  assert launch_server.main(['--model-path', '/no/such/model']) == 2
  assert '/no/such/model' in capsys.readouterr().err


def test_launch_server_takes_no_empty_key_for_none(capsys):
  with pytest.raises(SystemExit):
    launch_server.main(['--model-path', 'random', '--api-key', ''])
  assert '--api-key: is empty' in capsys.readouterr().err
