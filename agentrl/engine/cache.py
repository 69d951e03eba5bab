"""Which slot of the key-value cache holds which tokens.

Host-side bookkeeping only: the model runner owns the arrays. A slot is free,
running (a request owns it) or parked: its request has ended, and the entries
wait for a request that begins with the same tokens, as an episode's next turn
does.

A request may use the entries of any slot, parked or running, up to the first
token that differs. It takes a parked slot over when it goes on exactly where
that slot ends; else it gets a slot of its own and a copy of the shared part, so
the samples of a group share one prefill and none disturbs another.

What layers without positions remember is that of the whole slot (`whole`).
Such a slot is shared as it is or not at all: with requests that go on where it
ends, as an episode's next turn does, and the other samples of a group do until
the first has been given a token.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

FREE, PARKED, RUNNING = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Lease:
  """A slot for a request.

  Attributes:
    slot: its index.
    shared: tokens whose entries need not be computed.
    source: the slot to copy them from; None when they are in place.
  """

  slot: int
  shared: int
  source: int | None = None


class SlotTable:
  """The state of `num_slots` slots of `max_len` positions.

  Every entry was computed from tokens, a salt (requests with different salts
  share nothing) and weights. A flush forgets parked slots and makes running
  ones unshareable to their end: their entries mix old weights with new.
  """

  def __init__(
      self,
      num_slots: int,
      max_len: int,
      *,
      alignment: int = 1,
      whole: bool = False,
  ):
    """All slots are free.

    Args:
      num_slots: rows of the cache.
      max_len: positions of a slot.
      alignment: entries are shared in multiples of it.
      whole: whether a slot's entries are shared all together or not at all.
    """
    self.num_slots = num_slots
    self._alignment = alignment
    self._whole = whole
    self._tokens = np.zeros((num_slots, max_len), np.int32)
    # Entries [0, filled) are computed; [filled, planned) will be, by the owner.
    self._filled = np.zeros(num_slots, np.int64)
    self._planned = np.zeros(num_slots, np.int64)
    self._state = np.full(num_slots, FREE, np.int8)
    self._salts: list[str | None] = [None] * num_slots
    self._shareable = np.zeros(num_slots, bool)
    self._used = np.zeros(num_slots, np.int64)
    self._clock = 0

  def acquire(
      self, tokens: Sequence[int], limit: int, salt: str | None
  ) -> Lease | None:
    """Finds the longest shared beginning and a slot for a request.

    Args:
      tokens: prompt, and what was generated before a retraction.
      limit: most tokens to share; below `len(tokens)`, since the last token
        has to run through the model for what follows it.
      salt: the request's cache key.

    Returns:
      None if there is no slot (see `has_vacancy`), or if a running request is
      just computing more of these tokens than are there yet: worth waiting for.
    """
    ids = np.asarray(tokens, np.int32)
    usable = self._shareable & np.array([s == salt for s in self._salts])
    agree = self._agreement(ids[:limit], usable)
    present = self._shareable_part(agree, self._filled)
    best = int(present.argmax())
    shared = int(present[best])
    if int(self._shareable_part(agree, self._planned).max()) > shared:
      return None
    extends = shared and shared == self._filled[best]
    slot: int | None
    source: int | None
    if extends and self._state[best] == PARKED:
      slot, source = best, None
    else:
      slot = self._vacant()
      if slot is None:
        return None
      source = best if shared and slot != best else None
    if shared:
      self._touch(best)
    self._tokens[slot, : len(ids)] = ids
    self._filled[slot] = shared
    self._planned[slot] = len(ids) - 1
    self._state[slot] = RUNNING
    self._salts[slot] = salt
    self._shareable[slot] = True
    self._touch(slot)
    return Lease(slot, shared, source)

  def _align(self, sizes):
    return sizes - sizes % self._alignment

  def _shareable_part(self, agree: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """`[num_slots]` entries that may be shared of `sizes`, where tokens agree."""
    if self._whole:
      aligned = sizes == self._align(sizes)
      return np.where((agree >= sizes) & aligned, sizes, 0)
    return self._align(np.minimum(agree, sizes))

  def _agreement(self, tokens: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """`[num_slots]` tokens on which each slot agrees, computed or planned."""
    size = len(tokens)
    if not size or not usable.any():
      return np.zeros(self.num_slots, np.int64)
    # A column that always differs ends the search.
    differ = np.ones((self.num_slots, size + 1), bool)
    np.not_equal(self._tokens[:, :size], tokens, out=differ[:, :size])
    reach = np.maximum(self._planned, self._filled)
    return np.where(usable, np.minimum(differ.argmax(axis=1), reach), 0)

  def _vacant(self) -> int | None:
    """A free slot, else the parked one that was used least recently."""
    for state in (FREE, PARKED):
      slots = np.flatnonzero(self._state == state)
      if len(slots):
        return int(slots[self._used[slots].argmin()])
    return None

  def _touch(self, slot: int) -> None:
    self._clock += 1
    self._used[slot] = self._clock

  def append(self, slot: int, start: int, tokens: Sequence[int]) -> None:
    """Notes the tokens at positions from `start`."""
    self._tokens[slot, start : start + len(tokens)] = tokens

  def set_filled(self, slot: int, filled: int) -> None:
    """Notes that entries [0, filled) are computed."""
    self._filled[slot] = filled
    self._planned[slot] = max(filled, self._planned[slot])

  def spoil(self, slot: int) -> None:
    """Notes that a slot has gone beyond its entries: it is not shared whole."""
    if self._whole:
      self._shareable[slot] = False

  def release(self, slot: int) -> None:
    """Parks a running slot, or frees it if nothing in it can be shared."""
    # The rest could not be shared, and a request that continues takes the slot.
    aligned = self._align(self._filled[slot])
    if self._whole and aligned < self._filled[slot]:
      self.spoil(slot)
    self._filled[slot] = aligned
    keep = self._shareable[slot] and self._filled[slot] > 0
    self._state[slot] = PARKED if keep else FREE
    self._planned[slot] = self._filled[slot]
    self._shareable[slot] = keep
    self._touch(slot)

  def flush(self) -> None:
    """Forgets every entry; running slots keep theirs, for their owners only."""
    self._state[self._state == PARKED] = FREE
    self._shareable[:] = False

  def clear(self) -> None:
    """Frees every slot: the arrays are gone."""
    self._state[:] = FREE
    self._shareable[:] = False

  def has_vacancy(self) -> bool:
    """True if some slot is free or parked."""
    return bool((self._state != RUNNING).any())

  def count(self, state: int) -> int:
    """Slots that are FREE, PARKED or RUNNING."""
    return int(np.sum(self._state == state))

  def num_tokens(self) -> int:
    """Entries in parked and running slots."""
    return int(self._filled[self._state != FREE].sum())
