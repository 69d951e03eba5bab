"""WebArena's environment on our own sites: one episode of a task."""

import pathlib
import sqlite3
from collections.abc import Sequence
from typing import Any

from agentrl.envs.web import episode as episode_lib, har as har_lib
from agentrl.envs.web.browser import Browser
from agentrl.envs.web.commands import Command
from agentrl.envs.web.episode import Episode, Look
from agentrl.envs.web.hosts import Hosts
from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import Stuck
from agentrl.envs.web.tabs import Tabs
from agentrl.envs.webarena import expert
from agentrl.envs.webarena.server import COOKIE, Server
from agentrl.errors import ConfigError, EnvError
from agentrl.sites import goals, table
from agentrl.sites.admin.site import SITE as ADMIN
from agentrl.sites.forge.site import SITE as FORGE
from agentrl.sites.forum.site import SITE as FORUM
from agentrl.sites.goals import Outcome
from agentrl.sites.records import Records
from agentrl.sites.shop.site import SITE as SHOP
from agentrl.sites.state import Faults, State
from agentrl.sites.store import Store
from agentrl.sites.task import Task
from agentrl.types import StepResult

SITES = (SHOP, ADMIN, FORUM, FORGE)
_SIZE = (1280, 720)  # of the viewport, as the original's


class WebArena:
  """Reach an objective on the sites, and end with `stop`.

  The return is 1 if the goal was reached and nothing else was changed, else 0.

  Args:
    browser: of all episodes.
    hosts: what pages may reach.
    server: of the sites.
    records: that episodes begin with, and the tasks.
    faults: troubles of the sites.
    look: how pages are told.
    har: folder for a HAR file an episode; None: none is kept.
  """

  def __init__(
      self,
      browser: Browser,
      hosts: Hosts,
      server: Server,
      records: Records,
      *,
      faults: Faults,
      look: Look,
      har: pathlib.Path | None = None,
  ):
    self._browser, self._hosts, self._server = browser, hosts, server
    self._records, self._faults = records, faults
    self._look, self._har = look, har
    self._episode = Episode('WebArena', browser, hosts, look=look, size=_SIZE)
    self._task_id = -1
    self._site = ''
    self.task: Task | None = None
    self._state: State | None = None
    self._key = ''
    self._why = ''  # the expert has no next step
    self._way_back: str | None = None
    self._place = 0  # of the expert's next step
    self._next: str | None = None  # its command; None: it has lost its way
    self.outcome: Outcome | None = None  # of the last episode that has ended

  def reset(self, task_id: int, seed: int) -> str:
    self._task_id = task_id
    self.task = self._records.task(task_id)
    self._site, _, _ = table.find(task_id)
    self._let_go()
    self._state = State(
        self._records.stores(task_id), self._faults, f'{task_id}/{seed}'
    )
    self._key = self._server.open(self._state)
    self._place, self.outcome = 0, None
    context = {}
    if self._har is not None:
      context = har_lib.recording(har_lib.path(self._har, task_id))
    text = self._episode.begin(self._open, **context)
    self._find_next()
    return text

  def details(self) -> dict[str, Any]:
    """AgentGym's further fields of a /reset reply."""
    if self.task is None:
      return {}
    return {'sites': [self._site], 'object': self.task.intent}

  def step(self, action: str) -> StepResult:
    before = len(self._episode.past)
    result = self._episode.step(action, self._judge)
    if len(self._episode.past) == before:
      return result  # it was refused
    if self._next == action and not result.terminated:
      self._place += self._way_back is None
      self._find_next()
    else:
      self._next, self._why = None, 'other commands were given before.'
    return result

  def available_actions(self) -> list[str]:
    return self._episode.available_actions()

  def expert_action(self) -> str:
    if self._look.observe != 'page':
      raise EnvError(
          "WebArena's expert needs to see whole pages: env.options.observe"
          " must be 'page'."
      )
    _ = self._episode.nodes  # an episode must run
    if self._next is None:
      raise EnvError(
          f'The expert of WebArena task {self._task_id} has no way on:'
          f' {self._why}'
      )
    return self._next

  @property
  def nodes(self) -> Sequence[Node]:
    """The nodes of the page that is shown."""
    return self._episode.nodes

  def store_of(self, site: str) -> Store:
    """The records of a site as the episode began."""
    name = next(each.store for each in SITES if each.name == site)
    return self._records.stores(self._task_id)[name]

  def copy_of(self, site: str) -> sqlite3.Connection:
    """The records of a site as the episode has left them."""
    assert self._state is not None  # an episode has begun
    return self._state.copy(self.store_of(site).name)

  def query(self, name: str) -> dict[int, list[float]]:
    """The 'boxes' of elements in the picture, by number."""
    return {'boxes': self._episode.boxes}[name]()

  def picture(self) -> bytes:
    return self._episode.picture()

  def close(self) -> None:
    self._episode.close()
    self._let_go()

  def _find_next(self) -> None:
    """Finds the expert's next command on the page that is shown."""
    self._way_back = expert.way_back(self._episode.nodes)
    assert self.task is not None  # an episode has begun
    step = self.task.steps[self._place]
    try:
      self._next = self._way_back or expert.command(step, self._episode.nodes)
    except Stuck as error:
      self._next, self._why = None, str(error)

  async def _open(self, tabs: Tabs) -> str:
    assert self.task is not None  # the one to be reset to
    addresses = [self._hosts.check(url) for url in self.task.start]
    await tabs.open(
        addresses[0],
        [
            {'name': COOKIE, 'value': self._key, 'url': url, 'httpOnly': True}
            for url in self._server.urls.values()
        ],
    )
    for url in addresses[1:]:
      await tabs.add(url)
    return self.task.intent

  async def _judge(self, tabs: Tabs, command: Command) -> tuple[bool, float]:
    assert self.task is not None and self._state is not None
    if self._state.failure:
      raise EnvError(
          f'The records of WebArena task {self._task_id} cannot be used; reset'
          f' it again: {self._state.failure}'
      )
    if command.name != 'stop':
      return False, 0.0
    self.outcome = Outcome(
        answer=command.text,
        changes=self._state.changes(),
        url=self._hosts.shown(tabs.page.url),
        requests=tuple(self._state.requests),
    )
    return True, float(goals.reached(self.task.goal, self.outcome))

  def _let_go(self) -> None:
    key, self._key = self._key, ''
    if key:
      self._browser.soon(self._server.close, key)


