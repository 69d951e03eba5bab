"""A viewer on loopback, and pages of it in a real Chromium."""

import asyncio
import contextlib
import json
import threading
import time
import urllib.request

import pytest
from playwright import sync_api

from agentrl.envs.web import chromium
from agentrl.viewer import server


@contextlib.contextmanager
def threaded(manager):
  """Enters an async context manager whose event loop runs in a thread."""
  ready, found = threading.Event(), {}

  async def main():
    found.update(loop=asyncio.get_running_loop(), stop=asyncio.Event())
    async with manager as value:
      found['value'] = value
      ready.set()
      await found['stop'].wait()

  thread = threading.Thread(target=asyncio.run, args=(main(),))
  thread.start()
  assert ready.wait(30)
  try:
    yield found['value']
  finally:
    found['loop'].call_soon_threadsafe(found['stop'].set)
    thread.join()


@contextlib.contextmanager
def serving(root, **settings):
  """Serves the folder, once read, from a thread in the block; the URL."""
  with threaded(server.running(root, **settings)) as url:
    while _share_read(url) < 1:
      time.sleep(0.02)
    yield url


def _share_read(url):
  with urllib.request.urlopen(f'{url}api/episodes/summary') as response:
    return json.load(response)['indexed']


@pytest.fixture
def viewer():
  """Starts viewers: `viewer(root)` gives the URL, which ends in a slash."""
  with contextlib.ExitStack() as stack:
    yield lambda root, **settings: stack.enter_context(
        serving(root, **settings)
    )


@pytest.fixture(scope='session')
def chrome():
  """A Chromium; without one, tests in a browser are skipped: tests/conftest."""
  with sync_api.sync_playwright() as playwright:
    found = playwright.chromium.launch(executable_path=chromium.find())
    yield found
    found.close()


@pytest.fixture
def allowed():
  """Parts of errors that a test expects, however late they are logged."""
  return []


@pytest.fixture
def page(chrome, allowed):
  """An empty page; the test fails where its console has an error."""
  context = chrome.new_context(viewport={'width': 1280, 'height': 800})
  found, errors = context.new_page(), []
  found.on('pageerror', lambda error: errors.append(str(error)))
  found.on(
      'console',
      lambda message: message.type == 'error' and errors.append(message.text),
  )
  found.set_default_timeout(10_000)
  yield found
  context.close()
  assert not [x for x in errors if not any(part in x for part in allowed)]
