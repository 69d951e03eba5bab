"""Estimators of KL(policy || reference) from sampled tokens.

With d = log p - log p_ref at a token sampled from p (John Schulman,
"Approximating KL Divergence", 2020):

    k1 = d                      unbiased, noisy, may be negative
    k2 = d^2 / 2                biased, low variance
    k3 = exp(-d) - 1 + d        unbiased, low variance, never negative

As a loss, only k2's gradient is that of the reverse KL on policy: k1's has
expectation zero and k3's is that of the forward KL. So `k3+` takes the value of
k3 and the gradient of k2, and is the default.
"""

import chex
import jax
import jax.numpy as jnp

ESTIMATORS = ('k1', 'k2', 'k3', 'k3+')


def estimate(
    logprobs: jax.Array,
    ref_logprobs: jax.Array,
    mask: jax.Array,
    *,
    estimator: str = 'k3+',
) -> jax.Array:
  """`[B, T]` KL estimates per token; 0 outside the mask.

  Args:
    logprobs: `[B, T]` under the policy; differentiated.
    ref_logprobs: `[B, T]` under the reference.
    mask: `[B, T]` bool.
    estimator: one of `ESTIMATORS`; static.
  """
  chex.assert_equal_shape([logprobs, ref_logprobs, mask])
  # Mask before exp: padding may hold anything, and inf * 0 is NaN.
  d = jnp.where(mask, logprobs - ref_logprobs, 0.0)
  k2 = d**2 / 2
  k3 = jnp.exp(-d) - 1 + d
  match estimator:
    case 'k1':
      return d
    case 'k2':
      return k2
    case 'k3':
      return k3
    case 'k3+':
      return k2 + jax.lax.stop_gradient(k3 - k2)
  raise ValueError(
      f'Unknown KL estimator {estimator!r}; known: {", ".join(ESTIMATORS)}.'
  )
