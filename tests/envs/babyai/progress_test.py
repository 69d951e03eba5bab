"""Tests for agentrl.envs.babyai.progress."""

import re

import pytest
from minigrid.envs.babyai.core import verifier

from agentrl.envs.babyai import levels, progress, repairs
from agentrl.envs.babyai.env import BabyAI


class Part(verifier.ActionInstr):
  """Done by the action that is its name."""

  def __init__(self, name):
    super().__init__()
    self.name = name

  def surface(self, env):
    return self.name

  def verify_action(self, action):
    return 'success' if action == self.name else 'continue'


def both(a, b):
  return verifier.AndInstr(Part(a), Part(b))


@pytest.mark.parametrize(
    'instruction, actions, shares',
    [
        (both('a', 'b'), 'xba', (0, 0.5)),
        (both('a', 'b'), 'aab', (0.5, 0.5)),
        (verifier.BeforeInstr(Part('a'), Part('b')), 'bbab', (0, 0, 0.5)),
        (verifier.AfterInstr(Part('a'), Part('b')), 'aaba', (0, 0, 0.5)),
        (repairs.InOrder(Part('a'), Part('b')), 'bab', (0, 0.5)),
        (
            verifier.BeforeInstr(both('a', 'b'), both('c', 'd')),
            'cbcadc',
            (0, 0.25, 0.25, 0.5, 0.75),
        ),
        (
            verifier.AfterInstr(Part('a'), both('c', 'd')),
            'adca',
            (0, 1 / 3, 2 / 3),
        ),
        (Part('a'), 'xxa', (0, 0)),
    ],
)
def test_parts_count_in_the_order_that_success_asks_for(
    instruction, actions, shares
):
  instruction.reset_verifier(None)
  said = []
  for action in actions[:-1]:
    assert instruction.verify(action) == 'continue'
    said.append(progress.share_done(instruction))
  assert said == pytest.approx(shares)
  assert instruction.verify(actions[-1]) == 'success'


def test_an_order_that_is_broken_for_good_is_not_all_done():
  instruction = verifier.BeforeInstr(Part('a'), both('c', 'd'), strict=True)
  instruction.reset_verifier(None)
  assert [instruction.verify(x) for x in 'cd'] == ['continue', 'failure']
  assert progress.share_done(instruction) < 1


@pytest.mark.parametrize('level', ['GoToSeqS5R2', 'SynthSeq', 'BossLevel'])
def test_the_expert_does_part_after_part(level):
  seen = set()
  for seed in range(6):
    env = BabyAI()
    env.reset(seed * 40 + levels.NAMES.index(level), 0)
    joints = re.findall(', then| after you | and ', env._grid.mission)
    parts = len(joints) + 1
    said, ended = [0.0], False
    while not ended:
      result = env.step(env.expert_action())
      said.append(result.progress)
      ended = result.terminated
      assert (result.progress == 1.0) == result.success
    assert said == sorted(said) and said[-1] == 1.0
    counts = [share * parts for share in said]
    assert counts == pytest.approx([round(count) for count in counts])
    # Each part is a turn of its own, but for those that one action fulfils.
    assert len(set(said)) > 2 or parts <= 2
    seen.update(joints)
  assert len(seen) >= 2


def test_what_is_not_understood_repeats_the_progress():
  env = BabyAI()
  env.reset(levels.NAMES.index('GoToSeqS5R2'), 0)
  assert env.step('dance').progress == 0.0
