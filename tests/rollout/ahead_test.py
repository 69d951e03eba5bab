"""Tests for agentrl.rollout.ahead: what is played while the policy learns."""

import asyncio
import dataclasses
import json
import multiprocessing
import random
import threading
import time

import pytest

from agentrl import schedules
from agentrl.data.tasks import TaskIterator
from agentrl.errors import EnvError
from agentrl.rollout import ahead as ahead_lib
from agentrl.rollout.ahead import Admission, Ahead, Settings
from agentrl.rollout.sources import Source, Sources
from agentrl.runtime.event_loop import EventLoop
from agentrl.types import ENV_ERROR, Group, Turns
from tests import fakes

HORIZON = schedules.stepwise((1, 2, 3), every=2)


@pytest.fixture
def loop():
  with EventLoop() as loop:
    yield loop


def sources(schedule=HORIZON, names=('',), groups=2):
  return Sources(
      [
          Source(TaskIterator(range(7), seed=i), schedule, name)
          for i, name in enumerate(names)
      ],
      groups,
  )


def group_of(admission, valid=True, **fields):
  """Two episodes, named by what decides about them."""
  failed = {} if valid else dict(stop_reason=ENV_ERROR, error='down')
  return Group(
      admission.task_id,
      admission.ordinal,
      tuple(
          fakes.make_episode(
              episode_id=f'{admission.name}{admission.number}-{replica}',
              task_id=admission.task_id,
              policy_version=admission.policy_version,
              **failed,
              **fields,
          )
          for replica in range(2)
      ),
  )


class Played:
  """Plays each group for `seconds(number)`, and notes what was asked."""

  def __init__(self, seconds=lambda number: 0.0, make=group_of):
    self.seconds, self.make = seconds, make
    self.asked: list[Admission] = []
    self.cancelled: list[int] = []

  async def __call__(self, admission):
    self.asked.append(admission)
    try:
      await asyncio.sleep(self.seconds(admission.number))
    except asyncio.CancelledError:
      self.cancelled.append(admission.number)
      raise
    return self.make(admission)


def make(loop, tmp_path, play, *, from_sources=None, ranks=None, **settings):
  values = dict(
      depth=1, bound=3, groups=2, episodes=4, rounds=6, max_failed_share=0.5
  )
  return Ahead(
      from_sources or sources(),
      play,
      loop,
      Settings(**(values | settings)),
      tmp_path,
      ranks,
  )


def walk(ahead, steps, *, first=0, horizon=None, update=lambda: None):
  """The collections of some steps, each with an update after it."""
  collections = []
  for step in range(first, first + steps):
    horizon, collection = ahead.collect(step, horizon, {}, 1 + step)
    collections.append(collection)
    update()
  return collections


def numbers(collection):
  return [
      int(group.episodes[0].episode_id.partition('-')[0])
      for group in collection.groups
  ]


