"""Choice of the least busy server, with a pause after failures."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, TypeVar

MAX_COOL_DOWN_S = 30.0


@dataclasses.dataclass
class ServerLoad:
  """Requests under way at one server, and its failures.

  Attributes:
    in_flight: requests, or episodes, that were given to it and have not ended.
    failures: since the last success, those of one pause counted as one.
    cool_until: it is chosen last until then.
  """

  in_flight: int = 0
  failures: int = 0
  cool_until: float = -math.inf

  @property
  def order(self) -> Any:
    """Sorts servers that did not fail: the smallest is chosen."""
    return self.in_flight

  def cooling(self, now: float) -> bool:
    return now < self.cool_until

  def fail(self, now: float, cool_down_s: float) -> None:
    """Begins a pause: `cool_down_s`, doubled with each further failure.

    A failure during a pause begins it again without doubling it: all requests
    under way at a server that dies fail.
    """
    if not self.cooling(now):
      self.failures += 1
    doublings = min(self.failures - 1, 10)  # a float has its limits
    pause = cool_down_s * 2**doublings
    self.cool_until = now + min(pause, MAX_COOL_DOWN_S)

  def succeed(self) -> None:
    """Ends the pause, and forgets failures."""
    self.failures, self.cool_until = 0, -math.inf


AnyLoad = TypeVar('AnyLoad', bound=ServerLoad)


def least_busy(servers: Iterable[AnyLoad], now: float) -> AnyLoad:
  """The server for the next request.

  If all have failed, that is the one that rested longest. A server that fails
  answers fastest, and would draw every request to itself without its pause.
  """

  def order(server: AnyLoad) -> tuple[float, Any]:
    cooling = server.cooling(now)
    return (server.cool_until if cooling else -math.inf, server.order)

  return min(servers, key=order)
