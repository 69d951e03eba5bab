"""Tests for agentrl.ops.policy_loss."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import policy_loss

CLIPS = ('clip_low', 'clip_high')
clipped = jax.jit(policy_loss.clipped, static_argnames=(*CLIPS, 'dual_clip'))
cispo = jax.jit(policy_loss.cispo, static_argnames=CLIPS)
log_ratio = functools.partial(
    jax.jit(policy_loss.log_ratio, static_argnames=('level', 'num_episodes')),
    num_episodes=4,
)
LEVELS = ('token', 'sequence')
# Two episodes share the last row.
SEGMENTS = np.array(
    [[1, 1, 1, 1, 1, 0, 0], [2, 2, 2, 2, 2, 2, 2], [3, 3, 3, 4, 4, 4, 4]]
)


def clipped_oracle(log_ratio, advantages, clip_low, clip_high, dual_clip=None):
  """One token at a time, in float64: loss, slope in the log ratio."""
  loss, slope = np.zeros((2, *log_ratio.shape))
  for i in np.ndindex(*log_ratio.shape):
    ratio, a = np.exp(np.float64(log_ratio[i])), np.float64(advantages[i])
    bound = min(max(ratio, 1 - clip_low), 1 + clip_high) * a
    objective, moves = min((ratio * a, True), (bound, bound == ratio * a))
    if dual_clip is not None and a < 0 and objective < dual_clip * a:
      objective, moves = dual_clip * a, False
    loss[i] = -objective
    slope[i] = -ratio * a if moves else 0.0
  return loss, slope


def random_batch(seed, scale=0.3):
  rng = np.random.default_rng(seed)
  shape = SEGMENTS.shape
  logprobs = -rng.exponential(size=shape).astype(np.float32)
  noise = rng.normal(scale=scale, size=shape).astype(np.float32)
  mask = (rng.random(shape) < 0.7) & (SEGMENTS > 0)
  return logprobs, logprobs + noise, mask


def random_terms(seed, scale=0.4):
  rng = np.random.default_rng(seed)
  return (
      rng.normal(scale=scale, size=(3, 20)).astype(np.float32),
      rng.normal(size=(3, 20)).astype(np.float32),
  )


@pytest.mark.parametrize(
    'clips',
    [
        dict(clip_low=0.2, clip_high=0.2),
        dict(clip_low=0.2, clip_high=0.28),
        dict(clip_low=0.2, clip_high=0.2, dual_clip=3.0),
    ],
)
@pytest.mark.parametrize('seed', range(2))
def test_clipped_matches_oracle(seed, clips):
  terms = random_terms(seed, scale=1.0)
  loss, stopped = clipped(*terms, **clips)
  expected, slope = clipped_oracle(*terms, **clips)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_array_equal(stopped, slope == 0)
  grad = jax.grad(lambda x: clipped(x, terms[1], **clips)[0].sum())(
      jnp.asarray(terms[0])
  )
  np.testing.assert_allclose(grad, slope, rtol=1e-5)
  assert 0 < stopped.sum() < stopped.size


@pytest.mark.parametrize(
    'value, advantage, slope',
    [
        (0.0, 1.0, -1.0),
        (0.3, 1.0, 0.0),  # moved far enough in the good direction
        (0.3, -1.0, np.exp(0.3)),  # moved the wrong way: pulled back
        (-0.3, -1.0, 0.0),
        (-0.3, 1.0, -np.exp(-0.3)),
        (0.23, 1.0, -np.exp(0.23)),  # between 1.2 and 1.28: clip_high counts
        (1.0, -1.0, np.exp(1.0)),  # below the dual clip of 3
        (1.2, -1.0, 0.0),  # above it
        (1.2, 1.0, 0.0),  # stopped by the ordinary clip
    ],
)
def test_gradient_stops_only_past_the_clips(value, advantage, slope):
  one = np.ones((1, 1), np.float32)
  clips = dict(clip_low=0.2, clip_high=0.28, dual_clip=3.0)
  grad = jax.grad(lambda x: clipped(x, advantage * one, **clips)[0].sum())(
      jnp.asarray(value * one)
  )
  np.testing.assert_allclose(grad, [[slope]], rtol=1e-5)


def test_a_dual_clip_never_touches_positive_advantages():
  ratios, advantages = random_terms(2, scale=2.0)
  clips = dict(clip_low=0.2, clip_high=0.2)
  plain, _ = clipped(ratios, abs(advantages), **clips)
  dual, _ = clipped(ratios, abs(advantages), **clips, dual_clip=1.5)
  np.testing.assert_array_equal(dual, plain)


@pytest.mark.parametrize('clips', [(0.2, 0.28), (1.0, 4.0)])
def test_cispo_matches_oracle_and_drops_no_gradient(clips):
  ratios, advantages = random_terms(3, scale=1.0)
  logprobs = -np.abs(random_terms(4)[0]) - 0.1
  clips = dict(zip(CLIPS, clips, strict=True))
  run = lambda *x: cispo(*x, advantages, **clips)
  loss, limited = run(logprobs, ratios)
  weight = np.zeros(ratios.shape)
  for i in np.ndindex(*ratios.shape):
    ratio = np.exp(np.float64(ratios[i]))
    weight[i] = min(max(ratio, 1 - clips['clip_low']), 1 + clips['clip_high'])
  np.testing.assert_allclose(loss, -weight * advantages * logprobs, rtol=1e-5)
  # The ratio moves with the log-probability, and is a constant all the same.
  grad = jax.grad(lambda x: run(x, x - (logprobs - ratios))[0].sum())(
      jnp.asarray(logprobs)
  )
  np.testing.assert_allclose(grad, -weight * advantages, rtol=1e-5)
  np.testing.assert_array_equal(
      limited, ~np.isclose(weight, np.exp(ratios), rtol=1e-6)
  )


@pytest.mark.parametrize('seed', range(3))
def test_the_token_ratio_is_each_token_s_own(seed):
  logprobs, old, mask = random_batch(seed)
  expected = np.zeros(mask.shape)
  for b, t in np.argwhere(mask):
    expected[b, t] = np.float64(logprobs[b, t]) - old[b, t]
  np.testing.assert_allclose(
      log_ratio(logprobs, old, mask, SEGMENTS), expected, rtol=1e-5, atol=1e-6
  )


def sequence_oracle(logprobs, old, mask):
  """Log of (p(episode) / p_old(episode))^(1 / tokens), GSPO eq. 7."""
  out = np.zeros(mask.shape)
  for episode in range(1, 5):
    tokens = [(b, t) for b, t in np.argwhere(mask & (SEGMENTS == episode))]
    both = [sum(np.float64(x[i]) for i in tokens) for x in (logprobs, old)]
    for i in tokens:
      out[i] = (both[0] - both[1]) / len(tokens)
  return out


@pytest.mark.parametrize('seed', range(3))
def test_the_sequence_ratio_is_the_episode_s_geometric_mean(seed):
  batch = random_batch(seed)
  np.testing.assert_allclose(
      log_ratio(*batch, SEGMENTS, level='sequence'),
      sequence_oracle(*batch),
      rtol=1e-5,
      atol=1e-6,
  )


def gspo_token_oracle(logprobs, old, mask, advantages, low, high):
  """Gradient of the summed loss, GSPO-token's eq. 16, in float64."""
  ratio = np.exp(sequence_oracle(logprobs, old, mask))
  grad = np.zeros(mask.shape)
  for i in np.argwhere(mask):
    a, r = np.float64(advantages[tuple(i)]), ratio[tuple(i)]
    if r * a <= min(max(r, 1 - low), 1 + high) * a:
      grad[tuple(i)] = -r * a
  return grad


