"""Tests for agentrl.rollout.recorded."""

import asyncio
import functools

import pytest

from agentrl import schedules
from agentrl.data import episodes as episodes_lib
from agentrl.data.tasks import TaskIterator
from agentrl.errors import DataError
from agentrl.rollout import recorded, seeds
from agentrl.rollout.recorded import PacedPolicy, Recorded, Resampled
from agentrl.rollout.sources import Source, Sources
from agentrl.runtime.event_loop import EventLoop
from agentrl.types import Completion, Group
from tests import fakes


def sources():
  return Sources(
      [Source(TaskIterator(range(5), seed=0), schedules.fixed(3))], 2
  )


def episode(name, *turns, **fields):
  """An episode whose turns have these weights: a version, or spans."""
  made = tuple(
      fakes.make_turn(
          weight_version=str(turn[-1][0] if isinstance(turn, tuple) else turn),
          spans=tuple((str(v), n) for v, n in turn)
          if isinstance(turn, tuple)
          else (),
      )
      for turn in turns
  )
  whole = fakes.make_episode((0.0,) * len(turns), episode_id=name, **fields)
  return type(whole)(**vars(whole) | dict(turns=made))


def write(run, step, *episodes):
  episodes_lib.write(episodes_lib.step_path(run, 'train', step), episodes)


@pytest.fixture
def run(tmp_path):
  write(
      tmp_path,
      0,
      episode('train-0-7-0', 1, 1, task_id=3),
      episode('train-0-7-1', 1, task_id=3),
      episode('train-0-4-0', 1, task_id=2),
      episode('train-0-4-1', 1, 1, task_id=2),
  )
  return tmp_path


def test_groups_stand_as_they_were_trained_on(run):
  found = recorded.groups_of(run, 0)
  assert [(g.ordinal, g.task_id) for g in found] == [(7, 3), (4, 2)]
  assert [[e.episode_id for e in g.episodes] for g in found] == [
      ['train-0-7-0', 'train-0-7-1'],
      ['train-0-4-0', 'train-0-4-1'],
  ]


def test_what_is_no_record_is_refused(run):
  with pytest.raises(DataError, match='no episodes of step 2'):
    recorded.groups_of(run, 1)
  write(run, 1, episode('something', 1))
  with pytest.raises(DataError, match='are of no training'):
    recorded.groups_of(run, 1)
  write(run, 1, episode('train-0-7-0', 1), episode('train-0-7-1', 1, horizon=2))
  with pytest.raises(DataError, match='horizons of their own'):
    resampled(run, None, None, PacedPolicy(None, 1))


def test_a_run_trains_on_the_record_as_it_is(run):
  supply = Recorded(run, sources())
  horizon, collection = supply.collect(0, 'as before', {}, 2)
  assert horizon == 'as before'
  assert [g.ordinal for g in collection.groups] == [7, 4]
  metrics = collection.metrics()
  assert metrics['rollout/token_staleness_mean'] == 1
  assert metrics['rollout/horizon'] == 10


def resampled(run, loop, play, policy, steps=2, **fields):
  return Resampled(
      run, sources(), play=play, policy=policy, loop=loop, steps=steps, **fields
  )


class Policy:
  """Samples as many ids as it is asked for, and notes by which weights."""

  def __init__(self):
    self.paced, self.seen = None, []

  async def generate(self, input_ids, *, max_new_tokens, seed, routing_key):
    del seed
    count = min(max_new_tokens, 2)
    version = str(self.paced.version)
    self.seen.append((routing_key, version, len(input_ids), count))
    return Completion(
        tokens=(7,) * count,
        logprobs=(-1.0,) * count,
        finish_reason='stop',
        weight_version=version,
        prompt_tokens=len(input_ids),
        cached_tokens=0,
        latency_s=0.0,
    )


async def turns_of(old, paced):
  """Samples the turns of an episode."""
  for turn in range(len(old.turns)):
    await paced.generate(
        [1] * (turn + 1),
        max_new_tokens=2,
        seed=seeds.derive_seed(old.seed, turn),
        routing_key=old.episode_id,
    )
  return old


def playing(record, paced):
  """Plays the episodes of a record by the policy, turn after turn."""

  async def play(admission, replay):
    group = next(g for g in record if g.ordinal == admission.ordinal)
    played = await asyncio.gather(*(
        replay(index, functools.partial(turns_of, old, paced))
        for index, old in enumerate(group.episodes)
    ))
    return Group(group.task_id, group.ordinal, tuple(played))

  return play


def test_turns_wait_for_the_weights_that_sampled_them(tmp_path):
  # The second step's group begins under the first policy, and goes on under the
  # next one, in the middle of a turn.
  write(tmp_path, 0, episode('train-0-0-0', 1, 1))
  write(tmp_path, 1, episode('train-1-1-0', 1, ((1, 1), (2, 1)), 2))
  record = [recorded.groups_of(tmp_path, step)[0] for step in range(2)]
  policy = Policy()
  paced = policy.paced = PacedPolicy(policy, 1)
  with EventLoop() as loop:
    supply = resampled(tmp_path, loop, playing(record, paced), paced)
    _, first = supply.collect(0, None, {}, 1)
    assert [g.ordinal for g in first.groups] == [0]
    assert sorted(policy.seen) == [
        ('train-0-0-0', '1', 1, 2), ('train-0-0-0', '1', 2, 2),
        ('train-1-1-0', '1', 1, 2), ('train-1-1-0', '1', 2, 1),
    ]  # fmt: skip
    _, second = supply.collect(1, None, {}, 2)
    assert [g.ordinal for g in second.groups] == [1]
    # The rest of the cut turn goes on behind its first id.
    assert policy.seen[4:] == [
        ('train-1-1-0', '2', 3, 1), ('train-1-1-0', '2', 3, 2),
    ]  # fmt: skip
    supply.close()


