"""The cost of an update on each device: bytes, products and collectives.

The programs of an update are compiled for arrays of shapes alone: no number of
them exists. So an update of any size on any mesh is measured on any machine,
with simulated devices.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.ops.aggregate import Denominators
from agentrl.parallel import sharding
from agentrl.planning import hlo
from agentrl.training import state as state_lib
from agentrl.training.programs import Programs
from agentrl.training.state import TrainState

# Fields that every batch has.
ALWAYS = tuple(
    field.name
    for field in dataclasses.fields(TokenBatch)
    if field.default is dataclasses.MISSING
)

# A program that never runs needs no fast code: what it holds and sends is
# decided before code is made of it. Without these it takes four times as long.
_QUICK = {'xla_backend_optimization_level': 0}
if jax.__version_info__ < (0, 11):  # later ones do not have this option
  _QUICK['xla_cpu_use_fusion_emitters'] = False


class Program(NamedTuple):
  """A compiled program, on each device."""

  bytes: int  # that it takes beyond the arrays that outlive it
  work: hlo.Costs


class Size(NamedTuple):
  """A microbatch as it is packed."""

  rows: int  # on all devices
  length: int

  @property
  def tokens(self) -> int:
    return self.rows * self.length


def device_bytes(tree: Any) -> int:
  """Bytes on one device of arrays, or of shapes with shardings."""
  return sum(
      math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
      for leaf in jax.tree.leaves(tree)
  )


def batch_shapes(
    size: Size, episodes: int, mesh: Mesh, fields: Iterable[str] = ()
) -> TokenBatch:
  """Shapes of a microbatch, placed as `state.place` does.

  Args:
    size: of its `[B, T]` fields.
    episodes: E.
    mesh: the devices.
    fields: that the loss reads beside those which every batch has.
  """
  example = collate.blank(2)

  def shape(name):
    like = getattr(example, name)
    if like is None:  # filled in later: numbers of tokens, or of episodes
      per_episode = name == 'bootstrap_value'
      like = example.episode_return if per_episode else example.rewards
    whole = like.ndim == 1
    place = NamedSharding(mesh, P() if whole else sharding.TOKENS)
    shape = (episodes,) if whole else size
    return jax.ShapeDtypeStruct(shape, like.dtype, sharding=place)

  return TokenBatch(**{name: shape(name) for name in (*ALWAYS, *fields)})


def score(programs: Programs, state: TrainState, batch: TokenBatch) -> Program:
  """Log-probabilities (and values) of a microbatch."""
  return _compile(programs.score, state.networks, batch, passing=batch)


def accumulate(
    programs: Programs, state: TrainState, batch: TokenBatch
) -> Program:
  """The gradient of a microbatch, added to the others."""
  denominators = Denominators(
      *(jax.ShapeDtypeStruct((), jnp.float32) for _ in Denominators._fields)
  )
  args = state.networks, state_lib.gradients(state), batch, denominators
  return _compile(programs.accumulate, *args, passing=batch)


def apply(programs: Programs, state: TrainState) -> Program:
  """The optimizer."""
  return _compile(programs.apply, state, state_lib.gradients(state))


def _compile(fn: Any, *args: Any, passing: Any = ()) -> Program:
  """Compiles for shapes; `passing` arguments are gone after the call."""
  compiled = fn.lower(*args).compile(compiler_options=_QUICK)
  memory = compiled.memory_analysis()
  results = memory.output_size_in_bytes - memory.alias_size_in_bytes
  return Program(
      memory.temp_size_in_bytes + results + device_bytes(passing),
      hlo.work(compiled.as_text()),
  )


def largest(
    measure: Callable[[int], int], room: int, *, start: int, most: int
) -> int:
  """The most rows a shard whose program fits; 0 if not even one does.

  Bytes are nearly linear in the rows, so the line through two sizes gives the
  next to try; the result was measured.

  Args:
    measure: bytes of a program by its rows a shard.
    room: bytes available.
    start: rows a shard to try first.
    most: rows a shard that an update has.
  """
  measured: dict[int, int] = {}
  best, limit, guess = 0, most + 1, min(start, most)
  while limit - best > 1:
    guess = min(max(guess, best + 1), limit - 1)
    measured[guess] = measure(guess)
    if measured[guess] <= room:
      best = guess
    else:
      limit = guess
    guess = _fill(measured, room)
    if len(measured) > 1 and 0 < best >= guess:
      break
  return best


def _fill(measured: dict[int, int], room: int) -> int:
  """Rows that fill `room`, by the line through the outermost measurements."""
  low, high = min(measured), max(measured)
  if low == high:  # the line through nothing: too few, where there is a base
    return low * room // max(measured[low], 1)
  slope = (measured[high] - measured[low]) / (high - low)
  return int(low + (room - measured[low]) / max(slope, 1))
