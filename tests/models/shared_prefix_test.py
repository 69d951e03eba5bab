"""Rows that continue a prefix equal rows that begin with it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.batch import SharedPrefix
from agentrl.models import transformer
from agentrl.models.config import FULL, SLIDING
from tests import tiny

# Every feature that acts on attention, in some layer.
CONFIG = dataclasses.replace(
    tiny.CONFIG,
    num_layers=3,
    qkv_bias=True,
    qk_norm=True,
    layer_types=[SLIDING, FULL, FULL],
    sliding_window=5,
    rope_layers=[True, True, False],
    rope_local_theta=100.0,
)
MODULE = transformer.Transformer(CONFIG, scan_layers=True)
# Two prefixes; two rows continue the first, one of them in two segments.
LENGTHS = (6, 3)
ROWS = np.array([0, 1, 0])
SEGMENTS = np.array([[1] * 4 + [2] * 6, [3] * 8 + [0] * 2, [4] * 10])


# It takes longer to compile than to run.
quick_jit = functools.partial(
    jax.jit, compiler_options={'xla_backend_optimization_level': 0}
)


def random_params():
  shapes = jax.eval_shape(
      lambda: transformer.init_params(MODULE, jax.random.key(0))
  )
  rng = np.random.default_rng(0)
  return jax.tree.map(
      lambda x: rng.normal(0, 0.3, x.shape).astype(np.float32), shapes
  )


def test_states_and_gradients_of_every_feature_are_the_same():
  rng = np.random.default_rng(1)
  tokens = rng.integers(32, size=SEGMENTS.shape).astype(np.int32)
  prefixes = rng.integers(32, size=(2, 8)).astype(np.int32)
  valid = np.arange(8) < np.array(LENGTHS)[:, None]
  prefix = SharedPrefix(prefixes, valid.astype(np.int32), ROWS)
  positions, whole = np.zeros_like(tokens), np.zeros((4, 16), np.int32)
  lengths = np.zeros(4, int)
  for segment in range(1, 5):  # a row of its own for each
    row, own = (SEGMENTS == segment).any(1).argmax(), SEGMENTS == segment
    before = LENGTHS[ROWS[row]]
    positions[own] = before + np.arange(own.sum())
    text = np.concatenate([prefixes[ROWS[row], :before], tokens[own]])
    whole[segment - 1, : len(text)], lengths[segment - 1] = text, len(text)
  weights = rng.normal(size=(4, 16, CONFIG.hidden_size)).astype(np.float32)

  def shared(params):
    hidden = MODULE.apply(
        {'params': params}, tokens, positions, SEGMENTS, prefix=prefix
    ).hidden
    real = SEGMENTS > 0
    of = weights[np.maximum(SEGMENTS - 1, 0), positions]
    return jnp.sum(jnp.where(real[..., None], of * hidden, 0)), hidden

  def alone(params):
    every = np.tile(np.arange(16), (4, 1))
    hidden = MODULE.apply({'params': params}, whole, every).hidden
    before = np.array(LENGTHS)[ROWS[[0, 0, 1, 2]]]
    read = (every >= before[:, None]) & (every < lengths[:, None])
    return jnp.sum(jnp.where(read[..., None], weights * hidden, 0)), hidden

  params = random_params()
  found, states = quick_jit(jax.grad(shared, has_aux=True))(params)
  expected, by_row = quick_jit(jax.grad(alone, has_aux=True))(params)
  for row, t in np.argwhere(SEGMENTS > 0):
    np.testing.assert_allclose(
        states[row, t],
        by_row[SEGMENTS[row, t] - 1, positions[row, t]],
        rtol=1e-5,
        atol=1e-5,
    )

  def check(a, b):
    assert np.abs(b).max() > 1e-3
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())

  jax.tree.map(check, found, expected)
