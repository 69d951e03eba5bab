"""The share of an instruction that is done.

"Pick up a ball and go to a door, then open a box" has three parts. Minigrid
remembers which of them were done for good, in the order that the words ask for;
this reads its memory, so that progress and success are one judge's. It never
decreases. An instruction of one part is done or not: how near one came is not
told.
"""

from typing import Any


def share_done(instruction: Any) -> float:
  """Done parts / all parts, below 1 until the last action of the episode.

  Args:
    instruction: minigrid's, as `grid.instrs` has it; not yet fulfilled.
  """
  done, parts = _count(instruction, done=False)
  return done / parts


def _count(instruction: Any, *, done: bool) -> tuple[int, int]:
  """The parts that are done, and all.

  Args:
    instruction: a part, or a sequence ("and", "then", "after you") of two.
    done: whether all of it is; of a part only its sequence knows.
  """
  if not hasattr(instruction, 'instr_a'):
    return int(done), 1
  a_done, a_parts = _count(
      instruction.instr_a, done=done or instruction.a_done == 'success'
  )
  b_done, b_parts = _count(
      instruction.instr_b, done=done or instruction.b_done == 'success'
  )
  return a_done + b_done, a_parts + b_parts
