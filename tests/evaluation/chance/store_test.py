"""Tests for agentrl.evaluation.chance.store."""

import json

import pytest

from agentrl.evaluation.chance import level as level_lib, store
from agentrl.evaluation.chance.level import EXPERT, RANDOM
from agentrl.runtime import cache
from tests.evaluation.chance.level_test import make

LEVEL = make(RANDOM, [[1], [0], [None]])
WANTED = [outcome.key for outcome in LEVEL.outcomes]


@pytest.fixture
def path(tmp_path):
  return store.path_of(tmp_path / 'cache', LEVEL.panel.hash, 'key')


def test_what_was_played_is_read_again(path):
  assert store.read(path, 'key', WANTED) == ()
  store.write(path, 'key', LEVEL.outcomes[:2])
  assert store.read(path, 'key', WANTED) == LEVEL.outcomes[:2]
  store.write(path, 'key', LEVEL.outcomes)
  assert store.read(path, 'key', WANTED) == LEVEL.outcomes
  # It lies under the hash of its panel, and nothing else is left.
  assert path.parent.name == LEVEL.panel.hash
  assert [x.name for x in path.parent.iterdir()] == [path.name]


def test_a_file_of_anything_else_is_not_used(path):
  store.write(path, 'key', LEVEL.outcomes)
  whole = path.read_bytes()
  assert store.read(path, 'another', WANTED) == ()
  assert store.read(path, 'key', WANTED[:2]) == ()
  values = json.loads(whole)
  for broken in (
      whole[: len(whole) // 2],
      b'',
      b'\xff\xfe',
      b'[]',
      b'[' * 100_000,
      json.dumps(values | {'format': 99}).encode(),
      json.dumps(values | {'outcomes': [['a'] * 8]}).encode(),
      json.dumps(values | {'outcomes': values['outcomes'] * 2}).encode(),
  ):
    path.write_bytes(broken)
    assert store.read(path, 'key', WANTED) == (), broken[:40]
    store.write(path, 'key', LEVEL.outcomes)  # replaced
    assert path.read_bytes() == whole
  path.unlink()
  path.mkdir()
  assert store.read(path, 'key', WANTED) == ()
  store.write(path, 'key', LEVEL.outcomes)  # logged, and the run goes on
  assert [x.name for x in path.parent.iterdir()] == [path.name]


def test_a_disk_that_takes_nothing_stops_no_run(tmp_path):
  (tmp_path / 'file').write_text('')
  store.write(tmp_path / 'file' / 'x' / 'y.json', 'key', LEVEL.outcomes)
  store.write_levels(tmp_path / 'missing' / 'run', {})
  assert store.read_levels(tmp_path / 'missing' / 'run') == {}


def test_a_run_keeps_its_levels(tmp_path):
  assert store.read_levels(tmp_path) == {}
  levels = {'random': LEVEL, 'expert': make(EXPERT, [[1], [1]], small=(1,))}
  store.write_levels(tmp_path, levels)
  assert store.read_levels(tmp_path) == levels
  figures = {kind: level_lib.summarise(x) for kind, x in levels.items()}
  assert store.read_summaries(tmp_path) == figures
  path = tmp_path / store.FILE
  whole = json.loads(path.read_text())
  for name, value in (
      ('kind', 'other'),
      ('kind', 'expert'),
      ('outcomes', whole['levels']['random']['outcomes'][:2]),
      ('panel', whole['levels']['random']['panel'] | {'subtasks': []}),
      ('panel', whole['levels']['random']['panel'] | {'clusters': ['a']}),
  ):
    broken = json.loads(json.dumps(whole))
    broken['levels']['random'][name] = value
    path.write_text(json.dumps(broken))
    assert store.read_levels(tmp_path) == {}, name
  path.write_text('{"levels": ')
  assert store.read_levels(tmp_path) == store.read_summaries(tmp_path) == {}


def test_the_folder_is_of_the_user(monkeypatch, tmp_path):
  # The fixture of all tests stands in its place.
  folder = lambda: cache.root(store._CACHE)
  monkeypatch.delenv('AGENTRL_CACHE', raising=False)
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
  assert folder() == tmp_path / 'agentrl' / 'chance'
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path / 'own'))
  assert folder() == tmp_path / 'own' / 'chance'
