"""Tests for agentrl.modes.session."""

import dataclasses
import datetime
import errno
import pathlib
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import pytest

from agentrl.config import record, resume
from agentrl.config.modes import Sft
from agentrl.config.sections import Data
from agentrl.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DivergedError,
    OutOfMemory,
)
from agentrl.modes import session as session_lib
from agentrl.rollout import seeds
from agentrl.rollout.options import AgentOptions
from agentrl.runtime import lock, workdir as workdir_lib
from agentrl.runtime.event_loop import Interrupted
from agentrl.training.checkpoint import Checkpoints

CONFIG = Sft(
    data=Data(expert_episodes=1), seed=7, agent=AgentOptions(date='2026-02-28')
)


@pytest.fixture
def start(tmp_path, monkeypatch):
  """Runs a function of a session; gives the workdir."""
  monkeypatch.setattr(session_lib.compile_cache, 'use', lambda folder: None)

  def start(mode, config=CONFIG):
    session_lib.run(mode, config, str(tmp_path / 'run'))
    return tmp_path / 'run'

  return start


def save(session, *numbers):
  checkpoints = Checkpoints(session.directory / 'checkpoints')
  session.stack.callback(checkpoints.close)
  for number in numbers:
    checkpoints.save(number, {'params': {'w': jnp.ones(3)}}, {})


def test_a_session_has_what_the_command_said(start):
  sessions = []
  directory = start(sessions.append)
  (session,) = sessions
  assert session.config is CONFIG and session.directory == directory
  assert session.first and not session.resumed and not session.console.quiet
  assert session.seed('rows', 3) == seeds.derive_seed(7, 'rows', 3)
  # Nothing that would refuse a corrected command.
  assert not (directory / workdir_lib.CONFIG).exists()


@pytest.fixture
def on(monkeypatch):
  """Sets the day."""

  def on(day):
    today = lambda: datetime.date.fromisoformat(day)
    clock = types.SimpleNamespace(date=types.SimpleNamespace(today=today))
    monkeypatch.setattr(resume, 'datetime', clock)

  return on


def test_the_first_day_is_kept(start, on):
  def mode(session):
    found.append((session.config.agent.date, session.resumed))
    session.claim()
    save(session, len(found))

  found = []
  config = dataclasses.replace(CONFIG, agent=AgentOptions())
  on('2026-02-28')
  directory = start(mode, config)
  on('2026-03-01')
  start(mode, config)
  assert found == [('2026-02-28', False), ('2026-02-28', True)]
  assert (
      workdir_lib.read_record(directory / 'config.json')['agent']['date']
      == '2026-02-28'
  )
  other = dataclasses.replace(CONFIG, agent=AgentOptions(date='2026-03-01'))
  with pytest.raises(
      ConfigError, match="agent.date='2026-02-28' .now '2026-03"
  ):
    start(mode, other)


def test_a_run_from_before_days_were_kept_goes_on(start, on):
  def mode(session):
    found.append((session.config.agent.date, session.resumed))
    session.claim()
    save(session, len(found))

  found = []
  config = dataclasses.replace(CONFIG, agent=AgentOptions())
  path = start(mode, config) / 'config.json'
  old = workdir_lib.read_record(path)
  del old['agent']['date']
  resume.keep(old, path.parent)
  on('2026-03-01')
  start(mode, config)
  on('2026-03-02')
  start(mode, config)
  assert found[1:] == [('2026-03-01', True)] * 2


def test_a_claimed_workdir_is_known_and_refuses_another_run(start):
  def mode(session):
    known.append(session.resumed)
    session.claim()
    save(session, len(known))

  known = []
  directory = start(mode)
  assert workdir_lib.read_record(directory / 'config.json') == record(CONFIG)
  start(mode)
  assert known == [False, True]
  other = Sft(data=Data(expert_episodes=1), seed=8)
  with pytest.raises(ConfigError, match=r'holds a run with seed=7 \(now 8\)'):
    start(mode, other)
  assert len(known) == 2


def test_one_run_at_a_time_has_a_workdir(start):
  def mode(session):
    with pytest.raises(ConfigError, match='is in use'):
      with lock.hold(session.directory):
        pass

  with lock.hold(start(mode)):  # free again
    pass


def test_ctrl_c_ends_with_its_own_code_and_the_way_on(start, capsys):
  ended = []

  def mode(session):
    session.stack.callback(ended.append, session)
    save(session, 3)
    raise Interrupted

  with pytest.raises(SystemExit) as exit_:
    start(mode)
  assert exit_.value.code == 130 and ended
  said = capsys.readouterr().out
  assert '\nStopped. The same command continues from' in said
  assert 'run/checkpoints/3' in said


