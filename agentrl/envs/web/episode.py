"""One episode in the browser, as an environment's server sees it.

Environments on the browser differ in how an episode begins and in what ends
it; the tabs between, and the text that a policy gets of them, are the same.
"""

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentrl.envs.web import commands, page_text
from agentrl.envs.web.browser import Browser
from agentrl.envs.web.commands import Command, Refused
from agentrl.envs.web.hosts import Hosts
from agentrl.envs.web.nodes import Node
from agentrl.envs.web.tabs import Tabs, View
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

OBSERVE = ('page', 'viewport', 'html')
STYLES = ('full', 'compact', 'lean', 'controls')
NAVIGATION = ('always', 'first', 'never')
MAX_EPISODES = 64
CALL_S = 40.0  # of a reset or a step, all waits together
_QUEUE_S = 120.0  # for its turn to open a page
MOST_CHARS = 16_000  # of an observation
_LEAST_CHARS = 100

Begin = Callable[[Tabs], Awaitable[str]]
Judge = Callable[[Tabs, Command], Awaitable[tuple[bool, float]]]


@dataclasses.dataclass(frozen=True)
class Look:
  """Settings of how a page is told.

  Attributes:
    observe: 'page' or 'viewport' for the accessibility tree, or 'html'.
    style: 'full' as WebArena's; 'compact' without address, tabs and, after the
      first observation, objective; 'lean' as that, with the nodes as
      `page_text.lean` writes them; 'controls' as that, without their texts.
    navigation: 'first': what all pages of a site share is told in the first
      observation alone; 'never': not at all, for tasks on the page that they
      begin on.
    most_chars: of a page; what follows is left out, with the number of its lines.

  Raises:
    ConfigError: one is unknown or out of range, or has no effect on HTML.
  """

  observe: str = 'page'
  style: str = 'full'
  navigation: str = 'always'
  most_chars: int = MOST_CHARS

  def __post_init__(self):
    most = self.most_chars
    if type(most) is not int or not _LEAST_CHARS <= most <= MOST_CHARS:
      raise ConfigError(
          f'most_chars must be {_LEAST_CHARS} to {MOST_CHARS}, got {most!r}.'
      )
    for name, choices in (
        ('observe', OBSERVE),
        ('style', STYLES),
        ('navigation', NAVIGATION),
    ):
      value = getattr(self, name)
      if value not in choices:
        raise ConfigError(
            f'Unknown {name} {value!r}; known: {", ".join(choices)}.'
        )
    of_tree = (
        ('style', 'lean'),
        ('style', 'controls'),
        ('navigation', 'first'),
        ('navigation', 'never'),
    )
    for name, value in of_tree:
      if self.observe == 'html' and getattr(self, name) == value:
        raise ConfigError(
            f'{name}={value!r} is for the accessibility tree: use'
            " observe='page' or 'viewport'."
        )

  def write(self, nodes: Sequence[Node], *, first: bool) -> str:
    """Nodes as text; `first`: of the first observation."""
    if self.observe == 'html':
      return page_text.html(nodes)
    if self.navigation == 'never' or self.navigation == 'first' and not first:
      nodes = [node for node in nodes if not node.navigation]
    if self.style in ('lean', 'controls'):
      return page_text.lean(nodes, texts=self.style == 'lean')
    return page_text.tree(nodes)


def check_episodes(episodes: int) -> None:
  """Refuses a number of episodes at a time that is out of range.

  Raises:
    ConfigError: it is.
  """
  if not isinstance(episodes, int) or not 1 <= episodes <= MAX_EPISODES:
    raise ConfigError(
        f'episodes must be 1 to {MAX_EPISODES}, got {episodes!r}.'
    )


