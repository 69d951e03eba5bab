"""Tests for agentrl.algos.dpo."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.algos import dpo
from agentrl.algos.policy import Outputs
from agentrl.data import collate, packing
from agentrl.training import programs as programs_lib, state as state_lib
from agentrl.training.state import Networks
from tests import tiny

# One object, so that what is compiled for it is shared.
LOSS = functools.partial(dpo.loss, hyperparams=dpo.Hyperparams(beta=0.5))


def pairs(seed, count=4):
  """A batch of `count` pairs, two rows each, and log-probabilities."""
  batch = tiny.random_batch(seed, num_groups=count, group_size=2)
  rng = np.random.default_rng(seed)
  reference, logprobs, entropy = -rng.exponential(
      size=(3, *batch.tokens.shape)
  ).astype(np.float32)
  return batch.replace(ref_logprobs=reference), Outputs(logprobs, entropy)


def margins(batch, outputs, hyperparams):
  """h of each pair, token by token."""
  gain = np.zeros(len(batch.tokens))
  for row, column in np.argwhere(batch.completion_mask):
    gain[row] += outputs.logprobs[row, column]
    if not hyperparams.reference_free:
      gain[row] -= batch.ref_logprobs[row, column]
  if hyperparams.length_normalised:
    gain /= batch.completion_mask.sum(axis=1)
  return gain[0::2] - gain[1::2]


@pytest.mark.parametrize('length_normalised', [False, True])
@pytest.mark.parametrize('reference_free', [False, True])
def test_the_loss_is_the_mean_over_pairs_of_whole_episodes(
    reference_free, length_normalised
):
  batch, outputs = pairs(0)
  hyperparams = dpo.Hyperparams(
      beta=0.3,
      reference_free=reference_free,
      length_normalised=length_normalised,
  )
  expected = margins(batch, outputs, hyperparams)
  if reference_free:
    batch = batch.replace(ref_logprobs=None)
  loss, metrics = dpo.loss(
      outputs, batch, tiny.denominators(batch), hyperparams
  )
  np.testing.assert_allclose(
      loss, np.mean([math.log1p(math.exp(-0.3 * h)) for h in expected]), 1e-5
  )
  np.testing.assert_allclose(metrics['policy/loss'], loss)
  np.testing.assert_allclose(
      metrics['preference/margin'], expected.mean(), rtol=1e-4
  )
  np.testing.assert_allclose(
      metrics['preference/accuracy'], np.mean(expected > 0)
  )
  np.testing.assert_allclose(
      metrics['preference/better'] - metrics['preference/worse'],
      expected.mean(),
      rtol=1e-4,
  )


def test_imitating_adds_the_better_episodes_nll_a_token():
  batch, outputs = pairs(5)
  denominators = tiny.denominators(batch)
  plain, metrics = dpo.loss(outputs, batch, denominators)
  loss, _ = dpo.loss(
      outputs, batch, denominators, dpo.Hyperparams(nll_coef=0.7)
  )
  mask = batch.completion_mask
  expected = np.mean([
      -outputs.logprobs[row][mask[row]].mean() for row in range(0, len(mask), 2)
  ])
  np.testing.assert_allclose(metrics['policy/nll'], expected, rtol=1e-5)
  np.testing.assert_allclose(loss, plain + 0.7 * expected, rtol=1e-5)


def test_only_the_policys_tokens_have_a_gradient_and_the_right_sign():
  batch, outputs = pairs(1)
  chosen = np.asarray(batch.completion_mask)
  # Whatever stands elsewhere is unseen.
  logprobs = jnp.where(chosen, outputs.logprobs, jnp.nan)
  batch = batch.replace(ref_logprobs=np.where(chosen, batch.ref_logprobs, -9e9))
  grad = jax.grad(
      lambda x: dpo.loss(
          Outputs(x, outputs.entropy), batch, tiny.denominators(batch)
      )[0]
  )(logprobs)
  assert np.all(grad[~chosen] == 0)
  assert np.all(grad[0::2][chosen[0::2]] < 0)
  assert np.all(grad[1::2][chosen[1::2]] > 0)


def test_a_policy_that_is_its_reference_has_the_loss_of_a_coin():
  batch, outputs = pairs(2)
  batch = batch.replace(ref_logprobs=outputs.logprobs)
  loss, metrics = dpo.loss(outputs, batch, tiny.denominators(batch))
  np.testing.assert_allclose(loss, math.log(2), rtol=1e-6)
  assert metrics['preference/accuracy'] == 0.5


def test_a_margin_within_rounding_decides_nothing():
  batch, outputs = pairs(2)
  # 1e-6 on each token the policy chose, as two programs round differently.
  noise = np.random.default_rng(0).choice(
      np.float32([-1e-6, 1e-6]), batch.tokens.shape
  )
  batch = batch.replace(ref_logprobs=outputs.logprobs + noise)
  _, metrics = dpo.loss(outputs, batch, tiny.denominators(batch))
  assert metrics['preference/margin'] != 0
  assert metrics['preference/accuracy'] == 0.5

  # The last token of a better and of a worse episode, by more than rounding.
  reference = np.array(outputs.logprobs)
  for row in (0, 3):
    reference[row, np.flatnonzero(batch.completion_mask[row])[-1]] -= 1e-2
  _, metrics = dpo.loss(
      outputs, batch.replace(ref_logprobs=reference), tiny.denominators(batch)
  )
  # Of four pairs one is won, one lost and two undecided.
  assert metrics['preference/accuracy'] == 0.5
  reference[3] = outputs.logprobs[3]
  _, metrics = dpo.loss(
      outputs, batch.replace(ref_logprobs=reference), tiny.denominators(batch)
  )
  assert metrics['preference/accuracy'] == (1 + 3 * 0.5) / 4


def test_a_split_keeps_pairs_whole_and_the_gradient():
  batch, _ = pairs(3, count=8)
  programs = tiny.programs(LOSS)
  params = tiny.new_state().params

  def gradient(max_tokens):
    grads, parts = programs.zeros(), []
    denominators = tiny.denominators(batch)
    pieces = collate.microbatches(
        batch, np.arange(16), max_tokens=max_tokens, rows_per_example=2
    )
    for piece, places in pieces:
      assert all(
          a.row + 1 == b.row and a.packed_row == b.packed_row
          for a, b in zip(places[::2], places[1::2], strict=True)
      )
      piece = state_lib.place(piece, programs.mesh)
      grads, metrics, _ = programs.accumulate(
          Networks(params), grads, piece, denominators
      )
      parts.append(metrics)
    return grads.policy, programs_lib.merge(parts), len(pieces)

  whole, expected, pieces = gradient(1 << 20)
  assert pieces == 1
  used = np.asarray(batch.segment_ids > 0).sum(axis=1)
  width = packing.bucket_length(int((used[0::2] + used[1::2]).max()))
  for packed_rows, least in ((4, 2), (1, 4)):
    grads, metrics, pieces = gradient(width * packed_rows)
    assert pieces >= least
    tiny.assert_trees_close(grads, whole, rtol=1e-4, atol=1e-6)
    for key, value in expected.items():
      np.testing.assert_allclose(metrics[key], value, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_learning_makes_the_better_episode_likelier():
  batch, _ = pairs(4, count=4)
  programs = tiny.programs(LOSS)
  state = tiny.new_state()
  reference = programs_lib.score(
      programs, state.networks, batch, max_tokens=1 << 20
  )
  batch = batch.replace(ref_logprobs=reference.logprobs)
  history = []
  for _ in range(8):
    state, metrics, *_ = programs_lib.update(
        programs,
        state,
        batch,
        np.arange(8),
        max_tokens=1 << 20,
        rows_per_example=2,
    )
    history.append(metrics)
  np.testing.assert_allclose(history[0]['policy/loss'], math.log(2), rtol=1e-4)
  assert history[-1]['policy/loss'] < 0.4
  assert history[-1]['preference/accuracy'] == 1
