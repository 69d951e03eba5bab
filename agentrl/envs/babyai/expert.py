"""The expert: minigrid's bot, mended and put into text actions.

As it comes, the bot cannot start with the object in its hand that it shall put
somewhere (PutNextS7N4Carrying: it looks for it on the floor), finds no key in a
box (KeyInBox: it takes for granted that keys lie open), and never ends where it
looks for the key of a locked door behind that same door (UnlockToUnlock).
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from minigrid.envs.babyai.core import verifier
from minigrid.utils import baby_ai_bot

from agentrl.envs.babyai import levels, view
from agentrl.envs.babyai.view import View
from agentrl.errors import EnvError

# The bot may replan for ever on unforeseen layouts. Where it ends, one step was
# never seen to take ten searches.
_MAX_SEARCHES = 200


class _NoPlan(Exception):
  """The bot searches without end, or for what is not there."""


class _Explore(baby_ai_bot.ExploreSubgoal):
  """Exploring that does not look for a key behind the door that it opens.

  Minigrid's bot takes the nearest closed door. Where that one is locked and its
  key not yet seen, it explores to find the key, and comes to the same door.
  """

  def replan_before_action(self):
    targets = [
        subgoal.datum
        for subgoal in self.bot.stack
        if isinstance(subgoal, baby_ai_bot.GoNextToSubgoal)
    ]
    hidden = [
        door
        for door in self.bot.doors()
        if door.is_locked
        and (any(door is x for x in targets) or not self.bot.has_seen_key(door))
    ]
    with self.bot.ignoring(hidden):
      return super().replan_before_action()


class _FindKey(baby_ai_bot.Subgoal):
  """Opening boxes until there is an object of a description to go to."""

  def replan_before_action(self):
    self.datum.find_matching_objs(self.bot.mission)
    if self.datum.obj_set:
      self.bot.stack.pop()
      self.bot.stack.append(baby_ai_bot.GoNextToSubgoal(self.bot, self.datum))
    elif self.fwd_cell is not None and self.fwd_cell.type == 'box':
      return self.actions.toggle
    else:
      box = baby_ai_bot.ObjDesc('box')
      box.find_matching_objs(self.bot.mission)
      if not box.obj_set:
        raise _NoPlan(f'there is no {self.datum} and no box to hold it')
      self.bot.stack.append(baby_ai_bot.GoNextToSubgoal(self.bot, box))
    return None


class _Stack(list):
  """The bot's plan, with our subgoals where minigrid's do not reach the end."""

  def append(self, subgoal: baby_ai_bot.Subgoal) -> None:
    bot, datum = subgoal.bot, subgoal.datum
    if isinstance(subgoal, baby_ai_bot.ExploreSubgoal):
      subgoal = _Explore(bot)
    elif isinstance(datum, baby_ai_bot.ObjDesc) and not datum.obj_set:
      subgoal = _FindKey(bot, datum)
    super().append(subgoal)


class _Bot(baby_ai_bot.BabyAIBot):
  """Minigrid's bot with our subgoals and a limit on its searches in a step."""

  def __init__(self, mission):
    super().__init__(mission)
    self.stack = _Stack(self.stack)
    self.prev_fwd_cell = None
    self._ignored = ()

  def replan(self, action_taken: int | None = None) -> int:
    self._last_search = self.bfs_counter + _MAX_SEARCHES
    return int(super().replan(action_taken))

  def doors(self) -> list[Any]:
    """All doors that were seen."""
    grid = self.mission.grid
    return [
        grid.get(i, j)
        for i, j in zip(*self.vis_mask.nonzero(), strict=True)
        if grid.get(i, j) is not None and grid.get(i, j).type == 'door'
    ]

  def has_seen_key(self, door: Any) -> bool:
    """True if a key of `door` was seen or is in the hand."""
    carried = self.mission.carrying
    if carried is not None and (carried.type, carried.color) == (
        'key',
        door.color,
    ):
      return True
    key = baby_ai_bot.ObjDesc('key', door.color)
    _, cells = key.find_matching_objs(self.mission)
    return any(self.vis_mask[cell] for cell in cells)

  @contextlib.contextmanager
  def ignoring(self, doors: Sequence[Any]) -> Iterator[None]:
    """Inside, searches find none of `doors`."""
    self._ignored = tuple(doors)
    try:
      yield
    finally:
      self._ignored = ()

  def _process_instr(self, instr):
    carried = self.mission.carrying
    super()._process_instr(instr)
    if isinstance(instr, verifier.PutNextInstr) and any(
        carried is x for x in instr.desc_move.obj_set
    ):
      del self.stack[-2:]  # it need not be picked up

  def _check_erroneous_box_opening(self, action):
    # Minigrid's bot gives up whatever box was opened.
    if any(self.prev_fwd_cell is x for x in _goals(self.mission.instrs)):
      super()._check_erroneous_box_opening(action)

  def _breadth_first_search(self, initial_states, accept_fn, ignore_blockers):
    if self.bfs_counter >= self._last_search:
      raise _NoPlan(f'no plan after {_MAX_SEARCHES} searches')
    ignored = self._ignored
    return super()._breadth_first_search(
        initial_states,
        lambda pos, cell: accept_fn(pos, cell)
        and not any(cell is door for door in ignored),
        ignore_blockers,
    )


