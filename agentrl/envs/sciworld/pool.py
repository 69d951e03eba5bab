"""A pool of simulators, each replaced before it grows too large."""

import threading

from agentrl.envs.sciworld.simulator import Simulator
from agentrl.errors import EnvError


class Pool:
  """At most `size` simulators, started when they are first needed.

  The methods may be called from any thread; those that wait for a simulator to
  start do not hold up the others.

  Args:
    size: most that may be out at a time.
    max_episodes: tasks after which a simulator is replaced.
    max_bytes: memory of its process above which it is replaced.
  """

  def __init__(self, size: int, *, max_episodes: int, max_bytes: int):
    self._size = size
    self._max_episodes = max_episodes
    self._max_bytes = max_bytes
    self._lock = threading.Lock()
    self._idle: list[Simulator] = []
    self._out: set[Simulator] = set()
    self._starting = 0
    self._killed: list[Simulator] = []
    self._closed = False
    self.recycled = 0  # how many were replaced, for whatever reason

  def take(self) -> Simulator:
    """A simulator for one episode: the one used last, or a new one.

    Raises:
      EnvError: none can be had.
    """
    with self._lock:
      self._reap()
      if self._closed:
        raise EnvError('The ScienceWorld simulators were closed.')
      while self._idle:
        simulator = self._idle.pop()
        if simulator.alive:
          self._out.add(simulator)
          return simulator
        self._retire(simulator)
      if len(self._out) + self._starting >= self._size:
        raise EnvError(
            f'All {self._size} ScienceWorld simulators play; close an episode.'
        )
      self._starting += 1
    started: Simulator | None = None
    try:
      started = Simulator()
    finally:
      with self._lock:
        self._starting -= 1
        if started is not None:
          self._out.add(started)
          if self._closed:  # meanwhile
            self._out.remove(started)
            self._retire(started)
    return started

  def give_back(self, simulator: Simulator) -> None:
    """Ends an episode, and the simulator too if it has done or grown enough."""
    with self._lock:
      if simulator not in self._out:
        return
      self._out.remove(simulator)
      if (
          simulator.alive
          and not self._closed
          and simulator.episodes < self._max_episodes
          and simulator.resident_bytes() <= self._max_bytes
      ):
        self._idle.append(simulator)
      else:
        self._retire(simulator)
      self._reap()

  def discard(self, simulator: Simulator) -> None:
    """Ends an episode and its simulator, even in the middle of a call."""
    with self._lock:
      if simulator in self._out:
        self._out.remove(simulator)
        self._retire(simulator)

  def gauges(self) -> dict[str, float]:
    """Number of simulators, of those replaced, and the largest one's memory."""
    with self._lock:
      running = [*self._idle, *self._out]
      return {
          'simulators': len(running),
          'simulators_recycled': self.recycled,
          'simulator_bytes_max': max(
              (x.resident_bytes() for x in running), default=0
          ),
      }

  def close(self) -> None:
    """Ends all of them, those that play too."""
    with self._lock:
      self._closed = True
      self._killed += [*self._idle, *self._out]
      self._idle, self._out = [], set()
      for simulator in self._killed:
        simulator.kill()
      for simulator in self._killed:
        simulator.reap()
      self._killed = []

  def _retire(self, simulator: Simulator) -> None:
    self.recycled += 1
    simulator.kill()
    self._killed.append(simulator)

  def _reap(self) -> None:
    """Frees what the killed ones leave, without waiting for them."""
    gone = [x for x in self._killed if not x.alive]
    for simulator in gone:
      simulator.reap()
    self._killed = [x for x in self._killed if x not in gone]
