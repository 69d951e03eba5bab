"""Another run's collections, step by step: its very episodes, or sampled again.

A run that plays ahead of its learner depends on how fast each episode was. Its
records say what happened: which groups each step trained on, and which weights
sampled each turn. Taken from them, the same happens again.
"""

import asyncio
import collections
import dataclasses
import pathlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.inference.sampler import Policy
from agentrl.rollout import seeds
from agentrl.rollout.ahead import Admission, token_staleness
from agentrl.rollout.sources import Sources
from agentrl.rollout.supply import Supply
from agentrl.runtime.event_loop import EventLoop
from agentrl.types import Completion, Episode, Group


def groups_of(run: pathlib.Path, step: int) -> list[Group]:
  """The groups that a step of a run trained on, in their order.

  Raises:
    DataError: the run has no such step, or its file cannot be read.
  """
  path = episodes_lib.step_path(run, 'train', step)
  if not path.is_file():
    raise DataError(
        f'rollout.recorded: {run} has no episodes of step {step + 1} ({path}).'
        ' Lower num_steps to those that it has.'
    )
  played: dict[str, list[Episode]] = {}
  for episode in episodes_lib.read(path):
    played.setdefault(episode.episode_id.rpartition('-')[0], []).append(episode)
  return [
      Group(members[0].task_id, _ordinal(name), tuple(members))
      for name, members in played.items()
  ]


def _ordinal(name: str) -> int:
  ordinal = name.rpartition('-')[2]
  if not ordinal.isdecimal():
    raise DataError(
        f'rollout.recorded: the episodes {name!r} are of no training, whose'
        ' names end in the number of a task and of an episode.'
    )
  return int(ordinal)


class Recorded(Supply):
  """Trains on the episodes of a run as they are, without a sampler's work."""

  def __init__(self, run: pathlib.Path, sources: Sources):
    """Keeps the parts.

    Args:
      run: the workdir.
      sources: one, whose order of tasks stands still.
    """
    self._run, self._sources = run, sources

  def collect(self, step, horizon, stats, policy_version):
    del stats
    groups = groups_of(self._run, step)
    return horizon, self._collection(groups, policy_version)

  def state(self):
    return self._sources.cursor()

  def restore(self, state):
    self._sources.restore(state)

  def _collection(self, groups: Sequence[Group], policy_version: int):
    most = lambda group: max(episode.horizon for episode in group.episodes)
    return self._sources.collection(
        [('', most(group), group) for group in groups],
        token_staleness(groups, policy_version),
    )


# (version, ids) in the order in which they were sampled, of a turn.
Spans = Sequence[tuple[int, int]]


class PacedPolicy:
  """Samples each turn by the weights that sampled it in the record.

  Attributes:
    version: of the sampler's weights; see `push`.
  """

  def __init__(self, policy: Policy, version: int):
    self._policy, self.version = policy, version
    self._spans: dict[tuple[str, int], Spans] = {}
    self._waiting: collections.Counter[int] = collections.Counter()
    self._changed = asyncio.Condition()

  def expect(self, episode: Episode) -> None:
    """Takes the weights of an episode's turns from its record."""
    for turn, record in enumerate(episode.turns):
      key = episode.episode_id, seeds.derive_seed(episode.seed, turn)
      self._spans[key] = [(int(v), count) for v, count in record.sampled_by]

  @property
  def blocked(self) -> int:
    """Requests that wait for a later version."""
    return sum(n for v, n in self._waiting.items() if v > self.version)

  async def push(self, version: int) -> None:
    """Goes on to the weights that were handed over."""
    async with self._changed:
      self.version = version
      self._changed.notify_all()

  async def generate(
      self,
      input_ids: Sequence[int],
      *,
      max_new_tokens: int,
      seed: int,
      routing_key: str | None = None,
      **request: Any,
  ) -> Completion:
    """See `Policy.generate`; waits for the weights of the record.

    Raises:
      DataError: the record has no such turn, or its weights are gone.
    """
    spans = self._spans.get((routing_key or '', seed))
    if spans is None:
      raise DataError(
          'rollout.recorded: the record has no further turn of'
          f' {routing_key!r}, which goes on here: it was played by other'
          ' weights, another environment or without sampler.deterministic.'
      )
    parts: list[Completion] = []
    left = max_new_tokens
    ids = list(input_ids)
    for index, (version, count) in enumerate(spans):
      await self._reach(version)
      part = await self._policy.generate(
          ids,
          max_new_tokens=left if index == len(spans) - 1 else count,
          seed=seed,
          routing_key=routing_key,
          **request,
      )
      parts.append(part)
      ids, left = ids + list(part.tokens), left - len(part.tokens)
    return _joined(parts)

  async def settle(self, running: Callable[[], int]) -> None:
    """Returns once as many requests are blocked as episodes are running.

    Args:
      running: their number; `note` after each change of it.
    """
    async with self._changed:
      await self._changed.wait_for(lambda: self.blocked >= running())

  async def note(self) -> None:
    """Lets `settle` look again."""
    async with self._changed:
      self._changed.notify_all()

  async def _reach(self, version: int) -> None:
    async with self._changed:
      self._waiting[version] += 1
      self._changed.notify_all()
      try:
        await self._changed.wait_for(lambda: self.version >= version)
      finally:
        self._waiting[version] -= 1
    # In a run from its start every turn waits for its weights.
    if self.version > version:
      raise DataError(
          'rollout.resample: a turn of the record was sampled by weights'
          f' {version}, and this run goes on with weights {self.version}. A'
          ' record of a run that played ahead is played again from its first'
          ' step alone: start in a new workdir.'
      )