def _goals(instr: verifier.Instr) -> Iterator[Any]:
  """The objects of an instruction."""
  if isinstance(instr, verifier.SeqInstr):
    yield from _goals(instr.instr_a)
    yield from _goals(instr.instr_b)
  for name in ('desc', 'desc_move', 'desc_fixed'):
    if hasattr(instr, name):
      yield from getattr(instr, name).obj_set


# Raised by the bot where it cannot handle the layout or the agent's actions.
_GIVEN_UP = (
    AssertionError,
    AttributeError,
    IndexError,
    TypeError,
    baby_ai_bot.DisappearedBoxError,
    _NoPlan,
)


class BabyAIExpert:
  """Minigrid's planning bot on a copy of the task.

  The copy takes the same primitive steps as the episode, which therefore does
  not change when the expert is asked, and costs nothing where it is not. The bot
  knows only what the agent has seen, and where each object of its instruction
  is.

  Args:
    task_id: the task that the episode plays.
    macros: whether to prefer "go to X", "pickup X" and "toggle and go through
      X" where the plan is to do just that with an object in view.
  """

  def __init__(self, task_id: int, *, macros: bool):
    self._task_id = task_id
    self._macros = macros
    self._grid = levels.build(task_id)
    self._bot = _Bot(self._grid)
    self._num_taken = 0
    self._given_up: Exception | None = None
    self._planned = self._plan(None)

  def action(self, taken: Sequence[int]) -> str:
    """The next action after the primitives `taken` since the reset.

    Raises:
      EnvError: the bot has no plan from here.
    """
    for primitive in taken[self._num_taken :]:
      self._num_taken += 1
      self._grid.step(primitive)
      if self._given_up is None:
        self._planned = self._plan(primitive)
    if self._given_up is not None:
      raise EnvError(
          f"Minigrid's bot gave up BabyAI task {self._task_id}:"
          f' {self._given_up!r}'
      )
    seen = view.look(self._grid)
    actions = view.actions(seen)
    action = self._macro(seen) if self._macros else None
    if action not in actions:
      action = self._primitive(seen)
    if action not in actions:
      raise EnvError(
          f'The expert has no plan for BabyAI task {self._task_id} after'
          f' {self._num_taken} primitive steps: it would {action!r}.'
      )
    return action

  def _plan(self, taken: int | None) -> int:
    """The primitive that the bot would do after `taken`."""
    try:
      return self._bot.replan(taken)
    except _GIVEN_UP as error:
      self._given_up = error
      return view.DONE

  def _primitive(self, seen: View) -> str:
    """The bot's next primitive step, in words."""
    facing = seen.in_front.name if seen.in_front else ''
    return {
        view.LEFT: 'turn left',
        view.RIGHT: 'turn right',
        view.FORWARD: 'move forward',
        view.PICKUP: f'pickup {facing}',
        view.DROP: 'drop',
        view.TOGGLE: 'toggle',
        view.DONE: f'go to {facing}',
    }[self._planned]

  def _macro(self, seen: View) -> str | None:
    """The macro action for the bot's plan, if its target is in view."""
    *rest, top = self._bot.stack or [None]
    if not isinstance(top, baby_ai_bot.GoNextToSubgoal) or top.reason in (
        'Explore',
        'PutNext',
    ):
      return None
    if isinstance(top.datum, baby_ai_bot.ObjDesc):
      target, _ = self._bot._find_obj_pos(top.datum)  # as the bot itself asks
    elif isinstance(top.datum, baby_ai_bot.WorldObj):
      target = top.datum
    else:
      target = self._grid.grid.get(*top.datum)
    thing = next((x for x in seen.things if x.object is target), None)
    if thing is None:
      return None
    if rest and isinstance(rest[-1], baby_ai_bot.PickupSubgoal):
      return f'pickup {thing.name}'
    if rest and isinstance(rest[-1], baby_ai_bot.OpenSubgoal):
      return f'toggle and go through {thing.name}'
    return f'go to {thing.name}'
