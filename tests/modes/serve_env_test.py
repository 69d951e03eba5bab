"""Tests for mode='serve_env' and its config."""

import json
import pathlib
import signal
import subprocess
import sys
import urllib.request

import pytest

from agentrl.errors import ConfigError
from agentrl.modes import serve_env
from configs.serve_env import get_config

ROOT = pathlib.Path(__file__).parents[2]


def test_launch_serves_an_environment_until_a_signal():
  child = subprocess.Popen(
      [
          sys.executable,
          'launch.py',
          '--config=configs/serve_env.py:env=babyai,port=0',
      ],
      cwd=ROOT,
      stdout=subprocess.PIPE,
      text=True,
  )
  with child.stdout:
    url = json.loads(child.stdout.readline())['url']
    with urllib.request.urlopen(f'{url}/health', timeout=60) as response:
      health = json.load(response)
      assert (health['status'], health['env']) == ('ok', 'babyai')
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 0


def test_fields_that_nobody_reads_are_refused():
  config = get_config()
  config.serve.prot = 80
  with pytest.raises(
      ConfigError, match='unknown to mode serve_env: serve.prot'
  ):
    serve_env.run(config, None)


def test_missing_fields_are_named():
  config = get_config()
  del config.serve['port']
  with pytest.raises(
      ConfigError, match='missing to mode serve_env: serve.port'
  ):
    serve_env.run(config, None)


@pytest.mark.parametrize('arg', ['env=chess', 'port=99999'])
def test_wrong_values_are_refused(arg):
  with pytest.raises(ConfigError, match='chess|99999'):
    serve_env.run(get_config(arg), None)
