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


def trust_region(
    logprobs: jax.Array,
    log_ratio: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
    divergence: str,
) -> tuple[jax.Array, jax.Array]:
  """Importance weights within a trust region of each token (DPPO).

      loss = -m sg(r) A log p

  m leaves out a token that the policy has moved further than the region allows,
  in the direction that A would push it. PPO's ratio is a poor measure of that:
  a rare token's doubles at once, a likely one's never does. The divergence is
  that of the two outcomes "this token" and "another one" (arXiv:2602.04879).

  Args:
    logprobs: `[B, T]`; the only differentiated input.
    log_ratio: `[B, T]`, of each token to the policy that it is compared with.
    advantages: `[B, T]`.
    clip_low: the region where A < 0, in units of the divergence.
    clip_high: likewise where A > 0.
    divergence: static. 'tv': |p - p_old|. 'kl': KL(p_old || p), in nats.

  Returns:
    `[B, T]` losses, and `[B, T]` bool: where a token was left out.
  """
  chex.assert_equal_shape([logprobs, log_ratio, advantages])
  p, old = map(ratio_lib.from_log, (logprobs, logprobs - log_ratio))
  match divergence:
    case 'tv':
      moved = jnp.abs(p - old)
    case 'kl':
      rest = jnp.log((1 - old + 1e-8) / (1 - p + 1e-8))
      moved = -old * log_ratio + (1 - old) * rest
    case _:
      raise ValueError(f'Unknown divergence {divergence!r}.')
  outside = jnp.where(
      advantages > 0,
      (moved > clip_high) & (p > old),
      (moved > clip_low) & (p < old),
  )
  weight = jax.lax.stop_gradient(
      jnp.where(outside, 0.0, ratio_lib.from_log(log_ratio))
  )
  return -weight * advantages * logprobs, outside


def topr(
    logprobs: jax.Array, log_ratio: jax.Array, advantages: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Weights for what failed alone, and those at most 1 (TOPR).

      loss = -w A log p,  w = 1 where A >= 0, else sg(min(r, 1))

  What succeeded is imitated however unlikely it has become; what failed is
  pushed away less the less likely it is, so that nothing pushes for ever
  (arXiv:2503.14286 eq. 8, of tokens or whole sequences by `log_ratio`).

  Args:
    logprobs: `[B, T]`; the only differentiated input.
    log_ratio: `[B, T]`.
    advantages: `[B, T]`.

  Returns:
    `[B, T]` losses, and `[B, T]` bool: where the weight was cut to 1.
  """
  chex.assert_equal_shape([logprobs, log_ratio, advantages])
  ratio = ratio_lib.from_log(log_ratio)
  negative = advantages < 0
  weight = jnp.where(negative, jnp.minimum(ratio, 1.0), 1.0)
  weight = jax.lax.stop_gradient(weight)
  return -weight * advantages * logprobs, negative & (ratio > 1)
