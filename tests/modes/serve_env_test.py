"""Tests for mode='serve_env' and its config."""

import json
import pathlib
import signal
import subprocess
import sys
import urllib.request

import pytest
from ml_collections import ConfigDict

from agentrl.errors import ConfigError
from agentrl.modes import reading, serve_env
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
  with pytest.raises(AttributeError, match='Did you mean serve.port?'):
    get_config().serve.prot = 80
  config = ConfigDict(get_config().to_dict())  # one that was made by hand
  config.serve.prot = 80
  with pytest.raises(ConfigError, match='serve.prot. Did you mean serve.port?'):
    serve_env.run(config, None)


def test_missing_fields_have_their_defaults():
  config = ConfigDict(dict(mode='serve_env', serve=dict(host='0.0.0.0')))
  made = reading.read(config)
  assert (made.serve.host, made.serve.port) == ('0.0.0.0', 8000)


@pytest.mark.parametrize('arg', ['env=chess', 'port=99999'])
def test_wrong_values_are_refused(arg):
  with pytest.raises(ConfigError, match='chess|99999'):
    serve_env.run(get_config(arg), None)
