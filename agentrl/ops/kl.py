"""Estimators of KL(policy || reference) from sampled tokens.

With d = log p - log p_ref at a token sampled from p (John Schulman,
"Approximating KL Divergence", 2020):

    k1 = d                      unbiased, noisy, may be negative
    k2 = d^2 / 2                biased, low variance
    k3 = exp(-d) - 1 + d        unbiased, low variance, never negative

As a loss, only k2's gradient is that of the reverse KL on policy: k1's has
expectation zero and k3's is that of the forward KL. So `k3+` takes the value of
k3 and the gradient of k2, and is the default.

exp(-d) is bounded as all ratios are (`ops.ratio`), and k3 to 10, as verl bounds
it. Beyond, k3 has no gradient (k3+ has k2's), and one token's value is too small.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl.ops import ratio

_LARGEST_K3 = 10.0


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
    estimator: k1, k2, k3 or k3+; static.
  """
  chex.assert_equal_shape([logprobs, ref_logprobs, mask])
  # Mask before exp: padding may hold anything, and inf * 0 is NaN.
  d = jnp.where(mask, logprobs - ref_logprobs, 0.0)
  k2 = d**2 / 2
  k3 = jnp.minimum(ratio.k3(-d), _LARGEST_K3)
  match estimator:
    case 'k1':
      return d
    case 'k2':
      return k2
    case 'k3':
      return k3
    case 'k3+':
      # Not k2 + sg(k3 - k2): a large k2 would round k3 away.
      return (k2 - jax.lax.stop_gradient(k2)) + jax.lax.stop_gradient(k3)
  raise ValueError(f'Unknown KL estimator {estimator!r}.')


def adapt(
    coef: float, observed: float, *, target: float, count: int, horizon: int
) -> float:
  """The next coefficient of a proportional controller (arXiv:1909.08593 eq. 4).

      coef *= 1 + clip(observed / target - 1, -0.2, 0.2) count / horizon

  Args:
    coef: the present weight of the KL.
    observed: mean KL of the last step.
    target: KL to steer to.
    count: episodes of the last step.
    horizon: episodes over which the controller acts.
  """
  error = min(max(observed / target - 1, -0.2), 0.2)
  return coef * (1 + error * count / horizon)
