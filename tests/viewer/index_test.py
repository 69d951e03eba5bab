"""Tests of the index: what it keeps, and how it follows files that change."""

import dataclasses
import json
import os
import pathlib
import sqlite3
import tempfile

import hypothesis
import pytest
from hypothesis import strategies as st

from agentrl.data import episodes as episodes_lib
from agentrl.viewer import readers, scan
from agentrl.viewer.index import Index
from agentrl.viewer.scan import Job
from tests.viewer import runs


@pytest.fixture
def opened():
  """Makes indexes, and closes them."""
  made = []

  def make(root):
    made.append(Index(root))
    return made[-1]

  yield make
  for each in made:
    each.close()


def ids(index):
  rows = index.query('SELECT episode_id FROM episodes ORDER BY file_id, line')
  return [row[0] for row in rows]


def found(index, word):
  rows = index.query(
      'SELECT episode_id FROM words JOIN episodes'
      ' ON words.rowid = (file_id << 32 | line) WHERE words MATCH ?'
      ' ORDER BY file_id, line',
      (f'"{word}"',),
  )
  return [row[0] for row in rows]


def line(name):
  return episodes_lib.to_line(runs.episode(name)).encode() + b'\n'


def test_an_episode_has_what_its_line_says(tmp_path, opened):
  turns = (
      runs.turn(0, action='go', observation='A door.', parse_error='none'),
      runs.turn(1, action='go', observation='A door.', reward=0.25),
      runs.turn(2, action='go', observation='A key.', reward=0.5),
  )
  episode = runs.episode('e', made=turns, task_id=41, sample=2, success=True)
  path = runs.write(
      tmp_path, file='episodes/eval/p/babyai.jsonl', episodes=[episode]
  )
  index = opened(tmp_path)
  assert index.refresh()
  (row,) = index.query('SELECT * FROM episodes JOIN files USING (file_id)')
  expected = {
      'run': 'run',
      'file': 'episodes/eval/p/babyai.jsonl',
      'origin': 'eval',
      'policy': 'p',
      'step': None,
      'line': 0,
      'offset': 0,
      'length': path.stat().st_size - 1,
      'episode_id': 'e',
      'env': 'babyai',
      'task': 41,
      'sample': 2,
      'seed': 7,
      'split': 'train',
      'return': 0.75,
      'success': 1,
      'stop_reason': 'terminated',
      'turns': 3,
      'tokens': 6,
      'parse_errors': 1,
      # "go" answers "A door." for the second time in the third turn.
      'repeated': 1,
      'first_reward': 2,
      'horizon': 6,
      'version': 1,
      'weights': '1',
      'error': None,
      'subtask': 'GoTo',
  }
  assert {name: row[name] for name in expected} == expected


def test_a_kind_follows_the_options_of_the_member(tmp_path, opened):
  runs.write(tmp_path, env='textcraft')
  config = tmp_path / 'run' / 'config.json'
  config.write_text(
      json.dumps({
          'env': {'name': 'textcraft', 'options': {}},
          'mixture': {
              'a': {},
              'b': {
                  'env': {
                      'name': 'babyai',
                      'options': {'levels': ['GoToRedBall']},
                  }
              },
          },
      })
  )
  index = opened(tmp_path)
  assert index.refresh()
  rows = index.query('SELECT DISTINCT subtask FROM episodes')
  assert [row[0] for row in rows] == ['GoToRedBall']


@pytest.mark.parametrize(
    'file, place',
    [
        ('episodes/train/000012.jsonl', ('train', 12, '')),
        ('episodes/eval/untrained.jsonl', ('eval', None, '')),
        ('episodes/warmstart.jsonl', ('warmstart', None, '')),
        ('diverged/000003.jsonl', ('diverged', 3, '')),
        ('episodes/eval/expert/babyai.jsonl', ('eval', None, 'expert')),
    ],
)
def test_a_files_place(file, place):
  assert scan.place(file) == place


def test_nothing_new_is_nothing_to_do(tmp_path, opened):
  runs.write(tmp_path)
  index = opened(tmp_path)
  assert index.refresh()
  assert not index.refresh()