def _joined(parts: Sequence[Completion]) -> Completion:
  """One completion of several that continue each other."""
  if len(parts) == 1:
    return parts[0]
  return dataclasses.replace(
      parts[-1],
      tokens=tuple(token for part in parts for token in part.tokens),
      logprobs=tuple(value for part in parts for value in part.logprobs),
      prompt_tokens=parts[0].prompt_tokens,
      cached_tokens=parts[0].cached_tokens,
      latency_s=sum(part.latency_s for part in parts),
      spans=tuple((part.weight_version, len(part.tokens)) for part in parts),
  )


# Gives an episode of a group by its index, which the function plays.
Replay = Callable[[int, Callable[[], Awaitable[Episode]]], Awaitable[Episode]]
# Plays a group, each of its episodes by `Replay`.
Play = Callable[[Admission, Replay], Coroutine[Any, Any, Group]]


class Resampled(Recorded):
  """Plays a run's groups again, each turn by the weights that it had.

  With `sampler.deterministic` in both runs the episodes are the same to the bit,
  and so is what is learnt from them. Nothing overlaps: between two pushes every
  episode goes on as far as it had come in the record. One that failed there is
  taken from it: nothing repeats what the infrastructure did.
  """

  def __init__(
      self,
      run: pathlib.Path,
      sources: Sources,
      *,
      play: Play,
      policy: PacedPolicy,
      loop: EventLoop,
      steps: int,
      attempts: int = 1,
  ):
    """Reads the record.

    Args:
      run: the workdir.
      sources: one, whose order of tasks stands still.
      play: plays a group by `policy`, all of its episodes at one time, each once,
        attempts at a task excepted: each begins when the one before has ended.
      policy: of the episodes.
      loop: in which they are played.
      steps: of the run.
      attempts: at a task, one after the other, see `rollout.collect`.

    Raises:
      DataError: the record has not so many steps, or cannot be played again.
    """
    super().__init__(run, sources)
    self._play, self._policy, self._loop = play, policy, loop
    self._attempts = attempts
    self._record = [groups_of(run, step) for step in range(steps)]
    self._tasks: dict[tuple[int, int], asyncio.Task[Group]] = {}
    # Episodes that run, or are to begin once the attempt before has ended.
    self._left: dict[tuple[int, int], int] = {}
    for group in (group for groups in self._record for group in groups):
      if len({episode.horizon for episode in group.episodes}) > 1:
        raise DataError(
            'rollout.resample: episodes of a group drew horizons of their own'
            ' (horizon.kind=random), which a record does not repeat.'
        )
      for episode in group.episodes:
        policy.expect(episode)

  def collect(self, step, horizon, stats, policy_version):
    del stats
    groups = self._loop.run(self._advance(step, policy_version))
    return horizon, self._collection(groups, policy_version)

  def close(self) -> None:
    """Ends the episodes that are played, also after a signal."""
    self._loop.cancel(self._tasks.values())

  async def _advance(self, step: int, policy_version: int) -> list[Group]:
    """Plays all that the record has under this version; the step's groups."""
    await self._policy.push(policy_version)
    for number in range(step, len(self._record)):
      for index, group in enumerate(self._record[number]):
        key = number, index
        if key not in self._tasks and _begins(group) <= policy_version:
          self._left[key] = len(group.episodes) // self._attempts
          self._tasks[key] = asyncio.create_task(self._play_group(key, group))
    await self._policy.settle(lambda: sum(self._left.values()))
    for task in filter(asyncio.Task.done, self._tasks.values()):
      task.result()  # raises
    groups = []
    for index, recorded in enumerate(self._record[step]):
      groups.append(await self._tasks.pop((step, index)))
      _check(recorded, groups[-1])
    return groups

  async def _play_group(self, key: tuple[int, int], group: Group) -> Group:
    # Of each chain of attempts; the file has all first ones, then all second ones.
    last = len(group.episodes) - len(group.episodes) // self._attempts

    async def replay(
        index: int, play: Callable[[], Awaitable[Episode]]
    ) -> Episode:
      recorded = group.episodes[index]
      try:
        return await play() if recorded.valid else recorded
      finally:
        self._left[key] -= index >= last
        await self._policy.note()

    try:
      return await self._play(_admission(group), replay)
    finally:
      del self._left[key]
      await self._policy.note()


def _begins(group: Group) -> int:
  """The version that sampled the first turn of a group."""
  versions = [
      int(version)
      for episode in group.episodes
      if episode.valid
      for turn in episode.turns[:1]
      for version, _ in turn.sampled_by
  ]
  return min(versions, default=group.episodes[0].policy_version)


def _admission(group: Group) -> Admission:
  first = group.episodes[0]
  name, _, _ = first.episode_id.rpartition('-')
  prefix = name.rpartition('-')[0]
  number = prefix.rpartition('-')[2]
  if not number.isdecimal():
    raise DataError(
        f'rollout.resample: the episodes {name!r} do not say which collection'
        ' they are of; those of a mixture are not played again.'
    )
  return Admission(
      number=group.ordinal,
      round=int(number),
      name='',
      ordinal=group.ordinal,
      task_id=group.task_id,
      horizon=first.horizon,
      policy_version=first.policy_version,
  )


def _check(recorded: Group, played: Group) -> None:
  """Refuses a group that was played differently.

  Raises:
    DataError: an episode is another one.
  """
  for old, new in zip(recorded.episodes, played.episodes, strict=True):
    if (old.tokens, old.seed) != (new.tokens, new.seed):
      raise DataError(
          f'rollout.resample: {old.episode_id!r} was played differently in the'
          ' record. Both runs need sampler.deterministic=True, one config, and'
          ' the same start.'
      )
