"""The jitted programs of an update, and the update made of them.

An update of one minibatch is `accumulate` over its microbatches, then `apply`.
Each microbatch's loss is a sum divided by the denominator of the whole
minibatch, so any split gives the same gradient (invariant 8).
"""

import collections
import functools
import math
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from agentrl.algos.policy import Outputs
from agentrl.batch import TokenBatch
from agentrl.data import collate, packing
from agentrl.data.packing import Cost
from agentrl.errors import DivergedError
from agentrl.models import lora, mesh_logprob, value_head
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.ops import logprob
from agentrl.ops.aggregate import Denominators
from agentrl.parallel import (
    compile_waits,
    distributed,
    mesh as mesh_lib,
    sharding,
)
from agentrl.training import state as state_lib
from agentrl.training.compiled import Program
from agentrl.training.state import Networks, TrainState

# (outputs, batch, denominators) -> loss, metrics
LossFn = Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
Metrics = dict[str, Any]

# The functions of a microbatch.
MICROBATCHED = SCORE, ACCUMULATE = ('score', 'accumulate')
# This many updates in a row without a finite gradient end a run.
MAX_SKIPS = 3
# A metric of `apply` alone: 1 once parameters are not finite, which ends a run.
_BROKEN = 'train/broken'


class Scores(NamedTuple):
  """Outputs of the networks for a batch, `[B, T]`; values only with a critic."""

  logprobs: Any  # of sampled tokens; others have 0, see `compile_programs`
  values: Any = None  # V(tokens[b, :t])
  next_values: Any = None  # V(tokens[b, :t + 1]): after the last, a bootstrap


class Programs(NamedTuple):
  """Compiled functions for one network, loss, optimizer and mesh."""

  # (networks, batch) -> scores
  score: Program
  # (networks, grads, batch, denominators) -> grads, metrics, what the policy
  # said of each token; donates grads
  accumulate: Program
  # (state, grads) -> state, metrics; donates the state. A gradient that is not
  # finite changes nothing but the count of updates
  apply: Callable[[TrainState, Any], tuple[TrainState, Metrics]]
  zeros: Callable[[], Any]
  mesh: Mesh

  def compilations(self) -> Metrics:
    """Compilations of this process, which a resumed run does again.

    Returns:
      `train/compile_wait_s`, for which this thread has waited since it asked
      last, and `train/programs` of microbatches so far, one for each shape.
    """
    count = self.score.num_compiled() + self.accumulate.num_compiled()
    return {
        'train/compile_wait_s': compile_waits.take(),
        'train/programs': float(count),
    }

  def settle(self) -> None:
    """Has no more programs compiled beside the work, which is about to end."""
    self.score.settle()
    self.accumulate.settle()


class Updated(NamedTuple):
  """The results of an update.

  Attributes:
    state: the next.
    metrics: of the minibatch, floats; of a skipped update `train/skipped`
      alone, which is 1; none of a minibatch without a sampled token.
    outputs: for each microbatch, log-probabilities of its tokens under the
      parameters before the update, with their entropies where the programs keep
      them, `[b, t]`, and where its episodes are.
    suspects: rows that a skipped update may be due to: those of the
      microbatches with a number that is not finite, or all of them.
  """

  state: TrainState
  metrics: Metrics
  outputs: Sequence[tuple[Outputs, Sequence[collate.Placement]]] = ()
  suspects: Sequence[int] = ()