def test_a_live_run(tmp_path, opened):
  index = opened(tmp_path)
  index.refresh()
  path = runs.write(tmp_path)
  assert index.refresh() and ids(index) == ['e0', 'e1', 'e2', 'e3']
  # An evaluation adds to its file.
  with path.open('ab') as file:
    file.write(line('new') + line('torn')[:-40])
  assert index.refresh() and ids(index)[4:] == ['new']
  with path.open('ab') as file:
    file.write(line('torn')[-40:])
  assert index.refresh() and ids(index)[4:] == ['new', 'torn']
  # Trainers replace theirs.
  runs.write(tmp_path, episodes=[runs.episode(f'f{i}') for i in range(9)])
  assert index.refresh() and ids(index) == [f'f{i}' for i in range(9)]
  # A resumed run sets later steps aside.
  runs.write(tmp_path, file='episodes/train/000001.jsonl')
  assert index.refresh() and len(ids(index)) == 13
  assert episodes_lib.discard_from(path.parent, 1) == 1
  assert index.refresh() and len(ids(index)) == 9
  path.unlink()
  assert index.refresh() and ids(index) == []
  assert index.query('SELECT run FROM runs')[0]['run'] == 'run'


def test_words_are_those_of_the_files_as_they_are(tmp_path, opened):
  index = opened(tmp_path)
  path = runs.write(tmp_path, episodes=[runs.episode('a'), runs.episode('b')])
  index.refresh()
  assert found(index, 'ball') == ['a', 'b']
  turn = runs.turn(0, action='open', observation='A Drawbridge, red.')
  runs.write(tmp_path, episodes=[runs.episode('c', made=(turn,))])
  index.refresh()
  assert found(index, 'drawbridge') == found(index, 'open') == ['c']
  assert found(index, 'door') == []  # of what was replaced
  path.unlink()
  index.refresh()
  assert found(index, 'ball') == []


def test_lines_that_are_no_episodes_are_counted(tmp_path, opened):
  path = runs.write(tmp_path, episodes=[])
  path.write_bytes(
      line('a') + b'{"env": "babyai"}\n' + b'\n' + b'\xff\xfe\n' + line('b')
  )
  index = opened(tmp_path)
  index.refresh()
  assert ids(index) == ['a', 'b']
  (row,) = index.query('SELECT broken, lines FROM files')
  assert tuple(row) == (2, 5)
  assert [x['line'] for x in index.query('SELECT line FROM episodes')] == [0, 4]


def test_keys_in_another_order_and_unknown_ones(tmp_path, opened):
  path = runs.write(tmp_path, episodes=[])
  record = json.loads(line('a')) | {'later': {'"tokens": [': 1}}
  backwards = dict(sorted(record.items(), reverse=True)) | {'sample': 3}
  torn_key = json.loads(line('b'))
  torn_key['turns'][0]['observation'] = 'x, "tokens": [1'
  torn_key.pop('tokens')
  path.write_text(f'{json.dumps(backwards)}\n{json.dumps(torn_key)}\n')
  index = opened(tmp_path)
  index.refresh()
  rows = index.query('SELECT episode_id, sample, turns FROM episodes')
  assert [tuple(row) for row in rows] == [('a', 3, 3), ('b', 0, 3)]


def test_links_and_hidden_folders_are_not_followed(tmp_path, opened):
  root = tmp_path / 'root'
  outside = runs.write(tmp_path / 'outside')
  inside = runs.write(root)
  (root / 'linked').symlink_to(tmp_path / 'outside')
  inside.with_name('000001.jsonl').symlink_to(outside)
  runs.write(root / '.hidden')
  index = opened(root)
  index.refresh()
  assert len(ids(index)) == 4


def test_a_file_that_cannot_be_read_keeps_nothing_else_back(tmp_path, opened):
  path = runs.write(tmp_path)
  # Root may read everything, but not a folder as a file.
  index = opened(tmp_path)
  jobs = [Job(str(path.parent)), Job(str(path)), Job(str(path) + '.gone')]
  pieces = dict(readers.pieces(jobs, 1))
  assert 'directory' in pieces[0].problem
  assert len(pieces[1].rows) == 4
  assert pieces[2].job is None and not pieces[2].problem
  index.refresh()
  assert len(ids(index)) == 4


def test_an_index_of_another_kind_is_made_again(tmp_path, opened):
  runs.write(tmp_path)
  name = tmp_path / '.agentrl-viewer.sqlite'
  name.write_bytes(b'no database' * 1000)
  index = opened(tmp_path)
  index.refresh()
  assert len(ids(index)) == 4
  index.close()
  with sqlite3.connect(name) as connection:
    connection.execute('PRAGMA user_version = 99')
    connection.execute('DROP TABLE files')
  connection.close()
  index = opened(tmp_path)
  index.refresh()
  assert len(ids(index)) == 4


