"""Tests for agentrl.ops.preference_loss, against the papers' formulas."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.ops import preference_loss
from tests import choices

MARGINS = np.array([-30.0, -2.0, -0.1, 0.0, 0.7, 5.0, 40.0])


def log_sigmoid(x):
  return -math.log1p(math.exp(-x)) if x > -500 else x


def dpo(h, beta, smoothing):
  return -(1 - smoothing) * log_sigmoid(beta * h) - smoothing * log_sigmoid(
      -beta * h
  )


def hinge(h, beta, smoothing):
  del smoothing
  return max(0.0, 1 - beta * h)


def ipo(h, beta, smoothing):
  del smoothing
  return (h - 1 / (2 * beta)) ** 2


@pytest.mark.parametrize('beta', [0.1, 0.5, 3.0])
@pytest.mark.parametrize(
    'loss, smoothing, oracle',
    [
        ('sigmoid', 0.0, dpo),
        ('sigmoid', 0.2, dpo),
        ('hinge', 0.0, hinge),
        ('ipo', 0.0, ipo),
    ],
)
def test_each_loss_is_its_papers(loss, smoothing, oracle, beta):
  found = preference_loss.per_pair(
      jnp.float32(MARGINS), loss=loss, beta=beta, label_smoothing=smoothing
  )
  expected = [oracle(h, beta, smoothing) for h in MARGINS]
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('loss', choices.PREFERENCE_LOSSES)
def test_a_pair_that_is_alike_is_pushed_apart(loss):
  slope = jax.grad(
      lambda h: preference_loss.per_pair(h[None], loss=loss, beta=0.5)[0]
  )
  assert slope(jnp.float32(0.0)) < 0


def test_what_is_far_enough_apart_is_left_alone_or_pulled_back():
  slope = lambda loss: jax.grad(
      lambda h: preference_loss.per_pair(h[None], loss=loss, beta=0.5)[0]
  )(jnp.float32(50.0))
  assert slope('hinge') == 0
  assert slope('ipo') > 0
  assert -1e-6 < slope('sigmoid') <= 0


def test_smoothed_labels_are_content_at_a_finite_margin():
  # The loss of labels of which a fifth is wrong is least at log(4) / beta.
  margins = jnp.linspace(-10.0, 10.0, 2001)
  losses = preference_loss.per_pair(
      margins, loss='sigmoid', beta=0.5, label_smoothing=0.2
  )
  assert abs(margins[jnp.argmin(losses)] - math.log(4) / 0.5) < 0.02
