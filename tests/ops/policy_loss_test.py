"""Tests for agentrl.ops.policy_loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import policy_loss
from tests.ops import batches

CLIPS = ('clip_low', 'clip_high')
clipped = jax.jit(policy_loss.clipped, static_argnames=(*CLIPS, 'dual_clip'))
cispo = jax.jit(policy_loss.cispo, static_argnames=CLIPS)
log_ratio = jax.jit(policy_loss.log_ratio, static_argnames='level')
LEVELS = ('token', 'sequence')
# Two episodes share the last row.
SEGMENTS = np.array(
    [[1, 1, 1, 1, 1, 0, 0], [2, 2, 2, 2, 2, 2, 2], [3, 3, 3, 4, 4, 4, 4]]
)
BATCH = batches.of(SEGMENTS)


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
      log_ratio(logprobs, old, mask, BATCH), expected, rtol=1e-5, atol=1e-6
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
      log_ratio(*batch, BATCH, level='sequence'),
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
      ratio = log_ratio(x, old, mask, BATCH, level='sequence')
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
    ratio = log_ratio(x, old, mask, BATCH, level='sequence')
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
    ratio = log_ratio(x, old, mask, BATCH, level=level)
    return jnp.sum(jnp.exp(ratio) * mask)

  clean = run(jnp.asarray(logprobs), old)
  dirty = run(plant(logprobs), plant(old))
  jax.tree.map(np.testing.assert_array_equal, dirty, clean)
  np.testing.assert_array_equal(np.asarray(clean[1])[~mask], 0)


@pytest.mark.parametrize('level', LEVELS)
def test_a_ratio_of_equal_policies_is_one_and_still_has_a_gradient(level):
  logprobs, _, mask = random_batch(0)
  run = lambda x: log_ratio(x, logprobs, mask, BATCH, level=level).sum()
  value, grad = jax.value_and_grad(run)(jnp.asarray(logprobs))
  assert value == 0
  np.testing.assert_allclose(grad, mask, rtol=1e-6)


def test_on_policy_gradient_is_reinforce():
  logprobs, _, mask = random_batch(1)
  advantages = np.where(mask, random_terms(5)[1][:, :7], 0)

  def loss(x):
    ratio = log_ratio(x, logprobs, mask, BATCH)
    return clipped(ratio, advantages, clip_low=0.2, clip_high=0.2)[0].sum()

  np.testing.assert_allclose(
      jax.grad(loss)(jnp.asarray(logprobs)), -advantages, rtol=1e-6
  )


def test_rejects_mismatched_shapes():
  logprobs, old, mask = random_batch(0)
  with pytest.raises(AssertionError, match='shape'):
    log_ratio(logprobs, old[:, 1:], mask, BATCH)
  with pytest.raises(AssertionError, match='shape'):
    clipped(logprobs, old[1:], clip_low=0.2, clip_high=0.2)
  with pytest.raises(AssertionError, match='shape'):
    cispo(logprobs, old, old[1:], clip_low=0.2, clip_high=0.2)


FAR = [20.0, 50.0, 89.0, 200.0]  # nats; exp overflows float32 from 89 on


@pytest.mark.parametrize('dual_clip', [None, 3.0])
@pytest.mark.parametrize('advantage', [1.5, -1.5, 0.0])
@pytest.mark.parametrize('d', [*FAR, *(-d for d in FAR)])
def test_far_ratios_keep_the_clipped_branch(d, advantage, dual_clip):
  """Its value and its gradient; the branch that nothing clips is bounded."""
  one = np.ones((1, 1), np.float32)
  clips = dict(clip_low=0.2, clip_high=0.28, dual_clip=dual_clip)
  bounded = np.sign(d) * min(abs(d), 20.0) * one
  expected, slope = clipped_oracle(bounded, advantage * one, **clips)
  if abs(d) > 20:
    slope = 0 * slope
  run = lambda x: clipped(x, advantage * one, **clips)[0].sum()
  loss, grad = jax.value_and_grad(run)(jnp.asarray(d * one))
  np.testing.assert_allclose(loss, expected.sum(), rtol=1e-5)
  np.testing.assert_allclose(grad, slope, rtol=1e-5)
  _, stopped = clipped(d * one, advantage * one, **clips)
  if abs(d) > 20:
    assert stopped.all()


@pytest.mark.parametrize('advantage', [1.5, -1.5])
@pytest.mark.parametrize('d', [*FAR, *(-d for d in FAR)])
def test_far_weights_of_cispo_are_clipped(d, advantage):
  one = np.ones((1, 1), np.float32)
  run = lambda x: cispo(
      x, d * one, advantage * one, clip_low=0.2, clip_high=0.28
  )[0].sum()
  weight = 1.28 if d > 0 else 0.8
  loss, grad = jax.value_and_grad(run)(jnp.asarray(-2 * one))
  np.testing.assert_allclose(loss, 2 * weight * advantage, rtol=1e-6)
  np.testing.assert_allclose(grad, [[-weight * advantage]], rtol=1e-6)


@pytest.mark.parametrize('level', LEVELS)
@pytest.mark.parametrize('d', [*FAR, *(-d for d in FAR)])
def test_one_far_episode_leaves_the_others_their_gradients(d, level):
  logprobs, old, mask = random_batch(3, scale=0.1)
  mask[:, 0] = mask[2, 3] = True  # a sampled token in each episode
  advantages = np.array([0.0, 1.0, -0.5, 2.0, -1.5])[SEGMENTS]

  @jax.grad
  def grad(x):
    ratio = log_ratio(x, old, mask, BATCH, level=level)
    return clipped(ratio, advantages, clip_low=0.2, clip_high=0.2)[0].sum()

  far = np.where(SEGMENTS == 2, old + np.float32(d), logprobs)
  near, found = grad(jnp.asarray(logprobs)), grad(jnp.asarray(far))
  assert np.isfinite(found).all()
  others = SEGMENTS != 2
  np.testing.assert_array_equal(found[others], near[others])


def divergence_oracle(p, old, name):
  if name == 'tv':
    return abs(p - old)
  return old * np.log(old / p) + (1 - old) * np.log((1 - old) / (1 - p))


@pytest.mark.parametrize(('name', 'low', 'high'), [('tv', 0.05, 0.1), ('kl', 0.01, 0.03)])  # fmt: skip
@pytest.mark.parametrize('seed', range(2))
def test_a_trust_region_leaves_out_what_moved_too_far(name, low, high, seed):
  ratios, advantages = random_terms(seed)
  rng = np.random.default_rng(seed)
  logprobs = -rng.uniform(0.05, 3.0, ratios.shape).astype(np.float32)
  ratios = np.maximum(ratios, logprobs + 0.01)  # the old one is below 0 as well
  run = lambda x: policy_loss.trust_region(
      x,
      x - (logprobs - ratios),
      advantages,
      clip_low=low,
      clip_high=high,
      divergence=name,
  )
  loss, outside = run(logprobs)
  grad = jax.grad(lambda x: run(x)[0].sum())(jnp.asarray(logprobs))
  for i in np.ndindex(*ratios.shape):
    p = np.exp(np.float64(logprobs[i]))
    old = np.exp(np.float64(logprobs[i]) - ratios[i])
    moved = divergence_oracle(p, old, name)
    if advantages[i] > 0:
      left_out = moved > high and p > old
    else:
      left_out = moved > low and p < old
    assert bool(outside[i]) == left_out
    weight = 0.0 if left_out else p / old
    np.testing.assert_allclose(
        loss[i], -weight * advantages[i] * logprobs[i], rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        grad[i], -weight * advantages[i], rtol=1e-4, atol=1e-6
    )
  assert 0 < outside.sum() < outside.size


def test_topr_pushes_what_failed_no_harder_than_it_is_likely():
  ratios, advantages = random_terms(5, scale=1.0)
  logprobs = -np.abs(random_terms(6)[0]) - 0.1
  run = lambda x: policy_loss.topr(x, x - (logprobs - ratios), advantages)
  loss, cut = run(logprobs)
  grad = jax.grad(lambda x: run(x)[0].sum())(jnp.asarray(logprobs))
  ratio = np.exp(np.float64(ratios))
  weight = np.where(advantages < 0, np.minimum(ratio, 1.0), 1.0)
  np.testing.assert_allclose(loss, -weight * advantages * logprobs, rtol=1e-5)
  np.testing.assert_allclose(grad, -weight * advantages, rtol=1e-5)
  np.testing.assert_array_equal(cut, (advantages < 0) & (ratio > 1))
  assert cut.any() and (weight < 1).any()
