"""Tests for agentrl.parallel.compile_cache: programs that outlive a process."""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
import zlib

import jax
import pytest
from absl import logging
from ml_collections import ConfigDict

from agentrl.config import defaults, read, record, resume
from agentrl.errors import ConfigError, EnvError
from agentrl.modes import reading
from agentrl.parallel import compile_cache
from agentrl.runtime import cache

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import resource, signal, sys
import jax, jax.numpy as jnp
from agentrl.parallel import compile_cache

jax.config.update('jax_explain_cache_misses', True)
folder, room = map(eval, sys.argv[1:])
compile_cache.use(folder)
if room is not None:
  signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
  resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
print(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((8, 8)))[0, 0])
"""
# Runs programs in processes that are forked once jax has been imported, which
# takes most of the time of so small a program; it has no threads by then.
FORKER = """
import json, os, sys, traceback, warnings
import jax, jax.numpy
from agentrl.parallel import compile_cache

warnings.filterwarnings('ignore', 'os.fork')
for line in sys.stdin:
  pids = []
  for program, args, env, files in json.loads(line):
    pids.append(os.fork())
    if pids[-1]:
      continue
    for number, file in enumerate(files, 1):
      os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update(env)
    sys.argv[1:] = args
    try:
      exec(program, {})
      code = 0
    except BaseException:
      traceback.print_exc()
      code = 1
    sys.stdout.flush()
    os._exit(code)
  codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
  print(json.dumps(codes), flush=True)
