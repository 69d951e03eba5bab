"""Tests for agentrl.runtime.event_loop, against a server on loopback."""

import asyncio
import os
import queue
import sys
import threading
import time

import pytest
from aiohttp import web

from agentrl.errors import EnvError
from agentrl.inference import control
from agentrl.runtime import event_loop as host_lib
from agentrl.runtime.children import SECRETS
from agentrl.runtime.event_loop import EnvServer, EventLoop


def serve(started):
  """A server that hangs up after a moment; its URL goes to `started`."""

  async def main():
    app = web.Application()
    app.router.add_post('/', answer)
    runner = web.AppRunner(app, keepalive_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, '127.0.0.1', 0).start()
    end = asyncio.Event()
    started.put((runner.addresses[0][1], asyncio.get_running_loop(), end))
    await end.wait()
    await runner.cleanup()

  async def answer(request):
    return web.Response(text='yes')

  asyncio.run(main())


def test_a_server_may_hang_up_while_the_loop_stands_still(monkeypatch):
  monkeypatch.setattr(control, 'KEEP_ALIVE_S', 0.1)
  started = queue.Queue()
  thread = threading.Thread(target=serve, args=(started,))
  thread.start()
  port, loop, end = started.get(timeout=60)
  try:
    with EventLoop() as host:

      async def post():
        async with host.session.post(f'http://127.0.0.1:{port}/') as response:
          return await response.text()

      for _ in range(3):
        assert host.run(post()) == 'yes'
        time.sleep(1)  # an update
  finally:
    loop.call_soon_threadsafe(end.set)
    thread.join()


def started(monkeypatch, tmp_path, script):
  """An environment server whose process is this shell script."""
  program = tmp_path / 'program'
  program.write_text(f'#!/bin/sh\n{script}\n')
  program.chmod(0o755)
  monkeypatch.setattr(sys, 'executable', str(program))
  return EnvServer('babyai', {})


@pytest.mark.parametrize(
    'script, said',
    [
        (
            'echo No module named jericho >&2; exit 3',
            'ended with exit code 3 before it listened: No module named jeri',
        ),
        (
            'kill -9 $$',
            'was killed by SIGKILL before it listened: it said noth',
        ),
        # What it started lives on, and has its output open.
        (
            'sleep 20 & echo $! >$(dirname $0)/pid; exit 1',
            'ended with exit code 1 before',
        ),
        ('echo Hello; exec sleep 20', 'did not say where it listens'),
        ('echo 5; exec sleep 20', 'did not say where it listens'),
    ],
)
def test_a_server_that_does_not_start_is_told_at_once(
    tmp_path, monkeypatch, script, said
):
  before = time.monotonic()
  with pytest.raises(EnvError, match=f'^The babyai server {said}'):
    started(monkeypatch, tmp_path, script)
  assert time.monotonic() - before < 10
  if (tmp_path / 'pid').exists():
    os.kill(int((tmp_path / 'pid').read_text()), 9)


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(
    tmp_path, monkeypatch
):
  monkeypatch.setattr(host_lib, '_START_S', 0.3)
  with pytest.raises(EnvError, match='did not start within 0.3 s: it imports'):
    started(monkeypatch, tmp_path, 'echo it imports >&2; exec sleep 20')


def test_a_server_gets_no_secret_of_the_run(tmp_path, monkeypatch):
  for name in SECRETS:
    monkeypatch.setenv(name, 'secret')
  monkeypatch.setenv('ITS_OWN', 'known')
  script = f'echo "$ITS_OWN:${SECRETS[0]}${SECRETS[1]}" >&2; exit 1'
  with pytest.raises(EnvError, match='listened: known:$'):
    started(monkeypatch, tmp_path, script)
