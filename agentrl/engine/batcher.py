"""Continuous batching, one step at a time: admit, prefill, decode.

A `Batcher` has no thread of its own: `step` does one round and returns.
"""

import collections
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from agentrl.engine import cache, decode, request as request_lib, served_weights
from agentrl.engine.cache import SlotTable
from agentrl.engine.live_sequences import LiveSequences, aborted
from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.prefill_budget import PrefillBudget
from agentrl.engine.sequence import Sequence
from agentrl.engine.served_weights import ServedWeights
from agentrl.parallel import compile_waits

# Padded prompt tokens between two decode dispatches. More makes running
# requests wait; less makes a wave of new ones trickle in as small batches.
_PREFILL_TOKENS = 2048
# Tokens that a decode dispatch samples for a row: at least so many, since it costs
# the time of one or two more; more while it takes no longer than this, for which
# requests that arrive meanwhile, and aborts, wait.
FEWEST_STEPS = 8
_DISPATCH_S = 0.05


class Batcher:
  """Runs sequences over one cache, in rounds."""

  def __init__(
      self,
      model_runner: ModelRunner,
      table: SlotTable,
      weights: ServedWeights,
      sequences: LiveSequences,
      *,
      max_running: int,
  ):
    self._model_runner = model_runner
    self._table = table
    self._weights = weights
    self._sequences = sequences
    self._max_running = max_running
    self._sampled = self._prompted = self._reused = 0
    self._rate, self._rate_mark = 0.0, (time.perf_counter(), 0)
    self._prefill_budget = PrefillBudget()
    self._step_s: float | None = None  # of a token of the last decode dispatch
    self._compile_wait_s = 0.0
    compile_waits.listen()

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
    self._compile_wait_s += compile_waits.take()  # of the round before
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
    """Seconds by which a round may delay the sequences that decode."""
    room = self._max_running - len(self._sequences.running)
    waiting = (
        len(self._sequences.running)
        - decoding
        + min(room, len(self._sequences.waiting))
    )
    return self._prefill_budget.limit_s(decoding=decoding, waiting=waiting)

  def _ready(self) -> list[Sequence]:
    return [s for s in self._sequences.running if not s.to_prefill]

  def _dispatches(self, ready: list[Sequence]) -> list[list[Sequence]]:
    """Groups of sequences that decode together.

    The settings of one row can change the program that serves all, and with it
    the last bits of the others, so a deterministic model runner serves them apart.
    """
    if not self._model_runner.deterministic:
      return [ready] if ready else []
    groups = collections.defaultdict(list)
    for sequence in ready:
      groups[self._model_runner.variant(sequence.row())].append(sequence)
    return list(groups.values())

  def _admit(self) -> None:
    """Gives slots to waiting sequences, the eldest first."""
    copies: list[tuple[int, int, int]] = []
    origins: dict[int, int] = {}
    index = 0
    while (
        # Sequences that wait for a prefix are skipped, and tried again later.
        index < min(len(self._sequences.waiting), self._max_running)
        and len(self._sequences.running) < self._max_running
        and self._table.has_vacancy()
    ):
      sequence = self._sequences.waiting[index]
      if sequence.request.adapter != self._weights.current:
        if self._sequences.running:
          break  # they end first, and none overtakes
        self._weights.use(sequence.request.adapter)
      lease = self._table.acquire(
          sequence.tokens,
          sequence.share_limit,
          served_weights.salt(sequence.request),
      )
      if lease is None:
        index += 1
        continue
      del self._sequences.waiting[index]
      if lease.source is not None:
        # All copies are one dispatch that reads before it writes, so a source
        # that is itself about to be written is replaced by its own source.
        source = origins.get(lease.source, lease.source)
        origins[lease.slot] = source
        copies.append((source, lease.slot, lease.shared))
      self._prompted += len(sequence.tokens)
      self._reused += lease.shared
      # What is still in the cache depends on who came when, and a deterministic
      # engine's results depend on the request alone.
      sequence.start(
          lease.slot,
          lease.shared,
          report=not self._model_runner.deterministic,
      )
      self._sequences.running.append(sequence)
    if copies:
      self._model_runner.copy(copies)
    for sequence in list(self._sequences.running):
      if not sequence.to_prefill and sequence.budget <= 0:
        self._finish_length(sequence)

  def _prefill(self, limit_s: float) -> int:
    """One prefill dispatch; gives the padded tokens that it took.

    Args:
      limit_s: seconds that it may take; infinite while nothing decodes.
    """
    pending = [s for s in self._sequences.running if s.to_prefill]
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
      assert s.slot is not None  # it runs
      end = self._model_runner.chunk_end(s.filled, s.prefill_end, chunk)
      pieces.append((s.slot, s.filled, s.tokens[s.filled : end]))
    start_s = time.perf_counter()
    self._model_runner.prefill(pieces, chunk)
    if limit_s < math.inf:
      self._model_runner.wait()
      self._prefill_budget.add_prefill(
          time.perf_counter() - start_s, chunk * len(pieces)
      )
    for sequence, (slot, start, ids) in zip(pending, pieces, strict=True):
      self._table.set_filled(slot, start + len(ids))
      self._fill(sequence, start + len(ids))
    return chunk * len(pieces)

  def _score(self, sequence: Sequence) -> int:
    """One dispatch that fills and scores a piece of one prompt."""
    left = len(sequence.request.tokens) - 1 - sequence.filled
    chunk = self._model_runner.first_chunk(left)
    start = sequence.filled
    end = start + min(chunk, left)
    ids = sequence.tokens[start : end + 1]
    slot = sequence.slot
    assert slot is not None  # it runs
    scores, likeliest = self._model_runner.score(
        slot,
        start,
        ids,
        chunk,
        tops=sequence.request.top_logprobs > 0,
    )
    sequence.add_input_logprobs(scores, likeliest)
    self._note_filled(slot, end)
    self._fill(sequence, end)
    return chunk

  def _fill(self, sequence: Sequence, filled: int) -> None:
    sequence.filled = filled
    if not sequence.to_prefill and sequence.budget <= 0:
      self._finish_length(sequence)

  def _finish_length(self, sequence: Sequence) -> None:
    length = sequence.request.params.max_new_tokens
    self._sequences.finish(
        sequence, {'type': request_lib.LENGTH, 'length': length}
    )

  def _decode(self, ready: list[Sequence]) -> None:
    """One decode dispatch for all sequences that are ready."""
    start_s = time.perf_counter()
    ids, logprobs, counts, likeliest = self._model_runner.decode(
        [s.row() for s in ready],
        steps=self._decode_steps(),
        # Rows that are done still cost their share of each step.
        floor=max(1, len(ready) // 2),
    )
    taken_s = time.perf_counter() - start_s
    self._step_s = max(taken_s, 1e-6) / max(int(counts.max()), 1)
    broken = False
    for row, (sequence, row_ids, row_logprobs, count) in enumerate(
        zip(
            ready, ids.tolist(), logprobs.tolist(), counts.tolist(), strict=True
        )
    ):
      if not np.isfinite(row_logprobs[:count]).all():
        message = 'The model gives NaN or infinite logits; its weights are bad.'
        self._sequences.finish(sequence, aborted(message, 500))
        broken = True
        continue
      start, slot = len(sequence.tokens), sequence.slot
      assert slot is not None  # it runs
      taken = sequence.extend(
          row_ids[:count],
          row_logprobs[:count],
          self._weights.version,
          None if likeliest is None else [x[:, row] for x in likeliest],
      )
      self._table.append(slot, start, taken)
      if len(taken) < count:
        self._table.spoil(slot)
      self._sampled += len(taken)
      # All but the last token of a sequence that decodes are in the cache.
      sequence.filled = len(sequence.tokens) - 1
      self._note_filled(slot, sequence.filled)
      if sequence.finish_reason is not None:
        self._sequences.finish(sequence, sequence.finish_reason)
    if broken:
      # Entries past a row's end are masked, but 0 * NaN is NaN: the next owner
      # of this slot would fail too. The others begin again in a clean cache.
      self._sequences.retract()
      self._table.clear()
      self._model_runner.reset()
    now, (then, before) = time.perf_counter(), self._rate_mark
    if now - then > 1.0:
      self._rate = (self._sampled - before) / (now - then)
      self._rate_mark = (now, self._sampled)

  def _decode_steps(self) -> int:
    """Tokens that the next decode dispatch samples for a row, at most."""
    if self._model_runner.deterministic or self._step_s is None:
      return FEWEST_STEPS
    # Had it compiled, the next one is short, and no more.
    return min(
        max(int(_DISPATCH_S / self._step_s), FEWEST_STEPS), decode.MAX_STEPS
    )

  def _note_filled(self, slot: int, filled: int) -> None:
    """Shares entries that something else than a prefill has computed.

    They differ from a prefill's in the last bits, so that what a request gets
    would depend on whether such entries were still there.
    """
    if self._model_runner.deterministic:
      self._table.spoil(slot)
    else:
      self._table.set_filled(slot, filled)

  def stats(self) -> dict[str, Any]:
    """Load figures under SGLang's names, and a few of our own."""
    total = self._table.num_slots * self._model_runner.max_len
    used = self._table.num_tokens()
    return {
        'num_running_reqs': len(self._sequences.running),
        'num_waiting_reqs': len(self._sequences.waiting),
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
        'num_weight_swaps': self._weights.num_swaps,
        'num_compiled_programs': self._model_runner.num_compiled(),
        'compile_wait_s': self._compile_wait_s,
    }
