"""What a learner carries from update to update."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from agentrl.parallel import sharding


@struct.dataclass
class TrainState:
  """Parameters in the trainer's layout, and their optimiser's state."""

  step: jax.Array  # scalar int32: optimiser updates so far
  params: Any
  opt_state: Any


def create(params: Any, tx: optax.GradientTransformation, mesh: Mesh):
  """A state at update 0, born sharded.

  Args:
    params: trainer layout, arrays of the host or of a device.
    tx: the optimiser.
    mesh: where the state lives.

  Returns:
    The state, and a `TrainState` of its shardings.
  """

  def build(params):
    return TrainState(jnp.zeros((), jnp.int32), params, tx.init(params))

  shardings = infer(jax.eval_shape(build, params), mesh)
  # The copy keeps the caller's arrays alive when a train step donates ours.
  params = jax.tree.map(
      lambda x, s: jnp.copy(jax.device_put(x, s)), params, shardings.params
  )
  return jax.jit(build, out_shardings=shardings)(params), shardings


def infer(tree: Any, mesh: Mesh) -> Any:
  """Shardings of a tree of decoder parameters or of anything made of them."""
  return sharding.infer_shardings(tree, mesh, sharding.DECODER_RULES)


def place(batch: Any, mesh: Mesh) -> Any:
  """Puts a NumPy batch on the mesh: `[B, T]` split by rows, `[E]` whole."""
  rows = NamedSharding(mesh, sharding.ROWS)
  whole = NamedSharding(mesh, P())
  return jax.tree.map(
      lambda x: jax.device_put(x, rows if x.ndim == 2 else whole), batch
  )
