"""Tests for agentrl.runtime.event_loop, against a server on loopback."""

import asyncio
import os
import queue
import signal
import sys
import threading
import time

import pytest
from aiohttp import web

from agentrl.runtime import event_loop
from agentrl.runtime.event_loop import EventLoop, Interrupted


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
  monkeypatch.setattr(event_loop, 'KEEP_ALIVE_S', 0.1)
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


def test_the_first_signal_cancels_and_the_second_one_is_hard():
  before = signal.getsignal(signal.SIGTERM)
  cancelled = []

  async def work():
    signal.raise_signal(signal.SIGTERM)
    try:
      await asyncio.sleep(60)
    except asyncio.CancelledError:
      cancelled.append(True)
      raise

  with EventLoop() as loop:
    with pytest.raises(Interrupted):
      loop.run(work())
    assert cancelled and loop.interrupted
    for stop in (loop.check, lambda: loop.run(asyncio.sleep(0))):
      with pytest.raises(Interrupted):
        stop()
    with pytest.raises(KeyboardInterrupt):
      signal.raise_signal(signal.SIGINT)
  assert signal.getsignal(signal.SIGTERM) is before


class _Signals:
  """Is freed while a signal comes."""

  def __del__(self):
    signal.raise_signal(signal.SIGTERM)


def test_a_second_signal_that_python_drops_comes_again():
  before = sys.unraisablehook
  with EventLoop() as loop:
    signal.raise_signal(signal.SIGINT)
    assert loop.interrupted
    _Signals()
    with pytest.raises(KeyboardInterrupt, match='SIGTERM, after SIGINT'):
      time.sleep(10)
  assert sys.unraisablehook is before


def test_other_errors_that_python_drops_are_told_as_before(monkeypatch):
  told = []
  monkeypatch.setattr(sys, 'unraisablehook', told.append)

  class Fails:

    def __del__(self):
      raise ValueError('in a destructor')

  with EventLoop():
    Fails()
  assert [lost.exc_type for lost in told] == [ValueError]


def test_a_signal_between_two_calls_is_noticed_at_the_next():
  with EventLoop() as loop:
    assert loop.run(asyncio.sleep(0, 'slept')) == 'slept'
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(Interrupted):
      loop.run(asyncio.sleep(0))


def test_cancelling_without_a_signal_stays_a_cancellation():
  async def cancel():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)

  with EventLoop() as loop, pytest.raises(asyncio.CancelledError):
    loop.run(cancel())


@pytest.fixture
def unheard_hangup():
  """SIGHUP as it usually is, also where these tests run under nohup."""
  before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
  yield
  signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_stops_like_a_signal_however_often_it_is_told(
    unheard_hangup,
):
  before = signal.getsignal(signal.SIGHUP)
  with EventLoop() as loop:
    for _ in range(3):  # from the kernel and from the shell
      os.kill(os.getpid(), signal.SIGHUP)
    with pytest.raises(Interrupted):
      loop.check()
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)
      time.sleep(1)
  assert signal.getsignal(signal.SIGHUP) is before


def test_a_run_in_the_background_can_be_stopped():
  # Where a shell without job control has SIGINT ignored.
  before = signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    with EventLoop() as loop:
      os.kill(os.getpid(), signal.SIGINT)
      with pytest.raises(Interrupted):
        loop.run(asyncio.sleep(10))
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
  finally:
    signal.signal(signal.SIGINT, before)


def test_nohup_is_left_as_it_is(monkeypatch):
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
  try:
    with EventLoop() as loop:
      os.kill(os.getpid(), signal.SIGHUP)
      loop.check()
      assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
  finally:
    signal.signal(signal.SIGHUP, before)


def test_work_beside_the_loop_lets_its_tasks_go_on():
  seen = []

  async def tick():
    while True:
      seen.append(time.monotonic())
      await asyncio.sleep(0.01)

  async def begin():
    return asyncio.create_task(tick())

  with EventLoop() as loop:
    task = loop.run(begin())
    time.sleep(0.1)
    assert len(seen) <= 1  # it stands still
    thread = loop.beside(threading.get_ident)
    assert thread != threading.get_ident()
    loop.beside(lambda: time.sleep(0.2))
    assert len(seen) > 5
    assert loop.beside(threading.get_ident) == thread
    loop.cancel([task])
    assert task.cancelled()
    with pytest.raises(ZeroDivisionError):
      loop.beside(lambda: 1 / 0)


def test_a_signal_waits_for_work_beside_the_loop():
  def work():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
    return 'done'

  with EventLoop() as loop:
    assert loop.beside(work) == 'done'
    with pytest.raises(Interrupted):
      loop.check()
    loop.cancel([])
