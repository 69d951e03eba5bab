"""The optimiser: an optax chain from named values."""

import jax
import optax

from agentrl.training.state import Networks

SCHEDULES = ('constant', 'linear', 'cosine')


def make_schedule(
    lr: float,
    *,
    warmup_steps: int,
    schedule: str,
    total_steps: int,
    frozen_steps: int = 0,
) -> optax.Schedule:
  """Learning rate by update: a linear warm-up, then constant or decaying to 0.

  Args:
    lr: peak rate.
    warmup_steps: updates from 0 to `lr`.
    schedule: 'constant', 'linear' or 'cosine'.
    total_steps: updates in the whole run, the warm-up included.
    frozen_steps: updates at rate 0 before all that, while a critic warms up.
  """
  if frozen_steps:
    later = make_schedule(
        lr,
        warmup_steps=warmup_steps,
        schedule=schedule,
        total_steps=total_steps - frozen_steps,
    )
    return optax.join_schedules(
        [optax.constant_schedule(0.0), later], [frozen_steps]
    )
  if schedule not in SCHEDULES:
    raise ValueError(
        f'Unknown schedule {schedule!r}; known: {", ".join(SCHEDULES)}.'
    )
  rest = max(total_steps - warmup_steps, 1)
  after = {
      'constant': lambda: optax.constant_schedule(lr),
      'linear': lambda: optax.linear_schedule(lr, 0.0, rest),
      'cosine': lambda: optax.cosine_decay_schedule(lr, rest),
  }[schedule]()
  if not warmup_steps:
    return after
  # The first update already moves: update i uses (i + 1) / warmup_steps.
  warmup = optax.linear_schedule(
      lr / warmup_steps, lr, max(warmup_steps - 1, 1)
  )
  return optax.join_schedules([warmup, after], [warmup_steps])


def make_optimizer(
    lr: float,
    *,
    warmup_steps: int = 0,
    schedule: str = 'constant',
    total_steps: int = 1,
    frozen_steps: int = 0,
    grad_clip: float = 1.0,
    weight_decay: float = 0.0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> optax.GradientTransformation:
  """AdamW (arXiv:1711.05101) behind a clip of the gradient's global norm.

  Args:
    lr: peak learning rate.
    warmup_steps: updates of linear warm-up.
    schedule: what follows it, see `make_schedule`.
    total_steps: updates in the whole run; only decaying schedules read it.
    frozen_steps: updates at rate 0 before the warm-up.
    grad_clip: largest global norm; larger gradients are scaled down to it.
    weight_decay: decoupled decay; norm scales are exempt.
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the root of the second moment.
  """
  rate = make_schedule(
      lr,
      warmup_steps=warmup_steps,
      schedule=schedule,
      total_steps=total_steps,
      frozen_steps=frozen_steps,
  )

  def decayed(params):
    return jax.tree_util.tree_map_with_path(
        lambda path, _: 'scale' not in jax.tree_util.keystr(path), params
    )

  return optax.chain(
      optax.clip_by_global_norm(grad_clip),
      optax.adamw(
          rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay, mask=decayed
      ),
  )


def with_critic(
    policy: optax.GradientTransformation, critic: optax.GradientTransformation
) -> optax.GradientTransformation:
  """One optimiser of `Networks`: each network has its own rate and clip."""
  return optax.multi_transform(
      {'policy': policy, 'critic': critic}, Networks('policy', 'critic')
  )
