"""Renderers and browsers that die, and what they leave behind."""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from agentrl.envs.web import browser as browser_lib
from agentrl.envs.web.browser import Browser
from agentrl.errors import EnvError
from tests import waiting
from tests.envs.web import sites

pytestmark = pytest.mark.browser

ROOT = pathlib.Path(__file__).parents[3]
PAGE = '<title>t</title><button onclick="this.textContent=\'done\'">go</button>'


def descendants(pid):
  """All processes that one has started: pid -> command line."""
  parents = {}
  for folder in pathlib.Path('/proc').iterdir():
    if folder.name.isdigit():
      try:
        stat = folder.joinpath('stat').read_text()
        line = folder.joinpath('cmdline').read_bytes().decode()
      except (FileNotFoundError, ProcessLookupError):
        continue
      parents[int(folder.name)] = int(stat.rpartition(')')[2].split()[1]), line
  found, pending = {}, [pid]
  while pending:
    above = pending.pop()
    below = {
        k: line for k, (parent, line) in parents.items() if parent == above
    }
    found |= below
    pending += below
  return found


class Processes:
  """Those of a browser that was started last."""

  def __init__(self, before=()):
    self._before = set(before)

  def of(self, what):
    """Their ids: 'node', 'browser' or 'renderer'."""
    kinds = {
        'node': lambda line: 'run-driver' in line,
        'browser': lambda line: (
            '--remote-debugging-pipe' in line and '--type=' not in line
        ),
        'renderer': lambda line: '--type=renderer' in line,
    }
    return [
        pid
        for pid, line in descendants(os.getpid()).items()
        if pid not in self._before and kinds[what](line)
    ]


@pytest.fixture
def own(executable, hosts, server):
  """A browser of this test's own: it, its processes, and how to visit."""
  server.pages['/'] = PAGE
  processes = Processes(descendants(os.getpid()))
  found = Browser(hosts, executable)

  def visit():
    page = sites.Episode(found, hosts)
    page.open(server.url)
    return page

  yield found, processes, visit
  found.close()


def test_a_renderer_that_crashes_ends_its_episode_alone(own):
  browser, processes, visit = own
  page, other = visit(), visit()
  loud = page.tabs._current.session.send('Page.crash')
  with pytest.raises(EnvError):
    page.call(loud, timeout_s=5)
  with pytest.raises(EnvError, match='crash'):
    page.do('scroll [up]')
  with pytest.raises(EnvError, match='crash'):
    page.call(page.tabs.picture())
  page.close()
  assert 'done' in other.click('go')
  assert 'done' in visit().click('go')
  assert browser.restarts == 0
  assert len(processes.of('browser')) == 1


def test_a_renderer_that_crashes_while_it_is_used(own):
  _, processes, visit = own
  page = visit()
  before = set(processes.of('renderer'))
  other = visit()
  (its,) = set(processes.of('renderer')) - before
  threading.Timer(0.5, os.kill, (its, signal.SIGKILL)).start()
  with pytest.raises(EnvError, match='crash|closed|lost'):
    while True:
      other.do('scroll [up]')
  assert 'done' in page.click('go')


def test_a_script_without_an_end_does_not_outlive_its_episode(own):
  _, processes, visit = own
  keeps = visit()
  before = set(processes.of('renderer'))
  page = visit()
  (its,) = set(processes.of('renderer')) - before
  page.script('document.querySelector("button").onclick = () => {'
              ' while (true); }, 1')  # fmt: skip
  with pytest.raises(EnvError, match='did not answer within 1 s'):
    page.do(f'click [{page.number("go")}]', timeout_s=1)
  page.close()
  assert waiting.gone(its)
  assert waiting.wait_until(lambda: keeps.browser.contexts == 1)
  assert 'done' in keeps.click('go')


def test_chromium_is_killed_while_episodes_play(own, server):
  browser, processes, visit = own
  server.pages['/slow'] = sites.late(0.3, PAGE)
  pages = [visit() for _ in range(4)]

  def play(page):
    while True:
      page.do(f'goto [{server.url}/slow]')

  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    playing = [pool.submit(play, page) for page in pages]
    time.sleep(0.5)
    (chromium,) = processes.of('browser')
    os.kill(chromium, signal.SIGKILL)
    for each in playing:
      with pytest.raises(EnvError, match='lost|ended|closed|crash'):
        each.result(20)
    again = list(pool.map(lambda _: visit(), range(4)))
  assert all('done' in page.click('go') for page in again)
  assert browser.restarts == 1
  for page in pages:
    with pytest.raises(EnvError):
      page.do('scroll [up]')
    page.close()
  assert waiting.gone(chromium)
  assert len(processes.of('browser')) == 1


def test_the_next_episode_need_not_wait_for_the_news(own):
  browser, processes, visit = own
  visit()
  for count in (1, 2):
    os.kill(*processes.of('browser'), signal.SIGKILL)
    assert 'done' in visit().click('go')
    assert browser.restarts == count


def test_playwright_is_killed(own):
  browser, processes, visit = own
  page = visit()
  (chromium,) = processes.of('browser')
  node = processes.of('node')
  threading.Timer(0.3, os.kill, (*node, signal.SIGKILL)).start()
  with pytest.raises(EnvError):
    while True:
      page.do('scroll [up]', timeout_s=5)
  assert waiting.gone(chromium)
  assert 'done' in visit().click('go')
  assert browser.restarts == 1


