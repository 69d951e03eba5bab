"""Distance of the trainer's log-probabilities from the sampler's.

Two programs compute them: different kernels, precision and batch shapes, stale
caches, or a temperature applied on one side only. The gap biases every
off-policy ratio, so each step measures it while both hold the same weights.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl.ops import masked, ratio as ratio_lib


def metrics(
    logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    denominator: jax.Array,
) -> dict[str, jax.Array]:
  """Mean, largest and tail of the difference, and its KL.

  Args:
    logprobs: `[B, T]` by the trainer, before any update on this batch.
    sampler_logprobs: `[B, T]` as reported when the tokens were drawn.
    mask: `[B, T]` bool.
    denominator: tokens of the whole minibatch; means are shares of it.

  Returns:
    `sampler/logprob_abs_diff_mean` and `_max`; `sampler/ratio_tail`, the share
    of tokens whose probability ratio leaves [0.9, 1.1]; `sampler/kl`, the k3
    estimate of KL(sampler || trainer).
  """
  chex.assert_equal_shape([logprobs, sampler_logprobs, mask])
  d = jnp.where(mask, logprobs - sampler_logprobs, 0.0)
  ratio = ratio_lib.from_log(d)
  tail = (ratio < 0.9) | (ratio > 1.1)
  mean = lambda x: masked.sum(x, mask) / denominator
  return {
      'sampler/logprob_abs_diff_mean': mean(jnp.abs(d)),
      'sampler/logprob_abs_diff_max': masked.max(jnp.abs(d), mask),
      'sampler/ratio_tail': mean(tail.astype(jnp.float32)),
      'sampler/kl': mean(ratio_lib.k3(d)),
  }
