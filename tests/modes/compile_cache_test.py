"""Tests for agentrl.modes.compile_cache: programs that outlive a process."""

import os
import pathlib
import subprocess
import sys

import jax
import pytest
from absl import logging

from agentrl.errors import ConfigError
from agentrl.modes import compile_cache

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import sys
import jax, jax.numpy as jnp
from agentrl.modes import compile_cache

jax.config.update('jax_explain_cache_misses', True)
compile_cache._MIN_COMPILE_S = 0.0
compile_cache.use(*map(eval, sys.argv[1:]))
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((8, 8)))
"""


def run(env, folder=None):
  """A process that compiles; gives what it wrote to stderr."""
  done = subprocess.run(
      [sys.executable, '-c', PROGRAM, repr(folder)],
      env={'PATH': os.environ['PATH'], 'PYTHONPATH': str(ROOT)} | env,
      capture_output=True,
      text=True,
      check=True,
  )
  return done.stderr


@pytest.fixture(autouse=True)
def settings():
  """JAX's settings are the process's: puts them back."""
  names = (
      'jax_compilation_cache_dir',
      'jax_persistent_cache_min_compile_time_secs',
  )
  before = {name: getattr(jax.config, name) for name in names}
  yield
  for name, value in before.items():
    jax.config.update(name, value)


def test_a_second_process_finds_the_programs_of_the_first(tmp_path):
  env = {'AGENTRL_CACHE': str(tmp_path)}
  assert 'PERSISTENT COMPILATION CACHE MISS' in run(env)
  folder = tmp_path / 'compiled'
  assert folder.stat().st_mode & 0o077 == 0  # others could run code
  first = {path.name for path in folder.iterdir()}
  assert any('lambda' in name for name in first)
  assert 'PERSISTENT COMPILATION CACHE MISS' not in run(env)
  assert {path.name for path in folder.iterdir()} == first


def test_what_jax_was_told_stands(tmp_path, monkeypatch):
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path / 'ours'))
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'theirs'))
  compile_cache.use(None)
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'theirs')
  assert not (tmp_path / 'ours').exists()


def test_a_folder_that_is_named_or_none_wins(tmp_path):
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'theirs'))
  compile_cache.use(str(tmp_path / 'named'))
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'named')
  compile_cache.use('')
  assert jax.config.jax_compilation_cache_dir is None


def test_a_named_folder_that_cannot_be_made_is_refused(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(ConfigError, match='file/x.*name another folder'):
    compile_cache.use(str(tmp_path / 'file' / 'x'))


def test_without_a_cache_folder_it_goes_on_and_says_so(
    tmp_path, monkeypatch, caplog
):
  jax.config.update('jax_compilation_cache_dir', None)
  (tmp_path / 'file').write_text('')
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path / 'file'))
  logging.use_absl_handler()
  with caplog.at_level('WARNING', logger='absl'):
    compile_cache.use(None)
  assert jax.config.jax_compilation_cache_dir is None
  assert 'Set AGENTRL_CACHE to a folder' in caplog.text
