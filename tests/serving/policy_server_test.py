"""Tests for agentrl.serving.policy_server, from both of its command lines."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from agentrl.models.config import TransformerConfig
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.weights import hf
from tests import tiny

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope='module')
def model(tmp_path_factory):
  """A random model of a few thousand parameters, as a directory."""
  tokenizer = tokenizer_lib.train_bpe(['the cat sat on the mat'], 300)
  config = TransformerConfig(
      vocab_size=tokenizer.vocab_size,
      hidden_size=16,
      intermediate_size=16,
      num_layers=1,
      num_heads=2,
      num_kv_heads=1,
      head_dim=8,
      max_positions=128,
  )
  path = tmp_path_factory.mktemp('saved') / 'model'
  params = tiny.random_params(config)
  hf.save(path, config, params, companions=[tokenizer.save])
  return path


def ask(url, route, key, body=None):
  request = urllib.request.Request(
      f'{url}/{route}',
      data=None if body is None else json.dumps(body).encode(),
      headers={
          'Authorization': f'Bearer {key}',
          'Content-Type': 'application/json',
      },
  )
  try:
    with urllib.request.urlopen(request, timeout=60) as response:
      return response.status, response.read()
  except urllib.error.HTTPError as error:
    return error.code, error.read()


@pytest.mark.parametrize('command', ['launch', 'launch_server'])
def test_a_policy_is_served_behind_its_keys(model, tmp_path, command):
  keys = {'api_key': 'for-all', 'admin_api_key': 'for-few'}
  for name, key in keys.items():
    (tmp_path / name).write_text(f'{key}\n')
  compiled = tmp_path / 'compiled'
  commands = {
      'launch': [
          'launch.py',
          f'--config=configs/serve_policy.py:model={model},port=0',
          *(f'--config.serve.{k}_file={tmp_path / k}' for k in keys),
          f'--config.compile_cache={compiled}',
          '--config.serve.name=words',
          '--config.sampler.max_running=1',  # a program for each power of two
      ],
      'launch_server': [
          *('-m', 'agentrl.serving.launch_server'),
          *('--model-path', str(model), '--port', '0'),
          *('--api-key', 'for-all', '--admin-api-key', 'for-few'),
          *('--compile-cache', str(compiled), '--skip-server-warmup'),
          *('--served-model-name', 'words', '--max-running-requests', '1'),
      ],
  }
  child = subprocess.Popen(
      [sys.executable, *commands[command]],
      cwd=ROOT,
      # All is compiled anew, into the folder; how well does not matter.
      env=os.environ | {'JAX_DISABLE_MOST_OPTIMIZATIONS': '1'},
      stdout=subprocess.PIPE,
      text=True,
  )
  with child.stdout:
    url = child.stdout.readline().split()[-1]
    assert ask(url, 'health', 'none')[0] == 200
    chat = {'messages': [{'role': 'user', 'content': 'a'}], 'max_tokens': 2}
    status, reply = ask(url, 'v1/chat/completions', 'for-all', chat)
    assert status == 200
    assert json.loads(reply)['choices'][0]['message']['role'] == 'assistant'
    assert ask(url, 'v1/chat/completions', 'none', chat)[0] == 401
    assert json.loads(ask(url, 'v1/models/words', 'for-all')[1])['id'] == (
        'words'
    )
    assert ask(url, 'flush_cache', 'for-all')[0] == 401
    assert ask(url, 'flush_cache', 'for-few')[0] == 200
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 0
  # The next start finds these.
  kept = [path.name for path in compiled.iterdir()]
  assert any('decode' in name for name in kept)
  # Nobody has asked for log-probabilities of a prompt.
  assert any('score' in name for name in kept) == (command == 'launch')
