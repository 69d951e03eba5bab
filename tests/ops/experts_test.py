"""Tests for agentrl.ops.experts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from agentrl.ops import experts

TOKENS, EXPERTS, COUNT, WIDTH, INNER = 7, 5, 2, 6, 4


def apply(x, logits, *kernels, normalise=True, ragged=None):
  weights, chosen = experts.route(logits, count=COUNT, normalise=normalise)
  return experts.mixture(
      x,
      weights,
      chosen,
      experts.Kernels(tuple(kernels[:2]), *kernels[2:]),
      unit=lambda gate, up: jnp.tanh(gate) * up,
      ragged=ragged,
  )


jitted = jax.jit(apply, static_argnames=('normalise', 'ragged'))
BOTH_WAYS = pytest.mark.parametrize('ragged', [True, False])


def oracle(x, logits, gate, up, down, *, normalise):
  """One token and one expert at a time, in float64."""
  out = np.zeros(x.shape)
  for n, row in enumerate(x.astype(np.float64)):
    weights = np.exp(logits[n] - logits[n].max(), dtype=np.float64)
    weights /= weights.sum()
    best = np.argsort(-weights)[:COUNT]
    total = weights[best].sum() if normalise else 1.0
    for e in best:
      inner = np.tanh(row @ gate[e]) * (row @ up[e])
      out[n] += weights[e] / total * (inner @ down[e])
  return out


def random_inputs(seed):
  rng = np.random.default_rng(seed)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
  inner, outer = (EXPERTS, WIDTH, INNER), (EXPERTS, INNER, WIDTH)
  return [
      draw(TOKENS, WIDTH),
      draw(TOKENS, EXPERTS),
      draw(*inner),
      draw(*inner),
      draw(*outer),
  ]


@pytest.mark.parametrize('normalise', [True, False])
@pytest.mark.parametrize('seed', range(3))
@BOTH_WAYS
def test_matches_oracle(seed, normalise, ragged):
  inputs = random_inputs(seed)
  np.testing.assert_allclose(
      jitted(*inputs, normalise=normalise, ragged=ragged),
      oracle(*inputs, normalise=normalise),
      rtol=1e-4,
      atol=1e-5,
  )


@BOTH_WAYS
def test_one_expert_may_take_every_token(ragged):
  inputs = random_inputs(0)
  inputs[1][:, 3] = 50  # and 3's weight is 1 then
  np.testing.assert_allclose(
      jitted(*inputs, ragged=ragged),
      oracle(*inputs, normalise=True),
      rtol=1e-4,
      atol=1e-5,
  )


@BOTH_WAYS
def test_a_token_s_result_depends_on_no_other_token(ragged):
  x, logits, *kernels = random_inputs(1)
  expected = jitted(x, logits, *kernels, ragged=ragged)
  order = np.random.default_rng(0).permutation(TOKENS)
  actual = jitted(x[order], logits[order], *kernels, ragged=ragged)
  np.testing.assert_allclose(actual, expected[order], rtol=1e-5)
  x[2:], logits[2:] = 1e3, 7.0
  actual = jitted(x, logits, *kernels, ragged=ragged)
  np.testing.assert_array_equal(actual[:2], expected[:2])


@BOTH_WAYS
def test_gradient_matches_finite_differences(ragged):
  check_grads(
      functools.partial(apply, ragged=ragged),
      random_inputs(2),
      order=1,
      modes=['rev'],
      atol=2e-2,
      rtol=2e-2,
  )


@BOTH_WAYS
def test_half_precision_is_weighted_in_full_precision(ragged):
  x, logits, *kernels = random_inputs(3)
  half = [jnp.asarray(v, jnp.bfloat16) for v in (x, *kernels)]
  out = jitted(half[0], logits, *half[1:], ragged=ragged)
  assert out.dtype == jnp.bfloat16
  rounded = [np.asarray(v, np.float32) for v in half]
  expected = oracle(rounded[0], logits, *rounded[1:], normalise=True)
  np.testing.assert_allclose(
      np.asarray(out, np.float32), expected, rtol=5e-2, atol=5e-2
  )


@BOTH_WAYS
def test_gradients_of_kernels_are_not_rounded_to_bfloat16(ragged):
  rng = np.random.default_rng(4)
  x = jnp.asarray(rng.normal(size=(1000, WIDTH)), jnp.bfloat16)
  _, _, gate, up, down = random_inputs(4)
  logits = rng.normal(size=(1000, EXPERTS)).astype(np.float32)
  weights, chosen = experts.route(logits, count=COUNT, normalise=True)

  def total(gate, up, down):
    out = experts.mixture(
        x,
        weights,
        chosen,
        experts.Kernels((gate, up), down),
        unit=lambda gate, up: jnp.tanh(gate) * up,
        ragged=ragged,
    )
    return jnp.sum(out, dtype=jnp.float32)

  found = jax.jit(jax.grad(total, (0, 1, 2)))(gate, up, down)
  for grad in map(np.asarray, found):
    assert grad.dtype == np.float32
    rounded = grad.astype(jnp.bfloat16).astype(np.float32)
    assert (rounded != grad).mean() > 0.9


@BOTH_WAYS
def test_kernels_that_are_frozen_get_no_gradient(ragged):
  x, logits, *kernels = random_inputs(5)
  apply_to = lambda x: apply(x, logits, *kernels, ragged=ragged).sum()
  text = str(jax.make_jaxpr(jax.grad(apply_to))(x))
  # A gradient of all kernels would be summed over the tokens.
  shapes = [f'f32[{WIDTH},{INNER}] = dot', f'[{EXPERTS},{WIDTH},{INNER}] = rag']
  assert not any(shape in text for shape in shapes), text


def test_rejects_kernels_of_different_shapes():
  inputs = random_inputs(0)
  with pytest.raises(AssertionError, match='shape'):
    apply(*inputs[:3], inputs[3][:, 1:], inputs[4])


@BOTH_WAYS
def test_biases_and_a_unit_of_one_matrix(ragged):
  rng = np.random.default_rng(6)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
  x, logits = draw(TOKENS, WIDTH), draw(TOKENS, EXPERTS)
  kernel, bias = draw(EXPERTS, WIDTH, 2 * INNER), draw(EXPERTS, 2 * INNER)
  outer, outer_bias = draw(EXPERTS, INNER, WIDTH), draw(EXPERTS, WIDTH)
  weights, chosen = experts.route(logits, count=COUNT, normalise=True)
  found = jax.jit(
      functools.partial(
          experts.mixture,
          unit=functools.partial(experts.clamped_unit, limit=0.7),
          ragged=ragged,
      )
  )(
      x,
      weights,
      chosen,
      experts.Kernels((kernel,), outer, (bias,), outer_bias),
  )
  expected = np.zeros(x.shape)
  for n, (row, own) in enumerate(zip(x, np.asarray(chosen), strict=True)):
    for weight, e in zip(np.asarray(weights)[n], own, strict=True):
      inner = row @ kernel[e] + bias[e]
      gate, up = np.minimum(inner[::2], 0.7), np.clip(inner[1::2], -0.7, 0.7)
      unit = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
      expected[n] += weight * (unit @ outer[e] + outer_bias[e])
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
