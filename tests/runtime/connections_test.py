"""Tests for agentrl.runtime.connections."""

import json
import socket
import subprocess
import sys

import pytest

from agentrl.runtime import connections
from experiments.clusters import hosts


def test_a_machine_is_gone_after_half_a_minute_of_silence():
  with socket.socket() as link:
    connections.watch(link)
    assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    option = lambda name: link.getsockopt(socket.IPPROTO_TCP, name)
    probes = option(socket.TCP_KEEPINTVL) * option(socket.TCP_KEEPCNT)
    assert option(socket.TCP_KEEPIDLE) + probes == 30
    assert option(socket.TCP_USER_TIMEOUT) == 30_000


def test_a_host_that_is_cut_off_is_noticed_by_who_waits_for_it():
  if (reason := hosts.reason()) is not None:
    pytest.skip(reason)
  command = [sys.executable, '-m', 'tests.runtime.cut_off', '1', '1', '2']
  done = subprocess.run(command, capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stderr
  found = json.loads(done.stdout)
  assert {k: word for k, (_, word) in found.items()} == {
      'idle': 'TimeoutError',
      'request': 'ClientOSError',
  }
  # 1 + 2 * 1 s; without, they would wait for ever.
  assert all(seconds < 10 for seconds, _ in found.values())
