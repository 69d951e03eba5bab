"""A page: its clock, its history, and what can be read of it.

Time is virtual (Emulation.setVirtualTimePolicy): it stands still between
commands and while a page loads something, and a command lets a fixed span of
it pass, in which timers run at once and in order. So a page is settled when a
command returns, how slow the machine may be, and shows the same every time.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from playwright.async_api import (
    CDPSession,
    Error,
    Page,
    Request,
    Response,
    TimeoutError as TimeoutError_,
)

from agentrl.envs.web import nodes as nodes_lib
from agentrl.envs.web.commands import Refused
from agentrl.envs.web.nodes import Node
from agentrl.errors import EnvError

# 2023-06-15 12:00 UTC, "now" of our own sites: where a page's clock starts.
# MiniWoB++'s calendars open at today's month or, as its dates are of 2016, at the
# last one they have: in its Gymnasium environment, of a later year, always that.
EPOCH_S = 1_686_830_400
STEP_MS = 1000  # virtual time that passes after a command
_SETTLE_S = 3.0  # real time after which requests are not waited for
LOAD_S = 10.0  # likewise for documents
_SLICE_MS = 100  # of a command's time where old requests are left running
# Tasks after which time passes in a page that always has another.
_STARVATION = 1000
_POLL_S = 0.1
_MAX_DOCUMENTS = 5  # that follow each other after a command
_MAX_NODES = 40_000  # the tree of 100,000 takes 14 s
_MAX_TEXT = 1_000_000  # characters of a page

# Frames are drawn by the real clock; a page that moves by them would differ
# each time. 20 a second: each costs a pass of layout.
INIT = """(() => {
  window.requestAnimationFrame = f => setTimeout(() => f(performance.now()), 50);
  window.cancelAnimationFrame = clearTimeout;
  let a = %d;
  Math.random = () => {
    a = a + 0x6D2B79F5 | 0;
    let t = Math.imul(a ^ a >>> 15, 1 | a);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
})()"""
# Transitions run by drawn frames, too; one brings the events of their ends.
_FINISH = """document => {
  const ends = [];
  for (const a of document.getAnimations()) {
    if (a.effect && isFinite(a.effect.getComputedTiming().endTime)) {
      ends.push(new Promise(done => {
        a.addEventListener('finish', done);
        a.addEventListener('cancel', done);
      }));
      a.finish();
    }
  }
  return Promise.all(ends).then(() => ends.length);
}"""
_FRAME_S = 1.0  # real time in which a frame is drawn, if ever
# Elements and texts, those of open shadow trees included; characters that may
# be shown.
_COUNT = """document => {
  let nodes = 0, characters = 0;
  const roots = [document];
  while (roots.length && nodes <= MOST) {
    const walker = document.createTreeWalker(roots.pop(), 5);
    for (let n = walker.nextNode(); n && nodes <= MOST; n = walker.nextNode()) {
      nodes += 1;
      if (n.nodeType === 3) {
        if (!/^(SCRIPT|STYLE)$/.test(n.parentNode.nodeName))
          characters += n.length;
      } else {
        if (/^(INPUT|TEXTAREA)$/.test(n.nodeName)) characters += n.value.length;
        if (n.shadowRoot) roots.push(n.shadowRoot);
      }
    }
  }
  return [nodes, characters];
}""".replace('MOST', str(_MAX_NODES))


class TooLarge(Exception):
  """A page that would take too long to be read."""


class Tab:
  """A page and its DevTools session.

  Attributes:
    target: Chromium's id of it.
    settled: whether time has ever passed in it.
    documents: number of those that it has shown.
  """

  def __init__(self, page: Page, session: CDPSession):
    self.page, self.session = page, session
    self.target = ''
    self.settled = False
    self.documents = 0
    self._first = 0  # of these, at the last command
    self._expired = asyncio.Event()
    self._stuck = False  # the document has requests that are not waited for
    self._requests: dict[Request, float] = {}  # that run -> since when
    self._quiet = asyncio.Event()  # there are none
    self._quiet.set()
    page.on('request', self._on_begun)
    page.on('requestfinished', self._on_ended)
    page.on('requestfailed', self._on_ended)
    page.on('response', self._on_response)
    session.on(
        'Emulation.virtualTimeBudgetExpired', lambda _: self._expired.set()
    )
    session.on('Page.frameNavigated', self._on_navigated)

  async def start(self) -> None:
    """Stops the page's clock where all pages begin."""
    await self.session.send('Page.enable')
    await self.session.send(
        'Emulation.setVirtualTimePolicy',
        {'policy': 'pause', 'initialVirtualTime': EPOCH_S},
    )

  async def goto(self, url: str) -> str:
    """Goes to an address; a note if it is no page that can be had, or ''."""
    try:
      await self.page.goto(url, wait_until='commit', timeout=1000 * LOAD_S)
    except TimeoutError_:
      await self.halt()
      return f'{url:.200} did not come within {LOAD_S:g} s.'
    except Error as error:
      # A download, or an empty reply.
      if any(x in error.message for x in ('net::ERR_ABORTED', 'Download is')):
        return f'{url:.200} is no page.'
      words = error.message.partition('\n')[0]
      return f'{url:.200} cannot be loaded: {words:.200}'
    return ''

  async def go(self, by: int) -> None:
    """Goes through the history; not before the first page."""
    history = await self.session.send('Page.getNavigationHistory')
    entries, place = history['entries'], history['currentIndex'] + by
    if not 0 <= place < len(entries) or entries[place]['url'] == 'about:blank':
      raise Refused(
          f'There is no page to go {"forward" if by > 0 else "back"}.'
      )
    await self.session.send(
        'Page.navigateToHistoryEntry', {'entryId': entries[place]['id']}
    )

  async def move(self, x: float, y: float) -> None:
    """Moves the mouse. A move alone waits for a frame, which may never be drawn.

    An event that cannot be merged with it makes Chromium deliver it at once;
    this one is of a key that no keyboard has.
    """
    key = {'type': 'keyUp', 'key': 'F24'}
    await asyncio.gather(
        self.page.mouse.move(x, y),
        self.session.send('Input.dispatchKeyEvent', key),
    )

  async def call(self, script: str, value: Any) -> Any:
    """The value of a JavaScript function for the page."""
    try:
      return await self.page.evaluate(script, value)
    except Error as error:
      if 'context was destroyed' not in error.message:
        raise
      # A document came that was late.
      await self.settle(STEP_MS)
      return await self.page.evaluate(script, value)

  async def settle(self, budget_ms: int) -> str:
    """Lets time pass; a note if something had to be left running, or ''."""
    self.settled = True
    self._first = self.documents
    note = ''
    if self._stuck:
      note = await self._creep(budget_ms)
    elif not await self._advance('pauseIfNetworkFetchesPending', budget_ms):
      note = await self._leave(budget_ms)
    try:
      if not self._restless() and await self._finish():
        await self._advance('advance', 100)  # what their ends set off
    except Error:
      if self.page.is_closed():
        raise
      # It navigated; the new document has just begun.
      await self._advance('pauseIfNetworkFetchesPending', budget_ms)
    if self._restless():
      await self.halt()
      note = f'{self.page.url:.200} goes to other pages all the time.'
    return note

  async def _finish(self) -> bool:
    """Ends transitions and animations; False if there were none."""
    try:
      async with asyncio.timeout(_FRAME_S):
        return any(await self.evaluate(_FINISH))
    except TimeoutError:  # of a page that is not drawn
      return True

  async def evaluate(self, function: str) -> Sequence[Any]:
    """Values of a JavaScript function for the documents of all frames."""
    expression = f'({function})(document)'
    values = [await self.page.evaluate(f'() => {expression}')]
    for frame in (await self.frames())[1:]:
      # Playwright would wait for a frame that is refused its document.
      world = await self.session.send('Page.createIsolatedWorld', frame)
      reply = await self.session.send(
          'Runtime.evaluate',
          {
              'expression': expression,
              'contextId': world['executionContextId'],
              'returnByValue': True,
              'awaitPromise': True,
          },
      )
      values.append(reply['result'].get('value'))
    return [value for value in values if value is not None]

  async def frames(self) -> Sequence[dict[str, str]]:
    """Chromium's ids of all frames as `frameId`; of a single one, nothing."""
    if len(self.page.frames) == 1:
      return [{}]
    reply = await self.session.send('Page.getFrameTree')
    frames, pending = [], [reply['frameTree']]
    while pending:
      tree = pending.pop()
      frames.append({'frameId': tree['frame']['id']})
      pending += reversed(tree.get('childFrames', ()))
    return frames

  async def halt(self) -> None:
    """Stops the clock and gives up the document that is awaited.

    Raises:
      EnvError: the page does not answer nevertheless.
    """
    await self._stop()
    await self.session.send(
        'Emulation.setVirtualTimePolicy', {'policy': 'pause'}
    )
    await self._stop()  # one that was begun meanwhile

  async def _stop(self) -> None:
    async with asyncio.timeout(LOAD_S):
      while True:
        try:
          await self.session.send('Page.stopLoading')
          break
        except Error:  # one document has gone, the next has not come
          if self.page.is_closed():
            raise
          await asyncio.sleep(0.01)
    if not await self._answers(_SETTLE_S):
      raise EnvError(f'{self.page.url:.200} does not answer.')

  async def _leave(self, budget_ms: int) -> str:
    """Goes on though something is still loading."""
    where = f'{self.page.url:.200}'
    # While a document is on its way, Chromium answers nothing.
    if not await self._answers(LOAD_S - _SETTLE_S):
      await self.halt()
      return f'The next page did not come within {LOAD_S:g} s.'
    if await self._advance('pauseIfNetworkFetchesPending', budget_ms, 0.5):
      return ''  # it was a document
    self._stuck = True
    self._forget()
    await self._advance('advance', budget_ms)
    return f'{where} still loads after {_SETTLE_S:g} s.'

  async def _creep(self, budget_ms: int) -> str:
    """Lets time pass, and waits between its slices for requests' ends."""
    for _ in range(budget_ms // _SLICE_MS):
      if not await self._advance('advance', _SLICE_MS):
        return await self._leave(budget_ms)
      try:
        async with asyncio.timeout(_SETTLE_S):
          await self._quiet.wait()
      except TimeoutError:
        self._forget()
        return f'{self.page.url:.200} still loads after {_SETTLE_S:g} s.'
      if not self._stuck:  # another document has come
        return await self.settle(budget_ms)
    return ''

  async def _advance(
      self, policy: str, budget_ms: int, most_s: float | None = None
  ) -> bool:
    """Lets time pass; False if it had to stop earlier.

    Only a request that is slow ends the wait early: a slow machine must not
    change what a page shows.

    Args:
      policy: of Chromium's clock, while requests run.
      budget_ms: virtual time.
      most_s: real time; None: as long as a document may take.
    """
    task = asyncio.ensure_future(self._pass(policy, budget_ms))
    began = time.monotonic()
    try:
      while not (await asyncio.wait((task,), timeout=_POLL_S))[0]:
        now = time.monotonic()
        slow = now - began > (LOAD_S if most_s is None else most_s)
        if policy != 'advance':
          slow |= any(
              now - max(began, since) > _SETTLE_S
              for since in self._requests.values()
          )
        if slow or self.page.is_closed():
          return False
      await task
    except Error:  # another document came in place of the answer
      if self.page.is_closed():
        raise
      return False
    finally:
      task.cancel()
    return True

  async def _pass(self, policy: str, budget_ms: int) -> None:
    self._expired.clear()
    await self.session.send(
        'Emulation.setVirtualTimePolicy',
        {
            'policy': policy,
            'budget': budget_ms,
            'maxVirtualTimeTaskStarvationCount': _STARVATION,
        },
    )
    await self._expired.wait()

  async def _answers(self, seconds: float) -> bool:
    try:
      async with asyncio.timeout(seconds):
        await self.session.send('Runtime.evaluate', {'expression': '1'})
    except TimeoutError:
      return False
    except Error:  # another document came in place of the answer
      if self.page.is_closed():
        raise
    return True

  def _on_begun(self, request: Request) -> None:
    self._requests[request] = time.monotonic()
    self._quiet.clear()

  def _on_ended(self, request: Request) -> None:
    self._requests.pop(request, None)
    if not self._requests:
      self._quiet.set()

  def _on_response(self, response: Response) -> None:
    # One whose body nobody reads does not end.
    if response.request.resource_type == 'fetch':
      self._on_ended(response.request)

  def _restless(self) -> bool:
    return self.documents - self._first > _MAX_DOCUMENTS

  def _on_navigated(self, event: dict[str, Any]) -> None:
    if 'parentId' in event['frame']:
      return
    self.documents += 1
    self._stuck = False
    self._forget()
    if self._restless():
      self._expired.set()

  def _forget(self) -> None:
    self._requests.clear()
    self._quiet.set()

  async def read(self, observe: str, size: tuple[int, int]) -> tuple[Node, ...]:
    """The nodes that the page shows.

    Args:
      observe: 'viewport' or 'page' for the accessibility tree, or 'html'.
      size: of the viewport, in pixels.

    Raises:
      TooLarge: it has too many nodes or characters.
    """
    counted = await self.evaluate(_COUNT)
    nodes, characters = map(sum, zip(*counted, strict=True))
    if nodes > _MAX_NODES or characters > _MAX_TEXT:
      raise TooLarge(
          f'The page is too large to be read: at most {_MAX_NODES} elements and'
          f' texts, and {_MAX_TEXT} characters.'
      )
    snapshot = await self.session.send(
        'DOMSnapshot.captureSnapshot', {'computedStyles': ['visibility']}
    )
    if observe == 'html':
      return nodes_lib.from_snapshot(snapshot)
    visible = None
    if observe == 'viewport':
      visible = nodes_lib.in_view(snapshot, *size)
    trees = []
    for frame in await self.frames():
      reply = await self.session.send('Accessibility.getFullAXTree', frame)
      trees.append(reply['nodes'])
    return nodes_lib.from_tree(trees, nodes_lib.clickables(snapshot), visible)
