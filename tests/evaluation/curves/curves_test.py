"""Tests for agentrl.evaluation.curves, with enumeration as the oracle."""

import importlib.util
import itertools

import msgspec
import numpy as np
import pytest
from matplotlib import image

from agentrl.errors import ConfigError
from agentrl.evaluation import rows
from agentrl.evaluation.curves import (
    curves,
    figure as curves_figure,
    report as curves_report,
)
from agentrl.evaluation.curves.curves import TOKENS, TURNS, Curves
from agentrl.evaluation.results import PolicyRecord
from tests import fakes
from tests.evaluation.report_test import cells
from tests.evaluation.rows_test import groups_of, panel_of

HORIZON = 9


def episode(rng, success, *, tokens=True, valid=True):
  """An episode of random turns, each of random tokens."""
  turns = tuple(
      fakes.make_turn(
          0.0, completion_tokens=int(rng.integers(1, 9)) if tokens else None
      )
      for _ in range(rng.integers(1, HORIZON + 1))
  )
  failed = {} if valid else {'stop_reason': 'env_error', 'error': 'down'}
  return fakes.make_episode(
      turns=turns,
      success=bool(success),
      tokens=(),
      completion_mask=(),
      sampler_logprobs=(),
      **failed,
  )


def played(seed=0, *, samples=4, tasks=5, tokens=True, fails=0.1, **fields):
  """A panel and its groups; some episodes failed."""
  rng = np.random.default_rng(seed)
  panel = panel_of(tasks, samples=samples, horizon=HORIZON, **fields)
  made = [
      [
          episode(
              rng,
              rng.random() < 0.6,
              tokens=tokens,
              valid=k == 0 or rng.random() >= fails,
          )
          for k in range(samples)
      ]
      for _ in range(tasks)
  ]
  return panel, groups_of(made, panel)


def used(episode, by):
  if by == TURNS:
    return len(episode.turns)
  return sum(turn.completion_tokens for turn in episode.turns)


@pytest.mark.parametrize('seed', range(3))
def test_points_are_shares_of_subsets_that_succeed_within_the_limit(seed):
  panel, groups = played(seed)
  points = list(curves.of_panel('p', panel, groups))
  valid = [[e for e in group.episodes if e.valid] for group in groups]
  fewest = min(map(len, valid))
  assert {x.k for x in points} == set(curves.attempts(fewest))
  assert {x.limit for x in points if x.by == TURNS} == set(range(1, 10))
  for point in points:
    shares, sampled = [], []
    for task in valid:
      won = [e.success and used(e, point.by) <= point.limit for e in task]
      subsets = list(itertools.combinations(won, point.k))
      shares.append(np.mean([any(subset) for subset in subsets]))
      counts = [[t.completion_tokens for t in e.turns] for e in task]
      if point.by == TURNS:
        sampled.append(np.mean([sum(x[: point.limit]) for x in counts]))
      else:
        sampled.append(np.mean([min(sum(x), point.limit) for x in counts]))
    assert point.success.mean == pytest.approx(np.mean(shares))
    assert point.sampled == pytest.approx(np.mean(sampled))
    assert point.total == point.k * point.limit


@pytest.mark.parametrize('clusters', [None, tuple('aabbc'), tuple('aaaaa')])
def test_the_whole_horizon_has_the_figures_of_the_row(clusters):
  panel, groups = played(clusters=clusters)
  row = rows.of_panel('p', panel, groups)[-1]
  points = list(curves.of_panel('p', panel, groups))
  most = max(x.limit for x in points if x.by == TOKENS)
  for point in points:
    if (point.by, point.limit) in [(TURNS, HORIZON), (TOKENS, most)]:
      assert point.success == row.pass_at_k[str(point.k)]
      assert point.k > 1 or point.success == row.success
      assert point.sampled == pytest.approx(row.completion_tokens)


def test_success_never_falls_with_more_turns_tokens_or_attempts():
  panel, groups = played(samples=8)
  points = list(curves.of_panel('p', panel, groups))
  for one, other in itertools.product(points, points):
    if one.by == other.by and one.limit <= other.limit and one.k <= other.k:
      assert one.success.mean <= other.success.mean + 1e-12


def test_uncounted_tokens_leave_the_turns():
  panel, groups = played(tokens=False)
  points = list(curves.of_panel('p', panel, groups))
  assert {x.by for x in points} == {TURNS}
  assert {x.sampled for x in points} == {None}


def test_no_valid_episode_has_no_point():
  rng = np.random.default_rng(0)
  panel = panel_of(2, samples=1)
  failed = [[episode(rng, False, valid=False)] for _ in range(2)]
  assert not list(curves.of_panel('p', panel, groups_of(failed, panel)))


def test_numbers_of_attempts_double():
  assert [curves.attempts(x) for x in (0, 1, 2, 3, 4, 6)] == [
      [], [1], [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 6],
  ]  # fmt: skip