def compile_programs(
    module: Transformer,
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    state: TrainState,
    *,
    temperature: float = 1.0,
    base: lora.Base | None = None,
    keep_entropy: bool = False,
    learns_prompts: bool = False,
    few_shapes: Collection[str] = (),
    compiler: ThreadPoolExecutor | None = None,
) -> Programs:
  """The programs for states like `state`.

  Args:
    module: the decoder, trainer layout.
    loss_fn: an algorithm's `loss`, its hyperparameters bound.
    tx: the optimizer that made the state.
    state: from `state.create`, of which only shapes and shardings are read.
    temperature: of the sampler; the trainer's logits are divided by it too.
    base: the model that the networks, which are adapters then, add to; neither
      differentiated nor donated. None: the networks are whole.
    keep_entropy: `accumulate` returns entropies too, which costs nothing where
      the loss computes them.
    learns_prompts: whether the loss reads the log-probabilities of tokens that
      were not sampled. If not they are 0, and most logits are never computed.
    few_shapes: the functions, of MICROBATCHED, whose microbatches may have
      larger shapes than they need, by what came before: fewer programs, other
      last bits.
    compiler: compiles these beside the work. None: when they are called, and
      the choice of shapes does not depend on time.
  """
  shapes = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float32), state.networks
  )
  shardings = jax.tree.map(lambda x: x.sharding, state)
  mesh = shardings.step.mesh

  def forward(networks, batch, base):
    wanted = None if learns_prompts else batch.completion_mask
    return _forward(module, networks, batch, base, temperature, wanted)

  def objective(networks, batch, denominators, base):
    outputs, _ = forward(networks, batch, base)
    loss, metrics = loss_fn(outputs, batch, denominators)
    kept = Outputs(outputs.logprobs, outputs.entropy if keep_entropy else None)
    return loss, (metrics, kept)

  def score(networks, batch, base=None):
    outputs, raw = forward(networks, batch, base)
    return Scores(outputs.logprobs, outputs.values, raw)

  def accumulate(networks, grads, batch, denominators, base=None):
    new, (metrics, kept) = jax.grad(objective, has_aux=True)(
        networks, batch, denominators, base
    )
    return jax.tree.map(jnp.add, grads, new), metrics, kept

  def apply(state, grads):
    return _apply(tx, state, grads)

  on_device = shardings.replace(
      opt_state=sharding.to_device(shardings.opt_state)
  )
  apply = jax.jit(apply, donate_argnums=(0,), out_shardings=(on_device, None))
  if sharding.is_on_host(shardings.opt_state):
    apply = _with_offload(apply)

  jit = functools.partial(jax.jit, compiler_options=_compiler_options(mesh))
  weights = sum(x.size for x in jax.tree.leaves((state.params, base)))

  def program(function: Any, batch: int, name: str) -> Program:
    few = name in few_shapes
    return Program(
        function,
        batch=batch,
        cost=_cost(module.config, weights),
        price=few * _COMPILE_FLOPS[_platform(mesh)] / (6 * weights),
        executor=compiler if few else None,
        # An argument: a closure's arrays would be constants of the program.
        bound={} if base is None else dict(base=base),
    )

  return Programs(
      score=program(jit(sharding.on_mesh(score, mesh)), 1, SCORE),
      accumulate=program(
          jit(
              sharding.on_mesh(accumulate, mesh),
              donate_argnums=(1,),
              out_shardings=(shardings.networks, None, None),
          ),
          2,
          ACCUMULATE,
      ),
      apply=apply,
      zeros=jax.jit(
          lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes),
          out_shardings=shardings.networks,
      ),
      mesh=mesh,
  )


# What a device could compute while a program of an update is compiled: rough, it
# decides which is timed first.
_COMPILE_FLOPS = collections.defaultdict(lambda: 1e15, cpu=2e11)


def _platform(mesh: Mesh) -> str:
  return mesh.devices.flat[0].platform


def _cost(config: TransformerConfig, weights: int) -> Cost:
  """The cost of shapes by the products that they need.

  A token takes one with each weight, and two of a head's width with each key.
  Those of attention run at about 60% of the speed: of tiny-1m, on two cores, a
  token of rows of [64, 128] took 89 us, of [8, 1024] 145, of [4, 2048] 234.
  """
  keys = 2 * config.num_heads * sum(layer.head_dim for layer in config.layers)
  return functools.partial(packing.cost, per_key=keys / 0.6 / weights)


def _compiler_options(mesh: Mesh) -> dict[str, Any]:
  """Options of programs that come in many shapes.

  XLA's newer code of fusions takes a CPU twice as long to compile, and is no
  faster here: an update of tiny-1m with rows of [10, 768] compiled in 11.3 s and
  ran in 3.7 s on one core, without it in 6.0 s and 3.6 s.
  """
  on_cpu = _platform(mesh) == 'cpu'
  if on_cpu and jax.__version_info__ < (0, 11):  # later ones lack the option
    return {'xla_cpu_use_fusion_emitters': False}
  return {}


