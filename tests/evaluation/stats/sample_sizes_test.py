"""Tests for agentrl.evaluation.stats.sample_sizes: what evaluations show of a plan."""

import numpy as np
import pytest

from agentrl.errors import ConfigError
from agentrl.evaluation.stats import sample_sizes
from tests.evaluation import recording


def estimate(first, second=None):
  [a] = recording.side(first).runs
  b = None if second is None else recording.side(second, label='b').runs[0]
  return sample_sizes.estimate(a, b, 'textcraft')


def played(chances, rng, samples=8):
  draws = rng.random((len(chances), samples)) < np.array(chances)[:, None]
  return draws.tolist()


def test_estimates_come_near_the_truth():
  rng = np.random.default_rng(0)
  # Chances are uniform, within [0, 1] and [0.2, 0.8], and half shared.
  shared = rng.random(2000)
  own = rng.random(2000)
  second = np.where(rng.random(2000) < 0.5, shared, own)
  found = estimate(played(shared, rng), played(0.2 + 0.6 * second, rng))
  # Variances between tasks are 1/12 and 0.36 / 12 of 1/4 in all.
  assert found['rate'] == pytest.approx(0.5, abs=0.02)
  assert found['icc'] == pytest.approx((1 / 3 + 0.12) / 2, abs=0.03)
  assert found['agreement'] == pytest.approx(0.5, abs=0.08)


def test_the_weaker_policy_gives_the_rate():
  assert estimate([[1, 1], [1, 0]], [[0, 1], [0, 0]])['rate'] == 0.25
  assert estimate([[1, 1], [1, 0]])['rate'] == 0.75


def test_one_sample_a_task_shows_the_rate_alone():
  assert estimate([[1], [0]], [[1], [1]]) == {'rate': 0.5}


def test_policies_that_no_task_tells_apart_have_no_agreement():
  found = estimate([[1, 0], [1, 0]], [[1, 0], [0, 1]])
  assert found == {'rate': 0.5, 'icc': 0.0}


def test_no_valid_episode_is_refused():
  with pytest.raises(ConfigError, match="'a' of a has no valid episode"):
    estimate([[None, None]])
