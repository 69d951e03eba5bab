"""Tests for agentrl/planning/footprint.py."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, strategies as st

from agentrl.data import collate
from agentrl.planning import footprint
from agentrl.planning.footprint import Size
from agentrl.training import state as state_lib
from tests import tiny


def test_a_planned_batch_has_the_types_of_a_real_one():
  batch = tiny.random_batch(0)
  [(piece, _)] = collate.microbatches(
      batch, np.arange(len(batch.tokens)), max_tokens=tiny.ROW * 8
  )
  mesh = tiny.one_device()
  real = state_lib.abstract(state_lib.place(piece, mesh))
  optional = [
      name
      for name in real.__dataclass_fields__
      if name not in footprint.ALWAYS and getattr(real, name) is not None
  ]
  assert len(optional) > 2
  planned = footprint.batch_shapes(
      Size(*piece.tokens.shape), len(piece.valid), mesh, optional
  )
  assert jax.tree.structure(planned) == jax.tree.structure(real)
  same = lambda a, b: (a.shape, a.dtype, a.sharding) == (
      b.shape,
      b.dtype,
      b.sharding,
  )
  assert all(jax.tree.leaves(jax.tree.map(same, planned, real)))


def test_a_planned_state_is_what_is_created():
  state, _ = tiny.make_learner(critic='own')
  planned = state_lib.create_abstract(
      state.params,
      tiny.optimizer('own'),
      tiny.one_device(),
      critic=state.critic,
  )
  assert jax.tree.map(lambda x: (x.shape, x.dtype), planned) == jax.tree.map(
      lambda x: (x.shape, x.dtype), state
  )
  assert footprint.device_bytes(planned) == sum(
      x.nbytes for x in jax.tree.leaves(state)
  )


@given(
    base=st.integers(0, 1000),
    slopes=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    room=st.integers(0, 2000),
    start=st.integers(1, 40),
)
def test_the_largest_that_fits_was_measured(base, slopes, room, start):
  """Whatever the bytes do, as long as they grow with the rows."""
  sizes = base + np.cumsum(slopes)
  asked = {}

  def measure(rows):
    asked[rows] = int(sizes[rows - 1])
    return asked[rows]

  found = footprint.largest(measure, room, start=start, most=len(slopes))
  if found:
    assert asked[found] <= room
  else:
    assert sizes[0] > room
  if len(set(slopes)) == 1:  # on a line it is the largest, and found at once
    assert found == np.sum(sizes <= room)
    assert len(asked) <= 5


def test_gradients_are_float32_and_placed_as_their_parameters():
  params = {'embed': jax.ShapeDtypeStruct((32, 16), jnp.bfloat16)}
  state = state_lib.create_abstract(
      params, tiny.optimizer(None), tiny.one_device()
  )
  (grad,) = jax.tree.leaves(state_lib.gradients(state))
  assert grad.dtype == jnp.float32
  assert grad.sharding == state.params['embed'].sharding
