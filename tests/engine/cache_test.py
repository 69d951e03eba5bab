"""Tests for agentrl.engine.cache: who may use whose entries."""

from hypothesis import given, settings, strategies as st

from agentrl.engine import cache
from agentrl.engine.cache import Lease, SlotTable


def fill(table, tokens, salt=None):
  """A request that runs to the end of its prompt; gives its slot."""
  lease = table.acquire(tokens, len(tokens) - 1, salt)
  table.set_filled(lease.slot, len(tokens) - 1)
  return lease.slot


def test_next_turn_takes_its_parked_slot_over():
  table = SlotTable(3, 16)
  slot = fill(table, [1, 2, 3])
  table.append(slot, 3, [4, 5])  # sampled; the last is not computed yet
  table.set_filled(slot, 4)
  table.release(slot)
  lease = table.acquire([1, 2, 3, 4, 5, 6, 7], 6, None)
  assert lease == Lease(slot, shared=4)


def test_a_fork_copies_and_leaves_the_original():
  table = SlotTable(3, 16)
  slot = fill(table, [1, 2, 3, 4])
  table.release(slot)
  lease = table.acquire([1, 2, 9, 9], 3, None)
  assert lease.shared == 2 and lease.source == slot and lease.slot != slot
  # The first continuation of the original still finds all of it.
  assert table.acquire([1, 2, 3, 4], 3, None) == Lease(slot, shared=3)


def test_a_running_slot_lends_its_entries():
  table = SlotTable(3, 16)
  slot = fill(table, [1, 2, 3, 4])
  lease = table.acquire([1, 2, 3, 4], 3, None)
  assert lease.shared == 3 and lease.source == slot


def test_a_prefix_in_the_making_is_worth_waiting_for():
  table = SlotTable(3, 16)
  first = table.acquire([1, 2, 3, 4], 3, None)
  assert table.acquire([1, 2, 3, 4], 3, None) is None
  table.set_filled(first.slot, 2)
  assert table.acquire([1, 2, 3, 4], 3, None) is None
  # Whoever differs after what is there need not wait.
  assert table.acquire([1, 2, 8], 2, None).shared == 2
  table.set_filled(first.slot, 3)
  assert table.acquire([1, 2, 3, 4], 3, None).shared == 3


def test_the_last_token_is_never_shared():
  table = SlotTable(2, 16)
  slot = fill(table, [1, 2, 3, 4, 5])
  table.release(slot)
  assert table.acquire([1, 2, 3], 2, None).shared == 2


def test_the_least_recently_used_slot_is_evicted():
  table = SlotTable(2, 16)
  old, new = fill(table, [1, 1, 1]), fill(table, [2, 2, 2])
  table.release(old)
  table.release(new)
  assert table.acquire([3, 3, 3], 2, None) == Lease(old, shared=0)


def test_no_slot_means_none():
  table = SlotTable(1, 16)
  fill(table, [1, 2])
  assert not table.has_vacancy()
  assert table.acquire([5, 6], 1, None) is None


def test_salts_separate():
  table = SlotTable(3, 16)
  table.release(fill(table, [1, 2, 3], salt='a'))
  assert table.acquire([1, 2, 3], 2, 'b').shared == 0
  assert table.acquire([1, 2, 3], 2, None).shared == 0
  assert table.acquire([1, 2, 3, 4], 3, 'a').shared == 2


def test_a_flush_forgets_parked_and_running_slots():
  table = SlotTable(3, 16)
  table.release(fill(table, [1, 2, 3]))
  running = fill(table, [4, 5, 6])
  table.flush()
  assert table.count(cache.PARKED) == 0
  assert table.acquire([1, 2, 3], 2, None).shared == 0
  assert table.acquire([4, 5, 6], 2, None).shared == 0
  table.release(running)  # mixes old weights with new: not kept
  assert table.count(cache.PARKED) == 0


def common(a, b):
  size = 0
  while size < min(len(a), len(b)) and a[size] == b[size]:
    size += 1
  return size


tokens = st.lists(st.integers(0, 1), min_size=1, max_size=6)


@given(st.lists(st.tuples(tokens, st.booleans()), max_size=25))
@settings(max_examples=200)
def test_shared_is_the_longest_common_prefix_of_all_slots(requests):
  table, held = SlotTable(4, 8), {}  # held: slot -> computed tokens
  running = []
  for prompt, finish in requests:
    limit = len(prompt) - 1
    lease = table.acquire(prompt, limit, None)
    if lease is None:
      assert len(running) == 4
    else:
      best = max((common(prompt[:limit], t) for t in held.values()), default=0)
      assert lease.shared == best
      assert lease.slot not in running
      if lease.source is not None:
        assert common(prompt[:limit], held[lease.source]) == best
      held[lease.slot] = prompt[:limit]
      table.set_filled(lease.slot, limit)
      running.append(lease.slot)
    if finish and running:
      slot = running.pop(0)
      table.release(slot)
      if not held[slot]:
        del held[slot]
