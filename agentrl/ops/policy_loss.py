"""Policy-gradient losses per sampled token.

Each takes the log of the ratio r = p / p_old and advantages A, and gives a
`[B, T]` loss that `ops.aggregate` turns into a number, with `[B, T]`
indicators of where clipping stopped the gradient.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl.batch import TokenBatch
from agentrl.ops import masked, ratio as ratio_lib


def log_ratio(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    mask: jax.Array,
    batch: TokenBatch,
    *,
    level: str = 'token',
) -> jax.Array:
  """`[B, T]` log of the importance ratio; 0 outside the mask.

  Args:
    logprobs: `[B, T]` under the current policy; differentiated.
    old_logprobs: `[B, T]` under the policy that starts the update.
    mask: `[B, T]` bool, True on sampled tokens of valid episodes.
    batch: of these tokens; an episode is whole in its microbatch.
    level: static. 'token': each token its own (PPO). 'sequence': its mean over
      the episode's tokens, the same for each, with each token's own gradient
      (GSPO-token, arXiv:2507.18071 eq. 14; of one advantage an episode, GSPO).
  """
  chex.assert_rank([logprobs, old_logprobs, mask], 2)
  chex.assert_equal_shape([logprobs, old_logprobs, mask, batch.episodes])
  # Mask before exp: a padded position may hold anything, and inf * 0 is NaN.
  d = jnp.where(mask, logprobs - old_logprobs, 0.0)
  match level:
    case 'token':
      return d
    case 'sequence':
      total = lambda x: masked.sum_episodes(x, mask, batch)
      mean = total(d) / jnp.maximum(total(mask), 1)
      # The mean's own gradient would give every token the mean of the episode's
      # advantages and weights.
      mean = jax.lax.stop_gradient(masked.gather_episodes(mean, batch))
      return jnp.where(mask, mean + (d - jax.lax.stop_gradient(d)), 0.0)
  raise ValueError(f'Unknown ratio level {level!r}.')


def clipped(
    log_ratio: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> tuple[jax.Array, jax.Array]:
  """PPO's pessimistic surrogate (arXiv:1707.06347 eq. 7).

      loss = -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)

  Args:
    log_ratio: `[B, T]`; the only differentiated input.
    advantages: `[B, T]`.
    clip_low: lower clip range.
    clip_high: upper clip range; equal to `clip_low` in PPO, larger in DAPO
      (clip-higher, arXiv:2503.14476 section 3.1).
    dual_clip: where A < 0 the objective is at least `dual_clip` A, so that a
      huge ratio has no huge gradient (arXiv:1912.09729); above 1.

  Returns:
    `[B, T]` losses, and `[B, T]` bool: where clipping left no gradient.
  """
  chex.assert_equal_shape([log_ratio, advantages])
  ratio = ratio_lib.from_log(log_ratio)
  limited = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
  objective = jnp.minimum(ratio * advantages, limited * advantages)
  # Clipping matters where the pessimistic minimum picks the clipped branch:
  # there, and only there, the gradient is zero.
  inactive = limited * advantages < ratio * advantages
  inactive |= ratio_lib.is_bounded(log_ratio)
  if dual_clip is not None:
    floor = dual_clip * advantages
    inactive |= (advantages < 0) & (objective < floor)
    objective = jnp.where(
        advantages < 0, jnp.maximum(objective, floor), objective
    )
  return -objective, inactive


def cispo(
    logprobs: jax.Array,
    log_ratio: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
) -> tuple[jax.Array, jax.Array]:
  """Clipped importance weights, no clipped tokens (CISPO, arXiv:2506.13585).

      loss = -sg(clip(r, 1 - clip_low, 1 + clip_high)) A log p

  Args:
    logprobs: `[B, T]`; the only differentiated input.
    log_ratio: `[B, T]`.
    advantages: `[B, T]`.
    clip_low: lower clip range; the paper leaves the weight unbounded below (1).
    clip_high: upper clip range.

  Returns:
    `[B, T]` losses, and `[B, T]` bool: where the weight was clipped.
  """
  chex.assert_equal_shape([logprobs, log_ratio, advantages])
  ratio = ratio_lib.from_log(log_ratio)
  limited = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
  weight = jax.lax.stop_gradient(limited)
  return -weight * advantages * logprobs, ratio != limited
