"""Schedules on the metrics of another run, and the sweep of all of them."""

import json

import pytest

from agentrl.errors import ConfigError
from agentrl.schedules import HORIZONS
from agentrl.types import Turns
from experiments.sweeps import (
    cells as cells_lib,
    figure,
    horizons,
    horizons_config,
    schedules,
)

# Of ten steps; the last line is repeated.
TRACE = [
    {
        'step': step,
        'rollout/success': 0.1 * step,
        'rollout/completion_tokens': 1000.0,
    }
    for step in range(10)
]


def simulate(name, num_steps=20, **horizon):
  config = {'num_steps': num_steps, 'horizon': {'kind': name, **horizon}}
  return schedules.simulate(name, config, TRACE)


def test_a_schedule_sees_the_step_before_and_then_the_last_line():
  found = simulate('success', turns=[3, 6, 9], threshold=0.5, window=2)
  # The mean of steps 5 and 6 is 0.55; each stage waits for two of its own.
  assert found.turns == [3] * 7 + [6] * 2 + [9] * 11
  assert str(found) == (
      'success: 3 turns from step 0, 6 turns from step 7, 9 turns from step 9'
  )
  found = simulate('token_budget', turns=[2, 4], tokens=11_500.0)
  assert found.turns == [2] * 12 + [4] * 8


def test_what_a_schedule_asks_for_and_the_trace_lacks_is_said():
  found = simulate('success', turns=[3, 6], metric='eval')
  assert found.turns == [3] * 20
  assert str(found).endswith('(the trace has no eval/success_within_3)')
  found = simulate('random', turns=[3, 6])
  assert found.turns == [Turns(3, 6)] * 20 and not found.missing
  assert str(found) == 'random: 3 to 6 turns from step 0'


def test_what_has_no_horizon_of_its_own_is_refused(tmp_path):
  with pytest.raises(ConfigError, match='Cell a has no horizon of its own'):
    schedules.simulate('a', {'num_steps': 2}, TRACE)
  mixture = {'num_steps': 2, 'horizon': {}, 'mixture': {'b': {}}}
  with pytest.raises(ConfigError, match='Cell a has no horizon of its own'):
    schedules.simulate('a', mixture, TRACE)
  with pytest.raises(ConfigError, match='--trace=.* is no run'):
    schedules.read(tmp_path)
  path = tmp_path / 'metrics.jsonl'
  path.write_text('')
  with pytest.raises(ConfigError, match='has no step'):
    schedules.read(tmp_path)
  path.write_text(json.dumps(TRACE[0]) + '\n')
  assert schedules.read(tmp_path) == TRACE[:1]


@pytest.mark.parametrize('tiny', ['', ':tiny'])
def test_the_sweep_has_every_schedule_from_one_start(tiny, tmp_path):
  config = f'{horizons.CONFIG}{tiny or ":steps=20"},start={tmp_path}/x'
  cells = cells_lib.make(config, horizons.SWEEP)
  records = cells_lib.check(cells)
  assert {r['horizon']['kind'] for r in records.values()} == set(HORIZONS)
  for record in records.values():
    assert record['num_steps'] == (2 if tiny else 20)
    assert record['model']['name'] == f'{tmp_path}/x'
    assert record['warmstart']['episodes'] == 0
  found = [
      schedules.simulate(cell.name, records[cell.name], TRACE) for cell in cells
  ]
  figure.draw_schedules(found, TRACE, tmp_path / 'figure.svg')
  text = (tmp_path / 'figure.svg').read_text()
  assert all(cell.name in text for cell in cells)
  assert 'no eval_small/success_within_3' in text


def test_an_unknown_schedule_is_refused():
  with pytest.raises(ValueError, match='schedule=x; known: fixed_3, fixed_6'):
    horizons_config.get_config('schedule=x')
