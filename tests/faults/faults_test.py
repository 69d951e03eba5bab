"""Tests for the harness of faults: what it draws, sees, and finds."""

import dataclasses
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from experiments.clusters import hosts
from tests.e2e.running import ROOT
from tests.faults import (
    clock as clock_lib,
    draws,
    faults,
    files,
    scenarios,
    table,
)
from tests.faults.runs import Ending

NAMES = tuple(scenarios.SCENARIOS)
KILL = {
    'number': 0,
    'seed': 0,
    'scenario': 'babyai',
    'blows': [{
        'fault': 'SIGKILL',
        'target': 'trainer',
        'phase': 'update',
        'occurrence': 3,
    }],
}


def test_a_seed_draws_the_same_trials_and_each_fault_first_once_a_turn():
  count = len(faults.FAULTS)
  draw = lambda number: draws.draw(number, 5, NAMES, list(faults.FAULTS))
  drawn = [draw(number) for number in range(2 * count)]
  assert drawn == [draw(number) for number in range(2 * count)]
  first = [trial.blows[0].fault for trial in drawn]
  assert set(first[:count]) == set(first[count:]) == set(faults.FAULTS)
  assert first[:count] != first[count:]
  for trial in drawn:
    scenario = scenarios.SCENARIOS[trial.scenario]
    assert len(trial.blows) == draws.FAULTS_A_RUN
    for blow in trial.blows:
      fault = faults.FAULTS[blow.fault]
      assert (blow.target in scenario.targets) == bool(fault.targets)
      assert scenario.found or fault.only != 'found'
  kinds = ['SIGKILL', 'port stolen', 'reply cut']
  for number in range(9):
    trial = draws.draw(number, 5, ['babyai'], kinds)
    assert {blow.fault for blow in trial.blows} == {'SIGKILL'}
  for number in range(40):
    trial = draws.draw(number, 5, NAMES, list(faults.FAULTS), ['warm start'])
    assert trial.blows[0].phase == 'warm start'
    assert not trial.blows[0].fault.startswith(('checkpoint', 'metrics'))
    phases = [blow.phase for blow in trial.blows]
    assert 'warm start' not in phases[phases.count('warm start') :]
  line = dataclasses.asdict(drawn[0]) | {'outcome': 'equal'}
  assert draws.from_line(json.loads(json.dumps(line))) == drawn[0]


@pytest.mark.parametrize(
    'ending, named',
    [
        (Ending(0, 'Done'), True),
        (Ending(130, 'Stopped.'), True),
        (Ending(2, 'EnvError: it is down'), True),
        (Ending(2, 'usage: launch.py'), False),
        (Ending(2, 'RuntimeWarning: of Python'), False),
        (Ending(1, 'ValueError: of nobody'), False),
        (Ending(-11, ''), False),
    ],
)
def test_an_ending_has_a_name_or_not(ending, named):
  assert ending.named == named


def test_a_clock_is_set_for_the_processes_that_have_it(tmp_path):
  clock = clock_lib.Clock(tmp_path)
  words = 'import time\nwhile input(): print(time.time(), time.monotonic())'
  with subprocess.Popen(
      [sys.executable, '-uc', words],
      env=os.environ | clock.environment,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
      bufsize=1,
  ) as process:
    for seconds in (0, 86_400, -3600):
      clock.set(seconds)
      process.stdin.write('now\n')
      now, monotonic = map(float, process.stdout.readline().split())
      assert abs(now - seconds - time.time()) < 60
      assert abs(monotonic - time.monotonic()) < 60
    process.kill()


@pytest.mark.parametrize('how', ['truncated', 'bit flipped'])
def test_one_file_of_a_kind_is_damaged(tmp_path, how):
  for name in ('2', '10'):
    folder = tmp_path / 'checkpoints' / name
    folder.mkdir(parents=True)
    (folder / 'data').write_bytes(bytes(100))
  rng = np.random.default_rng(0)
  restore, name = files.damage(tmp_path, 'checkpoint', how, rng)
  assert name == 'checkpoints/10/data'
  assert (tmp_path / 'checkpoints/2/data').read_bytes() == bytes(100)
  assert (tmp_path / 'checkpoints/10/data').read_bytes() != bytes(100)
  restore()
  assert (tmp_path / 'checkpoints/10/data').read_bytes() == bytes(100)
  assert files.damage(tmp_path, 'metrics', how, rng)[1] == ''


def test_the_table_counts_what_the_log_has(tmp_path):
  log = tmp_path / 'log.jsonl'
  push = {'fault': 'SIGKILL', 'hit': 'push'}
  line = dict(blows=[push], seed=3, seconds=1800.0)
  for outcome in ('equal', 'equal', 'typed', 'lost'):
    table.append(log, line | {'outcome': outcome})
  blows = [push | {'hit': 'between'}, push | {'hit': ''}]
  table.append(log, line | {'outcome': 'equal', 'blows': blows})
  with log.open('a') as file:
    file.write('{"cut o')
  found = table.markdown(table.read(log)).splitlines()
  row = [cell.strip() for cell in found[2].split('|')]
  assert row[1] == 'SIGKILL' and row[5] == '2 equal, 1 typed, 1 lost'
  assert row[8:10] == ['1 equal', '3 equal, 1 typed, 1 lost']
  assert found[-1] == '5 faults in 5 runs of seed 3, 2.5 hours.'


@pytest.fixture(scope='module')
def play(tmp_path_factory):
  """Plays a trial; those of the module share runs that are left alone."""
  if (reason := hosts.reason()) is not None:
    pytest.skip(reason)
  out = tmp_path_factory.mktemp('faults')

  def play(**fields):
    done = subprocess.run(
        [
            *(sys.executable, '-m', 'tests.faults', f'--out={out}'),
            f'--trial={json.dumps(KILL | fields)}',
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert done.returncode == (result['outcome'] == 'lost')
    assert result['blows'][0]['hit'] == 'update'
    assert [code for code, _ in result['endings']] == [-9, 0], result
    return result

  return play


@pytest.mark.slow
@pytest.mark.parametrize(
    'fault', ['SIGKILL', 'out of memory', 'machine restarted']
)
def test_a_killed_run_equals_one_that_was_left_alone(play, fault):
  if fault == 'out of memory':
    try:
      faults.accounts()
    except FileNotFoundError as error:
      pytest.skip(str(error))
  target = '' if fault == 'machine restarted' else 'trainer'
  blow = KILL['blows'][0] | {'fault': fault, 'target': target}
  result = play(blows=[blow])
  assert result['outcome'] == 'equal', result['problems']


@pytest.mark.slow
@pytest.mark.parametrize(
    'broken, scenario, words',
    [
        ('record', 'babyai', 'has steps [0, 1, 2, 2, 3]'),
        pytest.param(
            *('push', 'babyai', 'sampler/logprob_abs_diff_mean'),
            marks=pytest.mark.extra,
        ),
        pytest.param(
            *('cursor', 'babyai-ahead', 'trained on other episodes'),
            marks=pytest.mark.extra,
        ),
    ],
)
def test_broken_code_is_found(play, broken, scenario, words):
  result = play(broken=broken, scenario=scenario)
  assert result['outcome'] == 'lost'
  assert any(words in problem for problem in result['problems']), result
