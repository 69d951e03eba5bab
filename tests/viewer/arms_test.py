"""Tests for the routes and the page of groups of runs."""

import csv
import io
import json
import re

import numpy as np
import pytest
from playwright.sync_api import expect
from scipy import stats

from tests.viewer import axe
from tests.viewer.asking import get, text

STEPS = 6
KINDS = ('fixed', 'stepwise')


@pytest.fixture
def root(tmp_path):
  """Two arms of four seeds, whose metrics are known, and an evaluation."""
  rng = np.random.default_rng(0)
  for kind in KINDS:
    for seed in range(4):
      folder = tmp_path / f'{kind}-{seed}'
      folder.mkdir()
      config = {
          'mode': 'train',
          'seed': seed,
          'horizon': {'kind': kind},
          'algo': {'name': 'grpo'},
      }
      (folder / 'config.json').write_text(json.dumps(config))
      values = rng.random(STEPS).round(3).tolist()
      lines = [
          {'step': i, 'time': 1.0 * i, 'rollout/success': value}
          for i, value in enumerate(values)
      ]
      for line, prefix in ((0, 'eval_before'), (STEPS - 1, 'eval')):
        lines[line][f'{prefix}/success'] = values[line]
      (folder / 'metrics.jsonl').write_text(
          ''.join(json.dumps(line) + '\n' for line in lines)
      )
      rate = lambda x: {'mean': x, 'low': 0.0, 'high': 1.0, 'n': 8}
      summary = {
          'mode': 'train',
          'steps': STEPS,
          'eval': {'before': rate(values[0]), 'after': rate(values[-1])},
      }
      (folder / 'summary.json').write_text(json.dumps(summary))
  (tmp_path / 'e1').mkdir()
  (tmp_path / 'e1' / 'config.json').write_text('{"mode": "evaluate"}')
  return tmp_path


def scores(root, kind, line, metric='rollout/success'):
  """A metric of each seed of an arm in one line of its file."""
  found = []
  for path in sorted(root.glob(f'{kind}-*/metrics.jsonl')):
    found.append(json.loads(path.read_text().splitlines()[line])[metric])
  return found


def test_the_table_is_students_over_seeds(root, viewer):
  found = get(viewer(root), 'arms')
  assert found['fields'] == {'seed': 4, 'horizon.kind': 2}
  assert len(found['rows']) == 2
  for row in found['rows']:
    kind = row['group'].removeprefix('horizon.kind=')
    mine = scores(root, kind, -1)
    ends = stats.ttest_1samp(mine, 0).confidence_interval(0.95)
    assert row['mean'] == pytest.approx(np.mean(mine))
    assert (row['low'], row['high']) == pytest.approx(tuple(ends))
    assert row['before'] == pytest.approx(np.mean(scores(root, kind, 0)))
    assert (row['runs'], row['unit']) == (4, 'training seed')
  assert found['rows'][0]['mean'] >= found['rows'][1]['mean']


def test_curves_are_means_of_the_runs(root, viewer):
  found = get(
      viewer(root),
      'arms/curves',
      arm=[f'horizon.kind={kind}' for kind in KINDS],
      metric=['rollout/success', 'eval/success'],
  )
  for kind in KINDS:
    curve = found['curves']['rollout/success'][f'horizon.kind={kind}']
    for step in range(STEPS):
      mine = scores(root, kind, step)
      ends = stats.ttest_1samp(mine, 0).confidence_interval(0.95)
      assert curve['y'][step] == pytest.approx(np.mean(mine))
      assert curve['low'][step] == pytest.approx(ends.low)
    assert len(curve['runs']) == 4
    held_out = found['curves']['eval/success'][f'horizon.kind={kind}']
    assert held_out['x'] == [0, STEPS]
  assert 'over training seeds' in found['unit']


def test_fields_group_and_the_csv_has_the_rows(root, viewer):
  url = viewer(root)
  (row,) = get(url, 'arms', group='algo.name')['rows']
  assert (row['group'], row['runs']) == ('algo.name=grpo', 8)
  table = list(csv.DictReader(io.StringIO(text(url, 'arms.csv'))))
  assert [row['runs'] for row in table] == ['4', '4']
  refused = get(url, 'arms', group='algo.nam')
  assert refused['status'] == 422 and 'algo.nam' in refused['error']
  refused = get(url, 'arms/curves', arm='x', metric='a')
  assert 'no group' in refused['error']


def test_the_interquartile_mean_is_an_option(root, viewer):
  found = get(viewer(root), 'arms/curves', arm='horizon.kind=fixed',
              metric='rollout/success', stat='iqm')  # fmt: skip
  curve = found['curves']['rollout/success']['horizon.kind=fixed']
  mine = sorted(scores(root, 'fixed', 2))
  assert curve['y'][2] == pytest.approx(np.mean(mine[1:3]))
  assert found['unit'].startswith('interquartile mean')


