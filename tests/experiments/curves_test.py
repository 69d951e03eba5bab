"""Tests for README's figure."""

import importlib
import json
import pathlib
import xml.etree.ElementTree

import pytest

curves = importlib.import_module('experiments.2026-11-quickstart.curves')
FOLDER = pathlib.Path(curves.__file__).parent


def test_a_run_becomes_a_curve(tmp_path):
  (tmp_path / 'config.json').write_text(json.dumps({'seed': 3}))
  point = lambda name, mean: {
      f'{name}/success': mean,
      f'{name}/success_low': mean - 0.1,
      f'{name}/success_high': mean + 0.1,
  }
  lines = [
      {'step': 0, **point('eval_before', 0.5)},
      {'step': 1, **point('eval', 0.75)},
      {'step': 2},
  ]
  (tmp_path / 'metrics.jsonl').write_text('\n'.join(map(json.dumps, lines)))
  assert curves.read(tmp_path) == dict(
      seed=3, points=[[0, 0.5, 0.4, 0.6], [2, 0.75, 0.65, 0.85]]
  )


def test_an_evaluation_becomes_levels(tmp_path):
  level = lambda mean: {
      'babyai': {'test': dict(mean=mean, low=mean - 0.1, high=1.0, n=8)}
  }
  found = {'eval': {'expert': level(0.75), 'random': level(0.5)}}
  (tmp_path / 'summary.json').write_text(json.dumps(found))
  assert curves.read_levels(tmp_path) == dict(
      random=[0.5, 0.4, 1.0], expert=[0.75, 0.65, 1.0]
  )


@pytest.mark.parametrize('drawn', [False, True])
def test_the_figure_has_three_seeds_chance_and_the_expert(tmp_path, drawn):
  path = FOLDER / 'curves.svg'
  data = json.loads((FOLDER / 'curves.json').read_text())
  levels = json.loads((FOLDER / 'levels.json').read_text())
  if drawn:
    path = tmp_path / 'curves.svg'
    curves.draw(data, levels, path)
  assert path.stat().st_size < 100_000
  words = set(xml.etree.ElementTree.parse(path).getroot().itertext())
  assert {f'seed {curve["seed"]}' for curve in data} <= words
  assert words >= {*levels} == {'random', 'expert'}
  assert [curve['seed'] for curve in data] == [0, 1, 2]