"""
MISS = 'PERSISTENT COMPILATION CACHE MISS'
BROKEN = 'Error reading persistent compilation cache'
ENV = {'PATH': os.environ['PATH'], 'PYTHONPATH': str(ROOT)}


def checked(code, out, err):
  """The stderr of a process, which must have computed."""
  assert code == 0 and out.startswith('6.7'), out + err
  return err


def run(env, folder=None, room=None):
  """The stderr of a process, no file of which may be larger than `room`."""
  done = subprocess.run(
      [sys.executable, '-c', PROGRAM, repr(folder), repr(room)],
      env=ENV | env,
      capture_output=True,
      text=True,
      timeout=300,
  )
  return checked(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope='module', name='forker')
def _forker():
  with subprocess.Popen(
      [sys.executable, '-c', FORKER],
      env=ENV,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
  ) as process:
    yield process
    process.stdin.close()


@pytest.fixture
def fork(forker, tmp_path_factory):
  """As `run`, in so many processes at once."""

  def fork(env, folder=None, times=1):
    path, args = tmp_path_factory.mktemp('said'), [repr(folder), repr(None)]
    files = [[str(path / f'{x}{i}') for x in 'oe'] for i in range(times)]
    jobs = [(PROGRAM, args, env, each) for each in files]
    print(json.dumps(jobs), file=forker.stdin, flush=True)
    codes = json.loads(forker.stdout.readline())
    texts = [[pathlib.Path(x).read_text() for x in each] for each in files]
    return ''.join(
        checked(code, *text) for code, text in zip(codes, texts, strict=True)
    )

  return fork


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


@pytest.fixture
def untold():
  jax.config.update('jax_compilation_cache_dir', None)


def entries(folder):
  return {path.name for path in folder.glob('*-cache')}


def test_a_second_process_finds_the_programs_of_the_first(tmp_path):
  env = {'AGENTRL_CACHE': str(tmp_path)}
  assert MISS in run(env)
  folder = tmp_path / 'compiled'
  assert folder.stat().st_mode & 0o077 == 0  # others could run code
  first = entries(folder)
  assert any('lambda' in name for name in first)
  assert MISS not in run(env)
  assert entries(folder) == first


def test_two_processes_may_write_at_once(fork, tmp_path):
  env = {'AGENTRL_CACHE': str(tmp_path)}
  fork(env, times=2)
  assert MISS not in fork(env)


def test_an_entry_of_garbage_is_written_again(fork, tmp_path):
  env = {'AGENTRL_CACHE': str(tmp_path)}
  fork(env)
  for entry in (tmp_path / 'compiled').glob('*-cache'):
    entry.write_bytes(b'garbage')
  again = fork(env)
  assert MISS in again and BROKEN not in again
  assert MISS not in fork(env)


def test_an_entry_that_breaks_in_use_is_a_warning(fork, tmp_path):
  told = {'JAX_COMPILATION_CACHE_DIR': str(tmp_path)}
  run(told)
  for entry in tmp_path.glob('*-cache'):
    entry.write_bytes(entry.read_bytes()[:-9])
  assert BROKEN in run(told)  # a folder that is JAX's own affair
  assert BROKEN not in fork({}, str(tmp_path))
  assert MISS not in fork({}, str(tmp_path))


def test_a_full_disk_costs_entries_only(fork, tmp_path):
  env = {'AGENTRL_CACHE': str(tmp_path)}
  assert 'Error writing' in run(env, room=100)
  assert any(path.stat().st_size == 100 for path in tmp_path.rglob('*-cache'))
  assert BROKEN not in fork(env)
  assert MISS not in fork(env)


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
    tmp_path, monkeypatch, caplog, untold
):
  (tmp_path / 'file').write_text('')
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path / 'file'))
  logging.use_absl_handler()
  with caplog.at_level('WARNING', logger='absl'):
    compile_cache.use(None)
  assert jax.config.jax_compilation_cache_dir is None
  assert 'set AGENTRL_CACHE to a folder' in caplog.text


@pytest.mark.parametrize('mode', [0o770, 0o707])
def test_a_folder_that_others_can_write_is_not_used_by_itself(
    tmp_path, monkeypatch, caplog, untold, mode
):
  folder = tmp_path / 'compiled'
  folder.mkdir()
  folder.chmod(mode)
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path))
  logging.use_absl_handler()
  with caplog.at_level('WARNING', logger='absl'):
    compile_cache.use(None)
  assert jax.config.jax_compilation_cache_dir is None
  assert 'others may have written' in caplog.text
  compile_cache.use(str(folder))  # but where somebody says so
  assert jax.config.jax_compilation_cache_dir == str(folder)


def test_a_folder_of_somebody_else_is_not_private(tmp_path, monkeypatch):
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path))
  cache.private('compiled')
  monkeypatch.setattr(os, 'getuid', lambda: -1)
  with pytest.raises(EnvError, match='others may have written into it'):
    cache.private('compiled')


def test_a_user_without_a_home_is_told_the_way_out(monkeypatch):
  def homeless():
    raise RuntimeError('Could not determine home directory.')

  for name in ('AGENTRL_CACHE', 'XDG_CACHE_HOME'):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setattr(pathlib.Path, 'home', homeless)
  with pytest.raises(EnvError, match='home directory.*set AGENTRL_CACHE'):
    cache.root('compiled')


def test_the_longest_unused_entries_go_first(tmp_path):
  size = len(zlib.compress(b'program'))
  names = ['new', 'used', 'old', 'oldest']
  for name in names:
    (tmp_path / f'{name}-cache').write_bytes(zlib.compress(b'program'))
  (tmp_path / 'of-somebody-else').write_text('x' * 100)
  compile_cache.tidy(tmp_path, 4 * size)
  assert len(entries(tmp_path)) == 4
  now = time.time()
  for age, name in enumerate(names):
    then = now - 3600 * age
    os.utime(tmp_path / f'{name}-cache', (then, then))
  os.utime(tmp_path / 'used-cache', (now, now - 7200))
  compile_cache.tidy(tmp_path, 2 * size + 1)
  assert entries(tmp_path) == {'new-cache', 'used-cache'}
  assert (tmp_path / 'of-somebody-else').exists()


def test_a_whole_entry_is_read_once(tmp_path):
  (tmp_path / 'a-cache').write_bytes(zlib.compress(b'program'))
  compile_cache.tidy(tmp_path, 1000)
  entry = tmp_path / 'a-cache'
  entry.write_bytes(b'garbage')
  os.utime(entry, (0, 0))  # as if it had been there
  compile_cache.tidy(tmp_path, 1000)
  assert entry.exists()


@pytest.mark.parametrize(
    'name, arg',
    [
        ('quickstart', 'tiny'),
        ('textcraft_grpo', None),
        ('babyai_sft', None),
        ('babyai_dpo', None),
        ('babyai_agentevol', None),
        ('evaluate', None),
        ('serve_policy', None),
        ('inspect', 'episodes=some.jsonl'),
        ('export', 'run=some'),
    ],
)
def test_every_mode_that_computes_asks_first_where_programs_are(
    monkeypatch, tmp_path, name, arg
):
  class Asked(Exception):
    pass

  def ask(folder):
    raise Asked(folder)

  monkeypatch.setattr(compile_cache, 'use', ask)
  config = importlib.import_module(f'configs.{name}').get_config(arg)
  assert config.compile_cache is None
  mode = importlib.import_module(f'agentrl.modes.{config.mode}')
  config.compile_cache = 'named'
  with pytest.raises(Asked, match='named'):
    mode.run(config, str(tmp_path))
  # A config of one's own need not have the field.
  values = config.to_dict()
  del values['compile_cache']
  assert reading.read(ConfigDict(values)).compile_cache is None


def test_a_run_goes_on_wherever_its_programs_are(tmp_path):
  config = record(read(defaults('train')))
  (tmp_path / 'metrics.jsonl').write_text('{"step": 0}\n')
  resume.keep(config, tmp_path)
  for folder in (None, 'here', ''):
    config['compile_cache'] = folder
    assert resume.check(config, tmp_path)
    resume.keep(config, tmp_path)
    del config['compile_cache']
  config['seed'] = 1
  with pytest.raises(ConfigError, match='seed=0'):
    resume.check(config, tmp_path)


def test_notes_of_shapes_lie_beside_the_programs(tmp_path, monkeypatch):
  jax.config.update('jax_compilation_cache_dir', str(tmp_path))
  notes = compile_cache.Notes('a program')
  assert notes.read() == set()
  notes.add((8, 1024, 0, 0))
  notes.add((4, 64, 2, 96))
  expected = {(8, 1024, 0, 0), (4, 64, 2, 96)}
  assert compile_cache.Notes('a program').read() == expected
  assert compile_cache.Notes('another').read() == set()
  # A process that was killed, or a full disk, leaves half of a line.
  (path,) = tmp_path.glob('*.shapes')
  with path.open('a') as file:
    file.write('4 6')
  notes.add((1, 2, 3, 4))
  expected |= {(4, 6), (1, 2, 3, 4)}
  assert compile_cache.Notes('a program').read() == expected
  with path.open('ab') as file:
    file.write(b'\n\xff\xfe 4\n')
  compile_cache.tidy(tmp_path, 0)
  assert compile_cache.Notes('a program').read() == expected


def test_without_a_folder_nothing_is_noted(untold):
  notes = compile_cache.Notes('a program')
  notes.add((8, 1024, 0, 0))
  assert notes.read() == set()


def test_notes_that_cannot_be_written_are_a_warning(tmp_path, caplog):
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'gone'))
  notes = compile_cache.Notes('a program')
  notes.add((8, 1024, 0, 0))
  assert notes.read() == set()
  assert 'The next run will not know its programs' in caplog.text
