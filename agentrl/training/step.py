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

from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.errors import DivergedError
from agentrl.models.transformer import Transformer
from agentrl.ops import logprob, masked, mismatch
from agentrl.parallel import mesh as mesh_lib
from agentrl.training import state as state_lib
from agentrl.training.state import TrainState

# (logprobs, entropy, batch, num_tokens) -> loss, metrics
LossFn = Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
Metrics = dict[str, Any]


class Steps(NamedTuple):
  """Compiled functions for one network, loss, optimiser and mesh."""

  # (params, batch) -> [B, T] logprobs
  score: Callable[[Any, TokenBatch], jax.Array]
  # (params, grads, batch, num_tokens) -> grads, metrics, [B, T] logprobs;
  # donates grads
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
    shardings: of the state, from `state.create`.
    temperature: of the sampler; the trainer's logits are divided by it too.
  """

  def forward(params, batch):
    hidden, _ = module.apply(
        {'params': params}, batch.tokens, batch.positions, batch.segment_ids
    )
    unembed = lambda h: module.apply({'params': params}, h, method='unembed')
    return logprob.from_hidden(
        hidden,
        unembed,
        batch.tokens,
        batch.positions,
        temperature=temperature,
    )

  def objective(params, batch, num_tokens):
    logprobs, entropy = forward(params, batch)
    loss, metrics = loss_fn(logprobs, entropy, batch, num_tokens)
    if batch.sampler_logprobs is not None:
      mask = masked.loss_mask(
          batch.completion_mask, batch.segment_ids, batch.valid
      )
      metrics |= mismatch.metrics(
          logprobs, batch.sampler_logprobs, mask, num_tokens
      )
    return loss, (metrics, logprobs)

  def accumulate(params, grads, batch, num_tokens):
    new, (metrics, logprobs) = jax.grad(objective, has_aux=True)(
        params, batch, num_tokens
    )
    return jax.tree.map(jnp.add, grads, new), metrics, logprobs

  def apply(state, grads):
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    metrics = {
        'train/grad_norm': optax.tree.norm(grads),
        'train/update_norm': optax.tree.norm(updates),
    }
    return TrainState(state.step + 1, params, opt_state), metrics

  shapes = jax.eval_shape(
      lambda key: module.init(
          key, jnp.zeros((1, 1), int), jnp.zeros((1, 1), int)
      )['params'],
      jax.random.key(0),
  )
  grad_shardings = shardings.params
  return Steps(
      score=jax.jit(lambda params, batch: forward(params, batch)[0]),
      accumulate=jax.jit(
          accumulate,
          donate_argnums=(1,),
          out_shardings=(grad_shardings, None, None),
      ),
      apply=jax.jit(
          apply, donate_argnums=(0,), out_shardings=(shardings, None)
      ),
      zeros=jax.jit(
          lambda: jax.tree.map(
              lambda x: jnp.zeros(x.shape, jnp.float32), shapes
          ),
          out_shardings=grad_shardings,
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


def count_tokens(batch: TokenBatch, rows: np.ndarray) -> int:
  """Sampled tokens of valid episodes in these rows: the loss's denominator."""
  rows = np.asarray(rows)[np.asarray(batch.valid)[rows]]
  return int(np.asarray(batch.completion_mask)[rows].sum())


def update(
    steps: Steps,
    state: TrainState,
    batch: TokenBatch,
    rows: np.ndarray,
    *,
    max_tokens: int,
    logprobs: np.ndarray | None = None,
) -> tuple[TrainState, Metrics]:
  """One optimiser update on a minibatch.

  Args:
    steps: the compiled pieces.
    state: donated.
    batch: NumPy arrays; the minibatch is a choice of its rows.
    rows: indices of the minibatch's rows.
    max_tokens: per microbatch, padding included.
    logprobs: `[B, T]` host array; if given, the rows used get the tokens'
      log-probabilities under the parameters before the update.

  Returns:
    The next state, and the minibatch's metrics as floats. A minibatch with no
    sampled token changes nothing and returns no metrics.
  """
  num_tokens = count_tokens(batch, rows)
  if not num_tokens:
    return state, {}
  denominator = jnp.float32(num_tokens)
  grads, parts, scores = steps.zeros(), [], []
  padded = 0
  for piece, places in collate.microbatches(
      batch,
      rows,
      max_tokens=max_tokens,
      multiple=mesh_lib.batch_size(steps.mesh),
  ):
    padded += piece.tokens.size
    piece = state_lib.place(piece, steps.mesh)
    grads, metrics, values = steps.accumulate(
        state.params, grads, piece, denominator
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
    steps: Steps, params: Any, batch: TokenBatch, *, max_tokens: int
) -> np.ndarray:
  """`[B, T]` log-probabilities of every valid row under `params`."""
  out = np.zeros(batch.tokens.shape, np.float32)
  for piece, places in collate.microbatches(
      batch,
      np.arange(len(out)),
      max_tokens=max_tokens,
      multiple=mesh_lib.batch_size(steps.mesh),
  ):
    values = steps.score(params, state_lib.place(piece, steps.mesh))
    collate.unpack(np.asarray(values), places, out)
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
