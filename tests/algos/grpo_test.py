"""Tests for agentrl.algos.grpo."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.algos import policy
from agentrl.ops import logprob
from agentrl.types import Group
from tests import fakes, tiny

SEEDS = st.integers(0, 2**32 - 1)


@functools.partial(jax.jit, static_argnames='loss')
def _value_and_grad(logits, batch, scale, loss):
  def of_logits(logits):
    logprobs, entropy = logprob.from_hidden(
        logits, lambda x: x, batch.tokens, batch.positions
    )
    return loss(policy.Outputs(logprobs, entropy), batch, scale)

  return jax.value_and_grad(of_logits, has_aux=True)(logits)


def value_and_grad(batch, logits, *, kl_coef=0.0, **knobs):
  """`(loss, metrics), gradient` with respect to logits `[B, T, V]`."""
  loss = tiny.bound(use_kl=kl_coef > 0, **knobs)
  return _value_and_grad(
      logits, batch, tiny.scale(batch, kl_coef=kl_coef), loss
  )


@jax.jit
def score(logits, batch):
  return logprob.from_hidden(
      logits, lambda x: x, batch.tokens, batch.positions
  )[0]


def random_logits(batch, seed):
  rng = np.random.default_rng(seed)
  shape = (*batch.tokens.shape, tiny.CONFIG.vocab_size)
  return jnp.asarray(rng.normal(size=shape), jnp.float32)


@pytest.mark.parametrize(
    'hyperparameters',
    [
        dict(),
        dict(kl_coef=0.1),
        dict(kl_coef=0.1, kl_estimator='k3', entropy_coef=0.01),
    ],
)
@pytest.mark.parametrize('seed', range(2))
def test_gradient_with_respect_to_logits_is_zero_exactly_where_mask_is_zero(
    seed, hyperparameters
):
  batch = tiny.random_batch(seed, failures=0.2)
  rng = np.random.default_rng(seed)
  # Poison whatever must not be read.
  poison = lambda x: np.where(batch.completion_mask, x, np.nan)
  batch = batch.replace(
      advantages=poison(batch.advantages),
      old_logprobs=poison(batch.sampler_logprobs),
      ref_logprobs=poison(rng.normal(size=batch.tokens.shape) - 3),
  )
  logits = random_logits(batch, seed)
  # A huge clip range keeps every token's gradient alive.
  _, grad = value_and_grad(
      batch, logits, clip_low=1e9, clip_high=1e9, **hyperparameters
  )
  # The state at t speaks of token t + 1: logits and mask differ by one.
  size = np.abs(np.asarray(grad)).sum(axis=-1)
  learnt = batch.completion_mask & batch.valid[:, None]
  learnt = np.pad(learnt[:, 1:], ((0, 0), (0, 1)))
  np.testing.assert_array_equal(size[~learnt], 0)
  assert (size[learnt] > 0).all()
  assert np.isfinite(size).all()


def oracle_loss(logprobs, entropy, batch, num_tokens, kl_coef, entropy_coef):
  """The docstring's formula, one token at a time, in float64."""
  total = 0.0
  for b, t in np.argwhere(batch.completion_mask & batch.valid[:, None]):
    old = batch.old_logprobs[b, t]
    ratio = np.exp(np.float64(logprobs[b, t]) - old)
    a = batch.advantages[b, t]
    d = np.float64(logprobs[b, t]) - batch.ref_logprobs[b, t]
    surrogate = min(ratio * a, min(max(ratio, 0.8), 1.28) * a)
    k3 = np.exp(-d) - 1 + d
    total -= surrogate - kl_coef * k3 + entropy_coef * entropy[b, t]
  return total / num_tokens


@pytest.mark.parametrize('seed', range(3))
def test_loss_matches_oracle(seed):
  rng = np.random.default_rng(seed)
  batch = tiny.random_batch(seed, failures=0.2)
  noise = lambda: rng.normal(scale=0.3, size=batch.tokens.shape).astype('f4')
  logprobs = batch.sampler_logprobs
  batch = batch.replace(
      old_logprobs=logprobs + noise(), ref_logprobs=logprobs + noise()
  )
  entropy = np.abs(noise())
  scale = tiny.scale(batch, kl_coef=0.1)
  loss, metrics = jax.jit(
      tiny.bound(use_kl=True, clip_high=0.28, entropy_coef=0.05)
  )(policy.Outputs(logprobs, entropy), batch, scale)
  expected = oracle_loss(logprobs, entropy, batch, scale.tokens, 0.1, 0.05)
  np.testing.assert_allclose(loss, expected, rtol=1e-4)
  assert metrics['policy/kl_ref'] > 0


