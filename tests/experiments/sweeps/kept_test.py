"""Tests for experiments.sweeps.kept."""

import json

import pytest

from agentrl.errors import ConfigError
from experiments.sweeps import (
    cells as cells_lib,
    figure,
    folder,
    kept,
    pages,
    results,
    tables,
)
from tests.experiments.sweeps import recorded

TINY = 'configs/quickstart.py:tiny'


def test_a_page_gives_back_what_its_runs_reached(tmp_path):
  cells = cells_lib.make(TINY, [{}], ['seed=0;1'])
  records = cells_lib.check(cells)
  out, page = tmp_path / 'out', tmp_path / 'page'
  out.mkdir()
  folder.keep(out, cells)
  for cell, solved in zip(cells, (3, 5), strict=True):
    recorded.write_run(out / cell.name, records[cell.name], solved=solved)
    path = kept.add(page, 'babyai', out / cell.name)
  assert path == page / 'runs' / 'recipe=babyai-seed=1.json'
  assert path.stat().st_size < 20_000
  expected, found = list(results.read(out)), pages.read(page)
  assert [run.name for run in found] == [
      'recipe=babyai-seed=0', 'recipe=babyai-seed=1'
  ]  # fmt: skip
  for one, other in zip(expected, found, strict=True):
    assert one.played == other.played
    assert one.played_before == other.played_before
    assert one.summary == other.summary
  rename = lambda text: text.replace('recipe=babyai', 'base')
  old, new = (
      tables.of_runs(runs, compared=False) for runs in (expected, found)
  )
  assert [line.split('|')[2:] for line in new.splitlines()] == [
      line.split('|')[2:] for line in old.splitlines()
  ]
  assert 'Differences' not in rename(new)
  figure.draw(found, tmp_path / 'figure.svg')


def test_a_run_that_goes_on_is_not_kept(tmp_path):
  [cell] = cells_lib.make(TINY, [{}], ['seed=0'])
  record = cells_lib.check([cell])[cell.name]
  recorded.write_run(tmp_path / 'run', record, solved=1)
  summary = tmp_path / 'run' / 'summary.json'
  done = json.loads(summary.read_text())
  # The last one was interrupted in its last evaluation.
  for change in ({'steps': 0}, {'status': 'stopped'}, {'status': 'failed'}):
    summary.write_text(json.dumps(done | change))
    with pytest.raises(ConfigError, match='not finished'):
      kept.add(tmp_path, 'a', tmp_path / 'run')


def test_a_mixture_gives_back_its_members(tmp_path):
  cells = cells_lib.make('configs/mixture_grpo.py:tiny', [{}], ['seed=0'])
  records = cells_lib.check(cells)
  [cell] = cells
  members = records[cell.name]['mixture']
  folder.keep(tmp_path, cells)
  solved = dict(zip(members, range(1, 9), strict=False))
  recorded.write_run(tmp_path / cell.name, records[cell.name], solved=solved)
  pages.keep(tmp_path / 'page', tmp_path, cells)
  expected = list(results.read(tmp_path))
  found = pages.read(tmp_path / 'page', cells)
  assert [run.member for run in found] == sorted(members)
  for one, other in zip(expected, found, strict=True):
    assert (one.arm, one.played) == (other.arm, other.played)
    assert one.summary == other.summary
    assert one.column('rollout/success') == other.column('rollout/success')
