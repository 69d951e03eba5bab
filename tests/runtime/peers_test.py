"""Tests for agentrl.runtime.peers: threads that are each a process of the run."""

import concurrent.futures
import itertools
import socket
import subprocess
import sys
import threading

import pytest

from agentrl.runtime import peers
from agentrl.runtime.event_loop import Interrupted


class Crash(Exception):
  """Ends one of the processes."""


@pytest.fixture(name='play')
def _play(monkeypatch):
  """Runs the functions of a list, each as the process of its number."""
  monkeypatch.setattr(peers, '_GRACE_S', 0.3)

  def play(works, before_share=lambda index, call: None):
    barrier = threading.Barrier(len(works), timeout=20)
    messages = [b''] * len(works)

    def run(index):
      calls = itertools.count()

      def share(message):
        before_share(index, next(calls))
        messages[index] = message
        barrier.wait()
        all_of_them = list(messages)
        barrier.wait()
        return all_of_them

      return works[index](
          dict(
              aborted=lambda: None,
              index=index,
              count=len(works),
              share=share,
          )
      )

    with concurrent.futures.ThreadPoolExecutor(len(works)) as pool:
      return list(pool.map(run, range(len(works))))

  return play


def staying(seconds, host='127.0.0.1'):
  """Stays in the block; the result: whether another was lost."""

  def work(processes):
    lost = threading.Event()
    with peers.watched(host, lost.set, **processes):
      return lost.wait(seconds)

  return work


def leaving(error=None):
  """Leaves the block, as `error` if there is one."""

  def work(processes):
    try:
      with peers.watched('127.0.0.1', lambda: None, **processes):
        if error is not None:
          raise error
    except (Crash, Interrupted):
      pass

  return work


def test_a_crash_of_any_other_is_noticed_by_the_first(play):
  assert play([staying(20), leaving(Crash()), leaving()]) == [True, None, None]


def test_a_crash_of_the_first_is_noticed_by_all(play):
  assert play([leaving(Crash()), staying(20), staying(20)]) == [
      None,
      True,
      True,
  ]


@pytest.mark.parametrize('error', [None, Interrupted()])
def test_who_leaves_as_it_should_is_not_missed(play, error):
  assert play([staying(1), leaving(error)]) == [False, None]
  assert play([leaving(error), staying(1)]) == [None, False]


# Two threads are the processes; the first has the main one, which signals need.
ABORTED = """
import ctypes, threading
from agentrl.runtime import ending, peers

barrier, messages = threading.Barrier(2), [b'', b'']

def inside(index, work):
  def share(message):
    messages[index] = message
    barrier.wait()
    found = list(messages)
    barrier.wait()
    return found

  def aborted():
    print('aborted', flush=True)
    ending.leave(2)

  with peers.watched(
      '127.0.0.1', aborted=aborted, lost=lambda: print('lost', flush=True),
      index=index, count=2, share=share,
  ):
    work()

stay = threading.Event().wait
threading.Thread(target=inside, args=(1, stay), daemon=True).start()
inside(0, ctypes.CDLL(None).abort)
"""


def test_a_process_that_is_aborted_while_all_are_there_says_so():
  done = subprocess.run(
      [sys.executable, '-c', ABORTED],
      capture_output=True,
      text=True,
      timeout=60,
  )
  assert (done.returncode, done.stdout) == (2, 'aborted\n'), done.stderr


def test_each_link_notices_a_machine_that_is_silent(play, monkeypatch):
  watched = []
  monkeypatch.setattr(peers.connections, 'watch', watched.append)
  assert play([staying(1), leaving(), leaving()]) == [False, None, None]
  # Both ends of each of two.
  assert len(watched) == 4


def test_what_fails_by_itself_has_time_to_say_so(play, monkeypatch):
  def slow(processes):
    lost = threading.Event()
    monkeypatch.setattr(peers, '_GRACE_S', 20)
    with peers.watched('127.0.0.1', lost.set, **processes):
      threading.Event().wait(0.5)
    return lost.is_set()

  assert play([slow, leaving(Crash())]) == [False, None]


def test_who_connects_without_the_token_is_sent_away(play, monkeypatch):
  ports, strangers = {}, []
  create = socket.create_server

  def listen(*args, **kwargs):
    server = create(*args, **kwargs)
    ports[threading.get_ident()] = server.getsockname()
    return server

  def intrude(index, call):
    # The first listens, and has told nobody.
    if index == 0 and call == 0:
      _, port = ports[threading.get_ident()]
      for word in (b'GET / HTTP/1.1\r\n\r\n', b''):
        strangers.append(socket.create_connection(('127.0.0.1', port)))
        strangers[-1].sendall(word)
      strangers[-1].shutdown(socket.SHUT_WR)

  monkeypatch.setattr(socket, 'create_server', listen)
  try:
    assert play([staying(1), leaving()], intrude) == [False, None]
    assert len(strangers) == 2
  finally:
    for stranger in strangers:
      stranger.close()


def test_a_first_process_out_of_reach_is_told_and_changes_nothing(
    play, monkeypatch, caplog
):
  monkeypatch.setattr(socket, 'gethostname', lambda: 'nowhere.invalid')
  works = [staying(1), staying(0.5, host='elsewhere.invalid')]
  assert play(works) == [False, False]
  assert 'Process 1 does not reach process 0 (elsewhere.invalid:' in caplog.text