@pytest.mark.parametrize('seed', range(3))
def test_a_sequence_ratio_keeps_each_token_s_advantage(seed):
  logprobs, old, mask = random_batch(seed, scale=0.1)
  alternating = np.where(np.arange(7) % 2, -1.0, 1.0) * np.ones((3, 1))
  for advantages in (alternating, random_terms(seed)[1][:, :7]):

    def loss(x, advantages=advantages):
      ratio = log_ratio(x, old, mask, SEGMENTS, level='sequence')
      return clipped(ratio, advantages, clip_low=0.05, clip_high=0.05)[0].sum()

    np.testing.assert_allclose(
        jax.grad(loss)(jnp.asarray(logprobs)),
        gspo_token_oracle(logprobs, old, mask, advantages, 0.05, 0.05),
        rtol=1e-5,
        atol=1e-7,
    )


def test_of_one_advantage_an_episode_it_is_gspo():
  """Whose gradient is that of the mean itself, as long as weights are one."""
  logprobs, old, mask = random_batch(4, scale=0.1)
  advantages = np.array([0.0, 1.0, -0.5, 2.0, -1.5])[SEGMENTS]

  def gspo(x):
    out = 0.0
    for episode in range(1, 5):
      own = mask & (SEGMENTS == episode)
      mean = jnp.sum(jnp.where(own, x - old, 0.0)) / own.sum()
      out += clipped(
          jnp.where(own, mean, 0.0), own * advantages, clip_low=0.05,
          clip_high=0.05,
      )[0].sum()  # fmt: skip
    return out

  def ours(x):
    ratio = log_ratio(x, old, mask, SEGMENTS, level='sequence')
    parts = clipped(ratio, mask * advantages, clip_low=0.05, clip_high=0.05)
    return parts[0].sum()

  found, expected = (
      jax.value_and_grad(f)(jnp.asarray(logprobs)) for f in (ours, gspo)
  )
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
      found,
      expected,
  )
  assert np.any(found[1] != 0)


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -np.inf, 1e30]),
    level=st.sampled_from(LEVELS),
)
@settings(max_examples=20)
def test_masked_positions_never_matter(seed, junk, level):
  logprobs, old, mask = random_batch(seed)
  plant = lambda x: jnp.where(mask, x, np.float32(junk))

  @jax.value_and_grad
  def run(x, old):
    ratio = log_ratio(x, old, mask, SEGMENTS, level=level)
    return jnp.sum(jnp.exp(ratio) * mask)

  clean = run(jnp.asarray(logprobs), old)
  dirty = run(plant(logprobs), plant(old))
  jax.tree.map(np.testing.assert_array_equal, dirty, clean)
  np.testing.assert_array_equal(np.asarray(clean[1])[~mask], 0)


