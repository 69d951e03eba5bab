"""Tests for agentrl.ops.ratio."""

import ast
import pathlib

import jax
import numpy as np
import pytest

from agentrl.ops import ratio

INSIDE = [0.0, 1e-6, -1e-6, 0.3, -3.0, 19.999, -19.999, 20.0, -20.0]
BEYOND = [20.01, 50.0, 88.0, 89.0, 200.0, 1e30, np.inf]


@pytest.mark.parametrize('d', INSIDE)
def test_within_the_bound_it_is_exp_and_its_gradient(d):
  expected = np.exp(np.float64(np.float32(d)))
  value, grad = jax.value_and_grad(ratio.from_log)(np.float32(d))
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  np.testing.assert_allclose(grad, expected, rtol=1e-5)
  assert not ratio.is_bounded(np.float32(d))


@pytest.mark.parametrize('d', [*BEYOND, *(-d for d in BEYOND)])
def test_beyond_it_is_the_bound_s_and_has_no_gradient(d):
  value, grad = jax.value_and_grad(ratio.from_log)(np.float32(d))
  np.testing.assert_allclose(value, np.exp(20.0 * np.sign(d)), rtol=1e-5)
  assert grad == 0
  assert ratio.is_bounded(np.float32(d))


@pytest.mark.parametrize('d', [*INSIDE, -50.0, -200.0, -1e9])
def test_k3_is_exact_up_to_the_bound(d):
  x = np.float64(np.float32(d))
  np.testing.assert_allclose(
      ratio.k3(np.float32(d)), np.exp(x) - 1 - x, rtol=1e-5, atol=1e-7
  )


@pytest.mark.parametrize('d', BEYOND)
def test_k3_is_bounded(d):
  value, grad = jax.value_and_grad(ratio.k3)(np.float32(d))
  np.testing.assert_allclose(value, np.exp(20.0) - 21, rtol=1e-5)
  assert grad == 0


def test_nan_is_not_hidden():
  assert np.isnan(ratio.from_log(np.float32(np.nan)))


def test_no_other_operation_takes_exp_of_a_ratio():
  """Softmax has its own exponentials, whose arguments are never above 0."""
  found = set()
  for path in pathlib.Path(ratio.__file__).parent.glob('*.py'):
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
      if isinstance(node, ast.Attribute) and node.attr in ('exp', 'expm1'):
        found.add(path.stem)
  # A decay, too, is at most 1.
  softmax = {'attention', 'logprob', 'experts', 'delta_rule'}
  assert found - softmax == {'ratio'}
