"""Tests for agentrl.runtime.rendezvous: threads that are each a process."""

import concurrent.futures
import contextlib
import socket
import threading
import time

import pytest

from agentrl.errors import ConfigError
from agentrl.runtime import rendezvous


@pytest.fixture(name='port')
def _port():
  with socket.create_server(('127.0.0.1', 0)) as server:
    return server.getsockname()[1]


def meet(port, *processes, wait_s=20.0):
  """How it ended for each (count, index): None, or the error's words."""

  def run(process):
    try:
      rendezvous.meet(f'127.0.0.1:{port}', *process, wait_s)
    except ConfigError as error:
      return str(error)
    return None

  with concurrent.futures.ThreadPoolExecutor(len(processes)) as pool:
    return list(pool.map(run, processes))


def test_processes_meet_and_leave_the_port_free(port):
  assert meet(port, (3, 0), (3, 2), (3, 1)) == [None] * 3
  assert meet(port, (2, 1), (2, 0)) == [None] * 2


def test_one_that_does_not_come_is_named_in_all(port):
  for said in meet(port, (4, 0), (4, 2), wait_s=2.0):
    assert said.startswith(
        'The 4 processes of this run did not find each other'
    )
    assert (
        f'within 2 s (coordinator 127.0.0.1:{port}): process 1, 3 did' in said
    )


def test_without_process_0_the_others_say_so(port):
  [said] = meet(port, (2, 1), wait_s=1.0)
  assert 'process 0 did not answer ([Errno 111] Connection refused)' in said


@pytest.mark.parametrize(
    'processes, words',
    [
        (((3, 0), (3, 1), (3, 1)), 'two of them are process 1; number them'),
        (((2, 0), (3, 1)), 'process 1 is one of 3, process 0 one of 2; give'),
        (((2, 0), (2, 2)), 'another of them is process 2; number them apart'),
    ],
)
def test_processes_that_disagree_are_told_how(port, processes, words):
  assert all(words in said for said in meet(port, *processes))


def test_strangers_are_not_of_the_run(port):
  def intrude():
    for word in (b'GET / HTTP/1.1\r\n\r\n', b'["1", 2]\n', b''):
      while True:
        try:
          stranger = socket.create_connection(('127.0.0.1', port))
          break
        except ConnectionRefusedError:
          time.sleep(0.01)
      with stranger:
        # It may be sent away before it has ended, or with some unread.
        with contextlib.suppress(OSError):
          stranger.sendall(word)
          stranger.shutdown(socket.SHUT_WR)
          assert stranger.recv(1) == b''
    assert meet(port, (2, 1)) == [None]

  thread = threading.Thread(target=intrude)
  thread.start()
  assert meet(port, (2, 0)) == [None]
  thread.join()


def test_one_that_is_started_again_waits_for_the_others(port):
  """What listens there belongs to the start that has not ended yet."""
  waiting = concurrent.futures.ThreadPoolExecutor(1)
  with socket.create_server(('127.0.0.1', port)) as earlier:
    early = waiting.submit(meet, port, (2, 1))
    link, _ = earlier.accept()
    with link:
      assert link.recv(100) == b'[1, 2]\n'
      link.sendall(b'\0\0\x06\x04')  # as a server of gRPC greets
  assert meet(port, (2, 0)) == [None]
  assert early.result() == [None]
  waiting.shutdown()
