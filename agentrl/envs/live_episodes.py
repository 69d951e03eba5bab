"""The live episodes of a server: numbered, limited, leased, queued."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from absl import logging

from agentrl import plugins
from agentrl.envs import faults
from agentrl.envs.base import Detailed, Env

# Threads that close environments, which may wait for a process or a server.
_CLOSERS = 32


class UnknownEpisode(Exception):
  """No live episode has this number."""


class TooManyEpisodes(Exception):
  """The limit on live episodes is reached."""


class GivenUp(Exception):
  """The episode was closed while it waited for its turn."""


def close_env(env: Env, name: str) -> None:
  """Closes an environment; what it raises is logged.

  Args:
    env: the environment.
    name: of it, in the log.
  """
  try:
    env.close()
  except Exception as error:  # the edge: a user's code may raise anything
    words = plugins.words(error)
    logging.error('%s (environment %s, close)', words, name, exc_info=error)


@dataclasses.dataclass
class LiveEpisode:
  """One client's environment and how far it got.

  `lock` keeps its calls apart: environments are not made for two at once.
  """

  env: Env
  last_used: float
  lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
  admitted: bool = False  # has one of the world's slots
  waiting: asyncio.Future | None = None  # for one
  closed: bool = False
  started: bool = False
  ended: bool = False
  observation: str = ''  # the last one
  steps: int = 0  # that were asked for since the reset
  reward: float = 0.0  # of the last step
  score: float = 0.0  # sum since the reset

  @property
  def details(self) -> dict[str, Any]:
    """Fields that only this environment has."""
    if not isinstance(self.env, Detailed):
      return {}
    details = self.env.details()
    faults.check('details', details, f'step {self.steps}')
    return details

  @property
  def state(self) -> dict[str, Any]:
    """The reply of AgentGym's /detail and /observation."""
    return {
        'observation': self.observation,
        'reward': self.reward,
        'score': self.score,
        'done': self.ended,
        'deleted': False,
        **self.details,
    }


class LiveEpisodes:
  """Live episodes by number; numbers count from 0 and are never used twice.

  Args:
    name: of the environment, in logs.
    make: makes an environment.
    slots: most that may run at a time; None: no limit. See `base.EnvFactory`.
    max_episodes: most that may be live at a time.
    lease_s: an episode without a request for this time is closed.
    clock: seconds, monotonic.
  """

  def __init__(
      self,
      name: str,
      make: Callable[[], Env],
      *,
      slots: int | None = None,
      max_episodes: int,
      lease_s: float,
      clock: Callable[[], float] = time.monotonic,
  ):
    self._name, self._make = name, make
    self._max_episodes = max_episodes
    self._lease_s = lease_s
    self._clock = clock
    self._live: dict[int, LiveEpisode] = {}
    self._next = 0
    self._slots = None if slots is None else asyncio.Semaphore(slots)
    self._closers = ThreadPoolExecutor(
        _CLOSERS, thread_name_prefix=f'{name} close'
    )
    self._closing: set[asyncio.Task] = set()

  def __len__(self) -> int:
    return len(self._live)

  @property
  def created(self) -> int:
    """Number of episodes ever created."""
    return self._next

  @property
  def running(self) -> int:
    """Number of episodes that play a task."""
    return sum(x.started and not x.ended for x in self._live.values())

  @property
  def queued(self) -> int:
    """Number of episodes that wait for a slot."""
    return sum(x.waiting is not None for x in self._live.values())

  def create(self) -> tuple[int, LiveEpisode]:
    """A new episode, not yet reset.

    Raises:
      TooManyEpisodes: the limit is reached.
    """
    if len(self._live) >= self._max_episodes:
      raise TooManyEpisodes(
          f'{len(self._live)} episodes are live, the most allowed; close some.'
      )
    number, self._next = self._next, self._next + 1
    live = LiveEpisode(self._make(), self._clock())
    self._live[number] = live
    return number, live

  def get(self, number: int) -> LiveEpisode:
    """Episode `number`, its lease renewed.

    Raises:
      UnknownEpisode: it was never created, was closed, or its lease ran out.
    """
    if number not in self._live:
      raise UnknownEpisode(f'No live episode has the id {number}.')
    live = self._live[number]
    live.last_used = self._clock()
    return live

  async def admit(self, live: LiveEpisode) -> None:
    """Waits until `live` may run; first come, first served.

    Raises:
      GivenUp: it was closed meanwhile.
    """
    if self._slots is None or live.admitted:
      return
    live.waiting = asyncio.ensure_future(self._slots.acquire())
    try:
      await asyncio.wait([live.waiting])
      if live.closed:
        raise GivenUp('The episode was closed while it waited for its turn.')
      live.admitted = True
    finally:
      if not live.admitted and not live.waiting.cancel():
        if not live.waiting.cancelled():  # the turn came as we were cancelled
          self._slots.release()
      live.waiting = None

  def release(self, live: LiveEpisode) -> None:
    """Lets the next one run in place of `live`, which holds nothing any more."""
    if not live.closed:  # else its closing does
      self._give_back(live)

  def _give_back(self, live: LiveEpisode) -> None:
    if live.admitted:
      live.admitted = False
      assert self._slots is not None  # it admitted the episode
      self._slots.release()

  def close(self, number: int) -> asyncio.Task | None:
    """Ends episode `number`; None if it is not live.

    Returns:
      The closing of its environment, which goes on whether or not it is waited
      for, and raises nothing.
    """
    live = self._live.pop(number, None)
    if live is None:
      return None
    live.closed = True
    if live.waiting is not None:
      live.waiting.cancel()
    closing = asyncio.create_task(self._close(live))
    self._closing.add(closing)
    closing.add_done_callback(self._closing.discard)
    return closing

  async def _close(self, live: LiveEpisode) -> None:
    """Closes an environment in a thread, and gives its slot back."""
    loop = asyncio.get_running_loop()
    try:
      await loop.run_in_executor(self._closers, close_env, live.env, self._name)
    finally:
      self._give_back(live)

  def close_expired(self) -> int:
    """Ends the episodes whose lease ran out; returns their number."""
    expired = list(self._expired())
    for number in expired:
      self.close(number)
    return len(expired)

  async def close_all(self, timeout_s: float) -> None:
    """Ends all episodes; waits up to `timeout_s` until they are closed."""
    for number in list(self._live):
      self.close(number)
    if self._closing:
      await asyncio.wait(self._closing, timeout=timeout_s)
    self._closers.shutdown(wait=False, cancel_futures=True)

  def _expired(self) -> Iterator[int]:
    now = self._clock()
    for number, live in self._live.items():
      busy = live.lock.locked()  # a slow step is not neglect
      if not busy and now - live.last_used > self._lease_s:
        yield number
