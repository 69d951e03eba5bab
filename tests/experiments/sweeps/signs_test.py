"""Signs of a collapse, on traces that are made up and on healthy runs."""

import json
import pathlib

import pytest

from agentrl.training.options import Gauges
from agentrl.training.watch import GAUGES
from experiments.sweeps import cells as cells_lib, collapse, horizons, signs

ROOT = pathlib.Path(__file__).parents[3]
HEALTHY = json.loads((ROOT / 'tests/fixtures/healthy_runs.json').read_text())
RETURN = 'rollout/return_mean'


def lines(**columns):
  """Lines of metrics from columns, `section__name`; None leaves a value out."""
  columns = {k.replace('__', '/'): values for k, values in columns.items()}
  steps = max(map(len, columns.values()))
  return [
      {'step': step}
      | {
          name: values[step]
          for name, values in columns.items()
          if step < len(values) and values[step] is not None
      }
      for step in range(steps)
  ]


@pytest.mark.parametrize('run', range(3))
def test_healthy_runs_neither_warn_nor_fall(run):
  found = HEALTHY[run]
  assert set(found) == {RETURN, *(x.metric for x in GAUGES.values())}
  made = lines(**found)
  assert len(made) == 70
  assert signs.first_warnings(made, Gauges()) == {}
  assert signs.fall(made) is None


@pytest.mark.parametrize('name', GAUGES)
def test_a_collapse_of_each_gauge_is_warned_of_before_the_return_falls(name):
  metric, _, relative = GAUGES[name]
  limit = getattr(Gauges(), name)
  start = HEALTHY[0][metric][0]
  limit *= start if relative else 1.0
  # From its healthy value to beyond the limit, or to nothing.
  end = 0.0 if name.startswith('min_') else 2 * limit if relative else 1.0
  ramp = [start + (end - start) * min(i / 20, 1) for i in range(60)]
  returns = [0.6] * 35 + [0.6 * 0.7**i for i in range(25)]
  made = lines(**{metric: ramp, RETURN: returns})
  warned = signs.first_warnings(made, Gauges())
  beyond = (
      (lambda x: x < limit)
      if name.startswith('min_')
      else (lambda x: x > limit)
  )
  third = [step for step, value in enumerate(ramp) if beyond(value)][2]
  assert warned == {name: third}
  assert signs.fall(made) - third >= 10
  off = Gauges(**{name: None})
  assert signs.first_warnings(made, off) == {}


@pytest.mark.parametrize(
    'returns, step',
    [
        # Five at 1.0; with the third 0.0 the mean is 0.4.
        ([1.0] * 5 + [0.0] * 5, 7),
        ([None, *[1.0] * 5, None, *[0.0] * 5], 9),
        # At half it has not fallen.
        ([1.0] * 5 + [0.5] * 20, None),
        ([0.0] * 20, None),
        ([-1.0] * 10 + [-9.0] * 10, None),
        ([1.0] * 4, None),
        # Of its best, wherever it is.
        ([0.1] * 5 + [1.0] * 5 + [0.1] * 5, 12),
    ],
)
def test_the_return_falls_where_its_mean_is_below_half_its_best(returns, step):
  assert signs.fall(lines(rollout__return_mean=returns)) == step


def test_a_row_says_how_far_ahead_the_first_warning_was():
  falling = [1.0] * 20 + [0.0] * 10
  bad = [0.9] * 30
  row = lambda **columns: signs.row('a', lines(**columns), Gauges())
  assert row(rollout__return_mean=falling, rollout__parse_error_share=bad) == [
      *('a', '30', '', '', '', '', '', '2', '', '22', '20 steps')
  ]
  assert row(rollout__return_mean=falling)[-2:] == ['22', 'none']
  assert row(rollout__parse_error_share=bad)[-2:] == ['', '']


def test_the_program_prints_a_table_of_workdirs(tmp_path, capsys):
  for name, limit in (('one', 0.3), ('other', None)):
    workdir = tmp_path / name
    workdir.mkdir()
    config = {'gauges': {'max_parse_errors': limit}}
    (workdir / 'config.json').write_text(json.dumps(config))
    made = lines(rollout__parse_error_share=[0.9] * 4)
    (workdir / 'metrics.jsonl').write_text(
        ''.join(json.dumps(line) + '\n' for line in made)
    )

  signs.main(['signs', tmp_path / 'one', tmp_path / 'other'])
  printed = capsys.readouterr().out
  assert '| one | 4 |  |  |  |  |  | 2 |  |  |  |' in printed
  assert '| other | 4 |  |  |  |  |  |  |  |  |  |' in printed
  with pytest.raises(SystemExit, match='^ConfigError: .* is no run of mode'):
    signs.main(['signs', tmp_path])
  with pytest.raises(SystemExit, match='^Name workdirs'):
    signs.main(['signs'])


def test_the_provoked_collapses_differ_from_the_control_in_one_field():
  cells = cells_lib.make(horizons.CONFIG, collapse.SWEEP)
  control, bonus, rate = cells_lib.check(cells).values()
  assert control['num_steps'] == 30 and control['gauges']['every'] == 1
  assert control['horizon']['turns'] == [12]
  assert (bonus['algo'].pop('entropy_coef'), rate['optim'].pop('lr')) == (
      (0.03, 2e-3)
  )
  del control['algo']['entropy_coef'], control['optim']['lr']
  del bonus['optim']['lr'], rate['algo']['entropy_coef']
  assert control == bonus == rate
