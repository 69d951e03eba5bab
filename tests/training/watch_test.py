"""Tests for agentrl.training.watch."""

import math

import pytest

from agentrl.training.options import Gauges
from agentrl.training.watch import (
    GAUGES,
    PATIENCE,
    CollapseWatch,
    DeadPolicyWatch,
)

V = 32
ALIVE = {
    'policy/entropy': 1.2,
    'train/grad_norm': 0.3,
    'rollout/tied_groups': 0.5,
}
NO_GRADIENT = ALIVE | {'train/grad_norm': 0.0}
TIED = ALIVE | {'train/grad_norm': 0.0, 'rollout/tied_groups': 1.0}


def warnings(*steps):
  """What each step's metrics lead to, by the number of the step."""
  watch = DeadPolicyWatch(V)
  said = [watch.see(metrics) for metrics in steps]
  return {i: text for i, text in enumerate(said) if text is not None}


@pytest.mark.parametrize(
    'metrics, sign',
    [
        (NO_GRADIENT, 'gradient is exactly 0, though returns differ'),
        (ALIVE | {'policy/entropy': 0.0}, 'entropy is 0,'),
        (ALIVE | {'policy/entropy': math.log(V)}, 'of a uniform choice'),
        # One that always says the same has no returns that differ.
        (TIED | {'policy/entropy': 0.0}, 'entropy is 0,'),
        # A learning rate of 1e6 leaves this, but for rounding.
        (
            TIED | {'policy/entropy': math.log(V) * (1 - 7e-8)},
            'of a uniform choice',
        ),
    ],
)
def test_five_dead_steps_in_a_row_are_warned_of_once(metrics, sign):
  [(step, text)] = warnings(*[metrics] * 20).items()
  assert step == PATIENCE - 1 and PATIENCE == 5
  assert sign in text and 'lower learning rate' in text
  assert '\n' not in text


def test_four_in_a_row_are_not():
  assert not warnings(*[*[NO_GRADIENT] * 4, ALIVE] * 3)


def test_it_is_warned_of_again_after_signs_of_life():
  five = [NO_GRADIENT] * PATIENCE
  assert list(warnings(*five, ALIVE, *five)) == [4, 10]


def test_ties_alone_are_neither_a_sign_of_death_nor_of_life():
  assert not warnings(*[TIED] * 50)
  steps = [NO_GRADIENT] * 3 + [TIED] * 4 + [NO_GRADIENT] * 2
  assert list(warnings(*steps)) == [8]


def test_a_policy_that_learns_is_left_alone():
  near = [
      ALIVE | {'policy/entropy': 1e-3},
      ALIVE | {'policy/entropy': math.log(V) - 1e-3},
      ALIVE | {'train/grad_norm': 1e-12},
  ]
  assert not warnings(*near * 5)


def test_steps_without_an_update_or_an_episode_say_nothing():
  skipped = {'train/skipped': 1.0, 'rollout/tied_groups': 0.0}
  nothing = {'rollout/invalid': 8.0}
  assert not warnings(*[skipped, nothing] * 10)


# Gauges of a collapse.

HEALTHY = {
    'gauges/conditional_entropy': 1.0,
    'policy/entropy': 0.5,
    'policy/approx_kl': 0.001,
    'gauges/mutual_information': 0.8,
    'rollout/repeated_action_share': 0.1,
    'rollout/parse_error_share': 0.01,
    'rollout/failed_groups': 0.3,
}


def gauge_warnings(*steps, **limits):
  watch = CollapseWatch(Gauges(**limits))
  return [watch.see(metrics) for metrics in steps]


@pytest.mark.parametrize('name', GAUGES)
def test_a_third_value_beyond_its_limit_is_warned_of_once(name):
  metric, meaning, _ = GAUGES[name]
  bad = HEALTHY | {metric: 0.0 if name.startswith('min_') else 1.1}
  said = gauge_warnings(HEALTHY, *[bad] * 10)
  assert [bool(texts) for texts in said] == [i == 3 for i in range(11)]
  [text] = said[3]
  limit = getattr(Gauges(), name)
  assert f'gauges.{name}={limit:g}: {meaning}' in text and metric in text


@pytest.mark.parametrize('name', GAUGES)
def test_a_value_at_its_limit_and_a_limit_of_none_are_silent(name):
  metric, _, relative = GAUGES[name]
  limit = getattr(Gauges(), name) * (HEALTHY[metric] if relative else 1.0)
  at = HEALTHY | {metric: limit}
  assert not any(gauge_warnings(HEALTHY, *[at] * 9))
  beyond = HEALTHY | {metric: 0.0 if name.startswith('min_') else 1.1}
  assert not any(gauge_warnings(HEALTHY, *[beyond] * 9, **{name: None}))


def test_a_rise_is_from_the_first_step_whatever_comes_between():
  entropies = [{'policy/entropy': x} for x in (0.5, 0.1, 1.1, 1.1, 1.1)]
  said = gauge_warnings({}, *entropies)
  assert [len(texts) for texts in said] == [0, 0, 0, 0, 0, 1]
  assert 'policy/entropy is 2.2 times its first value' in said[-1][0]
  # A policy that was certain has no multiples.
  assert not any(gauge_warnings({'policy/entropy': 0.0}, *entropies))


def test_a_step_without_a_gauge_neither_counts_nor_clears():
  bad = {'gauges/mutual_information': 0.0}
  said = gauge_warnings(bad, {}, bad, {}, {}, bad)
  assert [len(texts) for texts in said] == [0, 0, 0, 0, 0, 1]
  good = {'gauges/mutual_information': 1.0}
  assert not any(gauge_warnings(bad, bad, good, bad, bad))


@pytest.mark.parametrize('early', [0.0, 0.25])
def test_groups_that_always_failed_name_the_warm_start(early):
  seen = CollapseWatch(Gauges())
  seen.see({'rollout/success': early, 'rollout/failed_groups': early})
  said = []
  for _ in range(3):
    said += seen.see({'rollout/success': 0.0, 'rollout/failed_groups': 1.0})
  (words,) = said
  assert 'in each of 3 steps' in words and '3rd' not in words
  assert ('warmstart.episodes' in words) == (not early)
  assert ('fall some steps later' in words) == bool(early)
