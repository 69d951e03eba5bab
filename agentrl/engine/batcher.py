"""Continuous batching, one step at a time: admit, prefill, decode.

A `Batcher` has no thread and no clock of its own: `step` does one round and
returns. The scheduler's thread calls it, and everything else here, between two
dispatches, so nothing needs a lock.
"""

import collections
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from agentrl.engine import cache, decode, request as request_lib, runner
from agentrl.engine.cache import SlotTable
from agentrl.engine.runner import Runner
from agentrl.engine.sequence import Sequence

# Padded prompt tokens between two decode dispatches. More makes running
# requests wait; less makes a wave of new ones trickle in as small batches.
_PREFILL_TOKENS = 2048


class Batcher:
  """Waiting and running sequences over one cache.

  Attributes:
    weight_version: of the parameters on the device.
  """

  def __init__(
      self,
      device: Runner,
      table: SlotTable,
      *,
      max_running: int,
      weight_version: str,
  ):
    self.weight_version = weight_version
    self._device = device
    self._table = table
    self._max_running = max_running
    self._queue: collections.deque[Sequence] = collections.deque()
    self._running: list[Sequence] = []
    self._sampled = self._prompted = self._reused = 0
    self._rate, self._rate_mark = 0.0, (time.perf_counter(), 0)

  @property
  def num_running(self) -> int:
    return len(self._running)

  @property
  def num_waiting(self) -> int:
    return len(self._queue)

  def add(self, sequence: Sequence) -> None:
    """Puts a sequence at the end of the queue."""
    self._queue.append(sequence)

  def step(self, interrupted: Callable[[], bool]) -> None:
    """One round: admit, prefill within a budget, one decode dispatch.

    Args:
      interrupted: asked after each dispatch; True ends the round early.
    """
    spent = 0
    while spent < _PREFILL_TOKENS or not self._ready():
      # Again in every turn: the samples of a group wait for the first one's
      # prefill, and then all decode together.
      self._admit()
      tokens = self._prefill()
      if not tokens:
        break
      spent += tokens
      if interrupted():
        return
    ready = self._ready()
    if ready:
      self._decode(ready)

  def _ready(self) -> list[Sequence]:
    return [s for s in self._running if not s.to_prefill]

  def _admit(self) -> None:
    """Gives slots to waiting sequences, the eldest first."""
    copies, origins = [], {}
    index = 0
    while (
        # Those that wait for a prefix are passed over, and looked at again.
        index < min(len(self._queue), self._max_running)
        and len(self._running) < self._max_running
        and self._table.has_vacancy()
    ):
      sequence = self._queue[index]
      lease = self._table.acquire(
          sequence.tokens, sequence.share_limit, sequence.request.salt
      )
      if lease is None:
        index += 1
        continue
      del self._queue[index]
      if lease.source is not None:
        # All copies are one dispatch that reads before it writes, so a source
        # that is itself about to be written is replaced by its own source.
        source = origins.get(lease.source, lease.source)
        origins[lease.slot] = source
        copies.append((source, lease.slot, lease.shared))
      self._prompted += len(sequence.tokens)
      self._reused += lease.shared
      sequence.start(lease.slot, lease.shared)
      self._running.append(sequence)
    if copies:
      self._device.copy(copies)
    for sequence in list(self._running):
      if not sequence.to_prefill and sequence.budget <= 0:
        self._finish_length(sequence)

  def _prefill(self) -> int:
    """One prefill dispatch; gives the padded tokens that it took."""
    pending = [s for s in self._running if s.to_prefill]
    if not pending:
      return 0
    for sequence in pending:
      if (
          sequence.to_score
          and sequence.filled >= sequence.request.logprob_start
      ):
        return self._score(sequence)
    size = lambda s: s.prefill_end - s.filled
    # Like with like, so that little of a chunk is padding.
    pending.sort(key=size, reverse=True)
    chunk = runner.first_chunk(size(pending[0]))
    pending = pending[: runner.PREFILL_ROWS[chunk][-1]]
    pieces = []
    for s in pending:
      end = min(s.filled + chunk, s.prefill_end)
      pieces.append((s.slot, s.filled, s.tokens[s.filled : end]))
    self._device.prefill(pieces, chunk)
    for sequence, (_, start, ids) in zip(pending, pieces, strict=True):
      self._fill(sequence, start + len(ids))
    return chunk * len(pieces)

  def _score(self, sequence: Sequence) -> int:
    """One dispatch that fills and scores a piece of one prompt."""
    left = len(sequence.request.tokens) - 1 - sequence.filled
    chunk = runner.first_chunk(left)
    start = sequence.filled
    end = start + min(chunk, left)
    ids = sequence.tokens[start : end + 1]
    scores = self._device.score(sequence.slot, start, ids, chunk)
    sequence.add_input_logprobs(scores)
    self._fill(sequence, end)
    return chunk

  def _fill(self, sequence: Sequence, filled: int) -> None:
    sequence.filled = filled
    self._table.set_filled(sequence.slot, filled)
    if not sequence.to_prefill and sequence.budget <= 0:
      self._finish_length(sequence)

  def _finish_length(self, sequence: Sequence) -> None:
    length = sequence.request.params.max_new_tokens
    self._finish(sequence, {'type': request_lib.LENGTH, 'length': length})

  def _decode(self, ready: list[Sequence]) -> None:
    """One decode dispatch for all sequences that are ready."""
    ids, logprobs, counts = self._device.decode(
        [s.row() for s in ready],
        steps=decode.MAX_STEPS,
        # Rows that are done still cost their share of each step.
        floor=max(1, len(ready) // 2),
    )
    broken = False
    for sequence, row_ids, row_logprobs, count in zip(
        ready, ids.tolist(), logprobs.tolist(), counts.tolist(), strict=True
    ):
      if not np.isfinite(row_logprobs[:count]).all():
        message = 'The model gives NaN or infinite logits; its weights are bad.'
        self._finish(sequence, _aborted(message, 500))
        broken = True
        continue
      start = len(sequence.tokens)
      taken = sequence.extend(
          row_ids[:count], row_logprobs[:count], self.weight_version
      )
      self._table.append(sequence.slot, start, taken)
      self._sampled += len(taken)
      self._fill_to_last(sequence)
      if sequence.finish_reason is not None:
        self._finish(sequence, sequence.finish_reason)
    if broken:
      # Entries past a row's end are masked, but 0 * NaN is NaN: whoever got
      # this slot would fail too. The others begin again in a clean cache.
      self.retract()
      self._table.clear()
      self._device.reset()
    now, (then, before) = time.perf_counter(), self._rate_mark
    if now - then > 1.0:
      self._rate = (self._sampled - before) / (now - then)
      self._rate_mark = (now, self._sampled)

  def _fill_to_last(self, sequence: Sequence) -> None:
    """All but the last token of a sequence that decodes are in the cache."""
    sequence.filled = len(sequence.tokens) - 1
    self._table.set_filled(sequence.slot, sequence.filled)

  def _finish(self, sequence: Sequence, reason: dict[str, Any]) -> None:
    """Parks the slot and answers."""
    sequence.finish_reason = reason
    self._leave(sequence)
    if sequence.future.set_running_or_notify_cancel():
      sequence.future.set_result(sequence.result(self.weight_version))

  def _leave(self, sequence: Sequence) -> None:
    if sequence.slot is not None:
      self._table.release(sequence.slot)
      sequence.slot = None
      self._running.remove(sequence)

  def abort(self, rid: str | None) -> int:
    """Ends sequences whose id begins with `rid` (None: all); counts them."""
    matches = lambda s: rid is None or s.request.rid.startswith(rid)
    running = [s for s in self._running if matches(s)]
    queued = [s for s in self._queue if matches(s)]
    for sequence in queued:
      self._queue.remove(sequence)
      self._finish(sequence, _aborted('Abort in waiting queue'))
    for sequence in running:
      self._finish(sequence, _aborted('Aborted'))
    return len(running) + len(queued)

  def retract(self) -> None:
    """Puts running sequences back to the front of the queue, in order.

    Their entries are parked, so they are there again if nobody flushes.
    """
    retracted = list(self._running)
    for sequence in retracted:
      self._leave(sequence)
      sequence.num_retractions += 1
    self._queue.extendleft(reversed(retracted))

  def flush(self) -> None:
    """Forgets the entries of all slots that no sequence runs in."""
    self._table.flush()

  def swap(self, params: Any, version: str, *, flush: bool) -> int:
    """Replaces the weights; gives the number of sequences that were running.

    Raises:
      EngineError: they do not fit; the old ones stay.
    """
    self._device.set_params(params)
    self.weight_version = version
    if flush:
      self._table.flush()
    return len(self._running)

  def recover(self, message: str) -> None:
    """Fails everything and makes a new cache, as a failed dispatch consumed it.

    What waits fails too: it may be the cause, and would fail for ever.
    """
    self._end(message, 500)
    self._table.clear()
    self._device.reset()

  def close(self, message: str) -> None:
    """Ends everything, so that nobody waits for ever."""
    self._end(message, 503)

  def _end(self, message: str, status: int) -> None:
    ended = [*self._running, *self._queue]
    self._queue.clear()
    for sequence in ended:
      self._finish(sequence, _aborted(message, status))

  def stats(self) -> dict[str, Any]:
    """Load figures under SGLang's names, and a few of our own."""
    total = self._table.num_slots * self._device.max_len
    used = self._table.num_tokens()
    return {
        'num_running_reqs': len(self._running),
        'num_waiting_reqs': len(self._queue),
        'num_used_tokens': used,
        'num_total_tokens': used,
        'max_total_num_tokens': total,
        'max_running_requests': self._max_running,
        'token_usage': used / total,
        'gen_throughput': self._rate,
        'cache_hit_rate': self._reused / max(self._prompted, 1),
        'num_free_slots': self._table.count(cache.FREE),
        'num_parked_slots': self._table.count(cache.PARKED),
        'num_sampled_tokens': self._sampled,
        'num_compiled_programs': self._device.num_compiled(),
    }


def _aborted(message: str, status: int | None = None) -> dict[str, Any]:
  return {
      'type': request_lib.ABORT,
      'message': message,
      'status_code': status,
      'err_type': None if status is None else 'EngineError',
  }
