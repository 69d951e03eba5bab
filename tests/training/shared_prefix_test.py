"""Prompts that are computed once for a group change nothing but the work."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.algos import ppo
from agentrl.data import collate
from agentrl.training import programs as programs_lib, state as state_lib
from agentrl.types import Group
from tests import tiny


def groups_with_prompts(seed, lengths, **options):
  """Random groups, each with a prompt of its own before all its episodes.

  In every other group the first completions follow it at once, in the others
  after tokens that the episodes do not share.
  """
  groups = tiny.random_groups(seed, num_groups=len(lengths), **options)
  rng = np.random.default_rng([seed, 1])
  prompts = [rng.integers(tiny.CONFIG.vocab_size, size=n) for n in lengths]
  groups[1::2] = map(tiny.without_openings, groups[1::2])
  return [
      tiny.with_prompt(group, prompt)
      for group, prompt in zip(groups, prompts, strict=True)
  ]


def make_batch(groups, seed=0):
  """Advantages that cancel nowhere, and what a critic's loss reads."""
  batch = tiny.make_batch(groups, width=192)
  rng = np.random.default_rng(seed)
  noise = lambda: rng.normal(1.0, size=batch.tokens.shape).astype(np.float32)
  return batch.replace(advantages=noise(), values=noise(), returns=noise())


def gradient(learner, batch, *, share, max_tokens):
  """Gradient, log-probabilities and metrics of a minibatch of all rows."""
  state, programs = learner
  rows = np.arange(len(batch.tokens))
  grads, parts = programs.zeros(), []
  logprobs = np.zeros(batch.tokens.shape, np.float32)
  pieces = collate.microbatches(
      batch, rows, max_tokens=max_tokens, share_prefixes=share
  )
  for piece, places in pieces:
    assert (piece.prefix is not None) == share
    grads, metrics, found = programs.accumulate(
        state.networks,
        grads,
        state_lib.place(piece, programs.mesh),
        programs_lib.denominators(batch, rows),
    )
    parts.append(metrics)
    collate.unpack(np.asarray(found.logprobs), places, logprobs)
  logprobs = np.where(batch.completion_mask, logprobs, 0)
  return grads, logprobs, programs_lib.merge(parts), len(pieces)


def assert_shares_right(learner, batch, max_tokens):
  """Compares with one piece without sharing; how many there were with it."""
  grads, *expected, _ = gradient(
      learner, batch, share=False, max_tokens=1 << 20
  )
  shared, *found, pieces = gradient(
      learner, batch, share=True, max_tokens=max_tokens
  )
  tiny.assert_trees_close(found, expected, rtol=1e-5, atol=1e-5)
  assert_gradients_close(shared, grads)
  return pieces


def assert_gradients_close(actual, expected):
  """float32 sums in another order."""

  def check(a, b):
    assert np.abs(b).max() > 0
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())

  jax.tree.map(check, actual, expected)


@pytest.fixture(scope='module', name='critics')
def _critics():
  """A learner whose critic has a trunk of its own."""
  state, programs = tiny.make_learner(tiny.bound(ppo), critic='own')
  # A head of zeros, as it starts, would give its trunk no gradient.
  rng = np.random.default_rng(3)
  state.critic['head'] = jax.tree.map(
      lambda x: rng.normal(size=x.shape).astype(np.float32),
      state.critic['head'],
  )
  return state, programs


# Whole, or a packed row and its prefix a piece, so that groups are in several.
@pytest.mark.parametrize(
    'max_tokens, pieces',
    [pytest.param(2048, 1, marks=pytest.mark.slow), (128, 4)],
)
def test_policy_and_critic_get_the_same_gradient(critics, max_tokens, pieces):
  batch = make_batch(
      groups_with_prompts(0, (50, 61), group_size=8, failures=0.2)
  )
  assert not batch.valid.all()
  assert assert_shares_right(critics, batch, max_tokens) == pieces


def test_scores_are_those_of_one_row_at_a_time(critics):
  state, programs = critics
  batch = make_batch(groups_with_prompts(1, (50, 61)))
  score = lambda batch: programs_lib.score(
      programs, state.networks, batch, max_tokens=128
  )
  shared = score(batch)
  alone = [score(batch.replace(valid=np.arange(8) == row)) for row in range(8)]
  last = (batch.segment_ids > 0).sum(axis=1) - 1
  bootstrap = np.zeros_like(batch.completion_mask)
  bootstrap[np.arange(8), last] = True
  for name, read in dict(
      logprobs=batch.completion_mask,
      values=batch.completion_mask,
      next_values=bootstrap,
  ).items():
    expected = sum(getattr(scores, name) for scores in alone)
    assert np.abs(expected[read]).min() > 0
    np.testing.assert_allclose(
        getattr(shared, name)[read], expected[read], rtol=1e-5, atol=1e-6
    )
  assert not shared.logprobs[:, :40].any()  # nobody asks for a prompt's


def various_groups():
  """Two that share, one that does not, and a lone episode."""
  groups = groups_with_prompts(2, (60, 60, 0, 48))
  groups[3] = Group(3, 3, groups[3].episodes[:1])
  return groups


@pytest.mark.slow
def test_groups_that_share_nothing_and_lone_episodes_go_along():
  learner = tiny.new_state(), tiny.programs()
  assert_shares_right(learner, make_batch(various_groups()), 2048)


def test_an_update_says_what_it_saved():
  batch = make_batch(various_groups())
  rows = np.arange(len(batch.tokens))
  metrics = programs_lib.update(
      tiny.programs(), tiny.new_state(), batch, rows, max_tokens=2048
  ).metrics
  # Each of two groups of four has its prompt once, and what follows may begin
  # alike as well.
  tokens = (batch.segment_ids > 0).sum()
  assert metrics['train/tokens'] == tokens
  assert 2 * 3 * 60 <= round(metrics['train/shared'] * tokens) < 2 * 3 * 64
  assert 0 < metrics['train/padding'] < 1


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(0, 64), min_size=1, max_size=4),
    max_tokens=st.sampled_from([512, 1024]),
)
@settings(max_examples=8)
def test_random_groups_give_the_same_update(seed, lengths, max_tokens):
  """Whether sharing pays or not."""
  groups = groups_with_prompts(seed, lengths, failures=0.2)
  batch = make_batch(groups, seed)
  rows = np.random.default_rng(seed).permutation(len(batch.tokens))
  apart = batch.replace(group_ids=np.arange(len(rows), dtype=np.int32))
  found, expected = (
      programs_lib.update(
          tiny.programs(), tiny.new_state(), b, rows, max_tokens=max_tokens
      )
      for b in (batch, apart)
  )
  tiny.assert_trees_close(
      found[0].params, expected[0].params, rtol=1e-5, atol=1e-6
  )