class Episode:
  """The tabs of one episode after the other, and the text of each view.

  Args:
    env: name of the environment, for errors.
    browser: of all episodes.
    hosts: what pages may reach.
    look: how pages are told.
    size: of the viewport, in pixels.
  """

  def __init__(
      self,
      env: str,
      browser: Browser,
      hosts: Hosts,
      *,
      look: Look,
      size: tuple[int, int],
  ):
    self._env, self._browser, self._hosts = env, browser, hosts
    self._look, self._size = look, size
    self._lock = threading.Lock()  # of the next two
    self._tabs: Tabs | None = None
    self._closed = False
    self.objective = ''
    self.past: list[str] = []  # commands that were done
    self.text = ''
    self._view: View | None = None
    self._pictured = False
    self._last_picture = b''

  @property
  def nodes(self) -> Sequence[Node]:
    """The nodes of the last view.

    Raises:
      EnvError: no episode runs.
    """
    self._held()
    return self._seen.nodes

  @property
  def url(self) -> str:
    """The address of the last view, as policies see it."""
    self._held()
    return self._hosts.shown(self._seen.url)

  def begin(self, opening: Begin, **context: Any) -> str:
    """Ends the last episode and begins another.

    Args:
      opening: opens the first page in the tabs, and returns the objective.
      **context: of Playwright's `new_context`.

    Returns:
      The first observation.
    """
    self.end()
    self.objective, self.past, self._view = '', [], None
    self._pictured, self._last_picture = False, b''
    tabs = Tabs(self._browser, self._hosts, *self._size, **context)
    with self._lock:
      if self._closed:
        raise EnvError('The episode was closed.')
      self._tabs = tabs
    try:
      self._browser.call(self._begin(tabs, opening), CALL_S + _QUEUE_S)
    except BaseException:
      self.end()
      raise
    self.text = self._observed('None')
    return self.text

  def step(self, action: str, judge: Judge) -> StepResult:
    """Does a command; one that is refused changes nothing but the text.

    Args:
      action: a policy's.
      judge: gives end and reward after a command; it has not been done if it
        is `stop`.
    """
    tabs = self._held()
    try:
      command = commands.parse(action)
      ended, reward = self._browser.call(self._do(tabs, command, judge), CALL_S)
    except Refused as refusal:
      self.text = self._observed(f'{action:.200}', str(refusal))
      return StepResult(self.text, 0.0, False)
    except BaseException:
      self.end()
      raise
    self.past.append(action)
    self.text = self._observed(f'{action:.200}')
    if ended:
      if self._pictured and not self._last_picture:
        self._last_picture = self.picture()
      self.end()
    return StepResult(
        observation=self.text,
        reward=reward,
        terminated=ended,
        success=ended and reward >= 1.0,
    )

  def available_actions(self) -> list[str]:
    """All clicks, and the forms of the other commands."""
    numbered = [f'click [{node.number}]' for node in self.nodes]
    return [
        *numbered,
        *(form for name, form in commands.FORMS.items() if name != 'click'),
    ]

  def picture(self) -> bytes:
    """The viewport as a PNG file; of an episode that has ended, the last."""
    self._pictured = True
    if self._last_picture:
      return self._last_picture
    return self._browser.call(self._held().picture(), CALL_S)

  def boxes(self) -> dict[int, list[float]]:
    """Left, top, width and height of elements in the picture, by number."""
    return self._browser.call(self._held().boxes(self._seen.nodes), CALL_S)

  async def keep_picture(self, tabs: Tabs) -> None:
    """Keeps the last picture of tabs that are about to be closed."""
    if self._pictured:
      self._last_picture = await tabs.picture()

  def end(self) -> None:
    """Ends the episode that runs, if one does; from any thread."""
    with self._lock:
      tabs, self._tabs = self._tabs, None
    if tabs is not None:
      tabs.close()

  def close(self) -> None:
    """Ends the episode and begins no other."""
    with self._lock:
      self._closed = True
    self.end()

  async def _begin(self, tabs: Tabs, opening: Begin) -> None:
    async with self._browser.opening:
      # The wait for its turn is not the page's fault.
      try:
        async with asyncio.timeout(CALL_S):
          self.objective = await opening(tabs)
          self._view = await tabs.view(self._look.observe)
      except TimeoutError as error:
        raise EnvError(
            f'The first page did not come within {CALL_S:g} s.'
        ) from error

  async def _do(
      self, tabs: Tabs, command: Command, judge: Judge
  ) -> tuple[bool, float]:
    if command.name != 'stop':
      await tabs.do(command)
    ended, reward = await judge(tabs, command)
    if command.name != 'stop':
      self._view = await tabs.view(self._look.observe)
    return ended, float(reward)

  def _observed(self, previous: str, error: str = '') -> str:
    """The text of the current view."""
    view = self._seen
    begins = not self.past and not error
    content = self._hosts.shown(self._look.write(view.nodes, first=begins))
    if len(content) > (most := self._look.most_chars):
      left = content.count('\n', most)
      content = f'{content[:most]}\n... ({left} more lines)'
    notes = [self._hosts.shown(note) for note in (*view.notes, error) if note]
    tabs = ' | '.join(
        f'Tab {k}{" (current)" * (k == view.current)}: {title:.80}'
        for k, title in enumerate(view.titles)
    )
    if self._look.style != 'full':
      first = [self.objective] if begins else []
      more = [tabs] if len(view.titles) > 1 else []
      return '\n'.join([*first, *notes, *more, content])
    return '\n'.join([
        *notes,
        'OBSERVATION:',
        tabs,
        '',
        content,
        f'URL: {self._hosts.shown(view.url)}',
        f'OBJECTIVE: {self.objective}',
        f'PREVIOUS ACTION: {previous}',
    ])

  @property
  def _seen(self) -> View:
    """The last view of an episode that has begun."""
    assert self._view is not None
    return self._view

  def _held(self) -> Tabs:
    with self._lock:
      tabs = self._tabs
    if tabs is None:
      raise EnvError(f'The {self._env} episode is not running; reset it first.')
    return tabs