def _forward(module, networks, batch, base, temperature, wanted):
  """The `Outputs` of a batch, and `[B, T]` V(tokens[b, :t + 1]) or None."""
  layout = (batch.tokens, batch.positions, batch.segment_ids)
  params = lora.variables(networks.policy, base)
  states = module.apply(params, *layout, prefix=batch.prefix)
  logprobs, entropy = mesh_logprob.from_hidden(
      states.hidden,
      module,
      params['params'],
      batch.tokens,
      batch.positions,
      first=states.first,
      wanted=wanted,
      temperature=temperature,
  )
  if networks.critic is None:
    return Outputs(logprobs, entropy), None
  raw, first = value_head.apply(
      networks.critic, module, states, *layout, batch.prefix, base
  )
  values = logprob.shift_right(raw, batch.positions, first)
  return Outputs(logprobs, entropy, values), raw


def _apply(tx, state, grads):
  """The state after an update by these gradients, and its metrics."""
  updates, opt_state = tx.update(grads, state.opt_state, state.networks)
  networks = optax.apply_updates(state.networks, updates)
  finite = jnp.isfinite(optax.tree.norm(grads))
  networks, opt_state = jax.tree.map(
      lambda new, old: jnp.where(finite, new, old),
      (networks, opt_state),
      (state.networks, state.opt_state),
  )
  metrics = {
      'train/grad_norm': optax.tree.norm(grads.policy),
      'train/update_norm': optax.tree.norm(updates.policy),
      'train/skipped': 1.0 - finite,
      _BROKEN: 1.0 - state_lib.is_finite(networks),
  }
  if networks.critic is not None:
    metrics['critic/grad_norm'] = optax.tree.norm(grads.critic)
  state = TrainState(
      state.step + 1, networks.policy, opt_state, networks.critic
  )
  return state, metrics


def _with_offload(apply):
  """`apply` for a state whose optimizer state waits in the host's memory."""

  def offloaded(state, grads):
    waiting = state.opt_state
    state = state.replace(opt_state=sharding.to_device(waiting))
    jax.tree.map(lambda x: x.delete(), waiting)  # as donation does
    state, metrics = apply(state, grads)
    return state.replace(opt_state=sharding.to_host(state.opt_state)), metrics

  return offloaded


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


def denominators(
    batch: TokenBatch, rows: np.ndarray, *, kl_coef: float = 0.0
) -> Denominators[np.float32]:
  """The loss's denominators: what is valid and sampled in these rows."""
  rows = np.asarray(rows)[np.asarray(batch.valid)[rows]]
  mask = np.asarray(batch.completion_mask)[rows]
  starts = mask & ~np.pad(mask[:, :-1], ((0, 0), (1, 0)))
  return Denominators(*(
      np.float32(n)
      for n in (mask.sum(), mask.any(axis=1).sum(), starts.sum(), kl_coef)
  ))


def update(
    programs: Programs,
    state: TrainState,
    batch: TokenBatch,
    rows: np.ndarray,
    *,
    max_tokens: int,
    kl_coef: float = 0.0,
    rows_per_example: int = 1,
    whole_episodes: bool = False,
    share_prefixes: bool = True,
) -> Updated:
  """One optimizer update on a minibatch, skipped if its gradient is not finite.

  Args:
    programs: for this state.
    state: donated.
    batch: NumPy arrays; the minibatch is a choice of its rows.
    rows: indices of the minibatch's rows.
    max_tokens: per microbatch, padding included.
    kl_coef: weight of the KL to the reference, where the loss has one.
    rows_per_example: neighbours in `rows` that a loss compares, see `collate`.
    whole_episodes: whether the loss has a term of an episode, see `collate`.
    share_prefixes: False for a loss of prompts.

  Raises:
    DivergedError: the parameters after it are not finite. The state before it
      is gone, and this one must not be kept.
  """
  counts = denominators(batch, rows, kl_coef=kl_coef)
  if not counts.tokens:
    return Updated(state, {})
  grads, parts, outputs = programs.zeros(), [], []
  computed = padded = 0
  pieces = cut(
      programs.accumulate,
      programs.mesh,
      batch,
      rows,
      max_tokens=max_tokens,
      rows_per_example=rows_per_example,
      whole_episodes=whole_episodes,
      share_prefixes=share_prefixes,
  )
  with programs.accumulate.timed():
    for piece, places in pieces:
      for part in (piece, piece.prefix):
        if part is not None:
          computed += int((part.segment_ids > 0).sum())
          padded += part.tokens.size
      piece = state_lib.place(piece, programs.mesh)
      grads, metrics, kept = programs.accumulate(
          state.networks, grads, piece, counts
      )
      parts.append(metrics)
      outputs.append((kept, places))
    parts = jax.device_get(parts)
  state, metrics = programs.apply(state, grads)
  metrics = merge([metrics])
  if metrics.pop(_BROKEN):
    raise DivergedError(
        f'After update {int(state.step)} the parameters are not finite; they'
        ' are not kept.'
    )
  placements = [places for _, places in outputs]
  if metrics['train/skipped']:
    suspects = _suspects(parts, placements)
    return Updated(state, {'train/skipped': 1.0}, outputs, suspects)
  tokens = int((np.asarray(batch.segment_ids)[rows] > 0).sum())
  whole = sum(p.skip + p.length for places in placements for p in places)
  metrics |= {
      'train/tokens': float(tokens),
      'train/padding': 1 - computed / padded,
      'train/shared': 1 - computed / whole,
  }
  return Updated(state, merge(parts) | metrics, outputs)


