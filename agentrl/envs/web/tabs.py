"""The tabs of one episode: its commands and what it shows."""

import asyncio
import base64
import dataclasses
import functools
import threading
import time
from collections.abc import Sequence
from typing import Any

from playwright.async_api import (
    BrowserContext,
    Dialog,
    Download,
    Error,
    Page,
)

from agentrl.envs.web import (
    elements,
    keyboard,
    nodes as nodes_lib,
    tab as tab_lib,
)
from agentrl.envs.web.browser import Browser
from agentrl.envs.web.commands import Command, Refused
from agentrl.envs.web.hosts import Hosts
from agentrl.envs.web.nodes import Node
from agentrl.envs.web.tab import STEP_MS, Tab, TooLarge
from agentrl.errors import EnvError

_MAX_TABS = 8
_MAX_NOTES = 20
_READS = 4  # of a page that navigates while it is read

# No value: scrollBy gives a promise, which a drawn frame would have to keep.
_SCROLL = """(sign) => {
  window.scrollBy({top: sign * window.innerHeight, behavior: 'instant'});
}"""


@dataclasses.dataclass(frozen=True)
class View:
  """The browser as a policy sees it.

  Attributes:
    nodes: of the current tab.
    url: of the current tab.
    titles: of all tabs, in order.
    current: which of them is shown.
    notes: what happened beside it: dialogs, refused downloads.
  """

  nodes: tuple[Node, ...]
  url: str
  titles: tuple[str, ...]
  current: int
  notes: tuple[str, ...] = ()


def _unless_crashed(method):
  """Raises EnvError once a page has crashed: Chromium answers nothing then."""

  @functools.wraps(method)
  async def wrapped(self: 'Tabs', *args: Any) -> Any:
    task = asyncio.ensure_future(method(self, *args))
    crash = asyncio.ensure_future(self._crash.wait())
    try:
      await asyncio.wait((task, crash), return_when=asyncio.FIRST_COMPLETED)
      if self._crash.is_set():
        raise EnvError('The page crashed.')
      return task.result()
    finally:
      crash.cancel()
      task.cancel()
      # Read here, or asyncio would log it.
      task.add_done_callback(lambda x: x.cancelled() or x.exception())

  return wrapped


