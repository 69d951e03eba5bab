"""Tests for agentrl.ops.kl."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import kl
from tests import choices

estimate = jax.jit(kl.estimate, static_argnames='estimator')


def oracle(logprobs, ref_logprobs, mask, estimator):
  """One token at a time, in float64."""
  out = np.zeros(mask.shape)
  for b, t in np.argwhere(mask):
    d = np.float64(logprobs[b, t]) - ref_logprobs[b, t]
    out[b, t] = {
        'k1': d,
        'k2': d * d / 2,
        'k3': np.exp(-d) - 1 + d,
        'k3+': np.exp(-d) - 1 + d,
    }[estimator]
  return out


# Derivatives of the estimators with respect to d, by hand.
SLOPES = {
    'k1': lambda d: np.ones_like(d),
    'k2': lambda d: d,
    'k3': lambda d: 1 - np.exp(-d),
    'k3+': lambda d: d,
}


def random_batch(seed):
  rng = np.random.default_rng(seed)
  logprobs = -rng.exponential(size=(3, 5)).astype(np.float32)
  noise = rng.normal(scale=0.5, size=(3, 5)).astype(np.float32)
  return logprobs, logprobs - noise, rng.random((3, 5)) < 0.6


@pytest.mark.parametrize('estimator', choices.KL_ESTIMATORS)
@pytest.mark.parametrize('seed', range(3))
def test_value_matches_oracle(estimator, seed):
  batch = random_batch(seed)
  np.testing.assert_allclose(
      estimate(*batch, estimator=estimator),
      oracle(*batch, estimator),
      rtol=1e-5,
      atol=1e-6,  # exp(-d) - 1 + d cancels near d = 0
  )


@pytest.mark.parametrize('estimator', choices.KL_ESTIMATORS)
def test_gradient_matches_derivative(estimator):
  logprobs, ref_logprobs, mask = random_batch(3)
  grad = jax.grad(
      lambda x: estimate(x, ref_logprobs, mask, estimator=estimator).sum()
  )(jnp.asarray(logprobs))
  d = np.float64(logprobs) - ref_logprobs
  np.testing.assert_allclose(
      grad, np.where(mask, SLOPES[estimator](d), 0.0), rtol=1e-5, atol=1e-6
  )


def test_k3_plus_descends_the_reverse_kl_on_policy():
  # Exact expectation over a small distribution: the gradient of
  # KL(p || ref) with respect to the logits of p is
  # p * (log p - log ref - KL); k3's loss gradient is another vector.
  logits = jnp.array([0.5, -1.0, 0.2])
  ref = jax.nn.log_softmax(jnp.array([-0.3, 0.4, 1.0]))

  @functools.partial(jax.jit, static_argnames='estimator')
  def expected_estimate(logits, estimator):
    logprobs = jax.nn.log_softmax(logits)
    weights = jax.lax.stop_gradient(jnp.exp(logprobs))  # tokens were sampled
    tokens = functools.partial(
        kl.estimate, mask=jnp.ones((1, 3), bool), estimator=estimator
    )
    return jnp.sum(weights * tokens(logprobs[None], ref[None]))

  @jax.jit
  def reverse_kl(logits):
    logprobs = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(logprobs) * (logprobs - ref))

  exact = jax.grad(reverse_kl)(logits)
  np.testing.assert_allclose(
      jax.grad(expected_estimate)(logits, 'k3+'), exact, rtol=1e-5
  )
  for biased in ('k1', 'k3'):
    assert not np.allclose(
        jax.grad(expected_estimate)(logits, biased), exact, rtol=0.1
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -np.inf, -1e30]),
    estimator=st.sampled_from(choices.KL_ESTIMATORS),
)
@settings(max_examples=30)
def test_masked_positions_never_matter(seed, junk, estimator):
  logprobs, ref_logprobs, mask = random_batch(seed)
  run = jax.value_and_grad(
      lambda x, ref: estimate(x, ref, mask, estimator=estimator).sum()
  )
  plant = lambda x: jnp.where(mask, x, np.float32(junk))
  clean = run(jnp.asarray(logprobs), ref_logprobs)
  dirty = run(plant(logprobs), plant(ref_logprobs))
  jax.tree.map(np.testing.assert_array_equal, dirty, clean)


def test_k3_is_never_negative():
  batch = random_batch(4)
  assert (estimate(*batch, estimator='k3') >= 0).all()


@pytest.mark.parametrize('d', [-1e9, -1e4, -89.0, -20.0, -3.0, 12.0, 1e4])
@pytest.mark.parametrize('estimator', ['k3', 'k3+'])
def test_k3_is_bounded(estimator, d):
  one = np.ones((1, 1), bool)
  run = lambda x: estimate(x, np.zeros((1, 1)), one, estimator=estimator)[0, 0]
  value, grad = jax.value_and_grad(run)(np.full((1, 1), d, np.float32))
  assert value == 10
  # k3 has no slope beyond its bounds, k3+ that of k2 everywhere.
  np.testing.assert_allclose(grad, 0.0 if estimator == 'k3' else d)


def test_equal_policies_have_no_divergence():
  logprobs, _, mask = random_batch(5)
  for estimator in choices.KL_ESTIMATORS:
    out = estimate(logprobs, logprobs, mask, estimator=estimator)
    np.testing.assert_array_equal(out, 0)


@pytest.mark.parametrize(
    'observed, expected',
    [
        (0.01, 0.5),  # on target
        (0.011, 0.5 * (1 + 0.1 * 8 / 100)),
        (1.0, 0.5 * (1 + 0.2 * 8 / 100)),  # however far off, a fifth at most
        (0.0, 0.5 * (1 - 0.2 * 8 / 100)),
    ],
)
def test_adapt_matches_the_paper(observed, expected):
  # arXiv:1909.08593 eq. 4, by hand: target 0.01, 8 episodes of 100.
  actual = kl.adapt(0.5, observed, target=0.01, count=8, horizon=100)
  np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_adapt_steers_towards_the_target():
  # A divergence that falls as the coefficient grows settles at the target.
  coef = 0.5
  for _ in range(2000):
    coef = kl.adapt(coef, 0.05 / coef, target=0.02, count=10, horizon=100)
  np.testing.assert_allclose(coef, 2.5, rtol=1e-3)


def test_rejects_mismatched_shapes():
  logprobs, ref_logprobs, mask = random_batch(0)
  with pytest.raises(AssertionError, match='shape'):
    kl.estimate(logprobs, ref_logprobs[1:], mask)
