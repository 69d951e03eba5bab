"""What a learner carries from update to update."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from agentrl.parallel import sharding


class Networks(NamedTuple):
  """What is differentiated and optimised together."""

  policy: Any
  critic: Any = None  # None without one


@struct.dataclass
class TrainState:
  """Parameters in the trainer's layout, and their optimiser's state."""

  step: jax.Array  # scalar int32: optimiser updates so far
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
):
  """A state at update 0, born sharded.

  Args:
    params: trainer layout, arrays of the host or of a device.
    tx: the optimiser, of `Networks`.
    mesh: where the state lives.
    critic: parameters of the critic, if there is one.

  Returns:
    The state, and a `TrainState` of its shardings.
  """

  def build(networks):
    return TrainState(
        jnp.zeros((), jnp.int32),
        networks.policy,
        tx.init(networks),
        networks.critic,
    )

  networks = Networks(params, critic)
  shardings = infer(jax.eval_shape(build, networks), mesh)
  # The copy keeps the caller's arrays alive when a train step donates ours.
  networks = jax.tree.map(
      lambda x, s: jnp.copy(jax.device_put(x, s)), networks, shardings.networks
  )
  return jax.jit(build, out_shardings=shardings)(networks), shardings


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
