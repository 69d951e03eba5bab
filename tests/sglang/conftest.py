"""The server that the tests here ask: one of our own, or any that is named."""

import os

import pytest

from tests.sglang import models, server as server_lib


@pytest.fixture(scope='session')
def exported(tmp_path_factory):
  """A directory with a small Llama, and its config and parameters."""
  directory = tmp_path_factory.mktemp('exported') / 'llama'
  config, params = models.export(directory, 'llama')
  return directory, config, params


@pytest.fixture(scope='session')
def real_url(exported, tmp_path_factory):
  """A real server of `exported`, or $AGENTRL_SGLANG_URL, which has any model."""
  named = os.environ.get('AGENTRL_SGLANG_URL')
  if named:
    yield named.rstrip('/')
    return
  log = tmp_path_factory.mktemp('sglang') / 'server.log'
  with server_lib.running(exported[0], log) as server:
    yield server.url
