"""The jitted pieces of an update, and the update made of them.

An update of one minibatch is `accumulate` over its microbatches, then `apply`.
Each microbatch's loss is a sum divided by the denominator of the whole
minibatch, so any split gives the same gradient (invariant 8).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from agentrl.algos.policy import Outputs
from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.errors import DivergedError
from agentrl.models import value_head
from agentrl.models.transformer import Transformer
from agentrl.ops import logprob
from agentrl.ops.aggregate import Scale
from agentrl.parallel import mesh as mesh_lib
from agentrl.training import state as state_lib
from agentrl.training.state import Networks, TrainState

# (outputs, batch, scale) -> loss, metrics
LossFn = Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
Metrics = dict[str, Any]


class Scores(NamedTuple):
  """What networks say of a batch, each `[B, T]`; values only with a critic."""

  logprobs: Any
  values: Any = None  # V(tokens[b, :t])
  next_values: Any = None  # V(tokens[b, :t + 1]): after the last, a bootstrap


class Steps(NamedTuple):
  """Compiled functions for one network, loss, optimiser and mesh."""

  # (networks, batch) -> scores
  score: Callable[[Networks, TokenBatch], Scores]
  # (networks, grads, batch, scale) -> grads, metrics, [B, T] logprobs; donates
  # grads
  accumulate: Callable[..., tuple[Any, Metrics, jax.Array]]
  # (state, grads) -> state, metrics; donates the state
  apply: Callable[[TrainState, Any], tuple[TrainState, Metrics]]
  zeros: Callable[[], Any]
  mesh: Mesh


def make_steps(
    module: Transformer,
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    mesh: Mesh,
    state: TrainState,
    shardings: TrainState,
    *,
    temperature: float = 1.0,
) -> Steps:
  """Compiles the pieces.

  Args:
    module: the decoder, trainer layout.
    loss_fn: an algorithm's `loss`, its hyperparameters bound.
    tx: the optimiser that made the state.
    mesh: the devices.
    state: of the shapes to come; only its shapes are read.
    shardings: of the state, from `state.create`.
    temperature: of the sampler; the trainer's logits are divided by it too.
  """
  shapes = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state.networks
  )

  def forward(networks, batch):
    layout = (batch.tokens, batch.positions, batch.segment_ids)
    params = {'params': networks.policy}
    hidden, _ = module.apply(params, *layout)
    logprobs, entropy = logprob.from_hidden(
        hidden,
        lambda h: module.apply(params, h, method='unembed'),
        batch.tokens,
        batch.positions,
        temperature=temperature,
    )
    if networks.critic is None:
      return Outputs(logprobs, entropy), None
    raw = value_head.apply(networks.critic, module, hidden, *layout)
    values = logprob.shift_right(raw, batch.positions)
    return Outputs(logprobs, entropy, values), raw

  def objective(networks, batch, scale):
    outputs, _ = forward(networks, batch)
    loss, metrics = loss_fn(outputs, batch, scale)
    return loss, (metrics, outputs.logprobs)

  def score(networks, batch):
    outputs, raw = forward(networks, batch)
    return Scores(outputs.logprobs, outputs.values, raw)

  def accumulate(networks, grads, batch, scale):
    new, (metrics, logprobs) = jax.grad(objective, has_aux=True)(
        networks, batch, scale
    )
    return jax.tree.map(jnp.add, grads, new), metrics, logprobs

  def apply(state, grads):
    updates, opt_state = tx.update(grads, state.opt_state, state.networks)
    networks = optax.apply_updates(state.networks, updates)
    metrics = {
        'train/grad_norm': optax.tree.norm(grads.policy),
        'train/update_norm': optax.tree.norm(updates.policy),
    }
    if networks.critic is not None:
      metrics['critic/grad_norm'] = optax.tree.norm(grads.critic)
    state = TrainState(
        state.step + 1, networks.policy, opt_state, networks.critic
    )
    return state, metrics

  return Steps(
      score=jax.jit(score),
      accumulate=jax.jit(
          accumulate,
          donate_argnums=(1,),
          out_shardings=(shardings.networks, None, None),
      ),
      apply=jax.jit(
          apply, donate_argnums=(0,), out_shardings=(shardings, None)
      ),
      zeros=jax.jit(
          lambda: jax.tree.map(
              lambda x: jnp.zeros(x.shape, jnp.float32), shapes
          ),
          out_shardings=shardings.networks,
      ),
      mesh=mesh,
  )


def merge(parts: list[Metrics]) -> Metrics:
  """Adds the microbatches' metrics; those called `_max` take the largest."""
  merged: Metrics = {}
  for part in jax.device_get(parts):
    for name, value in part.items():
      if name not in merged:
        merged[name] = float(value)
      elif name.endswith('_max'):
        merged[name] = max(merged[name], float(value))
      else:
        merged[name] += float(value)
  return merged