def test_attempts_that_have_not_begun_keep_no_step_waiting(tmp_path):
  # The first attempt of the second step's group spans a push.
  write(tmp_path, 0, episode('train-0-0-0', 1), episode('train-0-0-0.1', 1))
  write(tmp_path, 1, episode('train-1-1-0', 1, 2), episode('train-1-1-0.1', 2))
  record = [recorded.groups_of(tmp_path, step)[0] for step in range(2)]

  async def play(admission, replay):
    group = record[admission.ordinal]
    played = [
        await replay(index, functools.partial(turns_of, old, paced))
        for index, old in enumerate(group.episodes)
    ]
    return Group(group.task_id, group.ordinal, tuple(played))

  policy = Policy()
  paced = policy.paced = PacedPolicy(policy, 1)
  with EventLoop() as loop:
    supply = resampled(tmp_path, loop, play, paced, attempts=2)
    assert supply.collect(0, None, {}, 1)[1].groups == record[:1]
    assert supply.collect(1, None, {}, 2)[1].groups == record[1:]
    assert policy.seen[-2:] == [
        ('train-1-1-0', '2', 2, 2), ('train-1-1-0.1', '2', 1, 2),
    ]  # fmt: skip
    supply.close()


def test_a_turn_beyond_the_record_ends_the_run_by_name(tmp_path):
  write(tmp_path, 0, episode('train-0-0-0', 1))
  record = recorded.groups_of(tmp_path, 0)
  policy = Policy()
  paced = policy.paced = PacedPolicy(policy, 1)
  longer = [
      type(record[0])(0, 0, (episode('train-0-0-0', 1, 1),)),
  ]
  with EventLoop() as loop:
    supply = resampled(tmp_path, loop, playing(longer, paced), paced, steps=1)
    with pytest.raises(DataError, match='no further turn of .train-0-0-0.'):
      supply.collect(0, None, {}, 1)
    supply.close()


def test_an_episode_that_failed_is_taken_from_the_record(tmp_path):
  failed = episode('train-0-0-0', 1, stop_reason='env_error', error='down')
  write(tmp_path, 0, failed, episode('train-0-0-1', 1, 1))
  write(tmp_path, 1, episode('train-1-1-0', 1))
  # In the replay nothing is down: the policy would act once more.
  longer = episode('train-0-0-0', 1, 1)
  record = [
      Group(0, 0, (longer, episode('train-0-0-1', 1, 1))),
      *recorded.groups_of(tmp_path, 1),
  ]
  policy = Policy()
  paced = policy.paced = PacedPolicy(policy, 1)
  with EventLoop() as loop:
    supply = resampled(tmp_path, loop, playing(record, paced), paced)
    _, collection = supply.collect(0, None, {}, 1)
    assert collection.groups == recorded.groups_of(tmp_path, 0)
    assert 'train-0-0-0' not in [name for name, *_ in policy.seen]
    supply.close()


def test_a_resume_needs_the_weights_of_groups_that_were_begun(tmp_path):
  down = dict(stop_reason='env_error', error='down')
  write(tmp_path, 0, episode('train-0-0-0', 1))
  write(
      tmp_path, 1, episode('train-1-1-0', 2), episode('train-1-1-1', 1, **down)
  )
  write(tmp_path, 2, episode('train-2-2-0', 2, 3))
  record = [recorded.groups_of(tmp_path, step)[0] for step in range(3)]

  def resume(loop, step, version):
    policy = Policy()
    paced = policy.paced = PacedPolicy(policy, version)
    supply = resampled(tmp_path, loop, playing(record, paced), paced, steps=3)
    try:
      return supply.collect(step, None, {}, version)[1].groups
    finally:
      supply.close()

  with EventLoop() as loop:
    assert resume(loop, 1, 2) == [record[1]]  # all of it was sampled by 2
    with pytest.raises(DataError, match='by weights 2, .* a new workdir'):
      resume(loop, 2, 3)


def test_an_episode_that_is_another_one_is_refused(tmp_path):
  write(tmp_path, 0, episode('train-0-0-0', 1))
  policy = Policy()
  paced = policy.paced = PacedPolicy(policy, 1)
  other = episode('train-0-0-0', 1)
  other = type(other)(**vars(other) | dict(tokens=(9, *other.tokens[1:])))
  record = [type(recorded.groups_of(tmp_path, 0)[0])(0, 0, (other,))]
  with EventLoop() as loop:
    supply = resampled(tmp_path, loop, playing(record, paced), paced, steps=1)
    with pytest.raises(DataError, match='was played differently'):
      supply.collect(0, None, {}, 1)
