"""The choice among several inference servers with the same weights.

An episode stays where its first turn was computed, since that server's cache
knows its prefix. A new one goes where the fewest requests are under way. A
server that failed is left alone for a while; one that is held (it is being
started again) gets nothing until it is released.
"""

import collections
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence

from agentrl.errors import ConfigError, EngineRefusal
from agentrl.runtime import balancer

# Episodes whose server is remembered: more than any run plays at a time.
_MAX_HOMES = 1 << 16


@dataclasses.dataclass
class _State(balancer.ServerLoad):
  url: str = ''
  homes: int = 0  # episodes that stay here
  held: bool = False
  condemned: str | None = None  # why it must be started again
  lost: str | None = None  # why it will not come back

  @property
  def order(self) -> tuple[int, int]:
    return (self.in_flight, self.homes)


class Replicas:
  """The servers and what is known of them; safe to use from several threads.

  Samplers that share servers share one of these, so that each counts what the
  others have under way.
  """

  def __init__(
      self,
      urls: Sequence[str],
      *,
      cool_down_s: float = 1.0,
      clock: Callable[[], float] = time.monotonic,
  ):
    """Starts with all of them idle.

    Args:
      urls: base URLs, at least one.
      cool_down_s: how long a server that failed is left alone; doubles with
        each further failure, up to half a minute.
      clock: seconds.

    Raises:
      ConfigError: there is no URL, or one does not start with http.
    """
    if not urls:
      raise ConfigError('A sampler needs at least one URL; got none.')
    for url in urls:
      if not url.startswith(('http://', 'https://')):
        raise ConfigError(
            f'Sampler URL {url!r} must start with http:// or https://.'
        )
    self._states = {
        url: _State(url=url) for url in (url.rstrip('/') for url in urls)
    }
    self._cool_down_s = cool_down_s
    self._clock = clock
    self._homes: collections.OrderedDict[str, str] = collections.OrderedDict()
    self._lock = threading.Lock()

  @property
  def urls(self) -> tuple[str, ...]:
    return tuple(self._states)

  def take(self, key: str | None = None) -> str | None:
    """Chooses a server for a request and counts the request.

    Args:
      key: of an episode; None: the request stands alone.

    Returns:
      A URL, to be given to `give_back`; None while all are held.

    Raises:
      EngineError: none will ever come back.
    """
    with self._lock:
      states = [s for s in self._states.values() if s.lost is None]
      if not states:
        raise EngineRefusal(
            'No inference server is left:'
            f' {"; ".join(str(s.lost) for s in self._states.values())}'
        )
      states = [s for s in states if not s.held]
      if not states:
        return None
      now = self._clock()
      home = None if key is None else self._homes.get(key)
      state = None if home is None else self._states.get(home)
      if state is None or state not in states or state.cooling(now):
        state = balancer.least_busy(states, now)
      if key is not None:
        self._settle(key, state.url)
      state.in_flight += 1
      return state.url

  def give_back(self, url: str, *, failed: bool | None) -> None:
    """Ends a request that `take` counted.

    Args:
      url: what `take` gave.
      failed: whether the server failed it; None: that is not known.
    """
    with self._lock:
      state = self._states[url]
      state.in_flight -= 1
      if failed:
        state.fail(self._clock(), self._cool_down_s)
      elif failed is not None:
        state.succeed()

  def in_flight(self, url: str) -> int:
    """Requests under way there."""
    with self._lock:
      return self._states[url].in_flight

  def hold(self, url: str) -> None:
    """Gives this server no requests until it is released or lost."""
    with self._lock:
      self._states[url].held, self._states[url].condemned = True, None

  def release(self, url: str) -> None:
    """The server is as good as new."""
    with self._lock:
      self._states[url].held, self._states[url].condemned = False, None
      self._states[url].succeed()

  def condemn(self, url: str, reason: str) -> None:
    """Holds a server that failed to do what all must, until it is released.

    The watcher of the servers then restarts it. A server that is held is being
    started already.
    """
    with self._lock:
      state = self._states[url]
      if not state.held:
        state.held, state.condemned = True, reason

  def condemned(self, url: str) -> str | None:
    """The reason to restart a server; None if it need not be restarted."""
    with self._lock:
      return self._states[url].condemned

  def lose(self, url: str, reason: str) -> None:
    """Marks a server that will not come back; `reason` is for errors."""
    with self._lock:
      self._states[url].lost = reason

  def losses(self) -> tuple[str, ...]:
    """The reasons why some servers will not come back."""
    with self._lock:
      return tuple(s.lost for s in self._states.values() if s.lost is not None)

  def serving(self) -> tuple[str, ...]:
    """The servers that are neither held nor lost."""
    with self._lock:
      return tuple(
          url
          for url, state in self._states.items()
          if not state.held and state.lost is None
      )

  def _settle(self, key: str, url: str) -> None:
    before = self._homes.pop(key, None)
    if before is not None:
      self._states[before].homes -= 1
    self._homes[key] = url
    self._states[url].homes += 1
    if len(self._homes) > _MAX_HOMES:
      _, oldest = self._homes.popitem(last=False)
      self._states[oldest].homes -= 1
