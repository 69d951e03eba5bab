"""Tests for agentrl.evaluation.workdirs.series."""

import json

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agentrl import schedules
from agentrl.evaluation.workdirs import series
from agentrl.evaluation.workdirs.metric_lines import MetricLines

FLOATS = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([np.nan, np.inf, -np.inf])
)


@pytest.fixture
def lines_of(tmp_path):
  """Lines of metrics from their records."""

  def make(records):
    path = tmp_path / 'metrics.jsonl'
    path.write_text(''.join(json.dumps(x) + '\n' for x in records))
    lines = MetricLines(path)
    lines.refresh()
    return lines

  return make


def records(count=6):
  """Steps of a run that was evaluated before, after step 3 and at its end."""
  found = [
      {
          'step': i,
          'time': 1000.0 + 10 * i,
          'rollout/episodes': 4.0,
          'rollout/invalid': float(i == 1),
          'rollout/episode_tokens_mean': 100.0,
          'train/tokens': 7.0,
          'loss': float(i),
      }
      for i in range(count)
  ]
  found[0] |= evaluation('eval_before', 0.25) | evaluation('eval_untrained', 0)
  found[2] |= evaluation('eval', 0.5)
  found[-1] |= evaluation('eval', 0.75)
  return found


def evaluation(prefix, mean):
  return {
      f'{prefix}/success': mean,
      f'{prefix}/success_low': mean - 0.1,
      f'{prefix}/success_high': mean + 0.1,
      f'{prefix}/return_mean': 2 * mean,
  }


@pytest.mark.parametrize(
    ('axis', 'x', 'evaluated'),
    [
        ('step', [0, 1, 2, 3, 4, 5], [0, 3, 6]),
        ('time', [0, 10, 20, 30, 40, 50], [0, 20, 50]),
        # Of the second step's four episodes one was no good.
        ('tokens', [0, 400, 700, 1100, 1500, 1900], [0, 1100, 2300]),
    ],
)
def test_curves_stand_where_their_policy_is(lines_of, axis, x, evaluated):
  lines = lines_of(records())
  options = dict(axis=axis, smoothing=0.0, limit=99)
  loss = series.curve(lines, 'loss', **options)
  assert loss.x.tolist() == x and loss.y.tolist() == [0, 1, 2, 3, 4, 5]
  assert loss.step.tolist() == [0, 1, 2, 3, 4, 5] and loss.low is None
  found = series.curve(lines, 'eval/success', **options)
  assert found.x.tolist() == evaluated
  assert found.step.tolist() == [0, 3, 6]  # names of their episode files
  assert found.y.tolist() == [0.25, 0.5, 0.75] and found.interval
  assert found.low == pytest.approx([0.15, 0.4, 0.65])
  assert found.high == pytest.approx([0.35, 0.6, 0.85])
  # No interval of returns is kept.
  returns = series.curve(lines, 'eval/return_mean', **options)
  assert returns.low is None and returns.y.tolist() == [0.5, 1.0, 1.5]
  assert series.untrained(lines) == (0.0, -0.1, 0.1)


@pytest.mark.parametrize(
    'steps, evaluated_in, at',
    [
        ([0, 1, 2, 5, 6], 2, 3),  # lines of two steps are lost
        ([0, 1, 2, 2, 3], 2, 3),  # a step twice
        ([0, 1, 2, 0, 1], 2, 3),  # it was begun anew
        ([0, 1, 2, 9], 9, 10),  # in the last line
        ([4, 5, 6], 4, 5),  # the first lines are lost
    ],
)
def test_an_evaluation_stands_after_its_own_step(
    lines_of, steps, evaluated_in, at
):
  made = [{'step': step, 'time': 0.0, 'loss': 1.0} for step in steps]
  made[steps.index(evaluated_in)] |= evaluation('eval', 0.5)
  found = series.curve(
      lines_of(made), 'eval/success', axis='step', smoothing=0.0, limit=99
  )
  assert found.x.tolist() == [at] and found.step.tolist() == [at]


def test_tokens_before_an_evaluation_are_those_of_the_lines_up_to_it(lines_of):
  made = [
      {
          'step': step,
          'time': 0.0,
          'rollout/episodes': 2.0,
          'rollout/episode_tokens_mean': 50.0,
      }
      for step in (0, 1, 5, 5)
  ]
  made[1] |= evaluation('eval', 0.5)
  found = series.curve(
      lines_of(made), 'eval/success', axis='tokens', smoothing=0.0, limit=99
  )
  assert found.x.tolist() == [200]