class Tabs:
  """The browser of one episode. Its methods run in the browser's thread.

  A method that raises `Refused` has changed nothing.

  Args:
    browser: the process.
    hosts: what `goto` may name.
    width: of the viewport, in pixels.
    height: likewise.
    **options: of Playwright's `new_context`.
  """

  def __init__(
      self,
      browser: Browser,
      hosts: Hosts,
      width: int,
      height: int,
      **options: Any,
  ):
    self._browser = browser
    self._hosts = hosts
    self._size = width, height
    self._options = options
    self._lock = threading.Lock()  # of the next two
    self._context: BrowserContext | None = None
    self._closed = False
    self._tabs: list[Tab] = []
    self._current: Tab | None = None
    self._adopting: set[asyncio.Task] = set()
    self._new: list[Tab] = []  # that no command has settled yet
    self._targets: set[str] = set()  # of pages that were adopted, or are late
    self._group = ''  # Chromium's id of the context
    self._notes: list[str] = []
    self._told = 0  # of these, by a view
    self._clipboard = ''
    self._backend: dict[int, int] = {}  # number -> Chromium's id
    self._seen: tuple[Tab, int] | None = None  # tab and document with these
    self._crash = asyncio.Event()

  @property
  def context(self) -> BrowserContext:
    """The context of all tabs.

    Raises:
      EnvError: it is not open yet, or was closed.
    """
    context = self._context
    if context is None:
      raise EnvError('The tabs are not open.')
    return context

  @property
  def page(self) -> Page:
    """The page of the current tab."""
    return self._tab.page

  @property
  def _tab(self) -> Tab:
    """The current tab.

    Raises:
      EnvError: no page is open.
    """
    tab = self._current
    if tab is None:
      raise EnvError('No page is open.')
    return tab

  @_unless_crashed
  async def open(
      self, url: str, cookies: Sequence[dict[str, Any]] = ()
  ) -> None:
    """Opens the browser at a page.

    Args:
      url: the page's.
      cookies: that its context has from the beginning.

    Raises:
      EnvError: the page cannot be had.
    """
    width, height = self._size
    context = await self._browser.open(
        viewport={'width': width, 'height': height},
        locale='en-US',
        timezone_id='UTC',
        reduced_motion='reduce',
        **self._options,
    )
    with self._lock:
      if self._closed:  # while it waited for Chromium
        self._browser.discard(context)
        raise EnvError('The tabs were closed.')
      self._context = context
    await self.context.add_init_script(tab_lib.INIT % 1)
    if cookies:
      await self.context.add_cookies(cookies)  # type: ignore[arg-type]  # Playwright's type of a cookie is private
    self.context.on('page', self._on_page)
    self.context.on('dialog', self._on_dialog)
    await self._open(url)

  @_unless_crashed
  async def add(self, url: str) -> None:
    """Opens a page in another tab; the current one stays.

    Raises:
      EnvError: the page cannot be had.
    """
    current = self._current
    await self._open(url)
    if current in self._tabs:  # it may have closed itself meanwhile
      self._current = current

  async def _open(self, url: str) -> None:
    """Opens a page in a new tab, the current one from now on."""
    await self.context.new_page()
    await self._adopted()
    self._note(await self._tab.goto(url))
    await self.settle()
    if not self.page.url.startswith(('http://', 'https://')):
      raise EnvError(f'{url} cannot be loaded.')

  @_unless_crashed
  async def do(self, command: Command) -> None:
    """Does a command and lets its effects end.

    Raises:
      Refused: it cannot be done; nothing has changed.
      EnvError: the page crashed.
    """
    # What came after the last view is told by the next one.
    self._notes, self._told = self._notes[self._told :], 0
    if self._current is None:  # the last one was closed
      await self.settle()
    tab = self._tab  # another is, once a page has closed itself
    try:
      await self._do(command, tab)
    except Error:
      if not tab.page.is_closed():
        raise
    await self.settle()

  async def _do(self, command: Command, tab: Tab) -> None:
    match command.name:
      case 'click' | 'type' | 'hover':
        await self._act(command, tab)
      case 'press':
        await self._press(tab, command.text)
      case 'scroll':
        await tab.call(_SCROLL, 1 if command.text == 'down' else -1)
      case 'goto':
        self._note(await tab.goto(self._hosts.check(command.text)))
      case 'go_back' | 'go_forward':
        await tab.go(-1 if command.name == 'go_back' else 1)
      case 'new_tab':
        if len(self._tabs) >= _MAX_TABS:
          raise Refused(f'There are {_MAX_TABS} tabs; close one first.')
        await self.context.new_page()
      case 'tab_focus':
        assert command.number is not None  # the command's form has one
        if command.number >= len(self._tabs):
          raise Refused(
              f'There is no tab {command.number}; the tabs are 0 to'
              f' {len(self._tabs) - 1}.'
          )
        self._current = self._tabs[command.number]
      case 'close_tab':
        await tab.page.close()

  @_unless_crashed
  async def view(self, observe: str) -> View:
    """The browser, with the nodes of its current tab.

    Args:
      observe: 'viewport' or 'page' for the accessibility tree, or 'html'.

    Raises:
      EnvError: the page never stands still, or crashed.
    """
    for attempt in range(_READS):
      if self._current is None:  # the last one was closed
        await self.settle()
      tab = self._tab
      documents = tab.documents
      try:
        try:
          nodes = await tab.read(observe, self._size)
        except TooLarge as error:
          nodes = ()
          self._note(str(error))
        titles = [await each.page.title() for each in self._tabs]
        if tab not in self._tabs:  # it was closed meanwhile
          await self.settle()
          continue
      except Error:
        if tab.page.is_closed():
          await self.settle()
          continue
        # It navigates: let it, but not for ever.
        self._note(await tab.settle(STEP_MS))
        if attempt:
          await tab.halt()
        continue
      self._seen = tab, documents
      self._backend = {node.number: node.backend for node in nodes}
      self._told = len(self._notes)
      return View(
          nodes=nodes,
          url=tab.page.url,
          titles=tuple(titles),
          current=self._tabs.index(tab),
          notes=tuple(self._notes),
      )
    raise EnvError(f'{self.page.url:.200} navigates all the time.')

  @_unless_crashed
  async def boxes(self, nodes: Sequence[Node]) -> dict[int, list[float]]:
    """The boxes of the last view's nodes now; see `nodes.boxes`."""
    reply = await self._tab.session.send(
        'DOMSnapshot.captureSnapshot', {'computedStyles': []}
    )
    return nodes_lib.boxes(reply, nodes)

  @_unless_crashed
  async def picture(self) -> bytes:
    """The viewport of the current tab as a PNG file."""
    reply = await self._tab.session.send('Page.captureScreenshot')
    return base64.b64decode(reply['data'])

  def close(self) -> None:
    """Closes the browser's context, without waiting; from any thread."""
    with self._lock:
      self._closed = True
      context, self._context = self._context, None
    if context is not None:
      self._browser.discard(context)

  async def _act(self, command: Command, tab: Tab) -> None:
    """Clicks, types into or hovers over the element that a command names."""
    if command.number not in self._backend:
      raise Refused(f'There is no element [{command.number}] on this page now.')
    try:
      # Another process counts its elements likewise.
      if self._seen != (tab, tab.documents):
        raise Refused('is gone from this page')
      point = await elements.point_of(
          tab.session,
          self._backend[command.number],
          self._size,
          clicks=command.name == 'click',
      )
    except Refused as refusal:
      raise Refused(f'Element [{command.number}] {refusal}.') from None
    if point is None:
      return
    if command.name == 'hover':
      await tab.move(*point)
      return
    await tab.page.mouse.click(*point)
    if command.name == 'type':
      await keyboard.replace(tab.page, command.text, enter=command.enter)

  async def _press(self, tab: Tab, text: str) -> None:
    keys = keyboard.read_keys(text)
    if use := keyboard.CLIPBOARD.get(keys):
      await self._use_clipboard(tab, use)
    else:
      await tab.page.keyboard.press(keys)

  async def _use_clipboard(self, tab: Tab, use: str) -> None:
    if use != 'paste':
      text = await tab.call(keyboard.COPY, use == 'cut')
      self._clipboard = text or self._clipboard
    elif self._clipboard:
      await tab.page.keyboard.insert_text(self._clipboard)

  def _on_page(self, page: Page) -> None:
    task = asyncio.ensure_future(self._adopt(page))
    self._adopting.add(task)
    task.add_done_callback(self._adopting.discard)

  async def _adopt(self, page: Page) -> None:
    """Stops the clock of a page, whoever opened it; `settle` makes it a tab."""
    page.on('download', self._on_download)
    page.on('crash', self._on_crash)
    page.on('close', self._on_close)
    try:
      tab = Tab(page, await self.context.new_cdp_session(page))
      await tab.start()
      about = (await tab.session.send('Target.getTargetInfo'))['targetInfo']
    except (Error, EnvError):  # it, or all of them, was closed at once
      return
    tab.target, self._group = about['targetId'], about['browserContextId']
    self._targets.add(tab.target)
    self._new.append(tab)

  async def _adopted(self) -> None:
    """Makes tabs of the pages that were opened, and shows the last one.

    Playwright names a page only when its first document has come.
    """
    deadline = time.monotonic() + tab_lib.LOAD_S
    while True:
      await self._adopt_all()
      if not self._tabs:
        return
      reply = await self._tabs[0].session.send('Target.getTargets')
      late = {
          target['targetId']
          for target in reply['targetInfos']
          if target['type'] == 'page'
          and target.get('browserContextId') == self._group
      } - self._targets
      if not late:
        return
      if time.monotonic() > deadline:
        self._note(f'A new tab has no page yet, after {tab_lib.LOAD_S:g} s.')
        self._targets |= late
        return
      await asyncio.sleep(0.01)

  async def _adopt_all(self) -> None:
    while self._adopting:
      await asyncio.wait(self._adopting)
    new, self._new = self._new, []
    for tab in new:
      if tab.page.is_closed():
        continue
      if len(self._tabs) >= _MAX_TABS:
        self._note(f'A page wanted more than {_MAX_TABS} tabs.')
        await tab.page.close()
        continue
      self._tabs.append(tab)
      self._current = tab

  @_unless_crashed
  async def settle(self) -> None:
    """Lets time pass in the current tab, and in those that were just opened."""
    await self._adopted()
    if not self._tabs:  # the last one was closed
      await self.context.new_page()
      await self._adopted()
    for tab in [x for x in self._tabs if x is self._current or not x.settled]:
      try:
        self._note(await tab.settle(STEP_MS))
      except Error:
        if not tab.page.is_closed():
          raise
    await self._adopted()
    if not all(tab.settled for tab in self._tabs) or not self._tabs:
      await self.settle()  # some were opened, or the last was closed

  def _note(self, text: str) -> None:
    if text and len(self._notes) < _MAX_NOTES:
      self._notes.append(text)

  def _on_dialog(self, dialog: Dialog) -> None:
    self._note(
        f'A dialog of kind {dialog.type} was accepted: {dialog.message:.500}'
    )
    task = asyncio.ensure_future(dialog.accept())
    task.add_done_callback(lambda x: x.cancelled() or x.exception())

  def _on_download(self, download: Download) -> None:
    self._note(f'A download was refused: {download.suggested_filename:.200}')

  def _on_crash(self, page: Page) -> None:
    del page
    self._crash.set()

  def _on_close(self, page: Page) -> None:
    gone = [tab for tab in self._tabs if tab.page is page]
    self._tabs = [tab for tab in self._tabs if tab.page is not page]
    if gone and gone[0] is self._current:
      self._current = self._tabs[-1] if self._tabs else None
