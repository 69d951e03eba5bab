"""WebArena's environment on hosts of the user's: one episode of a public task."""

import importlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging
from playwright.async_api import Page

from agentrl.envs.web import episode as episode_lib, har as har_lib
from agentrl.envs.web.browser import Browser
from agentrl.envs.web.commands import Command, Refused
from agentrl.envs.web.episode import Episode, Look
from agentrl.envs.web.hosts import Hosts
from agentrl.envs.web.tabs import Tabs
from agentrl.envs.webarena.public import (
    events,
    grade,
    sites,
    tasks as task_table,
)
from agentrl.envs.webarena.public.form import PublicTask
from agentrl.envs.webarena.public.raw import Counting, Judge
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

_SIZE = (1280, 720)  # of the viewport, as the original's


class PublicWebArena:
  """Reach an objective on real sites, and end with `stop`.

  The return is the score of the task's own evaluators. Sites keep what was
  done to them: reset them yourself before an evaluation that is to count.

  Args:
    browser: of all episodes.
    hosts: what pages may reach.
    urls: site -> its URL.
    tasks: by id.
    context: further arguments of Playwright's `new_context`.
    accounts: site -> `name:password` of those that sign in by a header.
    judge: compares answers by meaning; None: tasks that need one are refused.
    har: folder for a HAR file an episode; None: none is kept.
    look: how pages are told.
  """

  def __init__(
      self,
      browser: Browser,
      hosts: Hosts,
      urls: Mapping[str, str],
      tasks: Mapping[int, PublicTask],
      *,
      context: Mapping[str, Any],
      accounts: Mapping[str, str],
      judge: Judge | None,
      har: pathlib.Path | None,
      look: Look,
  ):
    self._hosts, self._urls, self._tasks = hosts, urls, tasks
    self._context, self._accounts, self._judge_of = context, accounts, judge
    self._har_folder = har
    self._episode = Episode('WebArena', browser, hosts, look=look, size=_SIZE)
    self._task: PublicTask | None = None
    self._har: pathlib.Path | None = None

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # the sites' state is theirs
    if task_id not in self._tasks:
      chosen = f'{len(self._tasks)} tasks with ids'
      raise EnvError(
          f'WebArena task {task_id} cannot be played here; this server has'
          f' {chosen} {min(self._tasks)} to {max(self._tasks)}.'
      )
    self._task = self._tasks[task_id]
    context = dict(self._context)
    if headers := self._headers():
      context['extra_http_headers'] = headers
    self._forget_har()
    if self._har_folder is not None or not self._task.raw:
      self._har = har_lib.path(self._har_folder, task_id)
      # Those that are graded by requests need their bodies.
      context |= har_lib.recording(self._har, bodies=not self._task.raw)
    return self._episode.begin(self._open, **context)

  def details(self) -> dict[str, Any]:
    """AgentGym's further fields of a /reset reply."""
    if self._task is None:
      return {}
    return {'sites': list(self._task.sites), 'object': self._task.intent}

  def step(self, action: str) -> StepResult:
    return self._episode.step(action, self._judge)

  def available_actions(self) -> list[str]:
    return self._episode.available_actions()

  def expert_action(self) -> str:
    raise EnvError("WebArena's public tasks have no expert.")

  def query(self, name: str) -> dict[int, list[float]]:
    """The 'boxes' of elements in the picture, by number."""
    return {'boxes': self._episode.boxes}[name]()

  def picture(self) -> bytes:
    return self._episode.picture()

  def close(self) -> None:
    self._episode.close()
    self._forget_har()

  @property
  def _played(self) -> PublicTask:
    """The task of an episode that has begun."""
    assert self._task is not None
    return self._task

  def _headers(self) -> Mapping[str, str]:
    return sites.login_headers(
        {
            site: account
            for site, account in self._accounts.items()
            if site in self._played.sites
        },
        self._played.sites,
    )

  async def _open(self, tabs: Tabs) -> str:
    await self._probe()
    try:
      first, *others = [
          self._hosts.check(url)
          for url in task_table.start_urls(self._played, self._urls)
      ]
    except Refused as refusal:
      raise EnvError(
          f'WebArena task {self._played.id} cannot begin: {refusal}'
      ) from refusal
    await tabs.open(first)
    for url in others:
      await tabs.add(url)
    return self._played.intent

  async def _probe(self) -> None:
    """Raises EnvError if a site of the task is dead.

    That must not be taken for a policy's failure.
    """
    mine = {site: self._urls[site] for site in self._played.sites}
    await sites.probe(mine, self._headers())

  async def _judge(self, tabs: Tabs, command: Command) -> tuple[bool, float]:
    if command.name != 'stop':
      if tabs.page.url.startswith('chrome-error:'):
        await self._probe()
      return False, 0.0
    entries: Sequence[events.Entry] = ()
    page: Page | None = tabs.page
    if not self._played.raw:
      await self._episode.keep_picture(tabs)
      await tabs.context.close()  # which writes the file
      assert self._har is not None  # `reset` made one
      entries = events.read_har(self._har)
      page = None
    score = await grade.evaluate(
        self._played,
        self._urls,
        answer=command.text,
        page=page,
        entries=entries,
        judge=self._judge_of,
        headers=self._headers(),
    )
    if not score:  # a site that died meanwhile may be why
      await self._probe()
    return True, score

  def _forget_har(self) -> None:
    """Removes the last episode's file unless it was asked for."""
    har, self._har = self._har, None
    if har is not None and self._har_folder is None:
      har.unlink(missing_ok=True)


