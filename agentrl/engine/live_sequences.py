"""Waiting and running sequences over the slots of one cache."""

import collections
from collections.abc import Callable, Iterable
from typing import Any

from agentrl.engine import request as request_lib
from agentrl.engine.cache import SlotTable
from agentrl.engine.request import Request
from agentrl.engine.sequence import Sequence
from agentrl.engine.served_weights import ServedWeights


class LiveSequences:
  """Sequences that have not ended.

  Attributes:
    waiting: without a slot, the eldest first.
    running: with a slot.
  """

  def __init__(self, table: SlotTable, weights: ServedWeights):
    self._table = table
    self._weights = weights
    self.waiting: collections.deque[Sequence] = collections.deque()
    self.running: list[Sequence] = []

  def add(self, sequence: Sequence) -> None:
    """Puts a sequence at the end of the queue, or ends it at once."""
    refusal = self._weights.refusal(sequence.request)
    if refusal is None:
      self.waiting.append(sequence)
    else:
      self.finish(sequence, aborted(refusal, 400))

  def finish(self, sequence: Sequence, reason: dict[str, Any]) -> None:
    """Parks the slot and answers."""
    sequence.finish_reason = reason
    self._leave(sequence)
    if sequence.future.set_running_or_notify_cancel():
      sequence.future.set_result(sequence.result(self._weights.version))

  def _leave(self, sequence: Sequence) -> None:
    if sequence.slot is not None:
      self._table.release(sequence.slot)
      sequence.slot = None
      self.running.remove(sequence)

  def abort(self, rid: str | None) -> int:
    """Ends sequences; counts them. See `EngineCore.abort`."""
    rids = {s.request.rid for s in (*self.running, *self.waiting)}
    if rid is not None and rid not in rids:
      return 0
    return self._abort(lambda s: rid is None or s.request.rid.startswith(rid))

  def abandon(self, requests: Iterable[Request]) -> int:
    """Ends the sequences of these very requests; counts them.

    Callers in the same process may use the same ids.
    """
    mine = set(map(id, requests))
    return self._abort(lambda s: id(s.request) in mine)

  def _abort(self, matches: Callable[[Sequence], bool]) -> int:
    running = [s for s in self.running if matches(s)]
    queued = [s for s in self.waiting if matches(s)]
    if queued:  # one pass: removing them singly is quadratic
      self.waiting = collections.deque(
          s for s in self.waiting if not matches(s)
      )
    for sequence in queued:
      self.finish(sequence, aborted('Abort in waiting queue'))
    for sequence in running:
      self.finish(sequence, aborted('Aborted'))
    return len(running) + len(queued)

  def retract(self) -> None:
    """Puts running sequences back to the front of the queue, in order.

    Their entries are parked, so they can be reused unless a flush comes first.
    """
    retracted = list(self.running)
    for sequence in retracted:
      self._leave(sequence)
      sequence.num_retractions += 1
    self.waiting.extendleft(reversed(retracted))

  def end_all(self, message: str, status: int) -> None:
    """Ends every sequence as aborted."""
    ended = [*self.running, *self.waiting]
    self.waiting.clear()
    for sequence in ended:
      self.finish(sequence, aborted(message, status))


def aborted(message: str, status: int | None = None) -> dict[str, Any]:
  """A finish reason; `status` is the reply's, None where that is a result."""
  return {
      'type': request_lib.ABORT,
      'message': message,
      'status_code': status,
      'err_type': None if status is None else 'EngineError',
  }
