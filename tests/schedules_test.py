"""Tests for agentrl.schedules."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrl import schedules


def turns_of(horizon, steps):
  """Turns at each step, the state carried through JSON as a checkpoint does."""
  state, out = horizon.init(), []
  for step in steps:
    state, turns = horizon.update(json.loads(json.dumps(state)), step, {})
    out.append(turns)
  return out


@pytest.mark.parametrize(
    'step, turns',
    [(0, 10), (99, 10), (100, 20), (199, 20), (200, 30), (299, 30),
     (300, 30), (10**6, 30)],
)  # fmt: skip
def test_stepwise_at_every_boundary(step, turns):
  horizon = schedules.stepwise((10, 20, 30), every=100)
  assert turns_of(horizon, [step]) == [turns]


@given(
    stages=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    every=st.integers(1, 7),
    killed_at=st.integers(0, 40),
)
def test_a_resume_neither_advances_twice_nor_stands_still(
    stages, every, killed_at
):
  horizon = schedules.stepwise(stages, every)
  whole = turns_of(horizon, range(40))
  resumed = turns_of(horizon, range(killed_at))
  resumed += turns_of(horizon, range(killed_at, 40))
  assert resumed == whole
  # Slow and obvious: walk through the stages, stay in the last.
  expected = [turns for turns in stages for _ in range(every)]
  expected += [stages[-1]] * 40
  assert whole == expected[:40]


def test_later_changes_of_the_stages_do_not_change_a_schedule():
  stages = [1, 2]
  horizon = schedules.stepwise(stages, every=1)
  stages[0] = 9
  assert turns_of(horizon, [0, 1, 2]) == [1, 2, 2]


def test_fixed_is_the_same_at_every_step():
  assert turns_of(schedules.fixed(7), [0, 1, 500]) == [7, 7, 7]


def test_stepwise_refuses_a_stage_without_steps():
  with pytest.raises(ValueError, match='at least 1 step, got every=0'):
    schedules.stepwise((1, 2), every=0)
