"""Losses of preference pairs, on log-probabilities of whole episodes.

With h = (log p(w) - log p_ref(w)) - (log p(l) - log p_ref(l)) for a pair of a
better episode w and a worse one l, p the policy and p_ref the reference:

    sigmoid (DPO, arXiv:2305.18290 eq. 7)
        -(1 - s) log sigma(beta h) - s log sigma(-beta h)
    hinge (SLiC-HF, arXiv:2305.10425)       max(0, 1 - beta h)
    ipo (arXiv:2310.12036 eq. 17)           (h - 1 / (2 beta))^2

s is the share of pairs that are labelled the wrong way round (conservative
DPO); 0 is DPO itself. beta is the paper's tau in ipo, whose h sums over tokens
as theirs does; libraries that divide it by the length need another tau.
"""

import chex
import jax
import jax.numpy as jnp


def per_pair(
    margin: jax.Array,
    *,
    loss: str,
    beta: float,
    label_smoothing: float = 0.0,
) -> jax.Array:
  """`[P]` losses of pairs.

  Args:
    margin: `[P]`, h above, in nats.
    loss: sigmoid, hinge or ipo; static.
    beta: above 0; how soon a difference is enough.
    label_smoothing: s above, of 'sigmoid' only.
  """
  chex.assert_rank(margin, 1)
  match loss:
    case 'sigmoid':
      right = -jax.nn.log_sigmoid(beta * margin)
      wrong = -jax.nn.log_sigmoid(-beta * margin)
      return (1 - label_smoothing) * right + label_smoothing * wrong
    case 'hinge':
      return jnp.maximum(0.0, 1 - beta * margin)
    case 'ipo':
      return jnp.square(margin - 1 / (2 * beta))
  raise ValueError(f'Unknown loss {loss!r}.')
