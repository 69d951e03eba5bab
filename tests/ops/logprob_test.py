"""Tests for agentrl.ops.logprob."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import logprob
from experiments.benchmarks import bench_loss_memory

# Row 0 holds two segments and one padding token, row 1 a single segment.
POSITIONS = np.array([[0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5, 6]])


def log_softmax(logits):
  """Of one float64 vector."""
  shifted = logits - logits.max()
  return shifted - np.log(np.exp(shifted).sum())


def oracle(logits, tokens, positions, temperature=1.0):
  """Log-probability and entropy of each token, one at a time, in float64."""
  logprobs, entropies = np.zeros((2, *tokens.shape))
  for b, t in np.argwhere(positions > 0):
    says = log_softmax(logits[b, t - 1].astype(np.float64) / temperature)
    logprobs[b, t] = says[tokens[b, t]]
    entropies[b, t] = -np.sum(np.exp(says) * says)
  return logprobs, entropies


def random_inputs(seed, batch=2, length=7, vocab=5, dim=3):
  rng = np.random.default_rng(seed)
  hidden = rng.normal(size=(batch, length, dim)).astype(np.float32)
  kernel = rng.normal(size=(dim, vocab)).astype(np.float32)
  tokens = rng.integers(vocab, size=(batch, length))
  return hidden, kernel, tokens


from_logits = jax.jit(logprob.from_logits, static_argnames='temperature')


@functools.partial(jax.jit, static_argnames=('chunk', 'temperature'))
def from_hidden(hidden, kernel, tokens, positions, *, chunk, temperature=1.0):
  return logprob.from_hidden(
      hidden,
      lambda h: h @ kernel,
      tokens,
      positions,
      chunk=chunk,
      temperature=temperature,
  )


@pytest.mark.parametrize('temperature', [0.5, 1.0, 2.0])
@pytest.mark.parametrize('chunk', [3, 7, 256])
def test_matches_oracle(temperature, chunk):
  hidden, kernel, tokens = random_inputs(0)
  actual = from_hidden(
      hidden, kernel, tokens, POSITIONS, chunk=chunk, temperature=temperature
  )
  expected = oracle(hidden @ kernel, tokens, POSITIONS, temperature)
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_the_first_token_of_every_segment_has_zero():
  logprobs, entropy = from_hidden(*random_inputs(1), POSITIONS, chunk=3)
  first = POSITIONS == 0
  np.testing.assert_array_equal(logprobs[first], 0)
  np.testing.assert_array_equal(entropy[first], 0)
  assert (logprobs[~first] < 0).all()


def test_a_state_speaks_of_the_next_token_only():
  # State t puts all its weight on token t + 1 of the row: every prediction is
  # right, so every log-probability is 0 (and would not be, shifted otherwise).
  tokens = np.array([[3, 1, 4, 1, 0]])
  following = np.append(tokens[0, 1:], 2)
  logits = jnp.asarray(1e4 * np.eye(5, dtype=np.float32)[following][None])
  positions = np.arange(5)[None]
  logprobs, _ = from_hidden(logits, jnp.eye(5), tokens, positions, chunk=256)
  np.testing.assert_array_equal(logprobs, np.zeros((1, 5)))


@given(seed=st.integers(0, 2**32 - 1), chunk=st.sampled_from([2, 3]))
@settings(max_examples=8)
def test_chunks_change_neither_value_nor_gradient(seed, chunk):
  hidden, kernel, tokens = random_inputs(seed)
  weights = np.random.default_rng(seed).normal(size=(2, *tokens.shape))

  def total(hidden, kernel, chunk):
    outputs = from_hidden(hidden, kernel, tokens, POSITIONS, chunk=chunk)
    return sum(jnp.sum(w * x) for w, x in zip(weights, outputs, strict=True))

  value_and_grad = jax.value_and_grad(total, argnums=(0, 1))
  whole = value_and_grad(hidden, kernel, 256)
  pieces = value_and_grad(hidden, kernel, chunk)
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
      pieces,
      whole,
  )


@pytest.mark.parametrize('share', [0.0, 0.3, 1.0])
def test_wanted_tokens_have_the_scores_and_gradients_of_a_pass_over_all(share):
  """Five chunks, of which up to five are left out; prefixes, a temperature."""
  rng = np.random.default_rng(7)
  hidden, kernel, tokens = random_inputs(7, batch=3, length=13, vocab=11, dim=4)
  first = rng.normal(size=(3, 4)).astype(np.float32)
  positions = np.tile(np.arange(2, 15), (3, 1))
  positions[0, 6:] -= 6
  wanted = rng.random(tokens.shape) < share
  weights = rng.normal(size=(2, *tokens.shape)).astype(np.float32)

  def total(hidden, kernel, first, **options):
    outputs = logprob.from_hidden(
        hidden,
        lambda h: h @ kernel,
        tokens,
        positions,
        first=first,
        temperature=0.7,
        **options,
    )
    # Scores of other tokens, which a pass over all has, are not read.
    read = jnp.where(wanted, jnp.stack(outputs), 0)
    return jnp.vdot(weights, read), outputs

  def both(**options):
    grad = jax.value_and_grad(
        functools.partial(total, **options), argnums=(0, 1, 2), has_aux=True
    )
    (_, outputs), grads = jax.jit(grad)(hidden, kernel, first)
    return np.asarray(outputs), grads

  some, grads = both(chunk=9, wanted=wanted)
  every, expected = both(chunk=256)
  np.testing.assert_array_equal(some[:, ~wanted], 0)
  np.testing.assert_allclose(some[:, wanted], every[:, wanted], rtol=1e-5)
  for found, whole in zip(grads, expected, strict=True):
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('chunk', [3, 256])
def test_the_first_tokens_after_a_prefix_are_predicted_by_its_last_state(chunk):
  """Rows that continue prefixes of 3 and 1 tokens; the first in two segments."""
  hidden, kernel, tokens = random_inputs(5)
  first = np.random.default_rng(6).normal(size=(2, 3)).astype(np.float32)
  positions = np.array([[3, 4, 5, 3, 4, 3, 0], [1, 2, 3, 4, 5, 6, 0]])
  before = np.concatenate([first[:, None], hidden[:, :-1]], axis=1)
  before[0, [3, 5]] = first[0]
  expected = np.zeros((2, 2, 7))
  for b, t in np.argwhere(positions > 0):
    says = log_softmax((before[b, t] @ kernel).astype(np.float64))
    expected[:, b, t] = says[tokens[b, t]], -np.sum(np.exp(says) * says)
  found = logprob.from_hidden(
      hidden, lambda h: h @ kernel, tokens, positions, first=first, chunk=chunk
  )
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_gradient_is_one_hot_minus_softmax_over_temperature():
  rng = np.random.default_rng(2)
  logits = rng.normal(size=(4, 5)).astype(np.float32)
  targets = np.array([0, 4, 2, 2])
  grad = jax.grad(lambda x: from_logits(x, targets, temperature=0.7)[0].sum())(
      jnp.asarray(logits)
  )
  softmax = np.exp([log_softmax(x / 0.7) for x in logits.astype(np.float64)])
  np.testing.assert_allclose(
      grad, (np.eye(5)[targets] - softmax) / 0.7, rtol=1e-5, atol=1e-6
  )


def test_extreme_logits_stay_finite():
  logits = jnp.array([[1e4, -1e4, 0.0]])
  value, entropy = from_logits(logits, jnp.array([1]))
  np.testing.assert_array_equal(value, [-2e4])
  np.testing.assert_array_equal(entropy, [0.0])


def test_bfloat16_logits_are_normalised_in_float32():
  logits = jnp.zeros((1, 1000), jnp.bfloat16)
  value, entropy = from_logits(logits, jnp.array([3]))
  assert value.dtype == jnp.float32
  np.testing.assert_allclose(value, [-np.log(1000)], rtol=1e-6)
  np.testing.assert_allclose(entropy, [np.log(1000)], rtol=1e-6)


def test_rejects_tokens_and_positions_of_different_shapes():
  hidden, kernel, tokens = random_inputs(3)
  with pytest.raises(AssertionError, match='shape'):
    logprob.from_hidden(hidden, lambda h: h @ kernel, tokens, POSITIONS[:, 1:])


def test_the_loss_takes_an_eighth_of_the_naive_ones_memory():
  # Compiled, never run: Qwen2.5's vocabulary, one long row.
  chunked, naive = (
      bench_loss_memory.temporary_bytes(
          bench_loss_memory.CASES[case], vocab=151_936, length=8_192, width=896
      )
      for case in ('chunked', 'naive')
  )
  assert 8 * chunked < naive
  # Not one array of [tokens, vocab].
  assert chunked < 4 * 8_192 * 151_936
