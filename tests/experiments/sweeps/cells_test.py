"""Cells of a sweep: lists and grids become configs, or are refused."""

import pathlib

import pytest

from agentrl.errors import ConfigError
from experiments.sweeps import algorithms, cells as cells_lib

TINY = 'configs/quickstart.py:tiny'


def one_field(record, path):
  for part in path.split('.'):
    record = record[part]
  return record


def test_the_list_of_algorithms_is_the_table():
  cells = cells_lib.make(algorithms.CONFIG, algorithms.SWEEP)
  assert len({cell.name for cell in cells}) == len(cells) == 12
  records = cells_lib.check(cells)
  names = [record['algo']['name'] for record in records.values()]
  assert names.count('ppo') == 3 and names.count('gigpo') == 1
  assert records['algo=ppo-seed=1']['seed'] == 1


def test_grids_multiply_and_become_a_command():
  cells = cells_lib.make(
      TINY, [{':algo': 'grpo', 'seed': 4}], ['optim.lr=1e-4;2e-4', 'eval.n=1;2']
  )
  assert [cell.name for cell in cells] == [
      f'algo=grpo-seed=4-optim.lr={lr}-eval.n={n}'
      for lr in ('1e-4', '2e-4')
      for n in (1, 2)
  ]
  assert cells[1].arm == 'algo=grpo-optim.lr=1e-4-eval.n=2'
  assert cells[1].command(pathlib.Path('w')) == [
      'launch.py',
      '--config=configs/quickstart.py:tiny,algo=grpo',
      '--workdir=w',
      '--config.seed=4',
      '--config.optim.lr=1e-4',
      '--config.eval.n=2',
  ]


@pytest.mark.parametrize(
    'grid, values',
    [
        ('algo.clip_high=0.2;0.3', [0.2, 0.3]),
        ('algo.dual_clip=2.0;3.0', [2.0, 3.0]),
        ('env.options.style=compact;full', ['compact', 'full']),
        ('horizon.turns=(3, 6);(6,)', [(3, 6), (6,)]),
        ('model.dtype=float32;bfloat16', ['float32', 'bfloat16']),
        ('seed=3;5', [3, 5]),
    ],
)
def test_a_grid_may_be_over_any_field(grid, values):
  cells = cells_lib.make(TINY, [{}], [grid])
  records = cells_lib.check(cells).values()
  found = [one_field(record, grid.partition('=')[0]) for record in records]
  same = lambda x: tuple(x) if isinstance(x, list) else x
  assert list(map(same, found)) == values
  assert all(record['num_steps'] == 2 for record in records)


def test_a_list_may_hold_values_of_python():
  cells = cells_lib.make(
      TINY, [{'horizon.turns': (6,), 'optim': {'lr': 1e-3, 'name': 'muon'}}]
  )
  (record,) = cells_lib.check(cells).values()
  assert tuple(record['horizon']['turns']) == (6,)
  assert record['optim']['lr'] == 1e-3 and record['optim']['name'] == 'muon'


@pytest.mark.parametrize(
    'grids, words',
    [
        (['optim.lr'], 'FIELD=VALUE'),
        (['=1'], 'FIELD=VALUE'),
        ([':=1'], 'FIELD=VALUE'),
        (['optim.lr='], 'FIELD=VALUE'),
        (
            ['optim.ir=1'],
            'Cell optim.ir=1: Unknown field optim.ir. Did you mean',
        ),
        (['optim.lr=fast'], 'Cell optim.lr=fast: optim.lr is'),
        ([':algorithm=ppo'], 'Unknown config argument'),
        (['seed=1', 'seed=2'], 'seed is swept twice'),
        (['optim.lr=1e-3;0.001'], 'are the same run'),
    ],
)
def test_a_grid_of_no_use_is_refused(grids, words):
  with pytest.raises(ConfigError, match=words):
    cells_lib.check(cells_lib.make(TINY, [{}], grids))


def test_a_mode_that_learns_nothing_is_refused():
  cells = cells_lib.make(
      'configs/evaluate.py:model=tiny-1m', [{}], ['eval.seed=1']
  )
  with pytest.raises(ConfigError, match='learns nothing'):
    cells_lib.check(cells)


def test_long_and_strange_values_make_names_of_folders():
  cells = cells_lib.make(TINY, [{'env.options.levels': tuple('abc') * 40}])
  (cell,) = cells
  assert len(cell.name) < 120 and '/' not in cell.name and ',' not in cell.name


def test_only_chooses_cells_and_knows_their_values():
  cells = cells_lib.make(algorithms.CONFIG, algorithms.SWEEP)
  chosen = cells_lib.only(cells, [':algo=gigpo;ppo', 'seed=0'])
  assert [cell.name for cell in chosen] == [
      'algo=ppo-seed=0',
      'algo=gigpo-seed=0',
  ]
  with pytest.raises(ConfigError, match='no cell has seed=7; known: 0, 1, 2'):
    cells_lib.only(cells, ['seed=7'])
