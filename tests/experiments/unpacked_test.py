"""Runs that a page keeps become workdirs with the same figures."""

import json
import pathlib
import shutil

import pytest

from agentrl import evaluation
from agentrl.errors import ConfigError
from experiments.sweeps import pages, unpacked
from experiments.sweeps.results import RETURN, SUCCESS

KEPT = pathlib.Path('experiments/2026-12-asynchrony/runs')


@pytest.fixture
def page(tmp_path):
  """A page with four of the runs."""
  folder = tmp_path / 'page' / 'runs'
  folder.mkdir(parents=True)
  for path in sorted(KEPT.glob('arm=depth-rollout.ahead=[01]-seed=[01].json')):
    shutil.copy(path, folder)
  return folder.parent


def test_success_and_returns_are_those_that_were_kept(page, tmp_path):
  out = tmp_path / 'out'
  folders = unpacked.write(page, out)
  kept = pages.read(page)
  assert len(folders) == len(kept) == 4
  study = evaluation.study(out, group=['seed', 'rollout.ahead'])
  assert study.left_out == []
  assert len(study.runs) == len(kept)
  by_run: dict[str, list] = {}
  for row in study.episodes:
    by_run.setdefault(row['run'], []).append(row)
  for folder in folders:
    record = json.loads((page / 'runs' / f'{folder.name}.json').read_text())
    names = record['columns']
    rows = {
        (x[0], x[1]): dict(zip(names, x, strict=True))
        for x in record['after']['']
    }
    found = by_run[folder.name]
    assert len(found) == len(rows) > 0
    for row in found:
      want = rows[row['task'], row['sample']]
      assert row['success'] == want[SUCCESS]
      assert row['return'] == pytest.approx(want[RETURN])
    after = record['summary']['eval']['after']['mean']
    shares = [row['success'] for row in found]
    assert sum(shares) / len(shares) == pytest.approx(after)


def test_nothing_is_written_over(page, tmp_path):
  unpacked.write(page, tmp_path / 'out')
  with pytest.raises(ConfigError, match='there already'):
    unpacked.write(page, tmp_path / 'out')
  with pytest.raises(ConfigError, match='keeps no run'):
    unpacked.write(tmp_path, tmp_path / 'out')
