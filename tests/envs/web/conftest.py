"""A real Chromium and the pages that it visits."""

import pytest

from agentrl.envs.web import chromium
from agentrl.envs.web.browser import Browser
from agentrl.envs.web.hosts import Hosts
from tests.envs.web import sites


@pytest.fixture(scope='session')
def executable():
  """Chromium's; without one, tests in a browser are skipped: tests/conftest."""
  return chromium.find()


@pytest.fixture(scope='module')
def server():
  """The pages' server; a test puts its own pages there."""
  with sites.serving() as found:
    yield found


@pytest.fixture(scope='module')
def hosts(server):
  """The server under two names, which are two sites to Chromium."""
  return Hosts.of({'http://site': server.url, 'http://other': server.other_url})


@pytest.fixture(scope='module')
def browser(executable, hosts):
  found = Browser(hosts, executable)
  yield found
  found.close()


@pytest.fixture
def episode(browser, hosts):
  """Makes episodes, and closes them."""
  made = []

  def make(observe='page'):
    made.append(sites.Episode(browser, hosts, observe))
    return made[-1]

  yield make
  for each in made:
    each.close()


@pytest.fixture
def visit(episode, server):
  """Opens a page of this HTML in an episode of its own."""

  def go(page, path='/', **options):
    server.pages[path] = page
    found = episode(**options)
    found.open(server.url + path)
    return found

  return go
