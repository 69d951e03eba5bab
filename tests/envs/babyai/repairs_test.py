"""Tests for agentrl.envs.babyai.repairs: what minigrid gets wrong, and we not."""

import pytest
from minigrid.core.world_object import Ball
from minigrid.envs.babyai.core.roomgrid_level import RejectSampling

from agentrl.envs.babyai import levels, reach, repairs
from agentrl.envs.babyai.env import BabyAI


def task(level, seed):
  return seed * 40 + levels.NAMES.index(level)


def as_minigrid_has_it(level, seed):
  return levels._lay_out(levels.load(), level, seed)


def solve(task_id):
  """The expert's last result and all primitives of its episode."""
  env = BabyAI()
  env.reset(task_id, 0)
  while True:
    result = env.step(env.expert_action())
    if result.terminated or result.truncated:
      return result, env._taken


@pytest.mark.parametrize('seed', [0, 1])
def test_two_doors_in_order_can_be_opened_here_and_not_in_minigrid(seed):
  result, primitives = solve(task('OpenDoorsOrderN4Debug', seed))
  assert result.success
  original = as_minigrid_has_it('OpenDoorsOrderN4Debug', seed)
  assert original.mission.count('door') == 2
  rewards, ends = zip(*(original.step(x)[1:3] for x in primitives), strict=True)
  # It fails with the first door, which is the right one.
  first = ends.index(True)
  assert first < len(ends) - 1 and primitives[first] == 5
  assert rewards[first] == 0


def test_the_other_door_first_still_fails():
  grid = levels.build(task('OpenDoorsOrderN4Debug', 0))
  second = grid.instrs.instr_b.desc.obj_set[0]
  # Stand before it in the middle one of 3 by 3 rooms, of 4 by 4 cells.
  x, y = second.cur_pos
  for direction, (dx, dy) in enumerate([(1, 0), (0, 1), (-1, 0), (0, -1)]):
    if x - dx in range(6, 10) and y - dy in range(6, 10):
      grid.agent_pos, grid.agent_dir = (x - dx, y - dy), direction
  assert grid.grid.get(*grid.front_pos) is second
  _, reward, terminated, _, _ = grid.step(5)
  assert terminated and reward == 0 and second.is_open


@pytest.mark.parametrize(
    'level, seed', [('GoToImpUnlock', 6), ('GoToImpUnlock', 14), ('Unlock', 63)]
)
def test_a_key_behind_its_own_door_is_laid_elsewhere(level, seed):
  original = as_minigrid_has_it(level, seed)
  assert repairs.is_impossible(original)
  assert not repairs.is_impossible(levels.build(task(level, seed)))
  assert solve(task(level, seed))[0].success


def test_what_is_in_the_hand_may_be_dropped_at_once():
  # The agent starts beside the goal, facing a free cell next to it.
  result, primitives = solve(task('PutNextS7N4Carrying', 33))
  assert result.success and primitives == [4]
  original = as_minigrid_has_it('PutNextS7N4Carrying', 33)
  assert original.step(4)[1:3] == (0, False)


@pytest.mark.parametrize('level', repairs.KEY_ELSEWHERE)
def test_tasks_that_can_be_done_stay_as_they_are(level):
  for seed in range(5):
    original = as_minigrid_has_it(level, seed)
    assert not repairs.is_impossible(original)
    mine = levels.build(task(level, seed))
    assert (mine.grid.encode() == original.grid.encode()).all()
    assert (mine.mission, mine.agent_pos) == (
        original.mission,
        original.agent_pos,
    )


def test_reaching_is_what_minigrid_means_by_it():
  verdicts = set()
  for task_id in range(0, 400, 3):
    grid = levels.build(task_id)
    for seen in range(4):
      if seen:  # wall in somebody or something
        empty = [i for i, x in enumerate(grid.grid.grid) if x is None]
        for cell in empty[seen :: 7 - seen]:
          grid.grid.grid[cell] = Ball('red')
      expected = type(grid).check_objs_reachable(grid, raise_exc=False)
      assert reach.check_objs_reachable(grid, raise_exc=False) == expected
      verdicts.add(expected)
      if not expected:
        with pytest.raises(RejectSampling, match='unreachable'):
          reach.check_objs_reachable(grid)
  assert verdicts == {True, False}
