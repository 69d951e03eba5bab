"""Gradients of episodes in several segments, packed and with shared prefixes."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.algos import grpo, ppo
from agentrl.data import collate
from agentrl.training import programs as programs_lib, state as state_lib
from tests import tiny

WIDTH = 192


def make_batch(seed, prompt=60):
  """Episodes split anywhere, every segment after the prompt of its task."""
  rng = np.random.default_rng(seed)
  groups = [
      tiny.with_prompt(
          tiny.with_segments(group, rng),
          rng.integers(tiny.CONFIG.vocab_size, size=prompt),
      )
      for group in tiny.random_groups(seed)
  ]
  batch = collate.collate(groups)
  batch = tiny.pad(batch, len(batch.tokens), 512)
  noise = lambda: rng.normal(1.0, size=batch.tokens.shape).astype(np.float32)
  return batch.replace(advantages=noise(), values=noise(), returns=noise())


def single_rows(batch):
  """The same segments, each in a row of its own from its start."""
  spans = [
      (row, np.flatnonzero(batch.segment_ids[row] == number))
      for row in range(len(batch.tokens))
      for number in np.unique(batch.segment_ids[row])
      if number
  ]

  def cut(name):
    x = getattr(batch, name)
    if x is None or np.ndim(x) != 2:
      return x
    out = np.full((len(spans), WIDTH), -1 if name == 'turn_ids' else 0, x.dtype)
    for i, (row, at) in enumerate(spans):
      out[i, : len(at)] = x[row, at]
    return out

  return batch.replace(**{n: cut(n) for n in batch.__dataclass_fields__})


def dense_gradient(learner, batch):
  """The sum over segments, one row each, without packing or prefixes."""
  state, programs = learner
  counts = programs_lib.denominators(batch, np.arange(len(batch.tokens)))
  rows = single_rows(batch)
  grads, total = programs.zeros(), {}
  grads, metrics, _ = programs.accumulate(
      state.networks, grads, state_lib.place(rows, programs.mesh), counts
  )
  return grads, programs_lib.merge([metrics]) | total


def packed_gradient(learner, batch, **options):
  state, programs = learner
  rows = np.arange(len(batch.tokens))
  counts = programs_lib.denominators(batch, rows)
  grads, parts = programs.zeros(), []
  pieces = collate.microbatches(batch, rows, **options)
  for piece, _ in pieces:
    grads, metrics, _ = programs.accumulate(
        state.networks, grads, state_lib.place(piece, programs.mesh), counts
    )
    parts.append(metrics)
  return grads, programs_lib.merge(parts), pieces


LOSSES = {
    'grpo': tiny.bound(grpo, aggregation='token'),
    'turn_mean': tiny.bound(grpo, aggregation='turn'),
    'gspo': tiny.bound(grpo, ratio_level='sequence', aggregation='sequence'),
}


@pytest.mark.parametrize('loss', LOSSES)
def test_packed_segments_have_the_gradient_of_one_row_each(loss):
  learner = tiny.make_learner(LOSSES[loss])
  batch = make_batch(0)
  assert (batch.episodes != batch.segment_ids).any()
  expected, metrics = dense_gradient(learner, batch)
  for options in (
      dict(max_tokens=1024),
      dict(max_tokens=1024, share_prefixes=True),
      dict(max_tokens=512, share_prefixes=True, whole_episodes=True),
  ):
    if loss == 'gspo' and not options.get('whole_episodes'):
      continue
    found, found_metrics, pieces = packed_gradient(learner, batch, **options)
    shared = any(piece.prefix is not None for piece, _ in pieces)
    assert shared == options.get('share_prefixes', False)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(
            a, b, rtol=1e-5, atol=2e-5 * np.abs(b).max()
        ),
        found,
        expected,
    )
    for name, value in metrics.items():
      np.testing.assert_allclose(
          found_metrics[name], value, rtol=1e-4, atol=1e-5, err_msg=name
      )


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_each_sampled_token_is_learnt_from_once_and_no_other(seed):
  # The gradient with respect to advantages of the loss is -1 / tokens on each
  # sampled token of a packed row: ratios are 1.
  batch = make_batch(seed, prompt=100)
  seen = np.zeros(batch.tokens.shape, int)
  for piece, places in collate.microbatches(
      batch, np.arange(len(batch.tokens)), max_tokens=512, share_prefixes=True
  ):
    for p in places:
      seen[p.source] += piece.completion_mask[p.target]
    outside = np.ones(piece.tokens.shape, bool)
    for p in places:
      outside[p.target] = False
    assert not piece.completion_mask[outside].any()
  np.testing.assert_array_equal(seen, batch.completion_mask)


def test_a_critic_s_values_run_across_segments():
  learner = tiny.make_learner(tiny.bound(ppo), critic='own')
  state, programs = learner
  batch = make_batch(1)
  scores = programs_lib.score(programs, state.networks, batch, max_tokens=1024)
  rows = single_rows(batch)
  alone = programs.score(state.networks, state_lib.place(rows, programs.mesh))
  for name in ('logprobs', 'values'):
    np.testing.assert_allclose(
        getattr(scores, name)[batch.completion_mask],
        np.asarray(getattr(alone, name))[rows.completion_mask],
        rtol=1e-5,
        atol=1e-6,
    )
