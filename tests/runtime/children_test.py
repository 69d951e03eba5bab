"""Tests for agentrl.runtime.children, with processes that are killed for real."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from agentrl.runtime import children
from agentrl.runtime.children import SECRETS, Child
from tests.waiting import alive, gone, wait_until

# Ends with its standard input, as a server of ours does.
OBEDIENT = 'cat'
# Does not, and has a child of its own; says both ids.
FAMILY = 'sleep 99 & echo $$ $!; sleep 99; true'
PARENT = """
import sys, time
from agentrl.runtime.children import Child
child = Child(['sh', '-c', sys.argv[1]], supervised=sys.argv[2] == 'True')
words = child.read_line(60) if len(sys.argv) > 3 else ''
print(child.pid, words, flush=True)
time.sleep(99)
"""


def shell(script, **kwargs):
  return Child(['sh', '-c', script], **kwargs)


@pytest.mark.parametrize(
    'script, supervised, number',
    [
        (OBEDIENT, False, signal.SIGKILL),
        (OBEDIENT, False, signal.SIGTERM),
        (FAMILY, True, signal.SIGKILL),
        (FAMILY, True, signal.SIGTERM),
    ],
)
def test_nothing_outlives_the_parent(script, supervised, number):
  speaks = ['speaks'] if script == FAMILY else []
  parent = subprocess.Popen(
      [sys.executable, '-c', PARENT, script, str(supervised), *speaks],
      stdout=subprocess.PIPE,
      text=True,
  )
  with parent.stdout:
    pids = [int(word) for word in parent.stdout.readline().split()]
  assert len(pids) == (3 if speaks else 1) and all(map(alive, pids))
  parent.send_signal(number)
  parent.wait()
  assert gone(*pids)


@pytest.mark.parametrize('supervised', [False, True])
@pytest.mark.parametrize(
    'script, ending',
    [
        ('exit 0', 'ended with exit code 0'),
        ('exit 3', 'ended with exit code 3'),
        ('kill -9 $$', 'was killed by SIGKILL'),
    ],
)
def test_endings_are_put_into_words(script, ending, supervised):
  child = shell(script, supervised=supervised)
  assert child.ending(60) == ending
  child.stop()


def test_its_lines_are_read_one_by_one_and_its_errors_are_remembered():
  child = shell('echo 5; echo six; echo broken >&2; echo pipe >&2; read x')
  assert [child.read_line(60) for _ in range(2)] == ['5\n', 'six\n']
  with pytest.raises(TimeoutError):
    child.read_line(0.2)
  assert child.ending() is None
  child.hang_up()
  assert child.read_line(60) == ''
  assert child.ending(60) is not None
  assert child.last_words() == 'broken | pipe'
  child.stop()


def test_a_long_line_of_errors_is_not_kept_whole():
  child = shell('head -c 3000000 /dev/zero | tr "\\0" x >&2; echo end >&2')
  assert child.ending(60) is not None
  words = child.last_words()
  assert len(words) <= 4000 and words.endswith('xxx | end')
  child.stop()


def test_a_line_is_not_waited_for_once_the_child_has_ended():
  # Its own child lives on, and has the pipe open.
  child = shell('sleep 99 & echo $! >&2; exit 1')
  assert child.read_line(60) == ''
  orphan = int(child.last_words())
  os.kill(orphan, signal.SIGKILL)
  child.stop()


@pytest.mark.parametrize('supervised', [False, True])
def test_with_a_log_both_outputs_go_there_after_what_is_there(
    tmp_path, supervised
):
  log = tmp_path / 'logs' / 'server.log'
  for word in ('one', 'two'):
    child = shell(
        f'echo {word}; echo {word} >&2', log=log, supervised=supervised
    )
    assert child.ending(60) == 'ended with exit code 0'
    child.stop()
  lines = log.read_text().splitlines()
  assert [line for line in lines if line[:3] != '---'] == 2 * ['one'] + 2 * [
      'two'
  ]
  assert lines[0].endswith(' sh -c echo one; echo one >&2')
  assert child.last_words().endswith(' | two | two')
  log.unlink()
  assert 'cannot be read' in child.last_words()


def test_stopping_asks_before_it_kills():
  child = shell('cat; exit 7')
  child.stop()
  assert child.ending() == 'ended with exit code 7'
  before = time.monotonic()
  child = shell('exec sleep 99')
  child.stop(0.2)
  assert child.ending() == 'was killed by SIGKILL'
  assert time.monotonic() - before < 10
  child.stop()  # may be called again


def test_a_child_gets_a_session_of_its_own_and_no_secret(monkeypatch):
  for name in SECRETS:
    monkeypatch.setenv(name, 'secret')
  monkeypatch.setenv('ITS_OWN', 'known')
  child = shell(f'echo "$ITS_OWN:${SECRETS[0]}${SECRETS[1]}"; read x')
  assert child.read_line(60) == 'known:\n'
  assert os.getsid(child.pid) == child.pid != os.getsid(0)
  child.stop()
  assert children.environment().keys() == os.environ.keys() - set(SECRETS)


def test_a_command_that_does_not_exist_is_told():
  with pytest.raises(FileNotFoundError, match='/no/such/program'):
    Child(['/no/such/program'])
  child = Child(['/no/such/program'], supervised=True)
  assert child.ending(60) == 'ended with exit code 127'
  assert 'cannot run /no/such/program' in child.last_words()
  child.stop()


def test_killing_does_not_wait():
  child = shell('exec sleep 99')
  child.kill()
  assert wait_until(lambda: child.ending() == 'was killed by SIGKILL')
  child.reap(5)


def test_a_reader_ends_where_the_child_is_reaped_meanwhile():
  for _ in range(20):
    child = shell('yes')
    said = []
    reader = threading.Thread(
        target=lambda child=child, said=said: said.extend(
            iter(lambda: child.read_line(float('inf')), '')
        )
    )
    reader.start()
    child.kill()
    child.reap(5)
    reader.join(5)
    assert not reader.is_alive()
  assert child.read_line(5) == ''
