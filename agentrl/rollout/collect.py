"""Concurrent collection of episodes, in an order independent of their speed."""

import asyncio
import itertools
import re
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from absl import logging

from agentrl import types
from agentrl.errors import AgentrlError, ConfigError, EngineError, EnvError
from agentrl.rollout import seeds
from agentrl.types import Episode, Group, Turn

# Whose fault it is when too many episodes stop for this reason. A context that
# not even the first prompt fits is the only invalid episode among truncations.
_ALARMS: dict[str, type[AgentrlError]] = {
    types.ENV_ERROR: EnvError,
    types.ENGINE_ERROR: EngineError,
    types.TIMEOUT: EngineError,
    types.CONTEXT: ConfigError,
}


class Assignment(NamedTuple):
  """The episode to play."""

  ordinal: int  # position of the task in the run's task order
  task_id: int
  replica: int  # from 0, within the group
  seed: int  # of this episode; a second try gets the same one
  attempt: int = 0  # at the task, by this replica
  previous: Episode | None = None  # the attempt to learn from


Play = Callable[[Assignment], Awaitable[Episode]]


async def collect(
    tasks: Sequence[tuple[int, int]],
    group_size: int,
    play: Play,
    *,
    seed: int,
    concurrency: int,
    attempts: int = 2,
    chain: int = 1,
    retry_wait_s: float = 1.0,
    max_failed_share: float = 0.5,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Group]:
  """Plays `group_size` episodes of each task, or as many chains of attempts.

  Every chain advances on its own: as soon as one ends, the next one starts,
  reset included, without waiting for the slowest of a round.

  Args:
    tasks: (ordinal, task id) pairs.
    group_size: chains of each task.
    play: plays one episode to its record, usually by `run_episode`.
    seed: of this collection; derive it from (run seed, step).
    concurrency: most episodes at a time.
    attempts: tries of an episode that the infrastructure failed; what would
      fail alike is tried once, and each such fault logged once. After the last
      one the failed record stays in its group: invalid, and counted.
    chain: episodes of a chain. Each is given the one before to learn from, but
      not a failed one: an attempt after that one starts afresh.
    retry_wait_s: pause before the second try; grows by itself with each try.
    max_failed_share: when more than this share of all episodes is invalid,
      collecting stops at once with an error. 1 switches this off.
    on_episode: called with each final record, in the order of completion.

  Returns:
    Groups in the order of `tasks`, each with all first attempts in replica
    order, then all second ones, and so on.

  Raises:
    EnvError: too many episodes failed, the first at the environment.
    EngineError: as EnvError, the first at the inference server or the deadline.
    ConfigError: as EnvError, the first prompt not fitting the context.
    ValueError: a count is below 1.
  """
  if min(group_size, concurrency, attempts, chain) < 1:
    raise ValueError(
        'Collecting needs counts of at least 1, got'
        f' {group_size=}, {concurrency=}, {attempts=}, {chain=}.'
    )
  size = group_size * chain
  total = len(tasks) * size
  episodes: list[Episode | None] = [None] * total
  failed: list[Episode] = []
  faults: set[str] = set()  # that were logged
  waiting = iter(
      [(i, replica) for i in range(len(tasks)) for replica in range(group_size)]
  )

  async def work() -> None:
    # All workers share `waiting`, so each takes the next chain when free.
    for i, replica in waiting:
      ordinal, task_id = tasks[i]
      previous = None
      for attempt in range(chain):
        own = seeds.of_attempt(seed, ordinal, replica, attempt=attempt)
        episode = await _play_with_attempts(
            play,
            Assignment(ordinal, task_id, replica, own, attempt, previous),
            attempts,
            retry_wait_s,
        )
        episodes[i * size + attempt * group_size + replica] = episode
        previous = episode if episode.valid else None
        if on_episode is not None:
          on_episode(episode)
        if not episode.valid:
          failed.append(episode)
          if not episode.retryable:
            _log_fault(episode, faults)
          check_failures(failed, total, max_failed_share)

  try:
    async with asyncio.TaskGroup() as workers:
      for _ in range(min(concurrency, len(tasks) * group_size)):
        workers.create_task(work())
  except BaseExceptionGroup as group:
    # The first failure cancelled the other workers; it is what matters.
    raise group.exceptions[0] from None

  played = [episode for episode in episodes if episode is not None]
  assert len(played) == total  # no worker failed, so all have ended
  return [
      Group(
          task_id=task_id,
          ordinal=ordinal,
          episodes=tuple(played[i * size : (i + 1) * size]),
      )
      for i, (ordinal, task_id) in enumerate(tasks)
  ]


