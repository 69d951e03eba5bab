"""Continuous batching, one step at a time: admit, prefill, decode.

A `Batcher` has no thread of its own: `step` does one round and returns. The
scheduler's thread calls it, and everything else here, between two dispatches, so
nothing needs a lock.
"""

import collections
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from agentrl.engine import adapters, cache, decode, request as request_lib
from agentrl.engine.cache import SlotTable
from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.prefill_budget import PrefillBudget
from agentrl.engine.request import Request
from agentrl.engine.sequence import Sequence

# Padded prompt tokens between two decode dispatches. More makes running
# requests wait; less makes a wave of new ones trickle in as small batches.
_PREFILL_TOKENS = 2048
# How a pause treats running requests: end them; put them back into the queue;
# freeze them as they are.
PAUSE_MODES = ('abort', 'retract', 'in_place')


class Batcher:
  """Waiting and running sequences over one cache.

  Attributes:
    weight_version: of the parameters on the device.
    adapters: see `adapters.Adapters`.
    paused: whether decoding has stopped until `resume`; requests wait.
  """

  def __init__(
      self,
      model_runner: ModelRunner,
      table: SlotTable,
      *,
      max_running: int,
      weight_version: str,
  ):
    self.weight_version = weight_version
    self.paused = False
    self.adapters = adapters.Adapters(model_runner)
    self._model_runner = model_runner
    self._table = table
    self._max_running = max_running
    self._queue: collections.deque[Sequence] = collections.deque()
    self._running: list[Sequence] = []
    self._sampled = self._prompted = self._reused = self._swaps = 0
    self._rate, self._rate_mark = 0.0, (time.perf_counter(), 0)
    self._prefill_budget = PrefillBudget()

  @property
  def num_running(self) -> int:
    return len(self._running)

  @property
  def num_waiting(self) -> int:
    return len(self._queue)

  @property
  def has_work(self) -> bool:
    return bool(self._running or self._queue) and not self.paused

  def add(self, sequence: Sequence) -> None:
    """Puts a sequence at the end of the queue, or ends it at once."""
    refusal = self.adapters.refusal(sequence.request)
    if refusal is not None:
      self._finish(sequence, _aborted(refusal, 400))
      return
    self._queue.append(sequence)

  def warm_up(self, interrupted: Callable[[], bool]) -> None:
    """Compiles what requests of usual sizes need; see `ModelRunner.warm_up`."""
    self._model_runner.warm_up(interrupted)

  def step(
      self, interrupted: Callable[[], bool], receive: Callable[[], None]
  ) -> None:
    """One round: admit, prefill within a budget, decode.

    Sequences that decode wait for the prompts of as many others about as long
    as they decode themselves: a long prompt at most doubles the time between
    tokens. More wait for fewer the longer, or a wave of prompts that come one
    after the other would decode as small batches that end one after the other.

    Args:
      interrupted: asked after each dispatch; True ends the round early.
      receive: adds what has arrived meanwhile.
    """
    decoding, start = len(self._ready()), time.perf_counter()
    left_s = lambda: (
        start + self._prefill_limit_s(decoding) - time.perf_counter()
    )
    spent = 0
    while (spent < _PREFILL_TOKENS and left_s() > 0) or not self._ready():
      receive()
      # Again in every turn: the samples of a group wait for the first one's
      # prefill, and then all decode together.
      self._admit()
      tokens = self._prefill(left_s())
      if not tokens:
        break
      spent += tokens
      if interrupted():
        return
    start = time.perf_counter()
    for group in self._dispatches(self._ready()):
      # One that failed has sent all of them back to the queue.
      group = [s for s in group if s.slot is not None]
      if group:
        self._decode(group)
        self._prefill_budget.add_decode(time.perf_counter() - start)

  def _prefill_limit_s(self, decoding: int) -> float:
    """How long a round may delay so many sequences that decode."""
    room = self._max_running - len(self._running)
    waiting = len(self._running) - decoding + min(room, len(self._queue))
    return self._prefill_budget.limit_s(decoding=decoding, waiting=waiting)

  def _ready(self) -> list[Sequence]:
    return [s for s in self._running if not s.to_prefill]

  def _dispatches(self, ready: list[Sequence]) -> list[list[Sequence]]:
    """Who decodes together.

    The settings of one row can change the program that serves all, and with it
    the last bits of the others, so a deterministic device serves them apart.
    """
    if not self._model_runner.deterministic:
      return [ready] if ready else []
    groups = collections.defaultdict(list)
    for sequence in ready:
      groups[self._model_runner.variant(sequence.row())].append(sequence)
    return list(groups.values())

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
      if sequence.request.adapter != self.adapters.current:
        if self._running:
          break  # they end first, and nobody overtakes
        self.adapters.use(sequence.request.adapter)
      lease = self._table.acquire(
          sequence.tokens,
          sequence.share_limit,
          adapters.salt(sequence.request),
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
      self._model_runner.copy(copies)
    for sequence in list(self._running):
      if not sequence.to_prefill and sequence.budget <= 0:
        self._finish_length(sequence)

  def _prefill(self, limit_s: float) -> int:
    """One prefill dispatch; gives the padded tokens that it took.

    Args:
      limit_s: how long it may take; infinite if nobody waits for it.
    """
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
    most = self._prefill_budget.tokens(limit_s)
    chunk = self._model_runner.first_chunk(size(pending[0]), most)
    rows = min(max(most / chunk, 1), self._model_runner.most_rows(chunk))
    pending = pending[: int(rows)]
    pieces = []
    for s in pending:
      end = self._model_runner.chunk_end(s.filled, s.prefill_end, chunk)
      pieces.append((s.slot, s.filled, s.tokens[s.filled : end]))
    start_s = time.perf_counter()
    self._model_runner.prefill(pieces, chunk)
    if limit_s < math.inf:
      self._model_runner.wait()
      self._prefill_budget.add_prefill(
          time.perf_counter() - start_s, chunk * len(pieces)
      )
    for sequence, (_, start, ids) in zip(pending, pieces, strict=True):
      self._table.set_filled(sequence.slot, start + len(ids))
      self._fill(sequence, start + len(ids))
    return chunk * len(pieces)

  def _score(self, sequence: Sequence) -> int:
    """One dispatch that fills and scores a piece of one prompt."""
    left = len(sequence.request.tokens) - 1 - sequence.filled
    chunk = self._model_runner.first_chunk(left)
    start = sequence.filled
    end = start + min(chunk, left)
    ids = sequence.tokens[start : end + 1]
    scores, likeliest = self._model_runner.score(
        sequence.slot,
        start,
        ids,
        chunk,
        tops=sequence.request.top_logprobs > 0,
    )
    sequence.add_input_logprobs(scores, likeliest)
    self._note_filled(sequence.slot, end)
    self._fill(sequence, end)
    return chunk

  def _fill(self, sequence: Sequence, filled: int) -> None:
    sequence.filled = filled
    if not sequence.to_prefill and sequence.budget <= 0:
      self._finish_length(sequence)

  def _finish_length(self, sequence: Sequence) -> None:
    length = sequence.request.params.max_new_tokens
    self._finish(sequence, {'type': request_lib.LENGTH, 'length': length})

  def _decode(self, ready: list[Sequence]) -> None:
    """One decode dispatch for all sequences that are ready."""
    ids, logprobs, counts, likeliest = self._model_runner.decode(
        [s.row() for s in ready],
        steps=decode.MAX_STEPS,
        # Rows that are done still cost their share of each step.
        floor=max(1, len(ready) // 2),
    )
    broken = False
    for row, (sequence, row_ids, row_logprobs, count) in enumerate(
        zip(
            ready, ids.tolist(), logprobs.tolist(), counts.tolist(), strict=True
        )
    ):
      if not np.isfinite(row_logprobs[:count]).all():
        message = 'The model gives NaN or infinite logits; its weights are bad.'
        self._finish(sequence, _aborted(message, 500))
        broken = True
        continue
      start = len(sequence.tokens)
      taken = sequence.extend(
          row_ids[:count],
          row_logprobs[:count],
          self.weight_version,
          None if likeliest is None else [x[:, row] for x in likeliest],
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
      self._model_runner.reset()
    now, (then, before) = time.perf_counter(), self._rate_mark
    if now - then > 1.0:
      self._rate = (self._sampled - before) / (now - then)
      self._rate_mark = (now, self._sampled)

  def _fill_to_last(self, sequence: Sequence) -> None:
    """All but the last token of a sequence that decodes are in the cache."""
    sequence.filled = len(sequence.tokens) - 1
    self._note_filled(sequence.slot, sequence.filled)

  def _note_filled(self, slot: int, filled: int) -> None:
    """Shares entries that something else than a prefill has computed.

    They differ from a prefill's in the last bits, so that what a request gets
    would depend on whether such entries were still there.
    """
    if not self._model_runner.deterministic:
      self._table.set_filled(slot, filled)

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
    """Ends sequences; counts them.

    Args:
      rid: of a request that has not ended, or nothing happens. As in SGLang,
        whose scheduler compares beginnings, requests whose ids begin with it
        end too: `job-1` takes `job-10` along. None: all requests.
    """
    known = {s.request.rid for s in (*self._running, *self._queue)}
    if rid is not None and rid not in known:
      return 0
    return self._abort(lambda s: rid is None or s.request.rid.startswith(rid))

  def abandon(self, requests: Iterable[Request]) -> int:
    """Ends the sequences of these very requests; counts them.

    Whoever shares the process may use the same ids.
    """
    mine = set(map(id, requests))
    return self._abort(lambda s: id(s.request) in mine)

  def _abort(self, matches: Callable[[Sequence], bool]) -> int:
    running = [s for s in self._running if matches(s)]
    queued = [s for s in self._queue if matches(s)]
    if queued:  # one pass: removing them singly is quadratic
      self._queue = collections.deque(s for s in self._queue if not matches(s))
    for sequence in queued:
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

  def pause(self, mode: str) -> None:
    """Stops decoding; see PAUSE_MODES. New requests wait for `resume`."""
    if mode not in PAUSE_MODES:
      raise ValueError(
          f'Unknown pause mode {mode!r}; known: {", ".join(PAUSE_MODES)}.'
      )
    self.paused = True
    if mode == 'abort':
      self.abort(None)
    elif mode == 'retract':
      self.retract()

  def resume(self) -> None:
    """Ends a pause."""
    self.paused = False

  def flush(self) -> bool:
    """Empties the prefix cache; False, and nothing done, if requests exist.

    While paused, those that wait do not count: they have no entries.
    """
    if self._running or (self._queue and not self.paused):
      return False
    self._table.flush()
    return True

  def swap(self, params: Any, version: str, *, flush: bool) -> int:
    """Replaces the weights; gives the number of sequences that were running.

    These go on with the new weights over the entries that the old ones
    computed; `Result.spans` says which weights gave which tokens.

    Args:
      params: engine layout; the engine keeps the reference, so no one else may
        donate these buffers.
      version: reported as `weight_version` from now on.
      flush: no later request may share an entry that old weights computed.

    Raises:
      EngineError: they do not fit, or adapters are loaded; the old ones stay.
    """
    self.adapters.replace_base(params)
    self.weight_version = version
    self._swaps += 1
    if flush:
      self._table.flush()
    return len(self._running)

  def set_version(self, version: str, *, abort_all: bool) -> None:
    """Names the weights anew; what was sampled keeps the old name."""
    if abort_all:
      self.abort(None)
    self.weight_version = version

  def load_adapter(self, name: str, path: str, params: Any) -> None:
    """Serves requests of an adapter's name with these weights."""
    self.adapters.add(name, path, params)

  def unload_adapter(self, name: str) -> bool:
    """Retires an adapter; forgets it and gives True once nobody uses it.

    Raises:
      EngineError: there is none of this name.
    """
    self.adapters.retire(name)
    if any(s.request.adapter == name for s in (*self._running, *self._queue)):
      return False
    self.adapters.remove(name)
    self._table.flush()  # another of this name computes other entries
    return True

  def recover(self, message: str) -> None:
    """Fails everything and makes a new cache, as a failed dispatch consumed it.

    What waits fails too: it may be the cause, and would fail for ever.
    """
    self._end(message, 500)
    self._table.clear()
    self._model_runner.reset()

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
    total = self._table.num_slots * self._model_runner.max_len
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
        'num_prompt_tokens': self._prompted,
        'num_cached_tokens': self._reused,
        'num_weight_swaps': self._swaps,
        'num_compiled_programs': self._model_runner.num_compiled(),
    }


def _aborted(message: str, status: int | None = None) -> dict[str, Any]:
  return {
      'type': request_lib.ABORT,
      'message': message,
      'status_code': status,
      'err_type': None if status is None else 'EngineError',
  }
