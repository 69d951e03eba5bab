"""The optimizer: an optax chain from named values."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from agentrl import plugins
from agentrl.training.adam8bit import scale_by_adam8bit
from agentrl.training.options import Optim
from agentrl.training.state import Networks

# (peak rate, updates until the end) -> what follows the warm-up.
SCHEDULES = {
    'constant': lambda lr, rest: optax.constant_schedule(lr),
    'linear': lambda lr, rest: optax.linear_schedule(lr, 0.0, rest),
    'cosine': optax.cosine_decay_schedule,
}


class Rate(NamedTuple):
  """The learning rate of a phase; see `make_schedule`."""

  lr: float
  warmup_steps: int
  schedule: str
  total_steps: int
  frozen_steps: int = 0


def make(
    optim: Optim, rate: Rate
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """The optimizer that a config asks for, and its learning rate by update."""
  tx = make_optimizer(
      **rate._asdict(),
      name=optim.name,
      grad_clip=optim.grad_clip,
      weight_decay=optim.weight_decay,
      b1=optim.b1,
      b2=optim.b2,
      momentum=optim.momentum,
  )
  return tx, make_schedule(**rate._asdict())


def updates(opt_state: Any) -> int:
  """The number of updates that an optimizer of `make` has applied.

  By it goes the learning rate. An update that is skipped, which
  `TrainState.step` counts, leaves the optimizer's state as it was.
  """
  is_schedule = lambda x: isinstance(x, optax.ScaleByScheduleState)
  states = jax.tree.leaves(opt_state, is_leaf=is_schedule)
  # A critic's schedule counts the same updates as the policy's.
  return int(next(filter(is_schedule, states)).count)


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
    schedule: a key of SCHEDULES, or one's own: `module:NAME`, `FILE.py:NAME`.
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
  rest = max(total_steps - warmup_steps, 1)
  after = plugins.function(schedule, SCHEDULES, 'optim.schedule=')(lr, rest)
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
    name: str = 'adamw',
    warmup_steps: int = 0,
    schedule: str = 'constant',
    total_steps: int = 1,
    frozen_steps: int = 0,
    grad_clip: float = 1.0,
    weight_decay: float = 0.0,
    b1: float = 0.9,
    b2: float = 0.999,
    momentum: float = 0.95,
    eps: float = 1e-8,
) -> optax.GradientTransformation:
  """An optimizer behind a clip of the gradient's global norm.

  All of them make steps of about AdamW's size, so that rates compare.

  Args:
    lr: peak learning rate.
    name: a key of OPTIMIZERS, or one's own: `module:NAME`, `FILE.py:NAME`.
    warmup_steps: updates of linear warm-up.
    schedule: what follows it, see `make_schedule`.
    total_steps: updates in the whole run; only decaying schedules read it.
    frozen_steps: updates at rate 0 before the warm-up.
    grad_clip: largest global norm; larger gradients are scaled down to it.
    weight_decay: decoupled decay; norm scales and biases are exempt.
    b1: decay of Adam's first moment.
    b2: decay of Adam's second moment.
    momentum: decay of Muon's momentum.
    eps: added to the root of Adam's second moment.
  """
  rate = make_schedule(
      lr,
      warmup_steps=warmup_steps,
      schedule=schedule,
      total_steps=total_steps,
      frozen_steps=frozen_steps,
  )
  adam = dict(b1=b1, b2=b2, eps=eps)

  def decayed(params):
    return jax.tree.map(lambda label: label != _VECTOR, _kinds(params))

  return optax.chain(
      optax.clip_by_global_norm(grad_clip),
      optax.chain(
          plugins.function(name, OPTIMIZERS, 'optim.name=')(adam, momentum),
          optax.add_decayed_weights(weight_decay, decayed),
          optax.scale_by_learning_rate(rate),
      ),
  )


# Kinds of parameters, by name: optimizers treat them differently.
_VECTOR, _EMBEDDING, _MATRIX = 'vector', 'embedding', 'matrix'


def _kinds(params: Any) -> Any:
  """A tree of the three labels above. A stack of vectors is a vector."""
  labels = dict(scale=_VECTOR, bias=_VECTOR, scalar=_VECTOR)
  labels |= dict(embed=_EMBEDDING, lm_head=_EMBEDDING)
  return jax.tree_util.tree_map_with_path(
      lambda path, _: labels.get(path[-1].key, _MATRIX), params
  )


def _adamw(adam, momentum):
  """AdamW (arXiv:1711.05101)."""
  del momentum
  return optax.scale_by_adam(**adam)


def _adamw8bit(adam, momentum):
  """AdamW with moments in 8 bits, but for the few of norms and biases."""
  del momentum
  small = scale_by_adam8bit(**adam)
  return optax.partition(
      {_VECTOR: optax.scale_by_adam(**adam), _EMBEDDING: small, _MATRIX: small},
      _kinds,
  )


def _adafactor(adam, momentum):
  """Adafactor (arXiv:1804.04235) without momentum and relative step sizes.

  The second moments of a matrix are a column and a row.
  """
  del adam, momentum

  def clip(updates, params):
    del params

    # Algorithm 4, d = 1. A leaf of more than two axes is a stack of matrices.
    def clipped(x):
      axes = tuple(range(x.ndim))[-2:]
      rms = jnp.sqrt(jnp.mean(x * x, axis=axes, keepdims=True))
      return x / jnp.maximum(1.0, rms)

    return jax.tree.map(clipped, updates)

  return optax.chain(optax.scale_by_factored_rms(), optax.stateless(clip))


def _muon(adam, momentum):
  """Muon for the matrices of the layers, AdamW for what is left.

  Each matrix of a stack is orthogonalised by itself, and scaled to the size of
  AdamW's steps (arXiv:2502.16982, eq. 4).
  """
  axes = contrib.MuonDimensionNumbers(reduction_axis=-2, output_axis=-1)

  def scale(updates, params):
    del params
    size = lambda x: 0.2 * max(x.shape[-2:]) ** 0.5
    return jax.tree.map(lambda x: size(x) * x, updates)

  orthogonalise = contrib.scale_by_muon(
      beta=momentum,
      weight_dimension_numbers=lambda tree: jax.tree.map(lambda _: axes, tree),
  )
  rest = optax.scale_by_adam(**adam)
  return optax.partition(
      {
          _MATRIX: optax.chain(orthogonalise, optax.stateless(scale)),
          _EMBEDDING: rest,
          _VECTOR: rest,
      },
      _kinds,
  )


# (settings of Adam, momentum) -> steps before decay and rate.
OPTIMIZERS = {
    'adamw': _adamw,
    'adamw8bit': _adamw8bit,
    'adafactor': _adafactor,
    'muon': _muon,
}


def with_critic(
    policy: optax.GradientTransformation, critic: optax.GradientTransformation
) -> optax.GradientTransformation:
  """One optimizer of `Networks`: each network has its own rate and clip."""
  return optax.multi_transform(
      {'policy': policy, 'critic': critic}, Networks('policy', 'critic')
  )