async def _play_with_attempts(
    play: Play, assignment: Assignment, attempts: int, retry_wait_s: float
) -> Episode:
  for attempt in range(1, attempts + 1):
    episode = await play(assignment)
    failed = episode.stop_reason in types.FAILURES
    if not (failed and episode.retryable) or attempt == attempts:
      return episode
    logging.warning(
        'Episode %s stopped with %s, attempt %d of %d: %s',
        episode.episode_id,
        episode.stop_reason,
        attempt,
        attempts,
        episode.error,
    )
    await asyncio.sleep(retry_wait_s * attempt)
  raise AssertionError('The last attempt returns.')


def _log_fault(episode: Episode, logged: set[str]) -> None:
  """Warns of a fault that a second try would meet again, once of its kind."""
  assert episode.error is not None  # every failure has its words
  kind = re.sub(r'\d+', '', episode.error)  # at another step, say
  if kind not in logged:
    logged.add(kind)
    logging.warning(
        'Episode %s stopped with %s, which is not retried: %s',
        episode.episode_id,
        episode.stop_reason,
        episode.error,
    )


def check_failures(
    episodes: Iterable[Episode], total: int, allowed: float
) -> None:
  """Refuses a collection of which too many episodes failed.

  Args:
    episodes: that have ended; valid ones do not count.
    total: of the collection.
    allowed: share of failed ones, at most.

  Raises:
    AgentrlError: as `collect`.
  """
  failed = [episode for episode in episodes if not episode.valid]
  if len(failed) <= allowed * total:
    return
  first = failed[0]
  raise _ALARMS[first.stop_reason](
      f'{len(failed)} of {total} episodes failed, so collecting stopped'
      f' (rollout.max_failed_share={allowed:g}). The first was'
      f' {first.episode_id!r} with {first.stop_reason}: {first.error}'
  )


