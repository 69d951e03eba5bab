"""Tests for agentrl.training.agentevol: the loop, with fakes for its parts."""

import dataclasses
import json

import pytest

from agentrl.data.tasks import TaskIterator
from agentrl.errors import EngineError
from agentrl.training import agentevol
from agentrl.training.agentevol import LoopState
from tests import fakes


class World(agentevol.Hooks):
  """A policy that is a number: the episodes that it learnt from.

  It solves a task with a return that grows with it.
  """

  def __init__(self, *, stop_in=None, fails=None):
    self.tasks = TaskIterator(range(6), seed=0)
    self.params = None
    self.log = []
    self.saved = None
    self._stop_in = stop_in  # a round
    self._fails = fails  # name of a call, in round 1

  def explore(self, number, tasks, *, policy_version):
    self.log.append(('explore', number, policy_version, tasks))
    return [
        fakes.make_group(
            self.params * 0.1 - task_id * 0.1, None, task_id=task_id
        )
        for _, task_id in tasks
    ]

  def learn(self, number, kept):
    if number == self._stop_in:
      raise KeyboardInterrupt
    self.log.append(
        ('learn', number, [(e.task_id, e.episode_return) for e in kept])
    )
    return 3 + len(kept), {'policy/loss': 0.5}

  def push(self, params, version):
    self._fail('push', version - 1)
    self.params = params
    self.log.append(('push', params, version))

  def record(self, number, values, groups, kept):
    json.dumps(values)
    self.log.append(('record', number, len(groups), len(kept)))
    self.values, self.kept = values, kept

  def evaluate(self, number, version):
    self._fail('evaluate', number)
    self.log.append(('evaluate', number, version))

  def _fail(self, name, number):
    if (name, number) == (self._fails, 1):
      raise EngineError(f'{name} failed')

  def save(self, params, loop):
    self.saved = json.dumps(dataclasses.asdict(loop)), params, self.kept

  def train(self, loop=None, kept=(), *, rounds=3):
    return agentevol.train(
        loop or LoopState(0, 0, self.tasks.state()),
        kept,
        num_rounds=rounds,
        tasks_per_round=4,
        tasks=self.tasks,
        threshold=0.0,
        hooks=self,
    )


def test_round_zero_learns_and_later_ones_explore_first():
  world = World()
  loop = world.train(rounds=1)
  assert [entry[0] for entry in world.log] == [
      *('learn', 'record', 'push', 'evaluate'),
      *('explore', 'learn', 'record', 'push', 'evaluate'),
  ]
  assert world.log[0] == ('learn', 0, [])
  assert world.log[4][1:3] == (1, 1)  # the policy of round 0 is version 1
  assert (loop.step, loop.policy_version) == (2, 2)


def test_what_was_kept_earlier_is_learnt_again():
  world = World()
  world.train()
  learnt = [entry[2] for entry in world.log if entry[0] == 'learn']
  assert len(learnt) == 4
  for before, after in zip(learnt, learnt[1:], strict=False):
    assert dict(after).keys() >= dict(before).keys()
    for task, value in before:
      assert dict(after)[task] >= value
  assert all(value > 0 for value in dict(learnt[-1]).values())
  assert world.values['filter/kept'] == len(world.kept)


@pytest.mark.parametrize('stop_in', [0, 1, 2, 3])
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(stop_in):
  whole = World()
  expected = whole.train()
  world = World(stop_in=stop_in)
  with pytest.raises(KeyboardInterrupt):
    world.train()

  again = World()
  loop, kept = None, ()
  if world.saved:
    text, again.params, kept = world.saved
    loop = LoopState(**json.loads(text))
    again.tasks.restore(loop.tasks)
  assert again.train(loop, kept) == expected
  assert again.log == whole.log[-len(again.log) :]
  assert again.saved == whole.saved


@pytest.mark.parametrize('call', ['push', 'evaluate'])
def test_a_round_is_saved_though_the_sampler_fails_after_it(call):
  whole, world = World(), World(fails=call)
  expected = whole.train()
  with pytest.raises(EngineError, match=f'{call} failed'):
    world.train()
  assert world.log[-1][0] == {'push': 'record', 'evaluate': 'push'}[call]

  again = World()
  text, again.params, kept = world.saved
  loop = LoopState(**json.loads(text))
  assert loop.step == 2
  again.tasks.restore(loop.tasks)
  assert again.train(loop, kept) == expected
  assert again.saved == whole.saved


def test_a_run_that_is_done_does_nothing_more():
  world = World()
  loop = world.train()
  done = len(world.log)
  assert world.train(loop, world.kept) == loop
  assert len(world.log) == done


def test_selection_is_of_valid_episodes_above_the_threshold():
  groups = [fakes.make_group(0.5, 0.2, None, 0.9)]
  found = agentevol.select(groups, 0.2)
  assert [e.episode_return for e in found] == [0.5, 0.9]


def test_the_best_episode_of_a_task_is_kept_and_the_first_of_equals():
  a, b, c, d = (
      fakes.make_episode((value,), task_id=task, episode_id=name)
      for name, task, value in (
          ('a', 1, 0.5),
          ('b', 2, 0.9),
          ('c', 1, 0.7),
          ('d', 2, 0.9),
      )
  )
  e = fakes.make_episode((0.1,), task_id=3, episode_id='e')
  merged, counts = agentevol.merge([a, b], [c, d, e])
  assert [episode.episode_id for episode in merged] == ['c', 'b', 'e']
  assert counts == {
      'filter/kept': 3.0,
      'filter/new_tasks': 1.0,
      'filter/improved': 1.0,
  }


def test_nothing_new_keeps_what_there_was():
  old = [fakes.make_episode((0.5,), task_id=1)]
  merged, counts = agentevol.merge(old, [])
  assert merged == old and counts['filter/new_tasks'] == 0
