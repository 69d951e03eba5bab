"""Tests of filters: SQL finds what a plain reading of them finds."""

import pytest

from agentrl.errors import DataError
from agentrl.viewer import filters
from agentrl.viewer.index import Index
from tests.viewer import runs

ENVS = ('babyai', 'textcraft')
STOPS = ('terminated', 'horizon', 'context')


def made(i):
  turns = tuple(
      runs.turn(
          k,
          action=f'go {k}',
          observation=f'Door {i}, red-ish {"lamp" if i % 3 else "Übung"}.',
          parse_error='none' if (i + k) % 5 == 0 else None,
          reward=(i % 4) / 4 if k == i % 3 else 0.0,
      )
      for k in range(1 + i % 4)
  )
  return runs.episode(
      f'e{i}',
      made=turns,
      env=ENVS[i % 2],
      task_id=i % 6,
      sample=i // 6,
      success=i % 4 == 3,
      stop_reason=STOPS[i % 3],
  )


@pytest.fixture(scope='module')
def index(tmp_path_factory):
  root = tmp_path_factory.mktemp('runs')
  for run in ('a', 'b'):
    for step in (0, 3):
      first = 20 * (run == 'b') + 10 * (step == 3)
      runs.write(
          root,
          run,
          f'episodes/train/{step:06d}.jsonl',
          [made(i) for i in range(first, first + 10)],
      )
  found = Index(root)
  found.refresh()
  yield found
  found.close()


def select(index, sort='', without='', **query):
  where = filters.where(query, without=without)
  rows = index.query(
      'SELECT * FROM episodes JOIN files USING (file_id)'
      f' WHERE {where.sql} ORDER BY {filters.order(sort)}',
      where.values,
  )
  return [int(row['episode_id'][1:]) for row in rows]


def brute(condition):
  return {i for i in range(40) if condition(i, made(i))}


CASES = [
    ({}, lambda i, e: True),
    ({'run': 'b'}, lambda i, e: i >= 20),
    ({'run': 'b', 'step': '3'}, lambda i, e: i >= 30),
    ({'file': 'episodes/train/000000.jsonl'}, lambda i, e: i // 10 in (0, 2)),
    ({'step': '1..'}, lambda i, e: i // 10 in (1, 3)),
    ({'env': 'babyai'}, lambda i, e: e.env == 'babyai'),
    ({'stop_reason': 'context'}, lambda i, e: e.stop_reason == 'context'),
    ({'success': '1'}, lambda i, e: e.success),
    ({'success': '0', 'turns': '4'}, lambda i, e: len(e.turns) == 4 and not e.success),
    ({'return': '0.25..0.5'}, lambda i, e: 0.25 <= e.episode_return <= 0.5),
    ({'return': '0.25..<0.5'}, lambda i, e: e.episode_return == 0.25),
    ({'return': '..0.25'}, lambda i, e: e.episode_return <= 0.25),
    ({'return': '..<0.25'}, lambda i, e: e.episode_return < 0.25),
    ({'return': '-1..1e0'}, lambda i, e: True),
    ({'parse_errors': '1..'}, lambda i, e: any(t.parse_error for t in e.turns)),
    ({'first_reward': 'none'}, lambda i, e: not e.episode_return),
    ({'first_reward': '1..'}, lambda i, e: e.episode_return > 0),
    ({'first_reward': '..'}, lambda i, e: e.episode_return > 0),
    ({'q': 'LAMP'}, lambda i, e: i % 3 != 0),
    ({'q': 'la do'}, lambda i, e: i % 3 != 0),  # beginnings of words
    ({'q': 'ubung'}, lambda i, e: i % 3 == 0),
    ({'q': 'red-ish'}, lambda i, e: True),
    ({'q': 'sh'}, lambda i, e: False),
    ({'q': '17'}, lambda i, e: i == 17),
    ({'q': '"* OR ('}, lambda i, e: False),  # a word "or", no syntax
    ({'q': 'lamp', 'env': 'babyai', 'turns': '2..3'},
     lambda i, e: i % 3 != 0 and i % 2 == 0 and i % 4 in (1, 2)),
    ({'unknown': 'x', 'env': ''}, lambda i, e: True),
]  # fmt: skip


@pytest.mark.parametrize('query, condition', CASES)
def test_a_filter(index, query, condition):
  found = select(index, **query)
  assert len(found) == len(set(found))
  assert set(found) == brute(condition)


def test_a_column_can_be_left_out(index):
  assert set(
      select(index, without='return', **{'return': '5', 'env': 'babyai'})
  ) == {i for i in range(40) if i % 2 == 0}


def test_orders(index):
  newest = [*range(30, 40), *range(20, 30), *range(10, 20), *range(10)]
  assert select(index) == newest
  values = [made(i).episode_return for i in select(index, sort='-return')]
  assert values == sorted(values, reverse=True)
  rows = select(index, sort='first_reward')
  missing = [made(i).episode_return == 0 for i in rows]
  assert missing == sorted(missing)  # None is last
  assert [i // 10 in (1, 3) for i in select(index, sort='step')] == [
      False
  ] * 20 + [True] * 20


@pytest.mark.parametrize(
    'query',
    [{'step': 'x'}, {'return': '1..y'}, {'turns': '1;DROP TABLE episodes'}],
)
def test_what_is_no_number_is_refused(query):
  with pytest.raises(DataError, match='no number and no range'):
    filters.where(query)


def test_an_unknown_order_is_refused():
  with pytest.raises(DataError, match='not sorted by'):
    filters.order('1; DROP TABLE episodes')