class WebArenaFactory:
  """Makes WebArena's environments; holds their browser, sites and records.

  Args:
    tasks: see `tasks.chosen`.
    split_by: how tasks are split, see `tasks.tasks`.
    observe: what a policy sees of a page, see `web.episode.Look`.
    style: how it is told, see there.
    navigation: when what all pages share is told, see there.
    most_chars: of a page, see there.
    episodes: most that play at a time, each a page of the browser.
    slow: share of pages that come half a second late.
    errors: share of pages that fail once with status 500.
    session: pages after which a visitor has to sign in again; 0: never.
    har: folder for a HAR file an episode; None: none is kept.
    chromium: its executable; None: one that is found.
  """

  inline = ()

  def __init__(
      self,
      *,
      tasks: str | Sequence[str] = 'own',
      split_by: str = 'template',
      observe: str = 'page',
      style: str = 'full',
      navigation: str = 'always',
      most_chars: int = episode_lib.MOST_CHARS,
      episodes: int = 32,
      slow: float = 0.0,
      errors: float = 0.0,
      session: int = 0,
      har: str | None = None,
      chromium: str | None = None,
  ):
    del split_by  # it chooses task ids
    table.chosen(tasks)
    look = Look(observe, style, navigation, most_chars)
    episode_lib.check_episodes(episodes)
    for name, share in (('slow', slow), ('errors', errors)):
      if not 0.0 <= share <= 0.5:
        raise ConfigError(f'{name} must be 0 to 0.5, got {share!r}.')
    if not isinstance(session, int) or session < 0:
      raise ConfigError(f'session must be 0 or more, got {session!r}.')
    self.slots = episodes
    self.threads = episodes  # they wait for the browser
    self._options: dict[str, Any] = dict(
        faults=Faults(slow=slow, errors=errors, session=session),
        look=look,
        har=har_lib.folder(har),
    )
    self._records = Records()
    self._server = Server(SITES)
    self._hosts = Hosts.of(
        {f'http://{name}': url for name, url in self._server.urls.items()}
    )
    self._browser = Browser(self._hosts, chromium)
    self._browser.call(self._server.start(), episode_lib.CALL_S)

  def make(self) -> WebArena:
    return WebArena(
        self._browser,
        self._hosts,
        self._server,
        self._records,
        **self._options,
    )

  def gauges(self) -> dict[str, float]:
    return {
        'browser_contexts': self._browser.contexts,
        'browser_restarts': self._browser.restarts,
    }

  def close(self) -> None:
    self._browser.call(self._server.stop(), episode_lib.CALL_S)
    self._browser.close()