def test_a_run_that_goes_on_or_changes_is_read_again(root, viewer):
  url = viewer(root)
  mean = lambda: {x['group']: x for x in get(url, 'arms')['rows']}[
      'horizon.kind=fixed'
  ]['mean']
  before = mean()
  path = root / 'fixed-0' / 'summary.json'
  summary = json.loads(path.read_text())
  own = summary['eval']['after']['mean']
  summary['eval']['after']['mean'] = own + 1
  path.write_text(json.dumps(summary))
  assert mean() == pytest.approx(before + 1 / 4)
  path = root / 'fixed-0' / 'config.json'
  path.write_text(path.read_text().replace('fixed', 'stepwise'))
  runs = {x['group']: x['runs'] for x in get(url, 'arms')['rows']}
  assert runs == {'horizon.kind=fixed': 3, 'horizon.kind=stepwise': 5}


@pytest.mark.browser
def test_groups_are_drawn_and_chosen(root, viewer, page):
  page.goto(viewer(root) + '#/arms')
  rows = page.locator('.list tbody tr')
  expect(rows).to_have_count(2)
  chart = page.locator('[data-chart="rollout/success"] .chart')
  chart.focus()
  chart.press('Home')
  tip = chart.locator('.tip')
  expect(tip).to_contain_text('4 seeds')
  expect(tip.locator('tr')).to_have_count(2)  # thin lines are not read off
  expect(page.locator('.controls')).to_contain_text('over training seeds')
  page.get_by_label('Statistic').select_option('iqm')
  expect(page.locator('.controls')).to_contain_text('bootstrap')
  page.get_by_label('Show the curves of horizon.kind=fixed').click()
  expect(page.locator('.legend')).to_have_text('horizon.kind=stepwise')
  page.get_by_label('Group by a field').select_option('seed')
  expect(rows).to_have_count(4)
  expect(page).to_have_url(re.compile('group=seed'))
  page.get_by_label('Do not group by seed').click()
  expect(rows).to_have_count(2)
  expect(page.locator('.legend')).to_contain_text('horizon.kind')
  # A point leads to the episodes of all runs of its group.
  chart.focus()
  chart.press('Home')
  chart.press('Enter')
  expect(page).to_have_url(
      re.compile(r'episodes\?runs=(fixed|stepwise)-0%3B\1-1.*step=0')
  )


@pytest.mark.browser
@pytest.mark.parametrize('width', [1440, 390])
def test_the_page_is_accessible_and_not_too_wide(root, viewer, page, width):
  page.set_viewport_size({'width': width, 'height': 800})
  page.goto(viewer(root) + '#/arms')
  page.locator('.card').first.wait_for()
  assert page.evaluate('document.documentElement.scrollWidth') <= width
  assert axe.findings(page) == []


def test_other_axes_have_the_same_values_where_the_runs_were(root, viewer):
  for seed in range(4):  # each takes as long for a step as its number says
    path = root / f'fixed-{seed}' / 'metrics.jsonl'
    lines = list(map(json.loads, path.read_text().splitlines()))
    for line in lines:
      line['time'] = 100.0 + (seed + 1) * line['step']
      line['train/tokens'] = 10.0 * (seed + 1)
    path.write_text(''.join(json.dumps(line) + '\n' for line in lines))
  url = viewer(root)
  ask = lambda x: get(
      url, 'arms/curves', arm='horizon.kind=fixed', metric='rollout/success', x=x
  )['curves']['rollout/success']['horizon.kind=fixed']  # fmt: skip
  by_step, by_time, by_tokens = map(ask, ('step', 'time', 'tokens'))
  steps = np.arange(STEPS)
  assert by_step['x'] == by_time['step'] == steps.tolist()
  np.testing.assert_allclose(by_time['x'], 2.5 * steps)
  np.testing.assert_allclose(by_tokens['x'], 25.0 * steps)
  assert by_step['y'] == by_time['y'] == by_tokens['y']
  assert by_step['low'] == by_time['low']
  assert (
      get(url, 'arms/curves', arm='horizon.kind=fixed', x='days')['status']
      == 422
  )


@pytest.mark.browser
def test_the_axis_of_groups_is_chosen_and_a_point_keeps_its_step(
    root, viewer, page
):
  page.goto(viewer(root) + '#/arms')
  page.get_by_label('x axis').select_option('time')
  expect(page).to_have_url(re.compile('x=time'))
  expect(page.locator('.controls')).to_contain_text('mean of where its runs')
  chart = page.locator('[data-chart="rollout/success"] .chart')
  chart.focus()
  chart.press('End')
  expect(chart.locator('.tip')).to_contain_text('seconds since the first step')
  with page.expect_download() as found:
    page.get_by_label('Success in training as PNG').click()
  assert found.value.suggested_filename == (
      'horizon.kind_stepwise-horizon.kind_fixed-rollout_success.png'
  ) or found.value.suggested_filename == (
      'horizon.kind_fixed-horizon.kind_stepwise-rollout_success.png'
  )
  chart.focus()
  chart.press('End')
  chart.press('Enter')
  expect(page).to_have_url(re.compile(rf'episodes.*step={STEPS - 1}'))
