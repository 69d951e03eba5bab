"""Tests for agentrl.evaluation.stats.intervals."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from agentrl.evaluation.stats import intervals

SUCCESS = (0, 1)
# Panels of tasks with one to five samples, each a success or a failure.
PANELS = st.lists(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5),
    min_size=1,
    max_size=40,
)


def alternating(tasks, successes):
  return [[float(i < successes)] for i in range(tasks)]


@pytest.mark.parametrize(
    'tasks, successes', [(20, 6), (20, 14), (50, 25), (300, 17)]
)
def test_one_sample_a_task_has_wilsons_interval(tasks, successes):
  interval = intervals.mean_interval(
      alternating(tasks, successes), bounds=SUCCESS
  )
  expected = stats.binomtest(successes, tasks).proportion_ci(method='wilson')
  assert interval.method == 'wilson'
  assert interval.mean == pytest.approx(successes / tasks)
  assert (interval.low, interval.high) == pytest.approx(tuple(expected))


@pytest.mark.parametrize('samples', [1, 8])
@pytest.mark.parametrize('tasks, successes', [(20, 0), (20, 20), (100, 3)])
def test_a_cluster_is_one_trial_where_nearly_all_samples_are_equal(
    tasks, successes, samples
):
  panel = [task * samples for task in alternating(tasks, successes)]
  interval = intervals.mean_interval(panel, bounds=SUCCESS)
  expected = stats.binomtest(successes, tasks).proportion_ci(method='exact')
  assert interval.method == 'conservative'
  assert (interval.low, interval.high) == pytest.approx(tuple(expected))


@pytest.mark.parametrize('samples', [1, 4])
@pytest.mark.parametrize('tasks', [12, 40, 100])
def test_six_clusters_off_each_bound_are_enough(tasks, samples):
  for successes in range(tasks + 1):
    panel = [task * samples for task in alternating(tasks, successes)]
    method = intervals.mean_interval(panel, bounds=SUCCESS).method
    few = min(successes, tasks - successes) < 6
    assert (method == 'conservative') == few, successes


def test_an_interval_has_a_width_where_all_tasks_have_one_rate():
  interval = intervals.mean_interval([[0, 1]] * 20, bounds=SUCCESS)
  exact = stats.binomtest(10, 20).proportion_ci(method='exact')
  assert interval == pytest.approx((0.5, *exact, 'conservative'))


@pytest.mark.parametrize('tasks', [2, 3, 30])
def test_returns_have_students_interval_of_task_means(tasks):
  rng = np.random.default_rng(tasks)
  panel = [rng.normal(size=rng.integers(1, 5)) for _ in range(tasks)]
  interval = intervals.mean_interval(panel)
  means = [task.mean() for task in panel]
  expected = stats.ttest_1samp(means, 0).confidence_interval(0.95)
  assert interval.method == 't'
  assert interval.mean == pytest.approx(np.mean(means))
  assert (interval.low, interval.high) == pytest.approx(tuple(expected))


@pytest.mark.parametrize('panel', [[[3.0, 4.0]], [[2.0], [2.0, 2.0]]])
def test_returns_without_spread_say_nothing(panel):
  interval = intervals.mean_interval(panel)
  assert interval.method == 'conservative'
  assert (interval.low, interval.high) == (-np.inf, np.inf)


def test_a_template_whose_tasks_agree_is_one_task():
  rng = np.random.default_rng(0)
  panel = [list(rng.binomial(1, rate, size=4)) for rate in rng.random(30)]
  copies = [task for task in panel for _ in range(3)]
  templates = [f'template {i}' for i in range(30) for _ in range(3)]
  expected = intervals.mean_interval(panel, bounds=SUCCESS)
  interval = intervals.mean_interval(copies, clusters=templates, bounds=SUCCESS)
  assert interval == pytest.approx(expected)
  apart = intervals.mean_interval(copies, bounds=SUCCESS)
  assert apart.high - apart.low < 0.7 * (interval.high - interval.low)


def test_the_error_of_templates_is_the_sum_over_them():
  rng = np.random.default_rng(1)
  labels = rng.integers(0, 12, size=60)
  means = rng.random(60)
  total = 0.0
  for label in range(12):
    inside = [means[i] - means.mean() for i in range(60) if labels[i] == label]
    total += sum(inside) ** 2
  covariance = intervals.mean_covariance(means, means, labels)
  assert covariance == pytest.approx(total / 60**2)


@pytest.mark.parametrize(
    'sizes, effective', [([2, 2, 2], 3), ([3, 1], 1.6), ([10, 1, 1], 144 / 102)]
)
def test_unequal_templates_count_as_fewer_equal_ones(sizes, effective):
  labels = np.repeat(np.arange(len(sizes)), sizes)
  assert intervals.effective_clusters(labels) == pytest.approx(effective)
  interval = intervals.mean_interval(
      [[0.0]] * len(labels), clusters=labels.tolist(), bounds=SUCCESS
  )
  assert interval.high == pytest.approx(1 - 0.025 ** (1 / effective))


@given(PANELS)
def test_intervals_hold_the_mean_and_mirror(panel):
  interval = intervals.mean_interval(panel, bounds=SUCCESS)
  assert 0 <= interval.low <= interval.mean <= interval.high <= 1
  mirrored = intervals.mean_interval(
      [[1 - x for x in task] for task in panel], bounds=SUCCESS
  )
  assert mirrored.method == interval.method
  assert (mirrored.low, mirrored.high) == pytest.approx(
      (1 - interval.high, 1 - interval.low), abs=1e-9
  )


@given(PANELS, st.floats(-5, 5), st.floats(0.1, 10))
def test_intervals_move_with_their_scale(panel, shift, scale):
  expected = intervals.mean_interval(panel, bounds=SUCCESS)
  # Else a bound and the greatest sample may differ by rounding.
  low, high = shift, shift + scale
  interval = intervals.mean_interval(
      [[high if x else low for x in task] for task in panel],
      bounds=(low, high),
  )
  assert interval.method == expected.method
  assert (interval.low - shift) / scale == pytest.approx(expected.low, abs=1e-6)
  assert (interval.high - shift) / scale == pytest.approx(
      expected.high, abs=1e-6
  )


@given(PANELS, st.randoms(use_true_random=False))
def test_the_order_of_tasks_does_not_matter(panel, random):
  templates = [i % 7 for i in range(len(panel))]
  expected = intervals.mean_interval(panel, clusters=templates, bounds=SUCCESS)
  order = list(range(len(panel)))
  random.shuffle(order)
  shuffled = intervals.mean_interval(
      [panel[i] for i in order],
      clusters=[templates[i] for i in order],
      bounds=SUCCESS,
  )
  assert shuffled == pytest.approx(expected)


def test_tasks_without_a_sample_have_no_vote():
  rng = np.random.default_rng(2)
  panel = [list(rng.binomial(1, 0.5, size=3)) for _ in range(20)]
  padded = [task for kept in panel for task in (kept, [])]
  clusters = [i // 4 for i in range(40)]
  assert intervals.mean_interval(
      padded, clusters=clusters, bounds=SUCCESS
  ) == intervals.mean_interval(panel, clusters=clusters[::2], bounds=SUCCESS)


@pytest.mark.parametrize(
    'panel, options, match',
    [
        ([], {}, 'no samples'),
        ([[], []], {}, 'no samples'),
        ([[2.0]], {'bounds': SUCCESS}, r'2\.0 are out of'),
        ([[np.nan]], {'bounds': SUCCESS}, 'out of'),
        ([[1.0]], {'clusters': 'ab'}, '2 clusters for 1 tasks'),
    ],
)
def test_impossible_panels_are_refused(panel, options, match):
  with pytest.raises(ValueError, match=match):
    intervals.mean_interval(panel, **options)


def test_one_sample_a_task_is_covered_at_every_number_of_tasks():
  # Exact: the sum over all numbers of successes. Wilson's alone falls to 0.899
  # with 27 tasks at 0.02.
  discrete = {
      21,
      26,
      31,
  }  # at 0.5 the step from 0.92 to 0.97 has nothing between
  for tasks in (*range(20, 60), *range(60, 501, 24), 203, 204, 500):
    successes = np.arange(tasks + 1)
    panels = (np.arange(tasks) < successes[:, None]).astype(float)
    ends = intervals.interval_ends(panels, bounds=SUCCESS, single=True)
    for rate in (0.02, 0.5, 0.98):
      held = (ends.low <= rate) & (rate <= ends.high)
      coverage = stats.binom.pmf(successes, tasks, rate)[held].sum()
      assert coverage >= 0.92, (tasks, rate)
      regular = tasks * min(rate, 1 - rate) >= 10 and tasks not in discrete
      assert not regular or 0.93 <= coverage <= 0.97, (tasks, rate)
