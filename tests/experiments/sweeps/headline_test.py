"""Tests for the horizon study: its cells, its tables, the check of its figures."""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from agentrl import config as config_lib, schedules
from experiments.sweeps import (
    cells as cells_lib,
    headline,
    headline_config,
    headline_tables,
    pages,
    tables,
)
from experiments.sweeps.results import RETURN, SUCCESS, TURNS, Run

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / 'experiments' / '2026-12-headline'


def make_run(env, schedule, seed, share, *, turns=4, evals=(), fell=False):
  """A run that solves this share of 100 tasks in so many turns."""
  played = {
      SUCCESS: {(task, 0): float(task < 100 * share) for task in range(100)},
      TURNS: {(task, 0): float(turns + task % 2) for task in range(100)},
  }
  played[RETURN] = played[SUCCESS]
  returns = [0.5] * 6 + [0.1] * 6 * fell + [0.6] * 6 * (not fell)
  metrics = [
      {
          'step': step,
          'rollout/return_mean': value,
          'rollout/completion_tokens': 100.0,
          'time/step_s': 2.0,
      }
      for step, value in enumerate(returns)
  ]
  for step, success in evals:
    metrics[step]['eval_small/success'] = success
  pairs = ((':env', env), (':schedule', schedule), ('seed', str(seed)))
  return Run(
      cell=cells_lib.Cell(headline.CONFIG, pairs),
      config={'seed': seed},
      summary={'eval': {'after': {'mean': share}}, 'wall_s': 60.0},
      metrics=metrics,
      played=played,
      played_before={},
  )


def test_chance_stands_below_the_arms():
  levels = {'random': {'mean': 0.25}, 'expert': None}
  runs = [
      dataclasses.replace(run, summary=run.summary | {'chance': levels})
      for run in study()
  ]
  text = headline_tables.markdown(runs)
  assert 'On the same tasks: random actions 0.250.' in text
  assert 'On the same tasks' not in headline_tables.markdown(study())
  # Runs of two panels have no common level.
  other = {'chance': {'random': {'mean': 0.5}}}
  runs[0] = dataclasses.replace(runs[0], summary=runs[0].summary | other)
  assert tables.chance_cell(runs, 'random') == ''
  assert tables.chance_kinds(runs) == ['random']


def test_each_cell_is_a_run_that_its_config_accepts():
  cells = cells_lib.make(headline.CONFIG, headline.SWEEP)
  cells_lib.check(cells)
  primary = [
      cell
      for cell in cells
      if len(cell.overrides) == 3
      and dict(cell.overrides)[':schedule'] in ('long', 'stepwise')
  ]
  assert len(primary) == 2 * 2 * 10
  assert cells[: len(primary)] == primary


@pytest.mark.parametrize('env', headline_config.TURNS)
def test_schedules_have_the_horizons_of_the_plan(env):
  short, middle, long = headline_config.TURNS[env]
  every = headline_config.STAGE[env]
  turns = {}
  for name in ('long', 'short', 'stepwise', 'reversed', 'random'):
    config = headline_config.get_config(f'env={env},schedule={name}')
    assert config.eval.horizon == long
    made = schedules.make(config_lib.read(config).horizon)
    steps = (0, every - 1, every, 2 * every - 1, 2 * every, 5 * every)
    turns[name] = [made.update(made.init(), step, {})[1] for step in steps]
  assert turns['long'] == [long] * 6 and turns['short'] == [short] * 6
  assert turns['stepwise'] == [short, short, middle, middle, long, long]
  assert turns['reversed'] == [long, long, middle, middle, short, short]
  low, high = turns['random'][0]
  assert (low + high) / 2 == (short + middle + long) / 3


def test_measures_of_a_run_are_what_its_evaluations_say():
  run = make_run('babyai', 'long', 0, 0.5, evals=[(1, 0.4), (3, 0.7), (5, 0.2)])
  assert headline_tables.tokens_to(run, 0.7) == 400
  assert headline_tables.tokens_to(run, 0.71) is None
  assert headline_tables.success_after(run, 3.9) is None
  assert headline_tables.success_after(run, 4.0) == 0.4
  assert headline_tables.success_after(run, 100.0) == 0.2
  assert headline_tables.success_within(run, 3) == 0.0
  assert headline_tables.success_within(run, 4) == 0.25
  assert headline_tables.success_within(run, 5) == 0.5


def study():
  rng = np.random.default_rng(0)
  return [
      make_run(
          env,
          schedule,
          seed,
          round(centre + rng.normal(0, 0.05), 2),
          evals=[(2, 0.3), (8, 0.8)],
          fell=schedule == 'long' and seed == 1,
      )
      for env in ('babyai', 'textcraft')
      for schedule, centre in (('long', 0.5), ('stepwise', 0.6), ('short', 0.4))
      for seed in range(4)
  ]


def test_tables_have_the_figures_of_the_independent_check(tmp_path):
  runs = study()
  shutil.copy(PAGE / 'check.py', tmp_path)
  for run in runs:
    record = {
        'overrides': dict(run.cell.overrides),
        'columns': ['task', 'sample', 'success'],
        'after': {'': [[*key, x] for key, x in run.played[SUCCESS].items()]},
    }
    path = pages._path(tmp_path, run.cell)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record))
  said = subprocess.run(
      [sys.executable, tmp_path / 'check.py'],
      capture_output=True,
      text=True,
      check=True,
  ).stdout
  text = headline_tables.markdown(runs)
  rows = [line.strip('| ').split(' | ') for line in text.splitlines()]
  for env in ('babyai', 'textcraft'):
    begin = rows.index([f'## {env}'])
    arms = {row[0]: row for row in reversed(rows[begin : begin + 8])}
    tests = {row[0]: row for row in rows[begin + 7 : begin + 12]}
    for name in ('long', 'stepwise', 'short'):
      runs_, mean, over_seeds = arms[name][1:4]
      assert f'{env} {name}: {runs_} runs, {mean} {over_seeds}\n' in said
    for name in ('stepwise', 'short'):
      pairs, difference, over_seeds, p, adjusted = tests[name][1:6]
      assert (
          f'{env} {name} - long: {pairs} pairs, {difference} {over_seeds}, p'
          f' {p}, Holm {adjusted}\n'
      ) in said
  assert '1 of 4' in text and re.search(r'\| 900 \| 900 \|', text)


def test_an_arm_is_compared_with_the_long_one_that_shares_its_changes():
  assert headline_tables.baseline('stepwise algo=ppo') == 'long algo=ppo'
  assert headline_tables.baseline('random') == 'long'
