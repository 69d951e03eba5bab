"""The expert: minigrid's bot, put into text actions."""

from collections.abc import Sequence

from minigrid.utils import baby_ai_bot

from agentrl.envs.babyai import levels, view
from agentrl.envs.babyai.view import View
from agentrl.errors import EnvError

# On some layouts with two locked doors the bot replans for ever. Where it ends,
# one step was never seen to take ten searches.
_MAX_SEARCHES = 200


class _Endless(Exception):
  """The bot searches without end."""


class _Bot(baby_ai_bot.BabyAIBot):
  """Minigrid's bot with a limit on its searches between two steps."""

  def replan(self, action_taken: int | None = None) -> int:
    self._last_search = self.bfs_counter + _MAX_SEARCHES
    return int(super().replan(action_taken))

  def _breadth_first_search(self, *args, **kwargs):
    if self.bfs_counter >= self._last_search:
      raise _Endless(f'no plan after {_MAX_SEARCHES} searches')
    return super()._breadth_first_search(*args, **kwargs)


# How the bot fails where the layout, or what the agent did, is beyond it.
_GIVEN_UP = (
    AssertionError,
    AttributeError,
    IndexError,
    TypeError,
    baby_ai_bot.DisappearedBoxError,
    _Endless,
)


class Expert:
  """Minigrid's planning bot on a copy of the task.

  The copy takes the same primitive steps as the episode, which therefore cannot
  be touched by asking, and which pays nothing where nobody asks. The bot knows
  only what the agent has seen, plus where each object of its instruction is.

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
    known = view.actions(seen)
    action = self._macro(seen) if self._macros else None
    if action not in known:
      action = self._primitive(seen)
    if action not in known:
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
