"""Tests for agentrl.data.collate."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.data import collate, packing
from agentrl.types import TERMINATED, Group
from tests import fakes, tiny

SEEDS = st.integers(0, 2**32 - 1)
ROW_FIELDS = ('tokens', 'segment_ids', 'positions', 'completion_mask',
              'turn_ids', 'rewards', 'sampler_logprobs')  # fmt: skip


def group_of(*episodes):
  return Group(task_id=0, ordinal=0, episodes=episodes)


def test_turn_spans_are_the_runs_of_the_mask():
  # Four prompt ids, then two sampled and one inserted a turn.
  episode = fakes.make_episode((0.0, 1.0))
  assert collate.turn_spans(episode) == [(4, 6), (7, 9)]


def test_a_completion_at_the_very_end_has_a_span():
  episode = dataclasses.replace(
      fakes.make_episode((1.0,)),
      tokens=(0, 1, 2),
      completion_mask=(False, True, True),
      sampler_logprobs=(0.0, -1.0, -1.0),
  )
  assert collate.turn_spans(episode) == [(1, 3)]


def test_a_mask_that_contradicts_the_turns_is_refused():
  episode = dataclasses.replace(
      fakes.make_episode((0.0,)), turns=(fakes.make_turn(completion_tokens=3),)
  )
  with pytest.raises(ValueError, match=r"'e'.*runs of \[2\].*sampled \[3\]"):
    collate.collate([group_of(episode)])


@given(seed=SEEDS)
@settings(max_examples=30)
def test_every_field_matches_the_episodes(seed):
  groups = tiny.random_groups(seed, failures=0.3)
  batch = collate.collate(groups)
  episodes = [e for group in groups for e in group.episodes]
  width = packing.bucket_length(max(len(e.tokens) for e in episodes))
  assert batch.tokens.shape == (8, width)
  for row, episode in enumerate(episodes):
    turn, before = -1, False
    for t in range(batch.tokens.shape[1]):
      real = t < len(episode.tokens)
      sampled = real and episode.completion_mask[t]
      turn += sampled and not before
      before = sampled
      ends = sampled and (
          t + 1 == len(episode.tokens) or not episode.completion_mask[t + 1]
      )
      expected = dict(
          tokens=episode.tokens[t] if real else 0,
          segment_ids=row + 1 if real else 0,
          positions=t if real else 0,
          completion_mask=sampled,
          turn_ids=turn if sampled else -1,
          rewards=np.float32(episode.turns[turn].reward) if ends else 0,
          sampler_logprobs=(
              np.float32(episode.sampler_logprobs[t]) if real else 0
          ),
      )
      for name, value in expected.items():
        assert getattr(batch, name)[row, t] == value, (name, row, t)
    assert batch.group_ids[row] == row // 4
    assert batch.valid[row] == episode.valid
    assert batch.truncated[row] == episode.truncated
    assert batch.episode_return[row] == np.float32(episode.episode_return)


@given(seed=SEEDS)
@settings(max_examples=30)
def test_rewards_before_equal_rewards_after(seed):
  groups = tiny.random_groups(seed)
  batch = collate.collate(groups)
  before = [e.episode_return for group in groups for e in group.episodes]
  np.testing.assert_allclose(
      batch.rewards.sum(axis=1), before, rtol=1e-5, atol=1e-6
  )
  assert (batch.completion_mask[batch.rewards != 0]).all()


@pytest.mark.parametrize('stop_reason', [TERMINATED, 'horizon'])
def test_the_last_reward_is_learnt_from_whatever_ends_the_episode(stop_reason):
  # Truncated episodes end with an observation, terminated ones do not.
  episode = tiny.random_episode(
      np.random.default_rng(0), reward=1.0, stop_reason=stop_reason
  )
  assert episode.completion_mask[-1] == (stop_reason == TERMINATED)
  batch = collate.collate([group_of(episode)])
  assert (batch.rewards * batch.completion_mask).sum() == 2.0


def test_an_episode_without_tokens_or_turns_becomes_an_empty_row():
  failed = fakes.make_episode(
      (), stop_reason='env_error', tokens=(), completion_mask=(),
      sampler_logprobs=(),
  )  # fmt: skip
  batch = collate.collate([group_of(failed, fakes.make_episode((1.0,)))])
  assert not batch.valid[0] and not batch.segment_ids[0].any()
  assert batch.valid[1]


def test_nothing_to_collate_is_refused():
  with pytest.raises(ValueError, match='no episodes'):
    collate.collate([])


@given(
    seed=SEEDS,
    max_tokens=st.sampled_from([1, 64, 200, 1024]),
    multiple=st.sampled_from([1, 2, 4]),
    share=st.floats(0, 1),
)
@settings(max_examples=60)
def test_microbatches_hold_every_valid_row_once(
    seed, max_tokens, multiple, share
):
  groups = tiny.random_groups(seed, num_groups=3, failures=0.3)
  rng = np.random.default_rng(seed)
  # One long episode, so that there are pieces of different lengths.
  groups[0] = dataclasses.replace(
      groups[0],
      episodes=(*groups[0].episodes[:3], tiny.random_episode(rng, turns=20)),
  )
  batch = collate.collate(groups)
  batch = batch.replace(advantages=batch.rewards + 1)
  wanted = rng.permutation(12)[: int(12 * share)]
  pieces = collate.microbatches(
      batch, wanted, max_tokens=max_tokens, multiple=multiple
  )

  rows = [place.row for piece in pieces for place in piece.places]
  assert sorted(rows) == sorted(row for row in wanted if batch.valid[row])
  for piece, places in pieces:
    height, length = piece.tokens.shape
    assert length in packing.LENGTHS
    most = max(max_tokens // length // multiple, 1) * multiple
    ladder = {multiple * n for n in (1, 2, 3, 4, 6, 8, 12, 16)}
    assert height <= most and height in ladder
    filled = 1 + max(place.packed_row for place in places)
    assert height < 2 * filled or height == multiple
    assert piece.prefix is None
    covered = np.zeros((height, length), bool)
    for row, packed_row, start, count, skip, origin in places:
      assert skip == origin == 0
      assert count == batch.segment_ids[row].astype(bool).sum()
      assert not covered[packed_row, start : start + count].any()
      covered[packed_row, start : start + count] = True
      for name in (*ROW_FIELDS, 'advantages'):
        x, whole = getattr(piece, name), getattr(batch, name)
        assert x.shape == (height, length) and x.dtype == whole.dtype
        np.testing.assert_array_equal(
            x[packed_row, start : start + count], whole[row, :count]
        )
    np.testing.assert_array_equal(piece.segment_ids > 0, covered)
    assert not piece.completion_mask[~covered].any()
    assert (piece.turn_ids[~covered] == -1).all()
    for name in ('group_ids', 'valid', 'episode_return', 'truncated'):
      x, whole = getattr(piece, name), getattr(batch, name)
      np.testing.assert_array_equal(x[: len(whole)], whole)
      assert x.shape == (packing.bucket_count(12),)
    assert piece.old_logprobs is None


@given(seed=SEEDS)
@settings(max_examples=20)
def test_unpacking_gives_the_rows_back(seed):
  batch = collate.collate(tiny.random_groups(seed, num_groups=3))
  out = np.zeros_like(batch.tokens)
  for piece, places in collate.microbatches(
      batch, np.arange(12), max_tokens=128
  ):
    collate.unpack(piece.tokens, places, out)
  np.testing.assert_array_equal(out, batch.tokens)


def test_short_episodes_share_a_row():
  rng = np.random.default_rng(0)
  long = tiny.random_episode(rng, turns=40)
  short = [tiny.random_episode(rng, turns=1) for _ in range(4)]
  batch = collate.collate([group_of(*short, long)])
  ((piece, places),) = collate.microbatches(
      batch, np.arange(5), max_tokens=1024
  )
  # 40 turns have at least 2 and at most 10 tokens each: no row of 64 holds
  # them, and the four short ones fit behind.
  assert piece.tokens.shape == (1, packing.bucket_length(len(long.tokens)))
  assert [p.row for p in places][0] == 4 and len(places) == 5


def test_only_invalid_rows_give_no_piece():
  batch = collate.collate(tiny.random_groups(0, failures=1.0))
  assert collate.microbatches(batch, np.arange(8), max_tokens=64) == []


@pytest.mark.parametrize('max_tokens', [64, 256, 4096])
def test_rows_that_belong_together_share_a_packed_row(max_tokens):
  batch = tiny.random_batch(0, num_groups=4)
  rows = np.random.default_rng(0).permutation(16)
  pieces = collate.microbatches(
      batch, rows, max_tokens=max_tokens, rows_per_example=2
  )
  partner = dict(rows.reshape(-1, 2).tolist())
  seen = []
  for _, places in pieces:
    for first, second in zip(places[::2], places[1::2], strict=True):
      assert partner[first.row] == second.row
      assert first.packed_row == second.packed_row
      assert first.start + first.length == second.start
      seen += [first.row, second.row]
  assert sorted(seen) == list(range(16))


def test_an_invalid_row_leaves_its_partner_out():
  batch = tiny.random_batch(0)
  valid = np.arange(8) != 3
  ((_, places),) = collate.microbatches(
      batch.replace(valid=valid),
      np.arange(8),
      max_tokens=4096,
      rows_per_example=2,
  )
  assert sorted(p.row for p in places) == [0, 1, 4, 5, 6, 7]


def with_prompts(seed, groups):
  """The groups, each after a prompt of its own of up to 150 tokens."""
  rng = np.random.default_rng(seed)
  return [
      tiny.with_prompt(group, rng.integers(32, size=rng.integers(150)))
      for group in groups
  ]


@given(seed=SEEDS, max_tokens=st.sampled_from([1, 400, 4096]))
@settings(max_examples=40)
def test_rows_are_their_prefix_and_what_follows_it(seed, max_tokens):
  groups = tiny.random_groups(seed, num_groups=3, group_size=8, failures=0.3)
  batch = collate.collate(with_prompts(seed, groups))
  rows = np.random.default_rng(seed).permutation(24)
  limits = dict(max_tokens=max_tokens, multiple=2)
  alone = collate.microbatches(batch, rows, **limits)
  shared = collate.microbatches(batch, rows, share_prefixes=True, **limits)
  places = [place for _, places in shared for place in places]
  assert sorted(p.row for p in places) == np.flatnonzero(batch.valid).tolist()
  if all(piece.prefix is None for piece, _ in shared):
    assert [x for _, x in shared] == [x for _, x in alone]
    return
  size = lambda pieces: sum(
      part.tokens.size
      for piece, _ in pieces
      for part in (piece, piece.prefix)
      if part is not None
  )
  assert size(shared) <= 0.9 * size(alone)
  for piece, places in shared:
    prefix = piece.prefix
    for p in places:
      here = prefix.rows[p.packed_row], slice(p.skip)
      follows = piece.tokens[p.target]
      whole = np.concatenate([prefix.tokens[here], follows])
      assert batch.segment_ids[p.row].sum() == len(whole) * (p.row + 1)
      np.testing.assert_array_equal(whole, batch.tokens[p.row, : len(whole)])
      assert prefix.segment_ids[here].all()
      np.testing.assert_array_equal(
          piece.positions[p.target], np.arange(p.skip, len(whole))
      )
      assert not batch.completion_mask[p.row, : p.skip].any()
    used = {(p.packed_row, p.skip) for p in places}
    ends = {prefix.rows[row]: skip for row, skip in used}
    found = prefix.segment_ids.sum(axis=1)
    assert all(found[row] == skip for row, skip in ends.items())
    assert found.sum() == sum(ends.values())  # the others are padding
  out = np.where(batch.completion_mask, 0, batch.tokens)
  for piece, places in shared:
    collate.unpack(piece.tokens, places, out)
  valid = batch.valid
  np.testing.assert_array_equal(out[valid], batch.tokens[valid])


def test_pairs_share_their_prompt_and_a_row():
  groups = tiny.random_groups(0, num_groups=6, group_size=2)
  batch = collate.collate([
      tiny.with_prompt(group, [group.task_id] * 120) for group in groups
  ])  # fmt: skip
  pieces = collate.microbatches(
      batch,
      np.arange(12),
      max_tokens=4096,
      rows_per_example=2,
      share_prefixes=True,
  )
  assert all(piece.prefix is not None for piece, _ in pieces)
  for _, places in pieces:
    for first, second in zip(places[::2], places[1::2], strict=True):
      assert (first.row + 1, first.packed_row) == second[:2]
      assert first.skip == second.skip


# Episodes of several segments.


def collated(seed, *, num_groups=3, group_size=4):
  """Episodes that were split anywhere, and the same ones whole."""
  rng = np.random.default_rng(seed)
  whole = tiny.random_groups(seed, num_groups=num_groups, group_size=group_size)
  split = [tiny.with_segments(group, rng) for group in whole]
  return split, collate.collate(split), collate.collate(whole)


@given(seed=SEEDS)
@settings(max_examples=30)
def test_segments_restart_positions_and_keep_their_episode(seed):
  groups, batch, _ = collated(seed)
  number = 0
  for row, episode in enumerate(e for g in groups for e in g.episodes):
    for start, stop in episode.segment_spans:
      number += 1
      assert (batch.segment_ids[row, start:stop] == number).all()
      assert batch.positions[row, start:stop].tolist() == [*range(stop - start)]
    n = len(episode.tokens)
    assert (batch.episodes[row, :n] == row + 1).all()
    assert not batch.episodes[row, n:].any()
    assert not batch.segment_ids[row, n:].any()


@given(seed=SEEDS)
@settings(max_examples=30)
def test_a_split_moves_sampled_tokens_and_changes_none(seed):
  _, split, whole = collated(seed)
  for name in ('tokens', 'turn_ids', 'rewards', 'sampler_logprobs'):
    for row in range(len(split.tokens)):
      np.testing.assert_array_equal(
          getattr(split, name)[row][split.completion_mask[row]],
          getattr(whole, name)[row][whole.completion_mask[row]],
      )
  np.testing.assert_array_equal(split.episode_return, whole.episode_return)


@given(
    seed=SEEDS,
    max_tokens=st.sampled_from([1, 128, 4096]),
    share=st.booleans(),
    whole=st.booleans(),
)
@settings(max_examples=40)
def test_every_segment_is_in_one_packed_row_once(
    seed, max_tokens, share, whole
):
  groups = tiny.random_groups(seed, num_groups=3)
  rng = np.random.default_rng(seed)
  prompts = rng.integers(32, size=(3, 100))
  groups = [
      tiny.with_prompt(tiny.with_segments(group, rng), prompt)
      for group, prompt in zip(groups, prompts, strict=True)
  ]
  batch = collate.collate(groups)
  pieces = collate.microbatches(
      batch,
      rng.permutation(12),
      max_tokens=max_tokens,
      multiple=2,
      share_prefixes=share,
      whole_episodes=whole,
  )
  seen, of_episode = [], {}
  for number, (piece, places) in enumerate(pieces):
    for p in places:
      ids = np.unique(piece.segment_ids[p.target])
      assert len(ids) == 1
      seen.append(int(ids[0]))
      of_episode.setdefault(p.row, set()).add(number)
      # The prefix and what follows it are the whole segment.
      span = batch.segment_ids[p.row] == ids[0]
      prefix = (
          piece.prefix.tokens[piece.prefix.rows[p.packed_row], : p.skip]
          if p.skip
          else []
      )
      np.testing.assert_array_equal(
          [*prefix, *piece.tokens[p.target]], batch.tokens[p.row][span]
      )
      np.testing.assert_array_equal(
          piece.positions[p.target],
          np.arange(p.skip, p.skip + p.length),
      )
      assert (piece.episodes[p.target] == p.row + 1).all()
  expected = np.unique(batch.segment_ids)
  assert sorted(seen) == expected[expected > 0].tolist()
  if whole:
    assert all(len(numbers) == 1 for numbers in of_episode.values())


def test_a_window_shares_its_opening():
  # 30 turns of 60 sampled and 30 observed tokens after an opening of 400, of
  # which the policy sees the last two.
  episodes = [
      tiny.windowed_episode(seed, turns=30, window=2) for seed in (0, 1)
  ]
  batch = collate.collate([group_of(*episodes)])
  limits = dict(max_tokens=16384)
  alone = collate.microbatches(batch, np.arange(2), **limits)
  shared = collate.microbatches(
      batch, np.arange(2), share_prefixes=True, **limits
  )

  def computed(pieces):
    parts = [x for piece, _ in pieces for x in (piece, piece.prefix) if x]
    real = sum(int((part.segment_ids > 0).sum()) for part in parts)
    return real, sum(part.tokens.size for part in parts)

  (real, padded), (real_alone, padded_alone) = computed(shared), computed(alone)
  assert real_alone == sum(len(episode.tokens) for episode in episodes)
  assert 2 * real < real_alone
  assert 1.8 * padded < padded_alone


def test_what_a_turn_is_not_to_be_learnt_from_is_masked():
  act, summary = (
      fakes.make_turn(1.0),
      fakes.make_turn(kind='summary', learn=False),
  )
  like = fakes.make_episode((0.0, 0.0))
  episode = dataclasses.replace(like, turns=(act, summary))
  batch = collate.collate([group_of(episode)])
  first, second = episode.sampled_runs
  assert batch.completion_mask[0, slice(*first)].all()
  assert not batch.completion_mask[0, slice(*second)].any()
  assert batch.rewards.sum() == 1.0


def test_what_no_group_shares_is_left_where_it_is():
  batch = collate.collate(tiny.random_groups(0))
  ((piece, _),) = collate.microbatches(
      batch, np.arange(8), max_tokens=4096, share_prefixes=True
  )
  assert piece.prefix is None