def test_groups_are_admitted_ahead_and_each_is_used_once(loop, tmp_path):
  play = Played()
  collections = walk(make(loop, tmp_path, play), 6)
  assert [numbers(c) for c in collections] == [
      [2 * i, 2 * i + 1] for i in range(6)
  ]
  # Two rounds at once, then one a step, and none beyond the last step.
  assert [x.policy_version for x in play.asked] == [
      *[1] * 4, 2, 2, 3, 3, 4, 4, 5, 5,
  ]  # fmt: skip
  assert [x.round for x in play.asked] == [n // 2 for n in range(12)]
  ordinals = [group.ordinal for c in collections for group in c.groups]
  assert ordinals == list(range(12))
  metrics = [c.metrics() for c in collections]
  assert [m['rollout/staleness_mean'] for m in metrics] == [0, 1, 1, 1, 1, 1]


def test_a_stage_of_turns_begins_with_the_tasks_that_are_admitted_in_it(
    loop, tmp_path
):
  play = Played()
  collections = walk(make(loop, tmp_path, play), 6)
  # Every second step by the schedule, one step later in what is trained on.
  horizons = [c.metrics()['rollout/horizon'] for c in collections]
  assert horizons == [1, 1, 1, 2, 2, 3]


def test_episodes_play_on_while_the_policy_is_updated(loop, tmp_path):
  play = Played(seconds=lambda number: 0.05)
  ahead = make(loop, tmp_path, play)
  updates = []

  def update():
    thread = loop.beside(threading.current_thread)
    assert thread is not threading.current_thread()
    loop.beside(lambda: time.sleep(0.1))
    updates.append(thread)

  walk(ahead, 1, update=update)
  began = time.monotonic()
  [collection] = walk(ahead, 1, first=1)
  assert time.monotonic() - began < 0.04  # it had been played meanwhile
  assert collection.metrics()['time/sampler_idle_s'] > 0.02
  ahead.close()


def test_a_slow_group_keeps_nobody_waiting_before_its_deadline(loop, tmp_path):
  play = Played(seconds=lambda number: 0.5 * (number == 0))
  ahead = make(loop, tmp_path, play)
  began = time.monotonic()
  collections = walk(ahead, 3)
  assert time.monotonic() - began < 0.4
  assert [numbers(c) for c in collections] == [[1, 2], [3, 4], [5, 6]]
  [last] = walk(ahead, 1, first=3)  # its deadline
  assert numbers(last) == [0, 7]
  assert last.metrics()['rollout/staleness_max'] == 3


def test_random_latencies_keep_the_bound_and_lose_nothing(loop, tmp_path):
  rng = random.Random(0)
  seconds = [0.001 * min(rng.paretovariate(1.0), 50) for _ in range(80)]
  ahead = make(
      loop, tmp_path, Played(seconds.__getitem__), depth=2, bound=4, rounds=40
  )
  collections = walk(ahead, 40)
  used = [number for c in collections for number in numbers(c)]
  assert sorted(used) == list(range(80))
  worst = max(c.metrics()['rollout/staleness_max'] for c in collections)
  assert worst <= 4


def test_failures_give_their_place_back(loop, tmp_path):
  rng = random.Random(1)
  fails = [rng.random() < 0.3 for _ in range(80)]
  play = Played(make=lambda x: group_of(x, valid=not fails[x.number]))
  ahead = make(loop, tmp_path, play, rounds=40, max_failed_share=1.0)
  collections = walk(ahead, 40)
  assert sorted(n for c in collections for n in numbers(c)) == list(range(80))
  assert [len(c.groups) for c in collections] == [2] * 40
  metrics = [c.metrics() for c in collections]
  assert sum(m['rollout/invalid'] for m in metrics) == 2 * sum(fails)


def test_dead_environments_end_the_run_by_name(loop, tmp_path):
  play = Played(make=lambda x: group_of(x, valid=False))
  with pytest.raises(EnvError, match='of 8 episodes failed.*down'):
    walk(make(loop, tmp_path, play), 1)


def test_a_batch_of_failures_is_not_trained_on(loop, tmp_path):
  # No more have failed than one batch has when it is ready.
  play = Played(
      lambda number: 1000.0 * (number > 1), lambda x: group_of(x, valid=False)
  )
  ahead = make(loop, tmp_path, play)
  with pytest.raises(EnvError, match='4 of 4 episodes failed.*down'):
    walk(ahead, 1)
  ahead.close()


def test_groups_that_the_environment_failed_are_played_again_by_a_resume(
    loop, tmp_path, caplog
):
  down = Played(
      lambda number: 0.01 * (number > 1),
      lambda x: group_of(x, valid=x.number < 2),
  )
  ahead = make(loop, tmp_path, down, depth=2)
  [first] = walk(ahead, 1)
  loop.run(asyncio.sleep(0.05))  # all others fail
  state = json.loads(json.dumps(ahead.state()))
  with pytest.raises(EnvError, match='8 of 12 episodes failed'):
    walk(ahead, 1, first=1)
  ahead.close()

  play = Played()
  again = make(loop, tmp_path, play, depth=2)
  again.restore(state)
  assert '2-0 stopped with env_error: down' in caplog.text
  collections = [first, *walk(again, 5, first=1)]
  assert [x.number for x in play.asked] == list(range(2, 12))
  assert [numbers(c) for c in collections] == [
      [2 * i, 2 * i + 1] for i in range(6)
  ]
  assert all(e.valid for c in collections for g in c.groups for e in g.episodes)


def test_an_error_of_a_group_reaches_the_learner(loop, tmp_path):
  def make_group(admission):
    if admission.number == 3:
      raise ZeroDivisionError('a bug')
    return group_of(admission)

  ahead = make(loop, tmp_path, Played(make=make_group))
  with pytest.raises(ZeroDivisionError, match='a bug'):
    walk(ahead, 6)


def test_what_is_still_played_ends_with_the_run(loop, tmp_path):
  play = Played(seconds=lambda number: 1000.0 * (number > 1))
  ahead = make(loop, tmp_path, play)
  walk(ahead, 1)
  loop.interrupted = True  # also after a signal
  ahead.close()
  assert play.cancelled == [2, 3]


def test_a_resumed_run_has_the_groups_that_were_ahead(loop, tmp_path):
  slow = lambda number: 1000.0 * (number == 3)
  ahead = make(loop, tmp_path, Played(slow))
  [first] = walk(ahead, 1)
  loop.run(asyncio.sleep(0.01))  # 2 ends, 3 does not
  state = json.loads(json.dumps(ahead.state()))
  ahead.close()

  # Of a time that is gone: it was not finished at the checkpoint.
  late = tmp_path / ahead_lib.FOLDER / '00000003.jsonl'
  late.write_bytes((late.parent / '00000002.jsonl').read_bytes())
  play = Played()
  again = make(loop, tmp_path, play)
  again.restore(state)
  assert not late.exists()
  collections = [first, *walk(again, 5, first=1)]
  assert [x.number for x in play.asked] == [3, *range(4, 12)]
  # As it was admitted: for the first policy, in the second round.
  assert play.asked[0][1:] == (1, '', 3, play.asked[0].task_id, 1, 1)
  assert [numbers(c) for c in collections] == [
      [2 * i, 2 * i + 1] for i in range(6)
  ]
  ordinals = [group.ordinal for c in collections for group in c.groups]
  assert ordinals == list(range(12))


def test_a_group_without_its_file_is_played_again(loop, tmp_path, caplog):
  ahead = make(loop, tmp_path, Played())
  walk(ahead, 1)
  loop.run(asyncio.sleep(0.01))
  state = ahead.state()
  (tmp_path / ahead_lib.FOLDER / '00000002.jsonl').write_text('{"torn')
  (tmp_path / ahead_lib.FOLDER / '00000003.jsonl').unlink()
  play = Played()
  again = make(loop, tmp_path, play)
  again.restore(state)
  [second] = walk(again, 1, first=1)
  assert numbers(second) == [2, 3]
  assert [x.number for x in play.asked[:2]] == [2, 3]
  assert 'Playing group 2 again' in caplog.text
  again.close()


@pytest.mark.parametrize(
    'damage',
    [
        lambda data: data[
            : data.index(b'\n') + 1
        ],  # of its episodes, the first
        lambda data: data.replace(b'"seed": ', b'"seed": 1', 1),
    ],
)
def test_a_group_whose_file_was_changed_is_played_again(
    loop, tmp_path, caplog, damage
):
  ahead = make(loop, tmp_path, Played())
  walk(ahead, 1)
  loop.run(asyncio.sleep(0.01))
  state = ahead.state()
  path = tmp_path / ahead_lib.FOLDER / '00000002.jsonl'
  path.write_bytes(damage(path.read_bytes()))
  play = Played()
  again = make(loop, tmp_path, play)
  again.restore(json.loads(json.dumps(state)))
  walk(again, 1, first=1)
  assert 2 in [x.number for x in play.asked]
  assert f'Playing group 2 again: {path} is not what was written' in caplog.text
  # A run of before had no sums.
  del state['written']
  old = make(loop, tmp_path, Played())
  old.restore(state)
  assert 2 in old._groups


def test_files_stay_as_long_as_a_checkpoint_may_need_them(loop, tmp_path):
  ahead = make(loop, tmp_path, Played())
  folder = tmp_path / ahead_lib.FOLDER

  def kept():
    return sorted(int(path.stem) for path in folder.glob('*.jsonl'))

  def step(number):
    walk(ahead, 1, first=number)
    loop.run(asyncio.sleep(0.01))
    ahead.state()
    return kept()

  assert step(0) == [2, 3]
  ahead.saved()
  assert step(1) == [2, 3, 4, 5]  # the last checkpoint has 2 and 3 ahead
  ahead.saved()  # its own may not be complete yet
  assert kept() == [2, 3, 4, 5]
  assert step(2) == [2, 3, 4, 5, 6, 7]
  ahead.saved()
  assert kept() == [4, 5, 6, 7]
  for number in (3, 4, 5):
    step(number)
  ahead.saved()
  ahead.saved()
  assert kept() == []


def test_pictures_are_kept_and_removed_with_their_episodes(loop, tmp_path):
  seen = lambda x: group_of(x, views=(b'reset', str(x.number).encode()))
  ahead = make(loop, tmp_path, Played(make=seen))
  folder = tmp_path / ahead_lib.FOLDER
  walk(ahead, 1)
  loop.run(asyncio.sleep(0.01))
  state = json.loads(json.dumps(ahead.state()))
  ahead.saved()

  (folder / '00000003.zip').unlink()  # that group is played again
  (folder / '00000004.zip').write_bytes(b'of a time that is gone')
  play = Played(make=seen)
  again = make(loop, tmp_path, play)
  again.restore(state)
  assert not (folder / '00000004.zip').exists()

  def update():
    again.state()
    again.saved()

  collections = walk(again, 5, first=1, update=update)
  assert [x.number for x in play.asked] == list(range(3, 12))
  for collection in collections:
    for number, group in zip(
        numbers(collection), collection.groups, strict=True
    ):
      pictures = (b'reset', str(number).encode())
      assert [episode.views for episode in group.episodes] == [pictures] * 2
  again.saved()
  assert not list(folder.glob('*'))


def test_a_run_that_was_shorter_admits_no_round_twice(loop, tmp_path):
  rounds, state = [], None
  # Ten steps, stopped after three; to the end of four; of ten again.
  for end, first, last in ((10, 0, 3), (4, 3, 4), (10, 4, 10)):
    play = Played()
    ahead = make(loop, tmp_path, play, depth=2, bound=5, rounds=end)
    if state is not None:
      ahead.restore(state)
    walk(ahead, last - first, first=first)
    loop.run(asyncio.sleep(0.01))
    state = json.loads(json.dumps(ahead.state()))
    rounds += [x.round for x in play.asked]
  assert sorted(rounds) == [n // 2 for n in range(20)]


def test_sources_of_a_mixture_have_their_own_tasks_and_turns(loop, tmp_path):
  play = Played()
  ahead = make(loop, tmp_path, play, from_sources=sources(names=('a', 'b')))
  start = {'a': None, 'b': None}
  collections = walk(ahead, 6, horizon=start)
  assert {(x.name, x.ordinal) for x in play.asked} == {
      (name, ordinal) for name in 'ab' for ordinal in range(6)
  }
  metrics = collections[3].metrics()
  assert metrics['a/rollout/horizon'] == 2 and metrics['b/quota'] == 1


def test_tokens_are_as_stale_as_the_weights_that_sampled_them():
  turn = fakes.make_turn(weight_version='4', spans=(('3', 1), ('4', 1)))
  old = fakes.make_turn(weight_version='2')
  episode = fakes.make_episode((0.0, 0.0))
  group = Group(
      0, 0, (type(episode)(**vars(episode) | dict(turns=(turn, old))),)
  )
  found = ahead_lib.token_staleness([group], 5)
  assert found == {
      # 2 tokens of version 2, one of 3 and one of 4.
      'rollout/token_staleness_mean': (3 + 3 + 2 + 1) / 4,
      'rollout/token_staleness_max': 3.0,
  }
  assert ahead_lib.token_staleness([], 5) == {}


def test_ranges_of_turns_come_back_from_a_checkpoint(loop, tmp_path):
  ahead = make(
      loop, tmp_path, Played(), from_sources=sources(schedules.random((2, 5)))
  )
  walk(ahead, 1)
  state = json.loads(json.dumps(ahead.state()))
  ahead.close()
  play = Played()
  again = make(
      loop,
      tmp_path / 'new',
      play,
      from_sources=sources(schedules.random((2, 5))),
  )
  again.restore(state)
  walk(again, 1, first=1)
  assert play.asked[0].horizon == Turns(2, 5)
  again.close()


def learnable(*tied):
  """Groups of two returns, but for those of these numbers."""

  def make_group(admission):
    group = group_of(admission)
    first, second = group.episodes
    return dataclasses.replace(
        group,
        episodes=(
            first,
            dataclasses.replace(
                second,
                turns=(fakes.make_turn(float(admission.number not in tied)),),
            ),
        ),
    )

  return make_group


def test_groups_of_equal_returns_leave_and_another_task_takes_their_place(
    loop, tmp_path
):
  play = Played(make=learnable(0, 3, 12))
  ahead = make(loop, tmp_path, play, replaced=2, rounds=3)
  collections = walk(ahead, 3)
  # 4 and 5 were admitted for 0 and 3, 12 is nobody's.
  used = [numbers(c) for c in collections]
  assert used == [[0, 1, 2, 3], [4, 5], [6, 7]]
  assert [x.round for x in play.asked] == [0, 0, 1, 1, 0, 1, 2, 2]
  assert [x.ordinal for x in play.asked] == list(range(8))
  assert [c.metrics()['rollout/tied_groups'] for c in collections] == [
      0.5,
      0,
      0,
  ]


def test_no_more_groups_are_replaced_than_a_collection_may(loop, tmp_path):
  play = Played(make=learnable(*range(100)))
  ahead = make(loop, tmp_path, play, replaced=2, rounds=3)
  collections = walk(ahead, 3)
  assert [len(c.groups) for c in collections] == [4, 4, 4]
  used = [number for c in collections for number in numbers(c)]
  assert sorted(used) == list(range(12))  # none is lost, and each is used once


def test_a_resume_has_the_groups_that_were_replaced(loop, tmp_path):
  late = Played(lambda number: 0.05 * (number > 1), learnable(2))
  ahead = make(loop, tmp_path, late, replaced=1, rounds=3)
  walk(ahead, 1)
  loop.run(asyncio.sleep(0.1))  # 2 and 3 end
  ahead.state()
  ahead._replace_ties(1)
  state = json.loads(json.dumps(ahead.state()))
  assert state['replaced'] == [2]
  ahead.close()
  again = make(loop, tmp_path, Played(make=learnable()), replaced=1, rounds=3)
  again.restore(state)
  assert [numbers(c) for c in walk(again, 2, first=1)] == [[2, 3, 4], [5, 6]]

  (tmp_path / ahead_lib.FOLDER / '00000002.jsonl').unlink()
  again = make(loop, tmp_path, Played(make=learnable()), replaced=1, rounds=3)
  again.restore(state)  # it would have taught nothing
  assert [numbers(c) for c in walk(again, 2, first=1)] == [[3, 4], [5, 6]]


class TwoRanks:
  """Processes 0 and 1 of two, each at one end of a pipe."""

  def __init__(self, index, pipe):
    self.index, self.pipe = index, pipe
    self.gather(list)  # both are here

  def own(self, items):
    return items[self.index :: 2]

  def gather(self, work):
    try:
      mine = work(), None
    except EnvError as error:
      mine = [], error
    self.pipe.send(mine)
    theirs = self.pipe.recv()
    both = (mine, theirs) if self.index == 0 else (theirs, mine)
    for _, failure in both:
      if failure is not None:
        raise failure
    return [item for items, _ in both for item in items]


def _fails_at_7(admission):
  if admission.number == 7:
    raise EnvError('down')
  return group_of(admission)


def play_as(index, pipe, folder, seconds, make_group, out=None):
  """The batches of one process of two, or its error, and the groups it played."""
  with EventLoop() as loop:
    play = Played(seconds.__getitem__, make_group)
    ahead = make(
        *(loop, folder if index == 0 else None, play),
        ranks=TwoRanks(index, pipe),
    )
    try:
      found = [numbers(c) for c in walk(ahead, 6, update=ahead.state)]
    except EnvError as error:
      found = str(error)
    ahead.close()
  result = found, sorted(x.number for x in play.asked)
  if out is not None:
    out.put(result)
  return result


@pytest.mark.parametrize(
    'seconds, make_group',
    [
        ([0.0] * 12, group_of),
        ([0.5, *[0.01] * 11], group_of),  # one is slow, in the first process
        ([0.0] * 12, _fails_at_7),
    ],
    ids=['fast', 'slow', 'failing'],
)
def test_two_processes_share_the_groups_and_train_on_the_same(
    tmp_path, seconds, make_group
):
  spawn = multiprocessing.get_context('spawn')
  (here, there), out = spawn.Pipe(), spawn.Queue()
  other = spawn.Process(
      target=play_as, args=(1, there, tmp_path, seconds, make_group, out)
  )
  other.start()
  found, played = play_as(0, here, tmp_path, seconds, make_group)
  theirs, played_there = out.get(timeout=60)
  other.join()
  assert found == theirs
  assert not set(played) & set(played_there)
  assert all(n % 2 == 0 for n in played) and all(n % 2 for n in played_there)
  if make_group is _fails_at_7:
    assert found == 'down'
    return
  assert sorted([*played, *played_there]) == list(range(12))
  assert sorted(n for batch in found for n in batch) == list(range(12))
  if seconds[0]:
    assert found[:3] == [[1, 2], [3, 4], [5, 6]] and 0 in found[3]


def resume_as(index, pipe, folder, out=None):
  """The batches of one process of two that goes on from a checkpoint of both."""
  ranks = TwoRanks(index, pipe)
  with EventLoop() as loop:
    new = lambda: make(
        *(loop, folder if index == 0 else None, Played()), ranks=ranks
    )
    ahead = new()

    def save():
      loop.run(asyncio.sleep(0.05))  # what is played ends
      own = ahead.state()
      ahead.saved()
      # The first process writes the checkpoint.
      [state] = ranks.gather(lambda: [] if index else [own])
      return state

    collections = walk(ahead, 1)
    state = save()
    ahead.close()
    ahead = new()
    ahead.restore(state)
    collections += walk(ahead, 5, first=1, update=save)
    ahead.saved()
    ahead.close()
  found = [numbers(collection) for collection in collections]
  if out is not None:
    out.put(found)
  return found


def test_two_processes_go_on_from_the_files_of_the_first(tmp_path):
  spawn = multiprocessing.get_context('spawn')
  (here, there), out = spawn.Pipe(), spawn.Queue()
  first = spawn.Process(
      target=resume_as, args=(0, there, tmp_path, out), daemon=True
  )
  first.start()
  found = resume_as(1, here, tmp_path)
  assert out.get(timeout=60) == found
  first.join()
  assert found == [[2 * i, 2 * i + 1] for i in range(6)]
  assert not list((tmp_path / ahead_lib.FOLDER).glob('*'))
