"""On-policy distillation: a teacher scores what the student samples.

The student plays, and the teacher gives the log-probability of each token that
it sampled. Their difference is minus one sample of the reverse KL divergence at
that token (MiniLLM, arXiv:2306.08543; GKD, arXiv:2306.13649), and the token's
advantage, to which a return may be added:

    A_t = log p_teacher(a_t | s_t) - log p_student(a_t | s_t) + c A_e

A_e is GRPO's advantage of the episode. Under the policy gradient

    E[(log p_student - log p_teacher) grad log p_student] = grad KL(student || teacher)

of one token in the states that the student meets: what a token does to later
ones is left out (a discount of 0), so that the teacher's word on a token counts
for it alone. The loss is `algos.policy`'s.
"""

import jax.numpy as jnp

from agentrl.algos import grpo, policy
from agentrl.algos.hyperparams import Distill as Hyperparams
from agentrl.batch import TokenBatch
from agentrl.ops import advantage


def advantages(
    batch: TokenBatch,
    hyperparams: Hyperparams = Hyperparams(),  # noqa: B008  (frozen)
    *,
    num_groups: int
) -> TokenBatch:
  """The batch with `[B, T]` advantages: 0 where nothing was sampled.

  Args:
    batch: with old log-probabilities and the teacher's; those where nothing was
      sampled are not read.
    hyperparams: the choices.
    num_groups: distinct tasks in the batch; static.
  """
  assert batch.teacher_logprobs is not None and batch.old_logprobs is not None
  learnt = advantage.to_tokens(batch.valid.astype(jnp.float32), batch) > 0
  tokens = jnp.where(learnt, batch.teacher_logprobs - batch.old_logprobs, 0.0)
  if hyperparams.return_coef:
    whole = grpo.advantages(batch, num_groups=num_groups).advantages
    assert whole is not None
    tokens += hyperparams.return_coef * whole
  return batch.replace(advantages=tokens)


loss = policy.loss