def test_a_browser_that_hangs_is_given_up(own, monkeypatch):
  browser, processes, visit = own
  monkeypatch.setattr(browser_lib, '_CLOSE_S', 1.0)
  page = visit()
  pids = [*processes.of('browser'), *processes.of('node')]
  os.kill(pids[0], signal.SIGSTOP)
  try:
    with pytest.raises(EnvError, match='did not answer within 1 s'):
      page.do('scroll [up]', timeout_s=1)
    began = time.monotonic()
    browser.close()
    assert time.monotonic() - began < 10
  finally:
    if waiting.alive(pids[0]):
      os.kill(pids[0], signal.SIGCONT)
  assert waiting.gone(*pids)


def test_closing_leaves_nothing_and_ends_what_is_under_way(own, server):
  browser, processes, visit = own
  server.pages['/never'] = sites.never
  page = visit()
  with concurrent.futures.ThreadPoolExecutor(1) as pool:
    waits = pool.submit(page.do, f'goto [{server.url}/never]')
    time.sleep(0.5)
    pids = [x for k in ('node', 'browser', 'renderer') for x in processes.of(k)]
    assert len(pids) >= 3
    browser.close()
    with pytest.raises(EnvError, match='closed'):
      waits.result(10)
  assert waiting.gone(*pids)
  browser.close()
  page.close()
  with pytest.raises(EnvError, match='closed'):
    page.do('scroll [up]')


def test_a_browser_that_was_never_used_starts_nothing(executable, hosts):
  processes = Processes(descendants(os.getpid()))
  browser = Browser(hosts, executable)
  assert not processes.of('node') and browser.contexts == 0
  browser.close()


def test_what_does_not_start_says_so(hosts, tmp_path):
  fake = tmp_path / 'chromium'
  fake.write_text('#!/bin/sh\necho no such display >&2\nexit 3\n')
  fake.chmod(0o755)
  browser = Browser(hosts, str(fake))
  for _ in range(2):
    with pytest.raises(EnvError, match='did not start'):
      browser.call(browser.open(), 30)
  assert browser.restarts == 0
  browser.close()


@pytest.fixture
def temporary(monkeypatch):
  """An empty folder for temporary files, also of processes that start."""
  with tempfile.TemporaryDirectory() as folder:
    monkeypatch.setattr(tempfile, 'tempdir', folder)
    monkeypatch.setenv('TMPDIR', folder)
    yield pathlib.Path(folder)


@pytest.mark.parametrize(
    'killed', [(), ('browser',), ('node',), ('node', 'browser'), ('renderer',)]
)
def test_no_file_of_a_browser_is_left(temporary, own, killed):
  browser, processes, visit = own
  page = visit()
  assert list(temporary.rglob('playwright*'))
  assert os.environ['TMPDIR'] == str(temporary)
  pids = [pid for kind in killed for pid in processes.of(kind)]
  for pid in pids:
    os.kill(pid, signal.SIGKILL)
  assert waiting.gone(*pids)
  if killed:  # it starts again
    with contextlib.suppress(EnvError):
      page.do('scroll [up]', timeout_s=5)
    assert 'done' in visit().click('go')
    assert len(list(temporary.iterdir())) == 1
  browser.close()
  assert not list(temporary.iterdir())


def test_files_of_a_dead_process_go_and_those_of_others_stay(
    temporary, executable, hosts, server
):
  server.pages['/'] = PAGE
  script = [sys.executable, '-c', CHILD, server.url, 'scroll [up]']
  pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
  with (
      subprocess.Popen(script, cwd=ROOT, **pipes) as dead,
      subprocess.Popen(script, cwd=ROOT, **pipes) as alive,
  ):
    try:
      assert dead.stdout.readline() == alive.stdout.readline() == 'ready\n'
      pids = [dead.pid, *descendants(dead.pid)]
      for pid in pids:
        os.kill(pid, signal.SIGKILL)
      dead.wait()
      assert waiting.gone(*pids[1:])
      before = set(temporary.iterdir())
      assert len(before) == 2
      for folder in before:  # a minute ago
        os.utime(folder, (1, 1))
      browser = Browser(hosts, executable)
      sites.Episode(browser, hosts).open(server.url)
      browser.close()
      (left,) = temporary.iterdir()
      assert left in before and list(left.glob('playwright*profile*'))
    finally:
      dead.kill()
      alive.kill()


CHILD = """
import sys
from agentrl.envs.web.browser import Browser
from agentrl.envs.web.commands import parse
from agentrl.envs.web.hosts import Hosts
from agentrl.envs.web.tabs import Tabs
url, command = sys.argv[1:]
hosts = Hosts.of({'http://site': url})
browser = Browser(hosts)
tabs = Tabs(browser, hosts, 480, 320)
browser.call(tabs.open(url), 40)
browser.call(tabs.view('page'), 40)
print('ready', flush=True)
browser.call(tabs.do(parse(command)), 600)
sys.stdin.read()
"""


@pytest.mark.parametrize('command', ('scroll [up]', 'click [2]'))
def test_nothing_outlives_a_python_that_is_killed(executable, server, command):
  del executable
  server.pages['/'] = '<button onclick="while (true);">spin</button>'
  with subprocess.Popen(
      [sys.executable, '-c', CHILD, server.url, command],
      cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
  ) as child:  # fmt: skip
    try:
      assert child.stdout.readline() == 'ready\n'
      time.sleep(1)
      pids = list(descendants(child.pid))
      assert len(pids) >= 3
    finally:
      child.kill()
  assert waiting.gone(*pids)
