"""DPO: direct preference optimization (arXiv:2305.18290) of whole episodes.

Episode w of a task is better than episode l. The policy learns to prefer w,
measured against a reference, the policy that it starts from:

    loss = mean over pairs of f(h) - nll_coef log p(w) / |w|
    h = log p(w) / p_ref(w) - log p(l) / p_ref(l)

log p(episode) is the sum over the tokens that the policy chose, in all turns;
observations are not counted. f is one of `ops.preference_loss`.

Where failing takes more turns than succeeding, the sum lowers the probability
of everything that long episodes consist of. `length_normalised` takes the mean
over the episode's tokens instead (Tulu 3, arXiv:2411.15124; DMPO,
arXiv:2406.14868, meets the same trouble in multi-turn episodes); beta is then
some ten times larger.

f alone lets log p(w) fall as long as log p(l) falls faster, and the policy moves
to episodes that are neither. `nll_coef` also imitates w (RPO,
arXiv:2404.19733 eq. 2); |w| is the number of its tokens.
"""

import jax
import jax.numpy as jnp

from agentrl.algos.hyperparams import Dpo as Hyperparams
from agentrl.algos.policy import Metrics, Outputs
from agentrl.batch import TokenBatch
from agentrl.ops import masked, preference_loss
from agentrl.ops.aggregate import Denominators

# |h| below which a pair is undecided, in nats (a token, if length-normalised).
# While the policy equals its reference h is what two sums of float32 round to,
# and its sign depends on the shapes of the batch and the number of devices.
UNDECIDED = 1e-4


def loss(
    outputs: Outputs,
    batch: TokenBatch,
    denominators: Denominators,
    hyperparams: Hyperparams = Hyperparams(),
) -> tuple[jax.Array, Metrics]:
  """This microbatch's share of the minibatch's mean over pairs.

  Args:
    outputs: of the current policy.
    batch: one microbatch that holds both episodes of a pair, or none. Segments
      2i + 1 and 2i + 2 of the whole batch are a pair, the better one first.
      Needs `ref_logprobs`, unless the loss is reference-free.
    denominators: of the whole minibatch, whose pairs are half of its episodes.
    hyperparams: the choices.
  """
  mask = masked.loss_mask(batch)
  per_episode = lambda x: masked.sum_episodes(x, mask, batch)
  length = jnp.maximum(per_episode(mask), 1)  # [E]
  gain = outputs.logprobs
  if not hyperparams.reference_free:
    assert batch.ref_logprobs is not None
    # Per token, before the sum: a difference of two long sums is less exact.
    gain = gain - batch.ref_logprobs
  gain = per_episode(gain)
  if hyperparams.length_normalised:
    gain = gain / length
  better, worse = gain[::2], gain[1::2]  # [P]
  here = per_episode(mask)[::2] > 0  # the other pairs are in other pieces
  margin = better - worse
  won = jnp.where(jnp.abs(margin) < UNDECIDED, 0.5, margin > 0)
  mean = lambda x: masked.sum(x, here) / (denominators.episodes / 2)
  total = mean(
      preference_loss.per_pair(
          margin,
          loss=hyperparams.loss,
          beta=hyperparams.beta,
          label_smoothing=hyperparams.label_smoothing,
      )
  )
  nll = mean(-(per_episode(outputs.logprobs) / length)[::2])
  if hyperparams.nll_coef:
    total = total + hyperparams.nll_coef * nll
  return total, {
      'policy/loss': total,
      'policy/nll': nll,  # nats a token of the better episode
      'policy/entropy': masked.sum(outputs.entropy, mask) / denominators.tokens,
      'preference/accuracy': mean(won),  # an undecided pair is half won
      # h and its two parts, without beta: nats, or nats a token.
      'preference/margin': mean(margin),
      'preference/better': mean(better),
      'preference/worse': mean(worse),
  }