def test_small_panels_and_members_begin_before_training(lines_of):
  made = records()
  made[0] |= evaluation('eval_small_before', 0.1)
  made[0] |= evaluation('eval_before/babyai', 0.2)
  made[1] |= evaluation('eval_small', 0.3) | evaluation('eval/babyai', 0.4)
  lines = lines_of(made)
  options = dict(axis='step', smoothing=0.0, limit=99)
  for name, y in (('eval_small', [0.1, 0.3]), ('eval/babyai', [0.2, 0.4])):
    found = series.curve(lines, f'{name}/success', **options)
    assert found.y.tolist() == y and found.x.tolist() == [0, 2]
    assert found.low == pytest.approx([x - 0.1 for x in y])


def test_a_run_without_evaluations_and_an_empty_one(lines_of):
  for found in (lines_of([{'step': 0, 'loss': 1.0}]), lines_of([])):
    options = dict(axis='step', smoothing=0.5, limit=99)
    assert len(series.curve(found, 'eval/success', **options).x) == 0
    assert series.untrained(found) is None
    assert series.stages(found, 'step') == []


@pytest.mark.parametrize('axis', series.AXES)
def test_stages_are_those_of_the_schedule(lines_of, axis):
  schedule = schedules.stepwise((3, 6, 9), every=4)
  made = records(10)
  for step, record in enumerate(made):
    record['rollout/horizon'] = float(schedule.update(None, step, {})[1])
  lines = lines_of(made)
  found = series.stages(lines, axis)
  assert [stage[:3] for stage in found] == [(3, 0, 4), (6, 4, 8), (9, 8, 10)]
  x = series.positions(lines, axis)
  assert [(s.x0, s.x1) for s in found] == [
      (x.begin[0], x.begin[4]),
      (x.begin[4], x.begin[8]),
      (x.begin[8], x.end[9]),
  ]


@hypothesis.given(st.lists(FLOATS, max_size=30), st.floats(0.01, 0.99))
def test_smoothing_is_the_weighted_mean_of_what_came_before(values, weight):
  found = series.smooth(np.array(values), weight)
  past = []
  for value, smoothed in zip(values, found, strict=True):
    if not np.isfinite(value):
      assert not np.isfinite(smoothed)
      continue
    past = [*past, value]
    weights = weight ** np.arange(len(past))[::-1]
    expected = (weights * past).sum() / weights.sum()
    assert smoothed == pytest.approx(expected, rel=1e-9, abs=1e-6)


@hypothesis.given(
    arrays.arrays(np.float64, st.integers(2, 200), elements=FLOATS),
    st.integers(2, 50),
)
def test_decimation_loses_no_peak_and_no_mean(values, limit):
  count = len(values)
  x = np.arange(count) * 2.0
  found = series.decimate(x, np.arange(count), values, None, limit=limit)
  assert found.total == count and len(found.x) == min(count, limit)
  if count <= limit:
    assert found.low is None and np.array_equal(found.y, values, equal_nan=True)
    return
  assert (np.diff(found.x) > 0).all()
  finite = values[np.isfinite(values)]
  kept = np.isfinite(found.y)
  if not len(finite):
    assert not kept.any()
    return
  assert found.low[kept].min() == finite.min()
  assert found.high[kept].max() == finite.max()
  tolerance = 1e-9 * np.abs(finite).max()
  assert (found.low[kept] <= found.y[kept] + tolerance).all()
  assert (found.y[kept] <= found.high[kept] + tolerance).all()


def test_a_smoothed_curve_keeps_the_range_of_its_values():
  values = np.tile([0.0, 10.0], 500)
  smoothed = series.smooth(values, 0.99)
  x = np.arange(1000.0)
  found = series.decimate(x, np.arange(1000), values, smoothed, limit=100)
  assert (found.low == 0).all() and (found.high == 10).all()
  assert found.y[-1] == pytest.approx(5, abs=0.1) and found.raw is None
  whole = series.decimate(x, np.arange(1000), values, smoothed, limit=1000)
  assert np.array_equal(whole.raw, values)
  assert np.array_equal(whole.y, smoothed)
