"""Rewards of one's own: a function of a whole episode, in place of the environment's."""

import dataclasses
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence

from agentrl import plugins, types
from agentrl.errors import AgentrlError, ConfigError, EngineError
from agentrl.rollout.collect import Assignment, Play
from agentrl.types import Episode

_WHAT = 'rollout.reward='

# The rewards of the turns, or one of the whole episode, which its last turn that is
# learnt from gets. May be a coroutine, as of a judge that is asked elsewhere.
Rewards = float | Sequence[float]
Reward = Callable[[Episode], Rewards | Awaitable[Rewards]]


def find(name: str) -> Reward:
  """One's own reward: `module:NAME`, `FILE.py:NAME`.

  Raises:
    ConfigError: there is none.
  """
  return plugins.function(name, {}, _WHAT)


def rewarded(play: Play, name: str) -> Play:
  """Plays as `play`, and rewards turns as one's own function says.

  Success stays the environment's word, and so do evaluations. What the
  environment gave is kept beside as `Turn.env_reward`. An `EngineError` of the
  function, which a judge that does not answer is, fails the episode: it is
  played again or dropped and counted, and is never a reward of 0.

  Args:
    play: gives episodes with the environment's rewards.
    name: as `find` has it.

  Raises:
    ConfigError: there is no such function; while playing: it fails, or gives
      what are no rewards of the episode.
  """
  reward = find(name)

  async def play_rewarded(assignment: Assignment) -> Episode:
    episode = await play(assignment)
    if not episode.valid:
      return episode
    try:
      given = reward(episode)
      if inspect.isawaitable(given):
        given = await given
    except EngineError as error:
      return dataclasses.replace(
          episode,
          stop_reason=types.ENGINE_ERROR,
          success=False,
          error=f'{_WHAT}{name}: {error}',
          retryable=error.retryable,
      )
    except AgentrlError:
      raise
    except Exception as error:  # of a coroutine, which `find` does not see
      raise ConfigError(f'{_WHAT}{name}: {plugins.words(error)}') from error
    values = _of_turns(episode, given, name)
    turns = tuple(
        dataclasses.replace(turn, reward=value, env_reward=turn.reward)
        for turn, value in zip(episode.turns, values, strict=True)
    )
    return dataclasses.replace(episode, turns=turns)

  return play_rewarded


def _of_turns(episode: Episode, given: object, name: str) -> list[float]:
  """A reward for each turn of an episode, from what a function gave."""
  turns = episode.turns
  if isinstance(given, (int, float)):
    last = max(i for i, turn in enumerate(turns) if turn.learn)
    values = [0.0] * len(turns)
    values[last] = float(given)
  else:
    try:
      values = [float(x) for x in given]  # type: ignore[attr-defined]  # checked here
    except (TypeError, ValueError) as error:
      raise ConfigError(
          f'{_WHAT}{name} gives {given!r:.80}: give a number, or one for each'
          ' turn.'
      ) from error
  if len(values) != len(turns):
    raise ConfigError(
        f'{_WHAT}{name} gives {len(values)} rewards for {len(turns)} turns.'
    )
  for value, turn in zip(values, turns, strict=True):
    if not math.isfinite(value):
      raise ConfigError(f'{_WHAT}{name} gives {value}, which is no reward.')
    if value and not turn.learn:
      raise ConfigError(
          f'{_WHAT}{name} rewards a turn that is not learnt from'
          f' (kind {turn.kind!r}): give it 0.'
      )
  return values
