"""Tests for agentrl.serving.remote."""

import dataclasses
import socket

import pytest
from absl import logging

from agentrl.errors import ConfigError
from agentrl.http.auth import Keys
from agentrl.runtime.children import SECRETS
from agentrl.serving import remote
from agentrl.serving.options import Launch, SamplerOptions


def test_keys_come_from_files_or_else_from_the_environment(tmp_path):
  for name in ('api', 'admin'):
    (tmp_path / name).write_text(f'{name}-of-a-file\n')
  environ = dict(zip(SECRETS, ('api-of-env', 'admin-of-env'), strict=True))
  ours = SamplerOptions(kind='sglang', urls=('http://localhost:1',))
  files = dict(
      api_key_file=str(tmp_path / 'api'), admin_key_file=str(tmp_path / 'admin')
  )
  read = lambda environ, **fields: remote.read_keys(
      dataclasses.replace(ours, **fields), environ
  )
  assert read({}) == read({SECRETS[0]: ''}) == Keys()
  assert read(environ) == Keys('api-of-env', 'admin-of-env')
  assert read(environ, **files) == Keys('api-of-a-file', 'admin-of-a-file')
  assert read({}, api_key_file=files['api_key_file']).admin is None
  # Who has no keys is sent none, wherever they come from.
  assert remote.read_keys(SamplerOptions(), environ) == Keys()
  launched = SamplerOptions(kind='sglang', launch=Launch(python='p'))
  assert remote.read_keys(launched, environ) == Keys()
  for bad in ({SECRETS[0]: 'two\nlines'}, {SECRETS[0]: 'clé'}):
    with pytest.raises(ConfigError, match=SECRETS[0]) as refused:
      read(bad)
    assert bad[SECRETS[0]] not in str(refused.value)
  with pytest.raises(ConfigError, match='missing'):
    read({}, api_key_file=str(tmp_path / 'missing'))


def test_only_servers_that_do_not_answer_are_mentioned(caplog):
  logging.use_absl_handler()
  with (
      socket.create_server(('127.0.0.1', 0)) as there,
      socket.socket() as dead,
      caplog.at_level('WARNING', logger='absl'),
  ):
    dead.bind(('127.0.0.1', 0))
    urls = tuple(
        f'http://127.0.0.1:{x.getsockname()[1]}' for x in (there, dead)
    )
    remote.warn_unreachable(SamplerOptions(kind='sglang', urls=urls))
    remote.warn_unreachable(
        SamplerOptions(kind='sglang', router=urls[1], push_dir='d')
    )
    remote.warn_unreachable(SamplerOptions())
    remote.warn_unreachable(
        SamplerOptions(kind='sglang', launch=Launch(python='p'))
    )
  said = [record.getMessage().split('. ')[0] for record in caplog.records]
  assert said == [f'{urls[1]} does not answer: Connection refused'] * 2