def measure(
    batch: TokenBatch, rows: np.ndarray, *, kl_coef: float = 0.0
) -> Scale:
  """The loss's denominators: what is valid and sampled in these rows."""
  rows = np.asarray(rows)[np.asarray(batch.valid)[rows]]
  mask = np.asarray(batch.completion_mask)[rows]
  starts = mask & ~np.pad(mask[:, :-1], ((0, 0), (1, 0)))
  return Scale(*(
      np.float32(n)
      for n in (mask.sum(), mask.any(axis=1).sum(), starts.sum(), kl_coef)
  ))


def update(
    steps: Steps,
    state: TrainState,
    batch: TokenBatch,
    rows: np.ndarray,
    *,
    max_tokens: int,
    kl_coef: float = 0.0,
    logprobs: np.ndarray | None = None,
    together: int = 1,
) -> tuple[TrainState, Metrics]:
  """One optimiser update on a minibatch.

  Args:
    steps: the compiled pieces.
    state: donated.
    batch: NumPy arrays; the minibatch is a choice of its rows.
    rows: indices of the minibatch's rows.
    max_tokens: per microbatch, padding included.
    kl_coef: weight of the KL to the reference, where the loss has one.
    logprobs: `[B, T]` host array; if given, the rows used get the tokens'
      log-probabilities under the parameters before the update.
    together: neighbours in `rows` that share a microbatch, see `collate`.

  Returns:
    The next state, and the minibatch's metrics as floats. A minibatch with no
    sampled token changes nothing and returns no metrics.
  """
  scale = measure(batch, rows, kl_coef=kl_coef)
  if not scale.tokens:
    return state, {}
  grads, parts, scores = steps.zeros(), [], []
  padded = 0
  for piece, places in collate.microbatches(
      batch,
      rows,
      max_tokens=max_tokens,
      multiple=mesh_lib.batch_size(steps.mesh),
      together=together,
  ):
    padded += piece.tokens.size
    piece = state_lib.place(piece, steps.mesh)
    grads, metrics, values = steps.accumulate(
        state.networks, grads, piece, scale
    )
    parts.append(metrics)
    scores.append((places, values))
  state, metrics = steps.apply(state, grads)
  if logprobs is not None:
    for places, values in scores:
      collate.unpack(np.asarray(values), places, logprobs)
  tokens = int((np.asarray(batch.segment_ids)[rows] > 0).sum())
  return state, merge(parts) | merge([metrics]) | {
      'train/tokens': float(tokens),
      'train/padding': 1 - tokens / padded,
  }


def score(
    steps: Steps, networks: Networks, batch: TokenBatch, *, max_tokens: int
) -> Scores:
  """`[B, T]` host arrays: what `networks` say of every valid row."""
  out = None
  for piece, places in collate.microbatches(
      batch,
      np.arange(len(batch.tokens)),
      max_tokens=max_tokens,
      multiple=mesh_lib.batch_size(steps.mesh),
  ):
    scores = steps.score(networks, state_lib.place(piece, steps.mesh))
    if out is None:
      empty = lambda _: np.zeros(batch.tokens.shape, np.float32)
      out = jax.tree.map(empty, scores)
    for values, rows in zip(scores, out, strict=True):
      if values is not None:
        collate.unpack(np.asarray(values), places, rows)
  if out is None:  # no valid row
    zeros = np.zeros(batch.tokens.shape, np.float32)
    return (
        Scores(zeros)
        if networks.critic is None
        else Scores(zeros, zeros, zeros)
    )
  return out


def checked(metrics: Metrics) -> Metrics:
  """The metrics of an update, unless its gradient was not finite.

  Raises:
    DivergedError: the parameters can no longer be trusted; the last checkpoint
      can.
  """
  norm = metrics.get('train/grad_norm', 0.0)
  if not math.isfinite(norm):
    raise DivergedError(
        f'The gradient norm is {norm}: training has diverged. Start again from'
        ' the last checkpoint with a lower learning rate.'
    )
  return metrics
