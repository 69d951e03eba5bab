"""Tests for the routes of runs and their curves."""

import csv
import io
import json

import pytest

from tests.viewer.asking import get, text


def write(root, run, lines, name='metrics.jsonl', config=None):
  path = root / run / name
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(''.join(json.dumps(line) + '\n' for line in lines))
  if name == 'metrics.jsonl':
    config = {'mode': 'train', 'num_steps': 5} | (config or {})
    (root / run / 'config.json').write_text(json.dumps(config))


@pytest.fixture
def url(tmp_path, viewer):
  """Two runs, one of which has a warm start and rounds."""
  for run, factor in (('a', 1.0), ('sweep/b', 2.0)):
    lines = [
        {'step': i, 'time': float(i), 'policy/loss': factor * i}
        for i in range(4)
    ]
    write(tmp_path, run, lines, config={'seed': int(factor)})
  warm = [{'step': i, 'policy/loss': -float(i)} for i in range(3)]
  write(tmp_path, 'a', warm, 'warmstart.jsonl')
  write(tmp_path, 'a', warm[:2], 'rounds/1/sft.jsonl')
  return viewer(tmp_path)


def test_all_runs_are_listed(url):
  found = get(url, 'runs')['runs']
  assert [(x['run'], x['steps']) for x in found] == [('a', 4), ('sweep/b', 4)]


def test_curves_have_the_values_of_the_files(url):
  found = get(
      url,
      'curves',
      run=['a', 'sweep/b'],
      metric=[
          'policy/loss',
          'warmstart:policy/loss',
          'rounds/1/sft:policy/loss',
      ],
      x='time',
  )['curves']
  values = {
      metric: {run: curve['y'] for run, curve in runs.items()}
      for metric, runs in found.items()
  }
  assert values == {
      'policy/loss': {'a': [0, 1, 2, 3], 'sweep/b': [0, 2, 4, 6]},
      'warmstart:policy/loss': {'a': [0, -1, -2]},
      'rounds/1/sft:policy/loss': {'a': [0, -1]},
  }
  names = get(url, 'metrics', run='a')['names']
  assert set(names) == set(values)


def test_many_points_are_decimated_and_the_table_has_all(tmp_path, viewer):
  lines = [{'step': i, 'loss': float(i % 7)} for i in range(5000)]
  write(tmp_path, 'run', lines)
  url = viewer(tmp_path)
  [curve] = get(url, 'curves', run='run', metric='loss', points=50)['curves'][
      'loss'
  ].values()
  assert len(curve['y']) == 50 and curve['total'] == 5000
  assert set(curve['low']) == {0} and set(curve['high']) == {6}
  rows = list(
      csv.DictReader(
          io.StringIO(text(url, 'curves.csv', run='run', metric='loss'))
      )
  )
  assert [float(row['value']) for row in rows] == [x['loss'] for x in lines]
  assert {row['low'] for row in rows} == {''}


def test_a_live_run_is_read_on(tmp_path, viewer):
  write(tmp_path, 'run', [{'step': 0, 'loss': 1.0}])
  url = viewer(tmp_path)
  ask = lambda: get(url, 'curves', run='run', metric='loss')['curves']['loss']
  assert ask()['run']['y'] == [1]
  with (tmp_path / 'run' / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 1, "loss": NaN}\n{"step": 2, "loss": 3}\n{"step')
  assert ask()['run']['y'] == [1, None, 3]


def test_configs_are_compared(url):
  found = get(url, 'config', run=['a', 'sweep/b'])
  assert found['rows'] == [{'name': 'seed', 'values': [1, 2], 'missing': []}]
  assert found['fields'] == 3
  assert get(url, 'config', run='a')['config']['seed'] == 1


@pytest.mark.parametrize(
    ('query', 'status'),
    [
        ({}, 422),
        ({'run': [f'r{i}' for i in range(9)]}, 422),
        ({'run': 'nothing'}, 404),
        ({'run': '../..'}, 404),
        ({'run': 'a', 'x': 'years'}, 422),
        ({'run': 'a', 'smooth': '1'}, 422),
        ({'run': 'a', 'smooth': 'nan'}, 422),
        ({'run': 'a', 'points': '99999999'}, 422),
    ],
)
def test_wrong_queries_are_refused(url, query, status):
  found = get(url, 'curves', **query)
  assert found['status'] == status and found['error']


@pytest.mark.parametrize(
    'metric', ['rounds/../../x:loss', 'config:mode', '../a/warmstart:loss']
)
def test_a_metric_names_no_other_file(url, metric):
  assert get(url, 'curves', run='a', metric=metric)['curves'] == {metric: {}}
