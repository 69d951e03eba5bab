"""MiniWoB++: one episode of a page's problem.

Pages and their rewards are the wheel's. The reward is the raw one, -1 to 1,
which the clock does not scale; the page's own timer is out of reach, and turns
end an episode.
"""

from collections.abc import Sequence
from typing import Any

from agentrl.envs.miniwob import experts, site as site_lib, tasks as task_table
from agentrl.envs.miniwob.site import ORIGIN, Site
from agentrl.envs.web import episode as episode_lib
from agentrl.envs.web.browser import Browser
from agentrl.envs.web.commands import Command
from agentrl.envs.web.episode import Episode, Look
from agentrl.envs.web.hosts import Hosts
from agentrl.envs.web.situation import Situation
from agentrl.envs.web.tabs import Tabs
from agentrl.errors import EnvError
from agentrl.types import StepResult

_SIZE = (480, 320)  # of the viewport; a page is 160 wide and about 210 high

# One call: a draw between seed and start would change the problem. The longest
# delay that timers know keeps the page's own clock from ending the episode.
_START = """([seed, mode]) => {
  if (typeof core === 'undefined') return null;
  const style = document.createElement('style');
  style.textContent = '#reward-display,#click-canvas,#sync-task-cover' +
      '{display:none!important} #query,#query-pretty,#reward-reason' +
      '{visibility:hidden!important}';
  document.head.appendChild(style);
  core.EPISODE_MAX_TIME = 2147483647;
  if (core.setDataMode) core.setDataMode(mode);
  Math.seedrandom(seed);
  core.startEpisodeReal();
  return true;
}"""
_READY = """() => {
  if (!WOB_TASK_READY) return null;
  const said = core.getUtterance();
  return typeof said === 'string' ? said : said.utterance;
}"""
_STATE = """() => {
  if (typeof core === 'undefined' || core.ept0 === null) return null;
  return [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL];
}"""


class MiniWoB:
  """Do what the objective says on a small web page.

  The return is the page's own, -1 for a wrong end, up to 1; it is 0 where the
  page has not ended, by `stop`, by leaving it, or as the turns are used up.

  Args:
    browser: of all episodes.
    origin: address of the site.
    hosts: what pages may reach.
    pages: that may be played.
    look: how pages are told.
  """

  def __init__(
      self,
      browser: Browser,
      hosts: Hosts,
      origin: str,
      *,
      pages: Sequence[str],
      look: Look,
  ):
    self._origin, self._pages = origin, pages
    self._episode = Episode('MiniWoB', browser, hosts, look=look, size=_SIZE)
    self._page_of_task: Any = None
    self._task_id = -1

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # the task has one
    page = task_table.page_of(task_id)
    if page not in self._pages:
      raise EnvError(
          f'MiniWoB task {task_id} is {page}; this server has only'
          f' {", ".join(self._pages)}.'
      )
    self._task_id = task_id
    return self._episode.begin(self._open)

  def details(self) -> dict[str, Any]:
    """AgentGym's further fields of a /reset reply."""
    if not self._episode.objective:
      return {}
    return {'sites': ['miniwob'], 'object': self._episode.objective}

  def step(self, action: str) -> StepResult:
    return self._episode.step(action, self._judge)

  def available_actions(self) -> list[str]:
    return self._episode.available_actions()

  def expert_action(self) -> str:
    nodes = self._episode.nodes
    return experts.action(
        task_table.page_of(self._task_id),
        Situation(self._episode.objective, nodes, tuple(self._episode.past)),
    )

  def query(self, name: str) -> dict[int, list[float]]:
    """The 'boxes' of elements in the picture, by number."""
    return {'boxes': self._episode.boxes}[name]()

  def picture(self) -> bytes:
    return self._episode.picture()

  def close(self) -> None:
    self._episode.close()

  async def _open(self, tabs: Tabs) -> str:
    page = task_table.page_of(self._task_id)
    await tabs.open(self._origin + site_lib.path_of(page))
    self._page_of_task = tabs.page
    seed = task_table.seed_of(self._task_id)
    mode = 'test' if task_table.is_test(self._task_id) else 'train'
    if not await tabs.page.evaluate(_START, [seed, mode]):
      raise EnvError(f'MiniWoB page {page} did not load.')
    await tabs.settle()
    objective = await tabs.page.evaluate(_READY)
    if objective is None:
      raise EnvError(f'MiniWoB page {page} did not become ready.')
    return objective

  async def _judge(self, tabs: Tabs, command: Command) -> tuple[bool, float]:
    del tabs
    if command.name == 'stop':
      return True, 0.0
    state = None
    if not self._page_of_task.is_closed():
      state = await self._page_of_task.evaluate(_STATE)
    return state or (True, 0.0)  # it was left


class MiniWoBFactory:
  """Makes MiniWoB's environments; holds their browser and the site.

  Args:
    tasks: pages that may be played, see `tasks.check`.
    split_by: how pages and seeds are split, see `tasks.tasks`.
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
      tasks: str | Sequence[str] = 'expert',
      split_by: str = 'seed',
      observe: str = 'page',
      style: str = 'full',
      navigation: str = 'always',
      most_chars: int = episode_lib.MOST_CHARS,
      episodes: int = 32,
      chromium: str | None = None,
  ):
    del split_by  # it chooses task ids
    look = Look(observe, style, navigation, most_chars)
    episode_lib.check_episodes(episodes)
    self.slots = episodes
    self.threads = episodes  # they wait for the browser
    self._options: dict[str, Any] = dict(
        pages=task_table.check(tasks), look=look
    )
    self._site = Site(site_lib.folder())
    self._hosts = Hosts.of({ORIGIN: self._site.url})
    self._browser = Browser(self._hosts, chromium)
    self._browser.call(self._site.start(), episode_lib.CALL_S)

  def make(self) -> MiniWoB:
    return MiniWoB(self._browser, self._hosts, self._site.url, **self._options)

  def gauges(self) -> dict[str, float]:
    return {
        'browser_contexts': self._browser.contexts,
        'browser_restarts': self._browser.restarts,
    }

  def close(self) -> None:
    self._browser.call(self._site.stop(), episode_lib.CALL_S)
    self._browser.close()
