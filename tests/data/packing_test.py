"""Tests for agentrl.data.packing."""

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.data import packing

MEMBERS = st.lists(
    st.tuples(st.integers(1, 300), st.integers(0, 5)), min_size=1, max_size=60
)


@given(length=st.integers(1, packing.LENGTHS[-1]))
def test_bucket_is_the_smallest_that_fits(length):
  bucket = packing.bucket_length(length)
  assert bucket in packing.LENGTHS and bucket >= length
  assert all(other < length for other in packing.LENGTHS if other < bucket)
  assert bucket == packing.LENGTHS[0] or length > bucket * 2 / 3


def test_a_row_longer_than_the_longest_bucket_is_refused():
  longest = packing.LENGTHS[-1]
  with pytest.raises(ValueError, match=f'{longest + 1} tokens exceed'):
    packing.bucket_length(longest + 1)


@given(
    members=MEMBERS,
    max_tokens=st.sampled_from([1, 256, 1000, 8192]),
    multiple=st.sampled_from([1, 2, 8]),
    prefix_length=st.sampled_from([0, 1, 100, 500]),
)
@settings(max_examples=100)
def test_a_plan_holds_every_member_once(
    members, max_tokens, multiple, prefix_length
):
  needs, groups = map(list, zip(*members, strict=True))
  pieces = packing.plan(
      packing.Members(needs, groups, prefix_length),
      max_tokens=max_tokens,
      multiple=multiple,
  )
  rows = [row for piece in pieces for row in piece.rows]
  assert sorted(sum(rows, [])) == list(range(len(members)))
  length = packing.bucket_length(max(needs))
  prefix_length = prefix_length and packing.bucket_length(prefix_length)
  for piece in pieces:
    height, _, prefixes, _ = piece.shape
    assert piece.shape[1::2] == (length, prefix_length)
    assert len(piece.prefixes) == len(piece.rows) <= height
    assert height % multiple == prefixes % multiple == 0
    size = height * length + prefixes * prefix_length
    assert size == piece.shape.tokens == packing.cost(piece.shape)
    assert size <= max_tokens or (height == multiple and prefixes <= multiple)
    names = {}
    for row, prefix in zip(piece.rows, piece.prefixes, strict=True):
      assert sum(needs[member] for member in row) <= length
      assert {groups[member] for member in row} == {
          names.setdefault(prefix, groups[row[0]])
      }
    assert sorted(names) == list(range(len(set(names.values()))))
    assert len(names) <= prefixes or not prefix_length
  assert len({piece.shape for piece in pieces[:-1]}) <= 1
  # Of the last piece at most a third is padding, if there is a choice.
  assert (pieces[-1].shape[0] - multiple) * 2 / 3 < len(pieces[-1].rows)


@given(needs=st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_a_member_is_in_the_first_row_that_has_room(needs):
  rows, room = [], []
  for member in sorted(range(len(needs)), key=lambda i: (-needs[i], i)):
    row = next((i for i, x in enumerate(room) if x >= needs[member]), None)
    if row is None:
      row = len(room)
      rows.append([])
      room.append(300)
    rows[row].append(member)
    room[row] -= needs[member]
  members = packing.Members(needs, [0] * len(needs))
  assert members.rows(300) == [(0, [row]) for row in rows]


def test_rows_take_time_in_proportion_to_their_members():
  def seconds(count):
    members = packing.Members([200] * count, [0] * count)
    times = []
    for _ in range(3):
      start = time.process_time()
      members.rows(300)
      times.append(time.process_time() - start)
    return min(times)

  # Looking through all rows for each would be 256 times as long.
  assert seconds(64_000) < 64 * seconds(4_000)


def test_the_rows_of_a_group_are_in_as_few_pieces_as_there_is_room():
  # Two rows of 64 a group. A piece has room for a prefix and two rows.
  members = packing.Members([40] * 6, [0, 1, 2] * 2, prefix_length=64)
  plan = packing.plan(members, max_tokens=192, multiple=1)
  assert [piece.rows for piece in plan] == [[[0], [3]], [[1], [4]], [[2], [5]]]
  assert all(piece.prefixes == [0, 0] for piece in plan)
  assert all(piece.shape.tokens == 192 for piece in plan)


def naive_prefix(rows):
  """Longest common beginning without a sampled token or the last of a row."""
  length = 0
  while all(
      length + 1 < len(tokens)
      and not mask[length]
      and tokens[length] == rows[0][0][length]
      for tokens, mask in rows
  ):
    length += 1
  return length


@given(data=st.data())
@settings(max_examples=100)
def test_a_common_prefix_ends_before_what_is_sampled(data):
  rows = []
  for _ in range(data.draw(st.integers(1, 4))):
    # Few different ids: often the same, in prompts and in completions.
    tokens = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=8))
    prompt = data.draw(st.integers(0, len(tokens)))
    mask = [False] * prompt + [True] * (len(tokens) - prompt)
    rows.append((tokens, mask))
  lengths = np.array([len(tokens) for tokens, _ in rows])
  tokens, sampled = np.zeros((2, len(rows), 8), int)
  for row, (ids, mask) in enumerate(rows):
    tokens[row, : len(ids)], sampled[row, : len(ids)] = ids, mask
  found = packing.common_prefix(tokens, lengths, sampled.astype(bool))
  assert found == naive_prefix(rows)
