"""Sweeps of memory and deliberation: their cells, warm starts and tables."""

import pathlib

import pytest

from experiments.sweeps import (
    cells as cells_lib,
    deliberation,
    memory,
    results,
)
from experiments.sweeps.cells import Cell

OUT = pathlib.Path('/out')


def with_starts(sweep, shared_by):
  cells = cells_lib.make(sweep.CONFIG, sweep.SWEEP)
  cells, starts = cells_lib.with_warm_starts(cells, shared_by, OUT)
  return cells, starts, cells_lib.check([*starts.values(), *cells])


def test_contexts_begin_with_one_policy_that_saw_whole_episodes():
  cells, starts, records = with_starts(memory, ())
  assert len(cells) == 12 and len(starts) == 1
  [(path, first)] = starts.items()
  start = records[first.name]
  assert start['agent']['context']['kind'] == 'full'
  assert start['rollout']['max_context'] == 2048 and start['num_steps'] == 1
  assert all(records[x.name]['model']['name'] == path for x in cells)
  assert all(records[x.name]['rollout']['max_context'] == 512 for x in cells)
  learnt, masked = (
      records[cell.name]
      for cell in cells
      if cell.name.startswith('context=summary-seed=1')
  )
  assert masked['agent']['context'].pop('learn_summary') is False
  assert learnt['agent']['context'].pop('learn_summary') is True
  assert learnt == masked


def test_agents_of_a_seed_begin_with_one_warm_start_and_as_many_episodes():
  cells, starts, records = with_starts(deliberation, ('seed',))
  assert len(cells) == 9 and len(starts) == 3
  for cell in cells:
    record = records[cell.name]
    episodes = (
        record['rollout']['group_size'] * record['agent']['reflect']['attempts']
    )
    assert episodes == 8
    assert cell.start.endswith(
        f'/warmstart-seed={record["seed"]}/checkpoints/0'
    )


def make_run(name, columns, **evals):
  steps = len(next(iter(columns.values())))
  return results.Run(
      cell=Cell('a.py', (('seed', '0'),), name),
      config={},
      summary={'eval': evals},
      metrics=[{k: v[i] for k, v in columns.items()} for i in range(steps)],
      played={},
      played_before={},
  )


def row_of(table, name):
  [line] = [x for x in table.splitlines() if x.startswith(f'| {name} |')]
  return [cell.strip() for cell in line.strip('|').split('|')]


def test_the_table_of_memory_has_progress_and_what_the_context_cut():
  columns = {
      'rollout/progress': [0.1] * 5 + [0.9] + [0.5] * 5,
      'rollout/stop_context': [0.0] * 10 + [1.1],
      'rollout/completion_tokens': [100.0] * 11,
  }
  run = make_run('a', columns, before={'progress_mean': 0.25}, after={})
  assert row_of(memory.table([run]), 'a') == [
      *('a', '0.250', '', '0.100', '0.500', '0.100', '1,100')
  ]


def test_agents_are_compared_when_they_have_sampled_as_much():
  tokens, success = 'rollout/completion_tokens', 'rollout/success'
  short = make_run('short', {tokens: [10.0] * 6, success: [0.5] * 6})
  columns = {
      tokens: [20.0] * 6,
      success: [0.0, 0.25, 0.5, 1.0, 1.0, 1.0],
      'rollout/success_attempt_1': [0.0, 0.1, 0.2, 1.0, 1.0, 1.0],
      'rollout/success_attempt_2': [0.0, 0.4, 0.8, 1.0, 1.0, 1.0],
  }
  table = deliberation.table([short, make_run('long', columns)])
  assert row_of(table, 'short') == [
      *('short', '60', '6', '0.500', '0.500', '', '')
  ]
  # Three steps of 20 tokens are the 60 of the other run.
  assert row_of(table, 'long') == [
      *('long', '120', '3', '0.550', '0.250', '0.100', '0.400')
  ]


@pytest.mark.parametrize(
    'tokens, budget, steps',
    [([], 9, 0), ([3, 3, 3], 9, 3), ([3, 3, 3], 8.9, 2), ([10], 9, 0)],
)
def test_steps_within_a_budget(tokens, budget, steps):
  assert deliberation.steps_within(tokens, budget) == steps
