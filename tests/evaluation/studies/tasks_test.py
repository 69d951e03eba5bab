"""Tests for agentrl.evaluation.studies.tasks."""

from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.studies import tasks
from agentrl.evaluation.studies.tasks import Total
from tests.evaluation import recording


def test_the_hardest_come_first_and_ties_by_number():
  totals = [
      Total(7, '', 4, 2, 2, 1),
      Total(3, '', 4, 0, 2, 0),
      Total(9, '', 2, 1, 0, 0),
      Total(5, '', 1, 1, 1, 1),
  ]
  keys = lambda order: [total.key for total in tasks.ordered(totals, order)]
  assert keys('hardest') == [3, 7, 9, 5]
  assert keys('easiest') == [5, 7, 9, 3]
  assert keys('task') == [3, 5, 7, 9]


def test_a_task_is_failed_by_all_or_lost_by_the_last():
  assert Total(1, '', 3, 0, 1, 0).failed_by_all
  assert not Total(1, '', 0, 0, 0, 0).failed_by_all
  assert Total(1, '', 3, 1, 1, 0).lost
  assert not Total(1, '', 3, 1, 0, 0).lost  # the last has not played it
  assert not Total(1, '', 3, 0, 1, 0).lost


def test_a_frame_counts_valid_episodes_of_all_runs():
  alone = recording.side([[1, 0], [0, 0], [1, None]], label='alone')
  first = recording.side([[1, 1], [0, 0], [0, 0]]).runs[0]
  second = recording.side([[1, 0], [0, None], [None, None]]).runs[0]
  rows = list(tasks.frame([alone, Side('arm', [first, second])]))
  assert [
      (x['task'], x['column'], x['solved'], x['n'], x['failed_by_all'])
      for x in rows
  ] == [
      (1, 'alone', 0, 2, True),
      (1, 'arm', 0, 3, True),
      (2, 'alone', 1, 1, False),
      (2, 'arm', 0, 2, False),
      (0, 'alone', 1, 2, False),
      (0, 'arm', 3, 4, False),
  ]
  assert rows[-1]['success'] == 0.75 and rows[0]['env'] == 'textcraft'
