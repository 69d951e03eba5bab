"""Tests for agentrl.viewer.groups."""

import numpy as np
from hypothesis import given, strategies as st

from agentrl.data import episodes as episodes_lib
from agentrl.viewer import groups, learned, record
from tests.viewer import runs


def column(actions, answers=None):
  return [
      runs.turn(i, action=action, observation=(answers or {}).get(i, action))
      for i, action in enumerate(actions)
  ]


def test_the_first_difference_is_where_actions_part():
  cells = groups.align([column('abc'), column('abd'), column('ab')])
  assert groups.first_difference(cells) == 2
  assert [x['branch'] for x in cells[0]] == [0, 0, 0]
  assert [x['branch'] for x in cells[1]] == [0, 0, 1]
  assert not any(x['strange'] for c in cells for x in c)


def test_equal_episodes_have_none():
  assert groups.first_difference(groups.align([column('ab')] * 3)) is None
  assert groups.first_difference(groups.align([column('ab')])) is None


def test_branches_part_again_and_never_join():
  cells = groups.align(
      [column('aax'), column('abx'), column('abx'), column('aby')]
  )
  assert [[x['branch'] for x in c] for c in cells] == [
      [0, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 2]
  ]  # fmt: skip


def test_one_history_that_is_answered_differently_is_strange():
  cells = groups.align([column('ab'), column('ab', {1: 'other'})])
  assert [x['strange'] for x in cells[0]] == [False, True]
  assert groups.first_difference(cells) is None


def test_without_an_action_the_completion_counts():
  mute = lambda words: [
      runs.turn(0, parse_error='?', action='', completion=words)
  ]
  assert groups.first_difference(groups.align([mute('x'), mute('y')])) == 0
  assert groups.first_difference(groups.align([mute('x'), mute('x')])) is None


@given(st.lists(st.text('ab', max_size=4), min_size=1, max_size=5))
def test_members_share_a_branch_exactly_while_their_actions_are_equal(
    histories,
):
  cells = groups.align([column(x) for x in histories])
  for i, one in enumerate(histories):
    assert len(cells[i]) == len(one)
    for j, other in enumerate(histories):
      for turn in range(min(len(one), len(other))):
        same = one[: turn + 1] == other[: turn + 1]
        assert same == (cells[i][turn]['branch'] == cells[j][turn]['branch'])


def test_advantages_are_those_of_the_turns():
  episode = runs.episode('train-0-0-0')
  decoded = record.decode(episodes_lib.to_line(episode).encode())
  values = np.zeros((1, 16), np.float32)
  values[0, 3:5], values[0, 9:11] = (1, 2), (-4, -4)
  found = groups.beside([decoded], [0], learned.Learned({'advantages': values}))
  assert [x['advantage'] for x in found['cells'][0]] == [1.5, 0, -4]
  assert 'advantage' not in groups.beside([decoded], [0], None)['cells'][0][0]