def rollout_metrics(groups: Sequence[Group], horizon: int) -> dict[str, float]:
  """Summarises a collection under `rollout/...` names.

  Shares and means are over valid episodes, except for `rollout/invalid` and
  `rollout/stop_*`, which count all. Turns, unreadable and cut completions and
  repeated actions are those that were for the environment. Several attempts at
  a task have their success and return also by attempt, from 1. Without a valid
  episode only `invalid` and `stop_*` are given: a mean of nothing is no number.
  Token counts that an endpoint did not report are left out likewise, and the
  progress that an environment did not.

  Args:
    groups: what `collect` returned.
    horizon: turns that were allowed, at most.
  """
  episodes = [episode for group in groups for episode in group.episodes]
  valid = [episode for episode in episodes if episode.valid]
  stops = Counter(episode.stop_reason for episode in episodes)
  metrics = {
      'rollout/horizon': float(horizon),
      'rollout/episodes': float(len(episodes)),
      'rollout/invalid': float(len(episodes) - len(valid)),
  }
  for reason in types.STOP_REASONS:
    metrics[f'rollout/stop_{reason}'] = stops[reason] / max(len(episodes), 1)
  if not valid:
    return metrics

  tied = [is_tied(group) for group in groups]
  turns = [turn for episode in valid for turn in episode.turns]
  acts = [turn for episode in valid for turn in episode.acts]
  returns = [episode.episode_return for episode in valid]
  mean = statistics.fmean
  metrics |= {
      'rollout/return_mean': mean(returns),
      'rollout/return_std': statistics.pstdev(returns),
      'rollout/success': mean(episode.success for episode in valid),
      'rollout/turns_mean': len(acts) / len(valid),
      'rollout/episode_tokens_mean': mean(
          len(episode.tokens) for episode in valid
      ),
      'rollout/episode_tokens_max': float(
          max(len(episode.tokens) for episode in valid)
      ),
      'rollout/parse_error_share': mean(
          turn.parse_error is not None for turn in acts
      ),
      'rollout/cut_completion_share': mean(
          turn.finish_reason == 'length' for turn in acts
      ),
      'rollout/repeated_action_share': _repeated_share(valid),
      'rollout/tied_groups': mean(tied),
      # None succeeds: the task is out of reach.
      'rollout/failed_groups': mean(
          equal and not any(episode.success for episode in group.episodes)
          for group, equal in zip(groups, tied, strict=True)
      ),
      'rollout/sampler_s_mean': mean(turn.sampler_s for turn in turns),
      'rollout/env_s_mean': mean(turn.env_s for turn in turns),
      'rollout/horizon_mean': mean(episode.horizon for episode in valid),
  }
  progress = [e.progress for e in valid if e.progress is not None]
  if progress:
    metrics['rollout/progress'] = mean(progress)
  learning = [
      episode
      for group, equal in zip(groups, tied, strict=True)
      if not equal
      for episode in group.episodes
      if episode.valid
  ]
  if learning:
    # The horizon is what keeps tasks from being solved that can be learnt.
    metrics['rollout/cut_share_untied'] = mean(
        episode.stop_reason == types.HORIZON for episode in learning
    )
  return metrics | _attempt_metrics(valid) | _token_metrics(turns)


def _attempt_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
  """Success and return by attempt; nothing of first attempts alone."""
  by_attempt: dict[int, list[Episode]] = {}
  for episode in episodes:
    by_attempt.setdefault(episode.attempt, []).append(episode)
  if by_attempt.keys() <= {0}:
    return {}
  mean = statistics.fmean
  return {
      f'rollout/{name}_attempt_{attempt + 1}': mean(values)
      for attempt, of_attempt in sorted(by_attempt.items())
      for name, values in (
          ('success', [episode.success for episode in of_attempt]),
          ('return', [episode.episode_return for episode in of_attempt]),
      )
  }


def _repeated_share(episodes: Sequence[Episode]) -> float:
  """Share of later actions that are the action before."""
  repeated = [
      later.action == earlier.action
      for episode in episodes
      for earlier, later in itertools.pairwise(episode.acts)
  ]
  return statistics.fmean(repeated) if repeated else 0.0


def _token_metrics(turns: Sequence[Turn]) -> dict[str, float]:
  """Token metrics; a count that some turn lacks is left out."""
  completion = _all_or_none(turn.completion_tokens for turn in turns)
  prompt = _all_or_none(turn.prompt_tokens for turn in turns)
  cached = _all_or_none(turn.cached_tokens for turn in turns)
  metrics = {}
  if completion is not None:
    metrics['rollout/completion_tokens_mean'] = statistics.fmean(completion)
    metrics['rollout/completion_tokens'] = float(sum(completion))
  if prompt is not None and cached is not None:
    metrics['rollout/cached_share'] = sum(cached) / max(sum(prompt), 1)
  return metrics


def _all_or_none(counts: Iterable[int | None]) -> list[int] | None:
  """The counts; None where one is missing."""
  values = list(counts)
  numbers = [count for count in values if count is not None]
  return numbers if len(numbers) == len(values) else None


def is_tied(group: Group) -> bool:
  """True when no two valid episodes differ in return: nothing to learn from."""
  returns = [
      episode.episode_return for episode in group.episodes if episode.valid
  ]
  return not returns or types.is_same_return(min(returns), max(returns))