@pytest.mark.parametrize('level', LEVELS)
def test_a_ratio_of_equal_policies_is_one_and_still_has_a_gradient(level):
  logprobs, _, mask = random_batch(0)
  run = lambda x: log_ratio(x, logprobs, mask, SEGMENTS, level=level).sum()
  value, grad = jax.value_and_grad(run)(jnp.asarray(logprobs))
  assert value == 0
  np.testing.assert_allclose(grad, mask, rtol=1e-6)


def test_on_policy_gradient_is_reinforce():
  logprobs, _, mask = random_batch(1)
  advantages = np.where(mask, random_terms(5)[1][:, :7], 0)

  def loss(x):
    ratio = log_ratio(x, logprobs, mask, SEGMENTS)
    return clipped(ratio, advantages, clip_low=0.2, clip_high=0.2)[0].sum()

  np.testing.assert_allclose(
      jax.grad(loss)(jnp.asarray(logprobs)), -advantages, rtol=1e-6
  )


def test_rejects_mismatched_shapes():
  logprobs, old, mask = random_batch(0)
  with pytest.raises(AssertionError, match='shape'):
    log_ratio(logprobs, old[:, 1:], mask, SEGMENTS)
  with pytest.raises(AssertionError, match='shape'):
    clipped(logprobs, old[1:], clip_low=0.2, clip_high=0.2)
  with pytest.raises(AssertionError, match='shape'):
    cispo(logprobs, old, old[1:], clip_low=0.2, clip_high=0.2)
