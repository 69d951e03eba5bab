"""Tests for agentrl.evaluation.stats.power."""

import math

import numpy as np
import pytest
from scipy import stats

from agentrl.evaluation.compare import comparison
from agentrl.evaluation.stats import intervals, power
from agentrl.evaluation.stats.intervals import Interval


@pytest.mark.parametrize('tasks', [8, 30])
@pytest.mark.parametrize('icc, agreement', [(0.0, 1.0), (0.6, 0.5)])
def test_one_sample_a_task_has_the_power_of_the_exact_test(
    tasks, icc, agreement
):
  # The sum over all numbers of pairs won and lost.
  covariance = icc * agreement * math.sqrt(0.3 * 0.7 * 0.6 * 0.4)
  better, worse = 0.6 - 0.18 - covariance, 0.3 - 0.18 - covariance
  expected = 0.0
  for won in range(tasks + 1):
    for lost in range(tasks + 1 - won):
      if comparison.mcnemar(won, lost)[0] <= 0.05:
        expected += stats.multinomial.pmf(
            [won, lost, tasks - won - lost],
            tasks,
            [better, worse, 1 - better - worse],
        )
  assert power.detection(
      0.3, 0.3, tasks=tasks, icc=icc, agreement=agreement
  ) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize('icc, agreement', [(0.0, 1.0), (0.5, 0.5)])
def test_plans_are_the_fewest_tasks(icc, agreement):
  options = dict(icc=icc, agreement=agreement)
  plans = power.plan(0.5, 0.1, **options)
  assert [plan.samples for plan in plans] == [1, 2, 4, 8]
  for tasks, samples, episodes in plans:
    assert episodes == tasks * samples
    detected = [
        power.detection(0.5, 0.1, tasks=n, samples=samples, **options)
        for n in (tasks - 1, tasks)
    ]
    assert detected[0] < 0.8 <= detected[1]


def test_what_plans_depend_on():
  tasks = lambda *args, **options: [
      p.tasks for p in power.plan(*args, **options)
  ]
  base = tasks(0.5, 0.1, icc=0.5, agreement=0.5)
  assert base == sorted(base, reverse=True)
  for easier in (
      tasks(0.5, 0.2, icc=0.5, agreement=0.5),
      tasks(0.5, 0.1, icc=0.5, agreement=0.9),
      tasks(0.5, 0.1, icc=0.5, agreement=0.5, power=0.6),
  ):
    assert all(a < b for a, b in zip(easier, base, strict=True))
  # Without variance between tasks it is the number of episodes that counts.
  episodes = [p.episodes for p in power.plan(0.5, 0.1, samples=(2, 4, 8))]
  assert max(episodes) <= 1.05 * min(episodes)


@pytest.mark.parametrize(
    'arguments, options, match',
    [
        ((0.5, 0.6), {}, 'Needs rates'),
        ((0.5, -0.1), {}, 'Needs rates'),
        ((0.5, 0.1), {'icc': 1.5}, 'Needs rates'),
        ((0.5, 0.1), {'samples': (0,)}, 'one sample'),
        ((0.5, 1e-5), {}, 'do not detect'),
    ],
)
def test_impossible_plans_are_refused(arguments, options, match):
  with pytest.raises(ValueError, match=match):
    power.plan(*arguments, **options)


def test_the_detectable_difference_is_detected_four_times_in_five():
  # Of a normal mean with standard error 1.
  interval = Interval(0.0, *stats.norm.interval(0.95), 't')
  paired = intervals.detectable_difference(interval, paired=True)
  assert stats.norm.sf(1.959964 - paired) == pytest.approx(0.8, abs=1e-4)
  alone = intervals.detectable_difference(interval, paired=False)
  assert alone == pytest.approx(paired * math.sqrt(2))


@pytest.mark.parametrize(
    'samples, expected',
    [
        ([[1, 1], [0, 0]], 1.0),
        ([[1, 0], [0, 1]], 0.0),
        # Mean squares 0.25 between, 1 / 6 within: 0.0833 / 0.4167.
        ([[1, 1], [0, 0], [1, 0]], 0.5),
        ([[1, 1, 1], [1]], 0.0),
    ],
)
def test_intraclass_correlation(samples, expected):
  assert power.intraclass_correlation(samples) == pytest.approx(expected)


def test_intraclass_correlation_of_beta_binomial_counts():
  rng = np.random.default_rng(0)
  rates = rng.beta(0.5 * 1.5, 0.5 * 1.5, size=4000)  # icc 1 / (1 + 1.5)
  sizes = rng.integers(1, 6, size=4000)
  samples = [
      rng.binomial(1, rate, size)
      for rate, size in zip(rates, sizes, strict=True)
  ]
  assert power.intraclass_correlation(samples) == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize('samples', [[[1], [0]], [[1, 0]], []])
def test_intraclass_correlation_needs_repeated_tasks(samples):
  with pytest.raises(ValueError, match='Needs two tasks'):
    power.intraclass_correlation(samples)
