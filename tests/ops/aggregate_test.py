"""Tests for agentrl.ops.aggregate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import aggregate
from tests import choices
from tests.ops import batches

CONSTANT = 10.0
mean = jax.jit(aggregate.mean, static_argnames=('mode', 'constant'))

# Rows 0 and 1 hold an episode each, row 2 two of them and row 3 padding. The
# last episode of row 2 has no sampled token: it is not in the mask.
SEGMENTS = np.array([
    [1, 1, 1, 1, 1, 1, 1, 0],
    [2, 2, 2, 2, 2, 2, 2, 2],
    [3, 3, 3, 3, 4, 4, 4, 4],
    [0, 0, 0, 0, 0, 0, 0, 0],
])
MASK = np.array([
    [0, 1, 1, 0, 1, 0, 0, 0],  # turns of 2 and 1 tokens
    [1, 0, 1, 1, 1, 0, 0, 1],  # of 1, 3 and 1
    [0, 0, 1, 1, 0, 0, 0, 0],  # of 2
    [0, 0, 0, 0, 0, 0, 0, 0],
]).astype(bool)
# Of a sampled token in its episode; the others are not read.
TURN_IDS = np.array([
    [-1, 0, 0, -1, 1, -1, -1, -1],
    [0, -1, 1, 1, 1, -1, -1, 2],
    [-1, -1, 0, 0, -1, -1, -1, -1],
    [-1, -1, -1, -1, -1, -1, -1, -1],
])
TURNS = [
    [(0, 1), (0, 2)],
    [(0, 4)],
    [(1, 0)],
    [(1, 2), (1, 3), (1, 4)],
    [(1, 7)],
    [(2, 2), (2, 3)],
]
EPISODES = [TURNS[0] + TURNS[1], TURNS[2] + TURNS[3] + TURNS[4], TURNS[5]]
DENOMINATORS = aggregate.Denominators(
    *map(np.float32, (MASK.sum(), len(EPISODES), len(TURNS), 0.0))
)


BATCH = batches.of(SEGMENTS, turns=TURN_IDS)


def value(x, mode, mask=MASK):
  return mean(x, mask, BATCH, DENOMINATORS, mode=mode, constant=CONSTANT)


def oracle(x, mode):
  """From lists of turns and episodes, written out, in float64."""
  x = np.asarray(x, np.float64)
  average = lambda tokens: sum(x[t] for t in tokens) / len(tokens)
  every = [t for episode in EPISODES for t in episode]
  match mode:
    case 'token':
      return average(every)
    case 'sequence':
      return sum(map(average, EPISODES)) / len(EPISODES)
    case 'constant':
      sums = [sum(x[t] for t in episode) / CONSTANT for episode in EPISODES]
      return sum(sums) / len(EPISODES)
    case 'turn':
      return sum(map(average, TURNS)) / len(TURNS)


def random_values(seed):
  rng = np.random.default_rng(seed)
  return rng.normal(size=MASK.shape).astype(np.float32)


@pytest.mark.parametrize('mode', choices.AGGREGATIONS)
@pytest.mark.parametrize('seed', range(3))
def test_matches_oracle(mode, seed):
  x = random_values(seed)
  # The terms have size 1 and may cancel.
  np.testing.assert_allclose(
      value(x, mode), oracle(x, mode), rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize('mode', choices.AGGREGATIONS)
def test_gradient_is_the_weight_of_each_token(mode):
  x = random_values(3)
  expected = np.zeros(MASK.shape)
  for t in np.argwhere(MASK):
    one = np.zeros(MASK.shape)
    one[*t] = 1.0
    expected[*t] = oracle(one, mode)  # linear in x
  grad = jax.grad(value)(jnp.asarray(x), mode)
  np.testing.assert_allclose(grad, expected, rtol=1e-5)


@pytest.mark.parametrize('mode', ['token', 'sequence', 'turn'])
def test_the_mean_of_equal_values_is_that_value(mode):
  np.testing.assert_allclose(value(np.full(MASK.shape, 2.5), mode), 2.5)


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -np.inf, 1e30]),
    mode=st.sampled_from(choices.AGGREGATIONS),
)
@settings(max_examples=20)
def test_masked_positions_never_matter(seed, junk, mode):
  x = random_values(seed)
  dirty = np.where(MASK, x, np.float32(junk))
  run = jax.value_and_grad(value)
  clean = run(jnp.asarray(x), mode)
  jax.tree.map(
      np.testing.assert_array_equal, run(jnp.asarray(dirty), mode), clean
  )


@pytest.mark.parametrize('mode', choices.AGGREGATIONS)
def test_parts_of_a_minibatch_add_up_to_it(mode):
  x = random_values(4)
  parts = [
      value(x, mode, mask=MASK & (np.arange(4) == row)[:, None])
      for row in range(4)
  ]
  np.testing.assert_allclose(sum(parts), value(x, mode), rtol=1e-5, atol=1e-6)


def test_the_modes_differ():
  x = random_values(5)
  values = [float(value(x, mode)) for mode in choices.AGGREGATIONS]
  assert len({round(v, 5) for v in values}) == len(choices.AGGREGATIONS)


@pytest.mark.parametrize('mode', choices.AGGREGATIONS)
def test_an_empty_mask_gives_zero(mode):
  assert value(random_values(6), mode, mask=np.zeros_like(MASK)) == 0


def test_turns_that_touch_a_row_s_edges_are_counted():
  mask = np.array([[True, False, True]])
  denominators = aggregate.Denominators(*map(np.float32, (2, 1, 2, 0)))
  out = mean(
      np.float32([[1, 100, 3]]),
      mask,
      batches.of(np.ones((1, 3), int), turns=[[0, -1, 1]]),
      denominators,
      mode='turn',
  )
  np.testing.assert_allclose(out, 2.0)


@pytest.mark.parametrize(
    'episodes, turns',
    [
        ([[1, 1, 2, 2, 2]], [[0, 0, 0, 0, 0]]),  # of two episodes
        ([[1, 1, 1, 1, 1]], [[3, 3, 4, 4, 4]]),  # of one, in two segments
    ],
)
def test_turns_side_by_side_in_a_packed_row_are_two(episodes, turns):
  # The first ends its row with a completion; the prompt of the second is
  # shared, so its own tokens begin with one.
  x = np.float32([[1, 3, 10, 20, 60]])
  out = mean(
      x,
      np.ones((1, 5), bool),
      batches.of(episodes, turns=turns),
      aggregate.Denominators(*map(np.float32, (5, 2, 2, 0))),
      mode='turn',
  )
  np.testing.assert_allclose(out, (2 + 30) / 2)


@pytest.mark.parametrize('constant', [None, 0.0, -3.0])
def test_constant_mode_needs_its_constant(constant):
  with pytest.raises(ValueError, match='needs one above 0'):
    aggregate.mean(
        random_values(0),
        MASK,
        BATCH,
        DENOMINATORS,
        mode='constant',
        constant=constant,
    )


def test_rejects_mismatched_shapes():
  with pytest.raises(AssertionError, match='shape'):
    value(random_values(0)[:, 1:], 'token')