def test_first_update_needs_no_old_logprobs():
  batch = tiny.random_batch(0)
  logits = random_logits(batch, 0)
  given_old = batch.replace(old_logprobs=score(logits, batch))
  (skipped, metrics), grad = value_and_grad(batch, logits)
  (loss, _), given_grad = value_and_grad(given_old, logits)
  np.testing.assert_allclose(skipped, loss, rtol=1e-6)
  np.testing.assert_allclose(grad, given_grad, rtol=1e-4, atol=1e-7)
  assert metrics['policy/ratio_max'] == 1.0
  assert metrics['policy/clip_fraction'] == 0.0


def test_tied_groups_have_no_gradient():
  batch = tiny.make_batch(
      [fakes.make_group(1.0, 1.0, 1.0), fakes.make_group(0.0, 0.0)]
  )
  _, grad = value_and_grad(batch, random_logits(batch, 1))
  np.testing.assert_array_equal(grad, 0)


def test_a_good_episode_becomes_likelier_and_a_bad_one_less_likely():
  batch = tiny.make_batch([fakes.make_group(1.0, 0.0)])
  logits = random_logits(batch, 2)
  _, grad = value_and_grad(batch, logits)
  change = np.asarray(score(logits - grad, batch) - score(logits, batch))
  mask = batch.completion_mask
  assert (change[0][mask[0]] > 0).all() and (change[1][mask[1]] < 0).all()


def with_longer_observations(group, rng):
  """The same episodes with ids inserted after every turn."""

  def longer(episode):
    tokens, mask, logprobs = [], [], []
    items = list(
        zip(
            episode.tokens,
            episode.completion_mask,
            episode.sampler_logprobs,
            strict=True,
        )
    )
    for i, (token, sampled, value) in enumerate(items):
      tokens.append(token)
      mask.append(sampled)
      logprobs.append(value)
      if not sampled:  # more of the observation that it belongs to
        extra = rng.integers(tiny.CONFIG.vocab_size, size=i % 3).tolist()
        tokens += extra
        mask += [False] * len(extra)
        logprobs += [0.0] * len(extra)
    return fakes.make_episode(
        turns=episode.turns,
        stop_reason=episode.stop_reason,
        tokens=tuple(tokens),
        completion_mask=tuple(mask),
        sampler_logprobs=tuple(logprobs),
    )

  return Group(group.task_id, group.ordinal, tuple(map(longer, group.episodes)))


@given(seed=SEEDS)
@settings(max_examples=20, deadline=None)
def test_inserting_observation_tokens_changes_no_advantage(seed):
  groups = tiny.random_groups(seed)
  rng = np.random.default_rng(seed)
  before = tiny.make_batch(groups, width=128)
  after = tiny.make_batch(
      [with_longer_observations(group, rng) for group in groups], width=128
  )
  assert (after.segment_ids > 0).sum() > (before.segment_ids > 0).sum()
  np.testing.assert_array_equal(after.episode_return, before.episode_return)
  for row in range(len(before.tokens)):
    sampled = (
        b.advantages[row][b.completion_mask[row]] for b in (before, after)
    )
    np.testing.assert_array_equal(*sampled)


def test_failed_episodes_change_nothing_for_the_others():
  rng = np.random.default_rng(5)
  (group,) = tiny.random_groups(5, num_groups=1)
  failed = tiny.random_episode(rng, valid=False, reward=100.0)
  more = Group(0, 0, (*group.episodes, failed))
  small, large = tiny.make_batch([group]), tiny.make_batch([more])
  np.testing.assert_allclose(large.advantages[:4], small.advantages, rtol=1e-6)
  np.testing.assert_array_equal(large.advantages[4], 0)


def test_truncated_episodes_keep_their_return():
  batch = tiny.make_batch([fakes.make_group(1.0, 0.0)])  # cut at the horizon
  assert batch.truncated.all()
  assert (batch.advantages[0][batch.completion_mask[0]] > 0.7).all()


def test_rejects_mismatched_shapes():
  batch = tiny.random_batch(0)
  short = batch.sampler_logprobs[:, 1:]
  with pytest.raises(AssertionError, match='shape'):
    tiny.bound()(policy.Outputs(short, short), batch, tiny.scale(batch))
