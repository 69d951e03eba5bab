"""Tests for agentrl.evaluation.play: a panel played, stopped and gone on with."""

import asyncio
import dataclasses
import io
import threading
import types
from concurrent import futures

import pytest
import rich.console

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError, EnvError
from agentrl.evaluation.journal import Journal, PlayedBy
from agentrl.evaluation.play import Player
from agentrl.rollout import seeds
from agentrl.rollout.options import Limits
from agentrl.runtime.event_loop import EventLoop
from tests import fakes
from tests.evaluation.rows_test import panel_of

PANEL = panel_of(4, samples=2)


class Killed(Exception):
  """Stands for a SIGKILL: nothing of the player runs any more."""


@pytest.fixture
def loop():
  with EventLoop() as value:
    yield value


class World:
  """Plays episodes whose outcome follows from task and seed alone."""

  def __init__(self, *, fails=(), killed_after=None):
    self.played = []
    self.opened = 0
    self._fails = set(fails)
    self._killed_after = killed_after

  def open_play(self):
    self.opened += 1
    return self._play

  async def _play(self, assignment):
    await asyncio.sleep(0.001 * (assignment.seed % 3))
    if len(self.played) == self._killed_after:
      raise Killed
    key = (assignment.task_id, assignment.replica)
    self.played.append(key)
    failed = {'stop_reason': 'env_error', 'error': 'down'}
    return fakes.make_episode(
        (float(assignment.seed % 2),),
        episode_id=f'eval-{assignment.ordinal}-{assignment.replica}',
        task_id=assignment.task_id,
        seed=assignment.seed,
        sample=assignment.replica,
        **(failed if key in self._fails else {}),
    )


def play(loop, path, world, panel=PANEL, console=None, policy=None, **limits):
  limits = Limits(**({'concurrency': 3, 'attempts': 1} | limits))
  console = console or rich.console.Console(file=io.StringIO())
  played_by = policy and PlayedBy(path.with_suffix('.by'), lambda: policy)
  journal = Journal(path, tokens=True, views=False, played_by=played_by)
  player = Player(loop, console, limits)
  return player.play(panel, world.open_play, journal, title='a on b')


class Ranks:
  """Processes as threads, which share what each of them has gathered."""

  def __init__(self, count):
    self.count = count
    self._barrier = threading.Barrier(count)
    self._found = [None] * count

  def of(self, index):
    return types.SimpleNamespace(
        own=lambda items: items[index :: self.count],
        gather=lambda work: self._gather(index, work),
    )

  def _gather(self, index, work):
    self._barrier.wait()
    try:
      self._found[index] = work()
    except Exception as error:
      self._found[index] = error
    self._barrier.wait()
    for found in self._found:
      if isinstance(found, Exception):
        raise found
    return [x for found in self._found for x in found]


def play_together(path, worlds, *, member='', **limits):
  """Groups that each process gets, of a panel that all of them play."""
  limits = Limits(**({'concurrency': 3, 'attempts': 1} | limits))
  ranks = Ranks(len(worlds))

  def one(rank):
    # The event loop of a run lives in a main thread.
    loop = types.SimpleNamespace(run=asyncio.run)
    console = rich.console.Console(file=io.StringIO())
    player = Player(loop, console, limits, member, ranks.of(rank))
    journal = Journal(path, tokens=True, views=False, rank=rank)
    play = worlds[rank].open_play
    return player.play(PANEL, play, journal, title='a on b')

  with futures.ThreadPoolExecutor(len(worlds)) as pool:
    return list(pool.map(one, range(len(worlds))))


def test_each_sample_is_played_once_under_its_own_seed(loop, tmp_path):
  path, world = tmp_path / 'e.jsonl', World()
  groups = play(loop, path, world)
  assert [group.task_id for group in groups] == list(PANEL.task_ids)
  for group in groups:
    for sample, episode in enumerate(group.episodes):
      assert episode.sample == sample
      assert episode.seed == seeds.derive_seed(0, group.task_id, sample)
  everything = [e for group in groups for e in group.episodes]
  assert list(episodes_lib.read(path)) == everything


@pytest.mark.parametrize('after', [0, 1, 4, 7])
def test_a_killed_evaluation_goes_on_with_what_is_missing(
    loop, tmp_path, after
):
  whole = play(loop, tmp_path / 'whole.jsonl', World())
  path, killed, second = (
      tmp_path / 'e.jsonl',
      World(killed_after=after),
      World(),
  )
  with pytest.raises(Killed):
    play(loop, path, killed)
  assert play(loop, path, second) == whole
  assert path.read_bytes() == (tmp_path / 'whole.jsonl').read_bytes()
  # Nothing twice; what was in the air at the kill was not kept.
  assert sorted(killed.played + second.played) == sorted(
      (task, k) for task in PANEL.task_ids for k in range(2)
  )


def test_only_failures_are_played_again(loop, tmp_path):
  path, failed = tmp_path / 'e.jsonl', {(11, 0), (13, 1)}
  groups = play(loop, path, World(fails=failed))
  assert sum(not e.valid for group in groups for e in group.episodes) == 2
  assert len(list(episodes_lib.read(path))) == 8
  world = World()
  groups = play(loop, path, world)
  assert set(world.played) == failed
  assert all(e.valid for group in groups for e in group.episodes)