@pytest.mark.parametrize('least, most', [(1, 1), (1, 30), (5, 20), (7, 1000)])
def test_a_grid_spans_its_range_and_is_of_one_grid(least, most):
  found = curves.grid(least, most)
  assert found[0] <= least and found[-1] >= most
  assert len(found) < 3 or (found[1] > least and found[-2] < most)
  everything = curves.grid(1, 4 * most)
  assert set(found) | {2 * x for x in found} <= set(everything)


def record(name, source, temperature=None):
  sampler = {} if temperature is None else {'temperature': temperature}
  return PolicyRecord(name=name, kind='model', source=source, sampler=sampler)


@pytest.fixture
def found():
  """Two temperatures of one model, and an expert without tokens."""
  policies = (
      record('m-t0', 'm', 0.0),
      record('m-t1', 'm', 1.0),
      record('expert', 'expert'),
  )
  points = []
  for i, policy in enumerate(policies):
    panel, groups = played(
        i, tokens=policy.name != 'expert', samples=2, fails=0
    )
    points += curves.of_panel(policy.name, panel, groups)
  return Curves(policies=policies, panels=(panel,), points=tuple(points))


def test_curves_are_read_as_they_were_written(found, tmp_path):
  curves.write(tmp_path, found)
  data = (tmp_path / curves.FILE).read_bytes()
  assert msgspec.json.decode(data, type=Curves) == found


def test_the_page_has_a_table_of_each_axis(found):
  page = curves_report.markdown(found)
  titles = [x[4:] for x in page.splitlines() if x.startswith('### ')]
  assert titles == [
      'Turns allowed',
      'The same turns in all',
      'The same sampled tokens in all',
      'Temperature',
  ]
  turns, total, tokens, temperatures = cells(page + '\nend')
  assert [row[1] for row in turns if row[0] == 'expert'] == [
      '1', '2', '3', '4', '6', '8', '9',
  ]  # fmt: skip
  at = {(x.policy, x.by, x.total, x.k): x for x in found.points}
  for table, by in ((total, TURNS), (tokens, TOKENS)):
    for policy, number, *shown in table[2:]:
      for k, text in zip((1, 2), shown, strict=True):
        point = at.get((policy, by, int(number), k))
        assert text.split()[0] == (
            f'{point.success.mean:.3f}' if point else '-'
        )
  assert {row[0] for row in tokens[2:]} == {'m-t0', 'm-t1'}
  assert [row[:2] for row in temperatures[2:]] == [['m', '0'], ['m', '1']]
  whole = at['m-t1', TURNS, HORIZON, 1].success
  assert temperatures[3][2].startswith(f'{whole.mean:.3f} [')


def test_one_attempt_at_one_temperature_has_no_table_of_several(found):
  points = tuple(x for x in found.points if x.policy == 'm-t0' and x.k == 1)
  alone = Curves(
      policies=found.policies[:1], panels=found.panels, points=points
  )
  titles = [
      x[4:]
      for x in curves_report.markdown(alone).splitlines()
      if x.startswith('### ')
  ]
  assert titles == ['Turns allowed', 'The same sampled tokens in all']


def test_a_figure_has_a_line_of_each_policy_and_number_of_attempts(
    found, tmp_path
):
  drawn = curves_figure.figure(found)
  turns, tokens, temperatures = drawn.axes
  assert (len(turns.lines), len(tokens.lines), len(temperatures.lines)) == (
      6,
      4,
      2,
  )
  lines = {tuple(line.get_xdata()): line for line in temperatures.lines}
  assert set(lines) == {(0.0, 1.0)}
  expected = sorted(
      (x.total, x.success.mean)
      for x in found.points
      if (x.policy, x.by, x.k) == ('m-t0', TURNS, 2)
  )
  assert expected in [list(map(tuple, x.get_xydata())) for x in turns.lines]
  assert [x.get_text() for x in drawn.legends[0].texts] == [
      'm-t0', 'm-t1', 'expert', 'success', 'pass@2',
  ]  # fmt: skip
  curves_figure.draw(found, tmp_path / 'curves.png')
  pixels = image.imread(tmp_path / 'curves.png')
  assert pixels.shape[1] > 1000 and pixels.min() < 0.5 < pixels.max()


def test_a_missing_matplotlib_is_refused(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(ConfigError, match='third_party/requirements/notebooks'):
    curves_figure.check_drawing()


def test_curves_are_of_first_attempts_and_limits_of_actions():
  plan = fakes.make_turn(kind='plan', action='', completion_tokens=5)
  act = fakes.make_turn(completion_tokens=2)
  made = dict(tokens=(), completion_mask=(), sampler_logprobs=())
  first = fakes.make_episode(turns=(plan, act, plan, act), success=True, **made)
  second = fakes.make_episode(turns=(act,), success=True, attempt=1, **made)
  panel = panel_of(1, samples=1, attempts=2)
  found = list(curves.of_panel('p', panel, groups_of([[first, second]], panel)))
  by_turns = {x.limit: x for x in found if x.by == TURNS}
  assert {x.k for x in found} == {1}
  assert [by_turns[n].success.mean for n in (1, 2, 3)] == [0.0, 1.0, 1.0]
  assert [by_turns[n].sampled for n in (1, 2, 3)] == [7, 14, 14]