def cut(
    program: Program,
    mesh: Mesh,
    batch: TokenBatch,
    rows: np.ndarray,
    *,
    share_prefixes: bool = True,
    **options: Any,
) -> list[collate.Microbatch]:
  """Microbatches for a program, whose rows divide over the mesh.

  Args:
    program: that takes them.
    mesh: its devices.
    batch: NumPy arrays.
    rows: of the batch.
    share_prefixes: as of `update`.
    **options: of `collate.microbatches`.
  """
  # Devices that split the tokens of a row have no whole rows to share.
  whole_rows = mesh.shape[mesh_lib.SEQUENCE] == 1
  return collate.microbatches(
      batch,
      rows,
      multiple=mesh_lib.batch_size(mesh),
      share_prefixes=share_prefixes and whole_rows,
      shapes=program.shapes,
      **options,
  )


NO_DENOMINATORS = Denominators(*(np.float32(0),) * len(Denominators._fields))
# The fields of a batch that the networks see.
_SEEN = ('tokens', 'segment_ids', 'positions', 'completion_mask', 'prefix')


def seen(batch: TokenBatch) -> TokenBatch:
  """The batch as it is scored: one program however much else is filled in."""
  fields = batch.__dataclass_fields__
  return batch.replace(**{n: None for n in fields if n not in _SEEN})


def score(
    programs: Programs,
    networks: Networks,
    batch: TokenBatch,
    *,
    max_tokens: int,
) -> Scores:
  """Outputs of `networks` for every valid row, host arrays.

  Log-probabilities of tokens that were not sampled are 0, but for a loss that
  learns prompts; also its prompts may have 0 where groups share them, see
  `collate.microbatches`.
  """
  outputs = 1 if networks.critic is None else len(Scores._fields)
  out = Scores(
      *(np.zeros(batch.tokens.shape, np.float32) for _ in range(outputs))
  )
  pieces = cut(
      programs.score,
      programs.mesh,
      batch,
      np.arange(len(batch.tokens)),
      max_tokens=max_tokens,
  )
  with programs.score.timed():
    for piece, places in pieces:
      piece = state_lib.place(seen(piece), programs.mesh)
      scores = programs.score(networks, piece)
      for values, rows in zip(scores, out, strict=True):
        if values is not None:
          collate.unpack(distributed.to_host(values), places, rows)
  return out


def _suspects(
    parts: Sequence[Metrics], places: Sequence[Sequence[collate.Placement]]
) -> list[int]:
  """Rows of the microbatches whose metrics are not finite, or of all."""
  bad = [
      not all(math.isfinite(value) for value in merge([part]).values())
      for part in parts
  ]
  return [
      place.row
      for broken, piece in zip(bad, places, strict=True)
      for place in piece
      if broken or not any(bad)
  ]


def count_skips(before: int, metrics: Metrics) -> int:
  """Skipped updates in a row, after one with these metrics.

  Args:
    before: in a row before it.
    metrics: of `update`.
  """
  return before + 1 if metrics.get('train/skipped') else 0


def check_skips(skips: int) -> None:
  """Ends a run that does not learn any more.

  Raises:
    DivergedError: MAX_SKIPS updates in a row were skipped.
  """
  if skips >= MAX_SKIPS:
    raise DivergedError(
        f'The gradients of {skips} updates in a row were not finite; none of'
        ' them was applied. The episodes in diverged/, if there are any, may'
        ' say why.'
    )