def test_it_is_kept(tmp_path, opened):
  runs.write(tmp_path)
  first = opened(tmp_path)
  first.refresh()
  first.close()
  again = opened(tmp_path)
  assert len(ids(again)) == 4
  again.refresh()
  assert len(ids(again)) == 4


def test_one_process_at_a_time_keeps_it_up_to_date(tmp_path, opened):
  first, second = opened(tmp_path), opened(tmp_path)
  first.refresh()
  second.refresh()
  runs.write(tmp_path)
  assert first.refresh()
  assert len(ids(second)) == 4
  assert second.refresh()  # news for its pages, too
  assert not second.refresh() and not first.refresh()
  assert len(ids(second)) == 4


def test_where_the_folder_cannot_be_written(tmp_path, opened, monkeypatch):
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path / 'cache'))
  index = opened(pathlib.Path('/proc/self/fdinfo'))  # nobody writes there
  index.refresh()
  assert ids(index) == []
  assert len(list((tmp_path / 'cache/viewer').glob('*.sqlite'))) == 1


def test_processes_read_as_this_one_does(tmp_path):
  paths = [
      runs.write(
          tmp_path,
          file=f'episodes/train/{i:06d}.jsonl',
          episodes=[runs.episode(f'{i}-{k}', turns=k) for k in range(1, 9)],
      )
      for i in range(7)
  ]
  jobs = [Job(str(path)) for path in paths]

  def read(size):
    pieces = dict(readers.pieces(jobs, size))
    for piece in pieces.values():  # their order is a process's own
      piece.words = [set(words.split()) for words in piece.words]
    return pieces

  here = read(1)
  assert here == read(2**40) and len(here) == 7


def test_a_large_file_comes_in_pieces(tmp_path, opened, monkeypatch):
  monkeypatch.setattr(scan, '_PIECE_BYTES', 3000)
  path = runs.write(
      tmp_path, episodes=[runs.episode(f'e{i}') for i in range(20)]
  )
  pieces = [piece for _, piece in readers.pieces([Job(str(path))], 1)]
  assert (
      len(pieces) > 5
      and [piece.more for piece in pieces[:-1]].count(False) == 0
  )
  index = opened(tmp_path)
  index.refresh()
  assert ids(index) == [f'e{i}' for i in range(20)]
  assert not index.refresh()


EPISODES = st.lists(
    st.sampled_from([line('a'), line('b'), b'\n', b'broken\n']), max_size=6
)


@hypothesis.settings(max_examples=12)
@hypothesis.given(EPISODES, EPISODES, st.integers(0, 2000))
def test_a_file_read_in_parts_is_as_one_read_at_once(before, after, cut):
  whole = b''.join(before + after)
  cut = min(cut, len(whole))
  with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    path = runs.write(root, episodes=[])
    parts = Index(root)
    try:
      path.write_bytes(whole[:cut])
      parts.refresh()
      with path.open('ab') as file:
        file.write(whole[cut:])
      os.utime(path, ns=(1, 1))  # the clock may be too coarse for both
      parts.refresh()
      columns = 'line, offset, length, episode_id'
      sql = f'SELECT {columns} FROM episodes ORDER BY line'
      rows = [tuple(row) for row in parts.query(sql)]
      (counts,) = parts.query('SELECT broken, lines, read FROM files')
    finally:
      parts.close()
    piece = scan.read(Job(str(path)))
    expected = [
        tuple(
            dict(zip(scan.COLUMNS, row, strict=True))[x]
            for x in columns.split(', ')
        )
        for row in piece.rows
    ]
    assert rows == expected
    assert tuple(counts) == (piece.broken, piece.job.lines, piece.job.read)


def test_columns_and_rows_agree():
  row, _ = scan.of_line(line('a'), 0, 0)
  assert len(row) == len(scan.COLUMNS)
  named = dict(zip(scan.COLUMNS, row, strict=True))
  made = dataclasses.asdict(runs.episode('a'))
  for name in ('episode_id', 'env', 'split', 'stop_reason', 'seed', 'horizon'):
    assert named[name] == made[name]
