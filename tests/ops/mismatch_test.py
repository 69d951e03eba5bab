"""Tests for agentrl.ops.mismatch."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import mismatch

metrics_of = jax.jit(mismatch.metrics)


def random_batch(seed):
  rng = np.random.default_rng(seed)
  logprobs = -rng.exponential(size=(3, 6)).astype(np.float32)
  noise = rng.normal(scale=0.1, size=(3, 6)).astype(np.float32)
  mask = rng.random((3, 6)) < 0.7
  mask[0, 0] = True
  return logprobs, logprobs - noise, mask


@pytest.mark.parametrize('seed', range(3))
def test_matches_oracle(seed):
  logprobs, sampler_logprobs, mask = random_batch(seed)
  d = [
      np.float64(logprobs[b, t]) - sampler_logprobs[b, t]
      for b, t in np.argwhere(mask)
  ]
  actual = metrics_of(logprobs, sampler_logprobs, mask, np.float32(mask.sum()))
  expected = {
      'sampler/logprob_abs_diff_mean': np.mean(np.abs(d)),
      'sampler/logprob_abs_diff_max': np.max(np.abs(d)),
      'sampler/ratio_tail': np.mean([not 0.9 <= np.exp(x) <= 1.1 for x in d]),
      'sampler/kl': np.mean([np.exp(x) - 1 - x for x in d]),
  }
  assert actual.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(actual[name], value, rtol=1e-4, err_msg=name)


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -np.inf]),
)
@settings(max_examples=20)
def test_masked_positions_never_matter(seed, junk):
  logprobs, sampler_logprobs, mask = random_batch(seed)
  plant = lambda x: np.where(mask, x, np.float32(junk))
  clean = metrics_of(logprobs, sampler_logprobs, mask, np.float32(9))
  dirty = metrics_of(
      plant(logprobs), plant(sampler_logprobs), mask, np.float32(9)
  )
  assert clean == dirty


def test_two_agreeing_programs_show_nothing():
  logprobs, _, mask = random_batch(0)
  metrics = metrics_of(logprobs, logprobs, mask, np.float32(mask.sum()))
  assert all(value == 0 for value in metrics.values())


def test_rejects_mismatched_shapes():
  logprobs, sampler_logprobs, mask = random_batch(0)
  with pytest.raises(AssertionError, match='shape'):
    mismatch.metrics(logprobs, sampler_logprobs[:1], mask, np.float32(1))


@pytest.mark.parametrize('d', [20, 50, 89, 200, -20, -50, -89, -200])
def test_far_ratios_give_finite_metrics(d):
  one = np.ones((1, 1), np.float32)
  found = metrics_of(d * one, 0 * one, one > 0, np.float32(1))
  x = np.float64(d)
  expected = {
      'sampler/logprob_abs_diff_mean': abs(x),
      'sampler/logprob_abs_diff_max': abs(x),
      'sampler/ratio_tail': 1.0,
      'sampler/kl': np.exp(min(x, 20)) - 1 - min(x, 20),  # bounded from 20 on
  }
  for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
