"""Tests for agentrl.ops.linear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.ops import linear


def inputs(*lead, dtype=np.float32):
  rng = np.random.default_rng(0)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
  x = draw(*lead, 5).astype(dtype)
  return x, draw(5, 3), draw(3), draw(*lead, 3).astype(dtype)


def gradients(x, kernel, bias, weights):
  total = lambda *args: jnp.vdot(linear.affine(*args), weights)
  return jax.jit(jax.grad(total, (0, 1, 2)))(x, kernel, bias)


@pytest.mark.parametrize('lead', [(7,), (2, 4)])
def test_an_affine_map_and_its_gradients(lead):
  x, kernel, bias, weights = inputs(*lead)
  np.testing.assert_allclose(
      linear.affine(x, kernel, bias), x @ kernel + bias, rtol=1e-5, atol=1e-6
  )
  np.testing.assert_allclose(
      linear.affine(x, kernel, None), x @ kernel, rtol=1e-5, atol=1e-6
  )
  flat = lambda a: a.reshape(-1, a.shape[-1])
  expected = (
      weights @ kernel.T,
      flat(x).T @ flat(weights),
      flat(weights).sum(0),
  )
  for found, right in zip(
      gradients(x, kernel, bias, weights), expected, strict=True
  ):
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('dtype', [np.float32, jnp.bfloat16])
def test_groups_have_kernels_of_their_own(dtype):
  sizes = np.int32([300, 0, 500, 200])
  x, _, _, weights = inputs(1000, dtype=dtype)
  kernels = np.random.default_rng(1).normal(size=(4, 5, 3)).astype(np.float32)
  total = lambda *args: jnp.vdot(linear.grouped(*args, sizes), weights)
  grad_x, grad_kernels = jax.jit(jax.grad(total, (0, 1)))(x, kernels)
  assert grad_x.dtype == dtype and grad_kernels.dtype == np.float32
  parts = np.split(np.arange(1000), np.cumsum(sizes)[:-1])
  exact = lambda a: np.asarray(a, np.float64)
  # Kernels and results are rounded as x is; sums over rows are not.
  tolerance = dict(rtol=1e-5 if dtype == np.float32 else 1e-2, atol=2e-2)
  for rows, kernel, grad in zip(parts, kernels, grad_kernels, strict=True):
    np.testing.assert_allclose(
        exact(linear.grouped(x, kernels, sizes))[rows],
        exact(x)[rows] @ kernel,
        **tolerance,
    )
    np.testing.assert_allclose(
        exact(grad_x)[rows], exact(weights)[rows] @ kernel.T, **tolerance
    )
    np.testing.assert_allclose(
        grad, exact(x)[rows].T @ exact(weights)[rows], rtol=1e-5, atol=1e-4
    )


def test_sums_over_tokens_are_not_rounded_to_bfloat16():
  x, kernel, bias, weights = inputs(1000, dtype=jnp.bfloat16)
  grad_x, grad_kernel, grad_bias = gradients(x, kernel, bias, weights)
  assert grad_x.dtype == jnp.bfloat16
  assert grad_kernel.dtype == grad_bias.dtype == jnp.float32
  x, weights = (np.asarray(a, np.float64) for a in (x, weights))
  np.testing.assert_allclose(grad_kernel, x.T @ weights, rtol=1e-5, atol=1e-4)
  np.testing.assert_allclose(grad_bias, weights.sum(0), rtol=1e-5, atol=1e-4)