class PublicFactory:
  """Makes environments of public tasks; holds their browser.

  Sites are where the environment variables of `sites.VARIABLES` say.

  Args:
    tasks: a name in `tasks.SUBSETS`.
    task_file: in place of the wheel's; None: that.
    judge: `module:function` of a `raw.Judge`; None: there is none.
    storage_state: file of Playwright's with cookies of signed-in visitors.
    accounts: JSON file of site -> `name:password`, see `sites.login_headers`;
      None: nobody signs in by a header.
    har: folder for a HAR file an episode; None: none is kept.
    observe: what a policy sees of a page, see `web.episode.Look`.
    style: how it is told, see there.
    navigation: when what all pages share is told, see there.
    most_chars: of a page, see there.
    episodes: most that play at a time, each a page of the browser.
    chromium: its executable; None: one that is found.
  """

  inline = ()

  def __init__(
      self,
      *,
      tasks: str,
      task_file: str | None,
      judge: str | None,
      storage_state: str | None,
      accounts: str | None,
      har: str | None,
      observe: str,
      style: str,
      navigation: str,
      most_chars: int,
      episodes: int,
      chromium: str | None,
  ):
    look = Look(observe, style, navigation, most_chars)
    episode_lib.check_episodes(episodes)
    urls = sites.from_environment()
    table = task_table.load(tasks, task_file or '')
    chosen = choose(tasks, task_file, judge)
    signed_in = read_accounts(accounts)
    context: dict[str, Any] = {}
    if storage_state:
      context['storage_state'] = sites.read_storage_state(storage_state)
    self.slots = episodes
    self.threads = episodes  # they wait for the browser
    self._urls = urls
    self._tasks = {task_id: table[task_id] for task_id in chosen}
    self._options: dict[str, Any] = dict(
        context=context,
        accounts=signed_in,
        judge=load_judge(judge),
        har=har_lib.folder(har),
        look=look,
    )
    origins = {sites.origin(url) for url in urls.values()}
    self._hosts = Hosts.of({origin: origin for origin in sorted(origins)})
    self._browser = Browser(self._hosts, chromium)

  def make(self) -> PublicWebArena:
    return PublicWebArena(
        self._browser, self._hosts, self._urls, self._tasks, **self._options
    )

  def gauges(self) -> dict[str, float]:
    judge = self._options['judge']
    return {
        'browser_contexts': self._browser.contexts,
        'browser_restarts': self._browser.restarts,
        **(judge.gauges() if isinstance(judge, Counting) else {}),
    }

  def close(self) -> None:
    self._browser.close()


def choose(
    tasks: str, task_file: str | None, judge: str | None
) -> Sequence[int]:
  """The ids of a subset that can be played, saying which cannot.

  Raises:
    ConfigError: none can.
  """
  choice = task_table.ids(
      tasks,
      sites.from_environment(),
      judge=judge is not None,
      task_file=task_file or '',
  )
  skipped = '; '.join(f'{n}: {why}' for why, n in choice.skipped.items())
  if not choice.ids:
    raise ConfigError(
        f'No task of {tasks!r} can be played: {skipped}. Set'
        f' {", ".join(sites.VARIABLES.values())} to the addresses of the sites.'
    )
  if skipped:
    logging.warning(
        "%d of WebArena's %s tasks can be played. Skipped: %s.",
        len(choice.ids),
        tasks,
        skipped,
    )
  return choice.ids


def read_accounts(path: str | None) -> Mapping[str, str]:
  """Site -> `name:password` from a JSON file.

  Raises:
    ConfigError: it has another form.
    EnvError: it cannot be read.
  """
  if path is None:
    return {}
  try:
    accounts = json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
  except OSError as error:
    raise EnvError(f'{path} cannot be read: {error.strerror}.') from error
  except ValueError as error:
    raise ConfigError(f'{path} is no JSON file: {error}.') from error
  if not isinstance(accounts, dict) or not all(
      isinstance(account, str) for account in accounts.values()
  ):
    raise ConfigError(f'{path} must map sites to name:password.')
  sites.login_headers(accounts, accounts)  # refuses unknown ones
  return accounts


def load_judge(name: str | None) -> Judge | None:
  """The function that an option names as `module:function`.

  Raises:
    ConfigError: there is none.
  """
  if name is None:
    return None
  module, _, function = name.partition(':')
  try:
    judge = getattr(importlib.import_module(module), function)
  except (ImportError, AttributeError, ValueError) as error:
    raise ConfigError(
        f'judge={name!r} is no module:function: {error}.'
    ) from error
  if not callable(judge):
    raise ConfigError(f'judge={name!r} cannot be called.')
  return judge
