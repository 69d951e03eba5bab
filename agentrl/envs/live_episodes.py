"""The live episodes of a server: numbered, limited, leased, queued."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

from agentrl.envs import faults
from agentrl.envs.base import Detailed, Env


class UnknownEpisode(Exception):
  """No live episode has this number."""


class TooManyEpisodes(Exception):
  """The limit on live episodes is reached."""


class GivenUp(Exception):
  """The episode was closed while it waited for its turn."""


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
    make: makes an environment.
    slots: most that may run at a time; None: no limit. See `base.EnvFactory`.
    max_episodes: most that may be live at a time.
    lease_s: an episode without a request for this time is closed.
    clock: seconds, monotonic.
  """

  def __init__(
      self,
      make: Callable[[], Env],
      *,
      slots: int | None = None,
      max_episodes: int,
      lease_s: float,
      clock: Callable[[], float] = time.monotonic,
  ):
    self._make = make
    self._max_episodes = max_episodes
    self._lease_s = lease_s
    self._clock = clock
    self._live: dict[int, LiveEpisode] = {}
    self._next = 0
    self._slots = None if slots is None else asyncio.Semaphore(slots)

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
      if live.waiting.cancelled():
        raise GivenUp('The episode was closed while it waited for its turn.')
      live.admitted = True
    finally:
      if not live.admitted and not live.waiting.cancel():
        if not live.waiting.cancelled():  # the turn came as we were cancelled
          self._slots.release()
      live.waiting = None

  def release(self, live: LiveEpisode) -> None:
    """Lets the next one run in place of `live`, which holds nothing any more."""
    if live.admitted:
      live.admitted = False
      assert self._slots is not None  # it admitted the episode
      self._slots.release()

  def close(self, number: int) -> bool:
    """Ends episode `number`; False if it is not live."""
    live = self._live.pop(number, None)
    if live is None:
      return False
    if live.waiting is not None:
      live.waiting.cancel()
    live.env.close()
    self.release(live)
    return True

  def close_expired(self) -> int:
    """Ends the episodes whose lease ran out; returns their number."""
    expired = list(self._expired())
    for number in expired:
      self.close(number)
    return len(expired)

  def close_all(self) -> None:
    for number in list(self._live):
      self.close(number)

  def _expired(self) -> Iterator[int]:
    now = self._clock()
    for number, live in self._live.items():
      busy = live.lock.locked()  # a slow step is not neglect
      if not busy and now - live.last_used > self._lease_s:
        yield number
