"""Repairs of minigrid's tasks that cannot be solved.

Everything else is left as minigrid has it.
"""

from typing import Any

from minigrid.envs.babyai.core import verifier

from agentrl.envs.babyai import reach

# Levels that mean to lay the key of the locked room into another room. They
# compare the rooms' numbers by identity, which numbers drawn by NumPy never
# have, so that in some layouts the key is behind its own door.
KEY_ELSEWHERE = ('GoToImpUnlock', 'Unlock')
# Levels of two doors in an order, where opening another door fails.
STRICT_ORDER = ('OpenDoorsOrderN4Debug',)
# Levels that start with an object in the hand, of which their instruction is not
# told: to drop it by the first action counts for nothing, wherever that is.
STARTS_CARRYING = ('PutNextS7N4Carrying',)


class InOrder(verifier.BeforeInstr):
  """First one instruction, then the other, each judged on its own actions.

  Minigrid asks the second about the very action that fulfilled the first. A
  strict one finds there that another door was opened, and fails for ever.
  """

  def verify(self, action: int) -> str:
    if self.a_done == 'success':
      return self.instr_b.verify(action)
    self.a_done = self.instr_a.verify(action)
    return 'failure' if self.a_done == 'failure' else 'continue'


def is_impossible(grid: Any) -> bool:
  """True if a task of a level in KEY_ELSEWHERE cannot be done.

  Its one locked door, the keys of which are all behind it, hides every object
  of its one instruction, or is the only one.
  """
  reached = reach.reach(
      grid, lambda item: item.type != 'wall' and not _is_locked(item)
  )
  items = [
      item
      for item, here in zip(grid.grid.grid, reached, strict=True)
      if here and item is not None
  ]
  locked = {x.color for x in items if _is_locked(x)}
  keys = {x.color for x in items if x.type == 'key'}
  return not locked <= keys and not any(
      any(item is goal for item in items) and not _is_locked(goal)
      for goal in grid.instrs.desc.obj_set
  )


def mend_hand(grid: Any) -> None:
  """Tells an instruction what is in the hand."""
  grid.instrs.preCarrying = grid.carrying


def mend_order(grid: Any) -> None:
  """Makes a strict sequence of instructions one that can be followed."""
  instr = grid.instrs
  if isinstance(instr, verifier.BeforeInstr):
    grid.instrs = InOrder(instr.instr_a, instr.instr_b)
  elif isinstance(instr, verifier.AfterInstr):
    grid.instrs = InOrder(instr.instr_b, instr.instr_a)
  grid.instrs.reset_verifier(grid)


def _is_locked(item: Any) -> bool:
  return item.type == 'door' and item.is_locked
