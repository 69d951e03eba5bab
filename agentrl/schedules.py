"""Schedules of the horizon: the most turns that an episode may take.

ScalingInter-RL (AgentGym-RL, arXiv:2509.08755) lets the horizon grow: short
episodes first, to learn to exploit what is near, longer ones later, to explore
without collapse.

A schedule is a pair of pure functions, as an optimizer is in optax: its state
is checkpointed, so a resume can neither advance twice nor stand still.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl import plugins
from agentrl.errors import ConfigError
from agentrl.types import Turns


class Horizon(NamedTuple):
  """`update(state, step, stats) -> (state, turns)` for rl step `step`, from 0.

  `stats` are the metrics of the step before, none for the first, and of an
  evaluation since then. `turns` are the most that an episode may take, or
  `Turns`, of which each episode draws its own. A state is made of JSON values.

  `present(state)` are the turns of the present stage, for a schedule that counts
  `rollout/...` metrics of episodes with these turns alone. A run that plays ahead
  trains on the stage before for some steps more: `update` is given no
  `rollout/...` metric of such a collection. None: it is given those of all.
  """

  init: Callable[[], Any]
  update: Callable[[Any, int, Mapping[str, float]], tuple[Any, int | Turns]]
  name: str  # what a person calls it
  present: Callable[[Any], int] | None = None

  def __repr__(self):
    return self.name


def fixed(turns: int) -> Horizon:
  """A constant number of turns."""
  return Horizon(
      init=lambda: None,
      update=lambda state, step, stats: (state, turns),
      name=f'fixed({turns})',
  )


def stepwise(turns: Sequence[int], every: int) -> Horizon:
  """`turns[0]` for `every` steps, then `turns[1]`, ..., then the last for good.

  With every=100: steps 0 to 99 use turns[0], 100 to 199 turns[1]. Needs no
  state: the stage follows from the step alone.
  """
  turns = tuple(turns)
  if every < 1:
    raise ValueError(f'A stage lasts at least 1 step, got every={every}.')
  return Horizon(
      init=lambda: None,
      update=lambda state, step, stats: (
          state,
          turns[min(step // every, len(turns) - 1)],
      ),
      name=f'stepwise({turns}, every={every})',
  )


def linear(turns: Sequence[int], every: int) -> Horizon:
  """From each of `turns` to the next in `every` steps, rounded down.

  With turns=(3, 6), every=30: 3 at step 0, 4 from step 10, 5 from step 20, 6
  from step 30 on.
  """
  turns = tuple(turns)
  if every < 1:
    raise ValueError(f'A stage lasts at least 1 step, got every={every}.')

  def update(state, step, stats):
    del stats
    stage, rest = divmod(step, every)
    if stage >= len(turns) - 1:
      return state, turns[-1]
    low, high = turns[stage : stage + 2]
    return state, low + (high - low) * rest // every

  return Horizon(
      init=lambda: None, update=update, name=f'linear({turns}, every={every})'
  )


def gated(
    turns: Sequence[int], metric: str, *, threshold: float, window: int
) -> Horizon:
  """The next of `turns` once the mean of `metric` at this one is high enough.

  The mean is over the last `window` values at the present horizon; a step
  without one (no valid episode, no evaluation) is left out. `{turns}` in the
  metric's name stands for the present horizon. The state is the stage and those
  values.
  """
  turns = tuple(turns)
  if window < 1:
    raise ValueError(f'A mean needs at least 1 value, got window={window}.')

  def update(state, step, stats):
    del step
    stage, seen = state
    value = stats.get(metric.format(turns=turns[stage]))
    if value is not None:
      seen = [*seen, value][-window:]
    if len(seen) == window and sum(seen) / window >= threshold:
      stage, seen = min(stage + 1, len(turns) - 1), []
    return [stage, seen], turns[stage]

  return Horizon(
      init=lambda: [0, []],
      update=update,
      name=f'gated({turns}, mean of {window} {metric} >= {threshold:g})',
      present=lambda state: turns[state[0]],
  )


def token_budget(turns: Sequence[int], tokens: float) -> Horizon:
  """The next of `turns` once `tokens` were sampled at this one.

  Stages of equal cost instead of equal length: what they learn can be compared
  at equal tokens. The state is the stage and the tokens that it has sampled.
  """
  turns = tuple(turns)
  if not tokens > 0:
    raise ValueError(f'A stage samples some tokens, got tokens={tokens}.')

  def update(state, step, stats):
    del step
    stage, spent = state
    spent += stats.get(SAMPLED_TOKENS, 0.0)
    if spent >= tokens:
      stage, spent = min(stage + 1, len(turns) - 1), 0.0
    return [stage, spent], turns[stage]

  return Horizon(
      init=lambda: [0, 0.0],
      update=update,
      name=f'token_budget({turns}, tokens={tokens:g})',
  )


def random(turns: Sequence[int]) -> Horizon:
  """For each episode its own horizon, uniform from turns[0] to turns[-1].

  A control for the other schedules: the same range, in no order. Episodes of a
  group have different horizons, drawn by their seeds. The draw is independent
  of the policy, as chance in an environment is, so a group's baseline is as
  unbiased as before. But returns now differ by the luck of the draw as well:
  advantages are noisier, and where they are divided by the group's deviation,
  smaller.
  """
  turns = Turns(turns[0], turns[-1])
  return Horizon(
      init=lambda: None,
      update=lambda state, step, stats: (state, turns),
      name=f'random({turns.low} to {turns.high})',
  )


# Success that the schedule 'success' follows, by `horizon.metric`. Evaluations
# play `eval.horizon` turns; success at this stage's is what they solve in those.
SUCCESS = {
    'rollout': 'rollout/success',
    'eval': 'eval/success_within_{turns}',
    'eval_small': 'eval_small/success_within_{turns}',
}
# Other metrics of `rollout.collect` that schedules follow.
CUT_LEARNING = 'rollout/cut_share_untied'
SAMPLED_TOKENS = 'rollout/completion_tokens'

# By the name that configs use: from the fields of `config.horizon`.
HORIZONS: dict[str, Callable[[Any], Horizon]] = {
    'fixed': lambda o: fixed(o.turns[0]),
    'stepwise': lambda o: stepwise(o.turns, o.every),
    'linear': lambda o: linear(o.turns, o.every),
    # Longer once this horizon is mastered.
    'success': lambda o: gated(
        o.turns, SUCCESS[o.metric], threshold=o.threshold, window=o.window
    ),
    # Longer once it is what limits those tasks that something is learnt from.
    'saturation': lambda o: gated(
        o.turns, CUT_LEARNING, threshold=o.threshold, window=o.window
    ),
    'token_budget': lambda o: token_budget(o.turns, o.tokens),
    'random': lambda o: random(o.turns),
}


def make(options: Any) -> Horizon:
  """The schedule that `config.horizon` describes.

  Args:
    options: its fields; `kind` is a key of HORIZONS, or `module:NAME` of a
      function like theirs.

  Raises:
    ConfigError: there is no such schedule, or it is none.
  """
  kind = options.kind
  horizon = plugins.function(kind, HORIZONS, 'horizon.kind=')(options)
  if not isinstance(horizon, Horizon):
    raise ConfigError(
        f'{kind} gave {type(horizon).__name__}: a schedule is a function from'
        ' config.horizon to an agentrl.schedules.Horizon.'
    )
  return horizon._replace(update=_checked(horizon.update, kind))


def _checked(update: Callable, kind: str) -> Callable:
  """`update`, which refuses turns that are no number of turns."""

  def checked(state, step, stats):
    state, turns = update(state, step, stats)
    low, high = turns if isinstance(turns, Turns) else (turns, turns)
    whole = isinstance(low, int) and isinstance(high, int)
    if not (whole and 1 <= low <= high):
      raise ConfigError(
          f'{kind} allows {turns!r} turns at step {step}: a horizon is a whole'
          ' number of at least 1, or Turns(low, high) of two.'
      )
    return state, turns

  return checked
