"""Tests for agentrl.models.rotary: against transformers, and its refusals."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.models import rotary

LLAMA3 = dict(
    original_max_positions=8192, low_freq_factor=1.0, high_freq_factor=4.0
)


@pytest.fixture(scope='module')
def reference():
  """Frequencies and amplitude, by transformers."""
  pytest.importorskip('torch', reason='torch is the reference')
  transformers = pytest.importorskip('transformers')
  from transformers import modeling_rope_utils

  def compute(dim, theta, scaling):
    config = transformers.LlamaConfig(
        hidden_size=4 * dim,
        num_attention_heads=4,
        head_dim=dim,
        max_position_embeddings=4096,
        rope_parameters=scaling | {'rope_theta': theta},
    )
    make = modeling_rope_utils.ROPE_INIT_FUNCTIONS[scaling['rope_type']]
    frequencies, amplitude = make(config, 'cpu')
    return frequencies.numpy(), amplitude

  return compute


# Few: each compiles anew.
dims = st.sampled_from([4, 6, 20, 64, 128])
thetas = st.floats(100.0, 1e7)
factors = st.floats(1.0, 64.0)
lengths = st.integers(64, 65536)


def assert_same(rotation, expected):
  frequencies, amplitude = expected
  np.testing.assert_allclose(rotation.frequencies, frequencies, rtol=3e-5)
  ours = 1.0 if rotation.amplitude is None else rotation.amplitude
  np.testing.assert_allclose(ours, amplitude, rtol=1e-6)


@given(dim=dims, theta=thetas, factor=factors)
@settings(max_examples=15, deadline=None)
def test_linear_is_that_of_transformers(reference, dim, theta, factor):
  scaling = rotary.Scaling('linear', factor)
  assert_same(
      rotary.make_rotation(dim, theta, scaling),
      reference(dim, theta, dict(rope_type='linear', factor=factor)),
  )


@given(
    dim=dims,
    theta=thetas,
    factor=factors,
    length=lengths,
    low=st.floats(0.5, 4.0),
    span=st.floats(0.5, 8.0),
)
@settings(max_examples=30, deadline=None)
def test_llama3_is_that_of_transformers(
    reference, dim, theta, factor, length, low, span
):
  ends = dict(low_freq_factor=low, high_freq_factor=low + span)
  scaling = rotary.Scaling(
      'llama3', factor, original_max_positions=length, **ends
  )
  theirs = dict(
      rope_type='llama3',
      factor=factor,
      original_max_position_embeddings=length,
      **ends,
  )
  assert_same(
      rotary.make_rotation(dim, theta, scaling), reference(dim, theta, theirs)
  )


@given(
    dim=dims,
    theta=thetas,
    factor=factors,
    length=lengths,
    options=st.fixed_dictionaries(
        {},
        optional=dict(
            beta_fast=st.floats(8.0, 64.0),
            beta_slow=st.floats(0.5, 4.0),
            attention_factor=st.floats(0.5, 2.0),
            mscale=st.floats(0.5, 2.0),
            mscale_all_dim=st.floats(0.5, 2.0),
            truncate=st.booleans(),
        ),
    ),
)
@settings(max_examples=60, deadline=None)
def test_yarn_is_that_of_transformers(
    reference, dim, theta, factor, length, options
):
  scaling = rotary.Scaling(
      'yarn', factor, original_max_positions=length, **options
  )
  theirs = dict(
      rope_type='yarn',
      factor=factor,
      original_max_position_embeddings=length,
      **options,
  )
  assert_same(
      rotary.make_rotation(dim, theta, scaling), reference(dim, theta, theirs)
  )


def test_dynamic_changes_nothing_up_to_max_positions(reference):
  scaling = rotary.Scaling('dynamic', 4.0)
  theirs = reference(16, 1e4, dict(rope_type='dynamic', factor=4.0))
  assert_same(rotary.make_rotation(16, 1e4, scaling), theirs)
  assert_same(rotary.make_rotation(16, 1e4), theirs)


ROTATION = rotary.make_rotation(16, 1e4)


def test_scores_depend_on_distances_only():
  queries, keys = np.random.default_rng(0).normal(size=(2, 1, 1, 1, 16))
  score = lambda i, j: np.vdot(
      rotary.rotate(jnp.asarray(queries), jnp.array([[i]]), ROTATION),
      rotary.rotate(jnp.asarray(keys), jnp.array([[j]]), ROTATION),
  )
  np.testing.assert_allclose(score(5, 2), score(45, 42), rtol=1e-4)
  assert abs(score(5, 2) - score(5, 4)) > 1e-3


def test_zero_frequencies_turn_nothing():
  x = np.random.default_rng(0).normal(size=(1, 3, 2, 16)).astype(np.float32)
  still = rotary.Rotation(jnp.zeros(8))
  positions = jnp.array([[0, 7, 100_000]])
  np.testing.assert_array_equal(rotary.rotate(x, positions, still), x)
  longer = rotary.rotate(x, positions, still._replace(amplitude=1.5))
  np.testing.assert_array_equal(longer, 1.5 * x)


def test_longrope_is_that_of_transformers(reference):
  rng = np.random.default_rng(0)
  short, long = (rng.uniform(1, 9, 8).tolist() for _ in range(2))
  theirs = dict(
      rope_type='longrope',
      factor=4.0,
      original_max_position_embeddings=512,
      short_factor=short,
      long_factor=long,
  )
  scaling = rotary.Scaling(
      'longrope',
      4.0,
      original_max_positions=512,
      short_factor=short,
      long_factor=long,
  )
  assert_same(
      rotary.make_rotation(16, 1e4, scaling), reference(16, 1e4, theirs)
  )
  assert scaling.max_row == 512
  assert dataclasses.replace(scaling, long_factor=short).max_row is None
  with pytest.raises(ValueError, match='12 rotated dimensions need 6 entries'):
    rotary.make_rotation(12, 1e4, scaling)


def test_dimensions_behind_the_rotated_ones_stay():
  x = np.random.default_rng(0).normal(size=(1, 3, 2, 20)).astype(np.float32)
  positions = jnp.array([[0, 7, 100]])
  actual = rotary.rotate(x, positions, ROTATION)
  np.testing.assert_array_equal(actual[..., 16:], x[..., 16:])
  np.testing.assert_array_equal(
      actual[..., :16], rotary.rotate(x[..., :16], positions, ROTATION)
  )


def test_neighbours_are_rotated_as_halves_are():
  x = np.random.default_rng(0).normal(size=(1, 3, 2, 16)).astype(np.float32)
  positions = jnp.array([[0, 7, 100]])
  halves = np.concatenate([x[..., ::2], x[..., 1::2]], axis=-1)
  expected = np.asarray(rotary.rotate(halves, positions, ROTATION))
  actual = rotary.rotate(x, positions, ROTATION, interleaved=True)
  np.testing.assert_array_equal(actual[..., ::2], expected[..., :8])
  np.testing.assert_array_equal(actual[..., 1::2], expected[..., 8:])


def test_queries_grow_with_each_length_of_the_first_training():
  scaling = rotary.Scaling(
      'yarn', 4.0, original_max_positions=8, query_beta=0.5
  )
  factors = rotary.query_scale(jnp.array([[0, 7, 8, 23, 24]]), scaling)
  # 1 + 0.5 log(1 + 0, 0, 1, 2, 3)
  expected = 1 + 0.5 * np.log([[1, 1, 2, 3, 4]])
  np.testing.assert_allclose(factors, expected, rtol=1e-6)


@pytest.mark.parametrize(
    'kind, factor, options, message',
    [
        ('ntk', 2.0, {}, "'ntk'; known: linear, dynamic, llama3, yarn, longr"),
        (
            'longrope',
            2.0,
            dict(original_max_positions=64, long_factor=[1.0]),
            "'longrope' needs short_factor, got None",
        ),
        ('linear', 2.0, dict(alpha=3.0), "'linear' has no alpha .got 3.0"),
        ('linear', 0.5, {}, 'at least 1, got 0.5; leave the scaling out'),
        ('linear', float('nan'), {}, 'at least 1, got nan'),
        ('linear', 2.0, dict(beta_fast=1.0), "'linear' has no beta_fast .*1.0"),
        ('yarn', 2.0, {}, "'yarn' needs original_max_positions, got None"),
        ('llama3', 2.0, LLAMA3 | dict(low_freq_factor=None), 'low_freq_factor'),
        (
            'llama3',
            2.0,
            LLAMA3 | dict(high_freq_factor=1.0),
            'low_freq_factor < high_freq_factor, got 1.0 and 1.0',
        ),
    ],
)
def test_scalings_without_a_meaning_are_refused(kind, factor, options, message):
  with pytest.raises(ValueError, match=message):
    rotary.Scaling(kind, factor, **options)
