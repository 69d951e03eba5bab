"""Tests for agentrl.envs.babyai.view, with minigrid as the oracle."""

import random

import pytest
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Door, Key, Wall

from agentrl.envs.babyai import levels, text, view


def walls_around(grid, things):
  """Empties `grid`'s world, walls it in and places `{(x, y): thing}`."""
  grid.grid = Grid(grid.width, grid.height)
  grid.grid.wall_rect(0, 0, grid.width, grid.height)
  for cell, thing in things.items():
    grid.grid.set(*cell, thing)
  return grid


@pytest.fixture
def room():
  """An agent at (3, 4) facing right in an 8 by 8 room."""

  def build(things, carrying=None):
    grid = walls_around(levels.build(0), things)
    grid.agent_pos, grid.agent_dir, grid.carrying = (3, 4), 0, carrying
    return grid

  return build


@pytest.mark.parametrize('level', ['BossLevel', 'Unlock', 'KeyCorridorS6R3'])
def test_a_look_sees_what_minigrid_sees(level):
  rng = random.Random(0)
  grid = levels.build(levels.NAMES.index(level))
  for _ in range(60):
    seen, mask = grid.gen_obs_grid()
    size = grid.agent_view_size
    expected = {
        (column - size // 2, size - 1 - row): seen.get(column, row)
        for row in range(size)
        for column in range(size)
        if mask[column, row]
        and seen.get(column, row) is not None
        and seen.get(column, row).type not in ('wall', 'floor')
        and (column - size // 2, size - 1 - row) != (0, 0)
    }
    found = view.look(grid)
    assert {x.cell: x.object for x in found.things} == expected
    grid.step(rng.choice((view.LEFT, view.RIGHT, *[view.FORWARD] * 3, 3, 4, 5)))


def test_names_count_equal_things_from_the_nearest(room):
  grid = room({(6, 4): Ball('red'), (4, 5): Ball('red'), (4, 2): Key('red')})
  things = view.look(grid).things
  assert [(x.name, x.cell) for x in things] == [
      ('red ball 1', (1, 1)),
      ('red ball 2', (0, 3)),
      ('red key 1', (-2, 1)),
  ]


def test_offsets_are_in_the_agents_own_frame(room):
  grid = room({(5, 5): Ball('red')})
  for direction, cell in ((0, (1, 2)), (1, (-2, 1))):
    grid.agent_dir = direction
    (ball,) = view.look(grid).things
    assert ball.cell == cell
  grid.agent_dir = 2  # it is behind now
  assert view.look(grid).things == ()


def test_going_somewhere_is_a_shortest_walk_that_ends_facing_it(room):
  grid = room({(5, 6): Ball('red')})
  path = view.actions(view.look(grid))['go to red ball 1']
  # Two ahead, turn right, one ahead: no way is shorter.
  assert path == (view.FORWARD, view.FORWARD, view.RIGHT, view.FORWARD)
  for primitive in path:
    grid.step(primitive)
  assert view.look(grid).in_front.name == 'red ball 1'


def test_a_walk_goes_around_things_and_is_not_offered_where_there_is_none(room):
  grid = room({(4, 4): Ball('blue'), (5, 4): Ball('red')})
  actions = view.actions(view.look(grid))
  assert 'move forward' not in actions
  assert actions['go to blue ball 1'] == (view.DONE,)  # faced already
  # Up or down, past the blue one, and back: three cells and three turns.
  assert len(actions['go to red ball 1']) == 6

  shut_in = {(4, 4): Ball('blue'), (3, 3): Wall(), (3, 5): Wall()}
  grid = room(shut_in | {(5, 4): Ball('red')})
  assert 'go to red ball 1' not in view.actions(view.look(grid))


def test_hands_decide_between_pickup_and_drop(room):
  things = {(5, 4): Ball('red')}
  empty = view.actions(view.look(room(things)))
  assert empty['pickup red ball 1'] == (view.FORWARD, view.PICKUP)
  assert 'drop' not in empty
  full = view.actions(view.look(room(things, carrying=Key('blue'))))
  assert 'pickup red ball 1' not in full and full['drop'] == (view.DROP,)
  blocked = room({(4, 4): Ball('red')}, carrying=Key('blue'))
  assert 'drop' not in view.actions(view.look(blocked))


def test_a_locked_door_wants_the_key_of_its_colour(room):
  door = {(5, 4): Door('red', is_locked=True)}
  action = 'toggle and go through red locked door 1'
  assert action not in view.actions(view.look(room(door)))
  assert action not in view.actions(view.look(room(door, Key('blue'))))
  assert view.actions(view.look(room(door, Key('red'))))[action] == (
      view.FORWARD,
      view.TOGGLE,
      view.FORWARD,
  )


def test_doors_change_their_name_and_what_one_does_with_them(room):
  closed = view.actions(view.look(room({(4, 4): Door('red')})))
  assert closed['toggle and go through red closed door 1'] == (
      view.TOGGLE,
      view.FORWARD,
  )
  assert closed['toggle'] == (view.TOGGLE,)
  opened = view.actions(view.look(room({(4, 4): Door('red', is_open=True)})))
  assert opened['go through red open door 1'] == (view.FORWARD,)
  assert 'toggle and go through red open door 1' not in opened


def test_a_view_in_words(room):
  grid = room({(5, 3): Ball('red'), (3, 6): Key('blue')}, carrying=Key('grey'))
  seen = view.look(grid)
  assert text.describe(seen, 'full') == (
      'You see: a blue key 1, 2 steps to your right; a red ball 1, 2 steps in'
      ' front of you and 1 step to your left. A wall is 4 steps in front of'
      ' you. You are carrying a grey key.'
  )
  assert text.describe(seen, 'compact') == (
      'blue key 1 right 2\nred ball 1 front 2 left 1\nwall front 4\ncarrying'
      ' grey key'
  )


@pytest.mark.parametrize(
    'said, meant',
    [
        ('pick up red ball 1', 'pickup red ball 1'),
        (' Pick Up  the Red Ball 1. ', 'pickup red ball 1'),
        ('go to the red ball 1', 'go to red ball 1'),
        ('turn left', 'turn left'),
        ('upickup', 'upickup'),
    ],
)
def test_actions_are_read_kindly(said, meant):
  assert text.normalise(said) == meant
