"""Episodes that are closed while their browser still opens."""

import asyncio

import pytest

from agentrl.envs.web.tabs import Tabs
from agentrl.errors import EnvError


class SlowBrowser:
  """Opens contexts when it is told to, and keeps those that are discarded."""

  def __init__(self):
    self.may_open = asyncio.Event()
    self.discarded = []

  async def open(self, **options):
    await self.may_open.wait()
    return 'context'

  def discard(self, context):
    self.discarded.append(context)


def test_tabs_that_are_closed_while_they_open_leave_no_context():
  async def main():
    browser = SlowBrowser()
    tabs = Tabs(browser, None, 800, 600)
    opening = asyncio.create_task(tabs.open('http://a/'))
    await asyncio.sleep(0)  # it waits for the browser
    tabs.close()
    browser.may_open.set()
    with pytest.raises(EnvError, match='were closed'):
      await opening
    tabs.close()
    return browser.discarded

  assert asyncio.run(main()) == ['context']
