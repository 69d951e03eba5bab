"""The state of a learner between updates."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from agentrl.parallel import sharding


class Networks(NamedTuple):
  """Parameters that are differentiated and optimized together."""

  policy: Any
  critic: Any = None  # None without one


@struct.dataclass
class TrainState:
  """Parameters in the trainer's layout, and their optimizer's state."""

  step: jax.Array  # scalar int32: updates so far, skipped ones included
  params: Any  # the policy's
  opt_state: Any  # of `networks`
  critic: Any = None  # the critic's, see models.value_head

  @property
  def networks(self) -> Networks:
    return Networks(self.params, self.critic)


def create(
    params: Any,
    tx: optax.GradientTransformation,
    mesh: Mesh,
    *,
    critic: Any = None,
    offload: bool = False,
) -> TrainState:
  """A state at update 0, born sharded.

  Args:
    params: trainer layout, arrays of the host or of a device.
    tx: the optimizer, of `Networks`.
    mesh: where the state lives.
    critic: parameters of the critic, if there is one.
    offload: whether the optimizer's state waits in the memory of the host.

  """
  networks = Networks(params, critic)
  shardings = jax.tree.map(
      lambda x: x.sharding, create_abstract(params, tx, mesh, critic=critic)
  )
  networks = jax.tree.map(sharding.put_array, networks, shardings.networks)
  # The copy keeps the caller's arrays alive when a train step donates ours. It
  # is made in the program: one array at a time would take longer than that.
  build = jax.jit(
      lambda networks: _at_zero(tx, jax.tree.map(jnp.copy, networks)),
      out_shardings=shardings,
  )
  state = build(networks)
  if not offload:
    return state
  return state.replace(opt_state=sharding.to_host(state.opt_state))


def create_abstract(
    params: Any,
    tx: optax.GradientTransformation,
    mesh: Mesh,
    *,
    critic: Any = None,
) -> TrainState:
  """The state that `create` would make: shapes, dtypes and shardings alone."""
  state = jax.eval_shape(
      functools.partial(_at_zero, tx), Networks(params, critic)
  )
  shardings = infer_shardings(state, mesh)
  shardings = shardings.replace(
      opt_state=jax.tree.map(
          sharding.drop_indivisible, state.opt_state, shardings.opt_state
      )
  )
  return sharding.with_shardings(state, shardings)


def _at_zero(tx: optax.GradientTransformation, networks: Networks):
  return TrainState(
      jnp.zeros((), jnp.int32),
      networks.policy,
      tx.init(networks),
      networks.critic,
  )


def gradients(state: TrainState) -> Any:
  """Shapes of the accumulated gradients: float32, placed as the networks."""
  return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float32, sharding=x.sharding),
      state.networks,
  )


def infer_shardings(tree: Any, mesh: Mesh) -> Any:
  """Shardings of a tree of decoder parameters or of anything made of them."""
  return sharding.infer_shardings(tree, mesh, sharding.DECODER_RULES)


def is_finite(tree: Any) -> jax.Array:
  """True if all numbers in all arrays of a tree are finite, a scalar."""
  # Not of a norm: the squares of large parameters overflow.
  finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]
  return jnp.stack(finite).all()


def place(batch: Any, mesh: Mesh) -> Any:
  """Puts a NumPy batch on the mesh: `[B, T]` split both ways, `[E]` whole."""
  tokens = NamedSharding(mesh, sharding.TOKENS)
  whole = NamedSharding(mesh, P())
  return jax.tree.map(
      lambda x: sharding.put_array(x, tokens if x.ndim == 2 else whole), batch
  )


def abstract(tree: Any) -> Any:
  """Shapes, dtypes and shardings of arrays, which need not stay alive.

  Arrays of the host have no shardings.
  """
  return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(
          x.shape, x.dtype, sharding=getattr(x, 'sharding', None)
      ),
      tree,
  )