@pytest.mark.parametrize(
    'numbers, said',
    [
        ((), 'There was no checkpoint yet.*'),
        ((2, 4), r'Go on from the last checkpoint, .*/run/checkpoints/4, .*'),
    ],
)
def test_a_run_that_diverged_names_its_last_checkpoint(start, numbers, said):
  def mode(session):
    save(session, *numbers)  # complete only when the stack has ended
    raise DivergedError('Update 7 was too much.')

  with pytest.raises(DivergedError, match=f'^Update 7 was too much. {said}$'):
    start(mode)


def test_a_workdir_that_is_gone_is_said_rather_than_its_symptom(start):
  def mode(session):
    for path in sorted(session.directory.rglob('*'), reverse=True):
      path.unlink()
    session.directory.rmdir()
    pathlib.Path(session.directory / 'metrics.jsonl').write_text('')

  with pytest.raises(CheckpointError, match='run was deleted while the run'):
    start(mode)


def test_other_errors_are_left_as_they_are(start):
  def mode(session):
    raise ConfigError('Of the mode.')

  with pytest.raises(ConfigError, match='^Of the mode.$'):
    start(mode)


@pytest.mark.parametrize('wrapped', [False, True])
def test_a_disk_that_takes_no_file_is_said_with_what_is_lost(start, wrapped):
  def mode(session):
    save(session, 3)
    error = OSError(errno.ENOSPC, 'No space left on device', '/run/metrics')
    if wrapped:
      raise DataError('Cannot write episodes: it is full.') from error
    raise error

  said = (
      'loses nothing up to its last checkpoint; later steps are done again.'
      ' Mend the disk first. The same command continues from'
      ' .*/run/checkpoints/3'
  )
  start_of = (
      'Cannot write episodes: it is full. The' if wrapped else ".*'/run/m"
  )
  with pytest.raises(CheckpointError, match=f'^{start_of}.*{said}'):
    start(mode)


# A thread of C++ asks for more than there is.
_BAD_ALLOC = """
import ctypes, sys, threading, time
from agentrl.config.modes import Sft
from agentrl.config.sections import Data
from agentrl.modes import session

def mode(session):
  new = ctypes.CDLL('libstdc++.so.6')['_Znwm']
  new.argtypes = [ctypes.c_size_t]
  threading.Thread(target=new, args=[2**62]).start()
  time.sleep(60)

config = Sft(data=Data(expert_episodes=1), compile_cache='')
session.run(mode, config, sys.argv[1])
"""


def test_a_library_that_aborts_for_want_of_memory_has_the_way_on(tmp_path):
  done = subprocess.run(
      [sys.executable, '-c', _BAD_ALLOC, tmp_path / 'run'],
      capture_output=True,
      text=True,
      timeout=120,
  )
  assert done.returncode == 2, done.stderr
  assert "throwing an instance of 'std::bad_alloc'" in done.stderr
  last = done.stderr.strip().splitlines()[-1]
  assert last.startswith('OutOfMemory') and 'optim.max_tokens' in last
  assert 'the same command begins anew' in last


FULL = 'RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes.'


@pytest.mark.parametrize(
    'error, said',
    [
        (MemoryError(), 'not enough memory: Python had none'),
        (OSError(errno.ENOMEM, 'Cannot allocate memory'), 'Cannot allocate'),
        (jax.errors.JaxRuntimeError(FULL), 'allocating 68719476736 bytes'),
        (RuntimeError("can't start new thread"), 'new thread'),
    ],
)
def test_memory_that_is_full_is_named_with_the_way_on(start, error, said):
  def mode(session):
    save(session, 3)
    raise error

  with pytest.raises(OutOfMemory) as ended:
    start(mode)
  message = str(ended.value)
  assert said in message and 'optim.max_tokens' in message
  assert 'continues from the last checkpoint' in message and 'ts/3' in message


@pytest.mark.parametrize(
    'error',
    [
        OSError(errno.EIO, 'of a disk'),
        jax.errors.JaxRuntimeError('INTERNAL: x'),
        RuntimeError('of something else'),
    ],
)
def test_other_errors_are_not_of_memory(start, error):
  def mode(session):
    del session
    raise error

  with pytest.raises(type(error)) as ended:
    start(mode)
  assert ended.value is error
