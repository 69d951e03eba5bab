"""Tests for the sweep of runs that play ahead."""

import numpy as np
from scipy import stats

from experiments.sweeps import asynchrony, asynchrony_config, cells as cells_lib
from experiments.sweeps.results import Run


def test_each_cell_is_a_run_that_its_config_accepts():
  cells = cells_lib.make(asynchrony.CONFIG, asynchrony.SWEEP)
  cells_lib.check(cells)
  assert len(cells) == 3 * (3 + 4 * 4)


def test_what_corrects_nothing_weighs_one():
  old = np.array([[-1.0, -2.0]])
  weights = asynchrony_config.uncorrected(old, 3 * old, old < 0, None)
  np.testing.assert_array_equal(weights, 1.0)


def make_run(success, seed, **fields):
  """A run that reached this success; fields by their last names."""
  names = {'ahead': 'rollout.ahead', 'arm': ':arm', 'correction': ':correction'}
  pairs = [(names[name], str(value)) for name, value in fields.items()]
  noise = 6.5 if success < 0.5 else 1.0
  return Run(
      cell=cells_lib.Cell(asynchrony.CONFIG, (*pairs, ('seed', str(seed)))),
      config={'seed': seed},
      summary={'eval': {'after': {'mean': success}}, 'wall_s': 60.0},
      metrics=[
          {
              'step': step,
              'policy/entropy': noise if step == 5 else 0.5,
              'rollout/staleness_mean': float(fields['ahead']),
              'time/step_s': 2.0 + step,
              'time/collect_s': 1.0,
          }
          for step in range(12)
      ],
      played={},
      played_before={},
  )


def make_runs(reached):
  """Runs by depth, and eight pushes behind, without a correction and with one."""
  return [
      make_run(success, seed, arm='depth', ahead=depth)
      for depth, successes in reached.items()
      for seed, success in enumerate(successes)
  ] + [
      make_run(success, seed, arm='staleness', ahead=8, correction=name)
      for name, successes in (('none', (0.2, 0.7)), ('token', (0.8, 0.7)))
      for seed, success in enumerate(successes)
  ]


def test_the_table_pairs_depths_by_seed_and_sets_corrections_side_by_side():
  reached = {0: (0.80, 0.84, 0.85), 1: (0.79, 0.80, 0.83)}
  runs = make_runs(reached)
  rows = [
      line.strip('| ').split(' | ')
      for line in asynchrony.table(runs).splitlines()
  ]
  plain, ahead = rows[2:4]
  assert plain[:3] == ['0', '3', '0.800, 0.840, 0.850']
  gains = np.array([-0.01, -0.04, -0.02])
  half = stats.t.ppf(0.975, 2) * stats.sem(gains)
  low, high = gains.mean() - half, gains.mean() + half
  assert ahead[3:5] == [f'{gains.mean():+.3f}', f'[{low:+.3f}, {high:+.3f}]']
  assert ahead[6:] == ['7.50', '1.00', '0.00', '1.0']
  worth = next(row for row in rows if row[0] == '8')
  assert worth[1] == '**0.450** (0.200, 0.700), 6.5'
  assert worth[3] == '**0.750** (0.800, 0.700), 1.0'
  gain = {row[1]: row[2] for row in rows if row[0] == '8' and row is not worth}
  assert gain == {'none': '-0.370', 'token': '-0.070'}


def test_the_figure_has_a_line_a_correction_beside_the_runs_in_turns(tmp_path):
  reached = {0: (0.80, 0.84, 0.85)}
  asynchrony.draw(make_runs(reached), tmp_path)
  path = tmp_path / 'staleness.svg'
  text = path.read_text()
  for name in ('in turns (ahead=0)', 'none', 'token'):
    assert f'>{name}</text>' in text
  assert '>bypass</text>' not in text  # no run has it
  # Without runs in turns there is no level, and the same runs give the same bytes.
  asynchrony.draw(make_runs({}), tmp_path)
  assert 'in turns' not in path.read_text()
  asynchrony.draw(make_runs(reached), tmp_path)
  assert path.read_text() == text