def test_a_finished_panel_opens_no_policy(loop, tmp_path):
  path = tmp_path / 'e.jsonl'
  first, world = play(loop, path, World()), World()
  assert play(loop, path, world) == first
  assert world.opened == 0 and world.played == []


def test_too_many_failures_stop_it_and_leave_what_was_played(loop, tmp_path):
  path = tmp_path / 'e.jsonl'
  failed = {(task, k) for task in (11, 12, 13) for k in range(2)}
  with pytest.raises(EnvError, match='of 8 episodes failed'):
    play(loop, path, World(fails=failed), concurrency=1)
  world = World()
  play(loop, path, world)
  assert set(world.played) == failed


def test_a_file_that_cannot_be_written_stops_it(loop, tmp_path):
  (tmp_path / 'e').write_text('a file where a folder should be')
  with pytest.raises(DataError, match='Cannot write episodes'):
    play(loop, tmp_path / 'e' / 'e.jsonl', World())


@pytest.mark.parametrize('after', [0, 3, 9])
def test_attempts_are_played_one_after_the_other(loop, tmp_path, after):
  panel = panel_of(3, samples=2, attempts=2)

  class Learning(World):
    """Later attempts do better by one than the attempt before."""

    async def _play(self, assignment):
      found = await super()._play(assignment)
      before = assignment.previous
      total = before.episode_return + 1 if before else found.episode_return
      return dataclasses.replace(
          fakes.make_episode((total,)),
          episode_id=f'{found.episode_id}.{assignment.attempt}',
          task_id=found.task_id,
          seed=found.seed,
          sample=found.sample,
          attempt=assignment.attempt,
      )

  whole = play(loop, tmp_path / 'whole.jsonl', Learning(), panel)
  for group in whole:
    first, second = group.episodes[:2], group.episodes[2:]
    assert [e.sample for e in (*first, *second)] == [0, 1, 0, 1]
    for before, later in zip(first, second, strict=True):
      assert later.attempt == 1 and later.seed != before.seed
      assert later.episode_return == before.episode_return + 1
  path, again = tmp_path / 'e.jsonl', Learning()
  with pytest.raises(Killed):
    play(loop, path, Learning(killed_after=after), panel)
  assert play(loop, path, again, panel) == whole
  assert len(again.played) <= 12 - after
  assert play(loop, path, again, panel) == whole


EVERYTHING = sorted((task, k) for task in PANEL.task_ids for k in range(2))


def test_what_was_played_before_is_told(loop, tmp_path):
  path, console = tmp_path / 'e.jsonl', rich.console.Console(file=io.StringIO())
  with pytest.raises(Killed):
    play(loop, path, World(killed_after=3))
  play(loop, path, World(), console=console)
  said = console.file.getvalue()
  assert 'a on b: 3 of 8 episodes were played before\n' in said


@pytest.mark.parametrize('whole', [False, True])
def test_what_another_policy_played_is_dropped(loop, tmp_path, whole):
  path = tmp_path / 'e.jsonl'
  if whole:
    play(loop, path, World(), policy={'weights': 'a'})
  else:
    with pytest.raises(Killed):
      play(loop, path, World(killed_after=3), policy={'weights': 'a'})
  world = World()
  play(loop, path, world, policy={'weights': 'b'})
  assert sorted(world.played) == EVERYTHING
  world = World()
  play(loop, path, world, policy={'weights': 'b'})
  assert world.played == []


def test_processes_play_their_shares_and_get_all_groups(loop, tmp_path):
  whole = play(loop, tmp_path / 'whole.jsonl', World())
  path, worlds = tmp_path / 'e.jsonl', [World(), World()]
  assert play_together(path, worlds) == [whole, whole]
  for rank, world in enumerate(worlds):
    assert {task for task, _ in world.played} == {*PANEL.task_ids[rank::2]}
  assert path.read_bytes() == (tmp_path / 'whole.jsonl').read_bytes()
  assert not list(tmp_path.glob('e.jsonl.*'))


@pytest.mark.parametrize('now', [1, 2, 3, 5])
def test_another_number_of_processes_goes_on(loop, tmp_path, now):
  whole = play(loop, tmp_path / 'whole.jsonl', World())
  path, killed = tmp_path / 'e.jsonl', [World(killed_after=k) for k in (1, 3)]
  with pytest.raises(Killed):
    play_together(path, killed)
  assert sorted(x.name for x in tmp_path.glob('e.*')) == [
      *('e.jsonl', 'e.jsonl.1')
  ]
  worlds = [World() for _ in range(now)]
  assert play_together(path, worlds) == [whole] * now
  played = [x for world in (*killed, *worlds) for x in world.played]
  assert sorted(played) == EVERYTHING
  assert path.read_bytes() == (tmp_path / 'whole.jsonl').read_bytes()
  assert not list(tmp_path.glob('e.jsonl.*'))


def test_an_error_names_the_member_of_a_mixture_in_all_processes(tmp_path):
  worlds = [World(fails=EVERYTHING), World()]
  with pytest.raises(EnvError, match='^mixture.m: .* episodes failed'):
    play_together(tmp_path / 'e.jsonl', worlds, member='m')
