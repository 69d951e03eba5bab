"""Tests for agentrl.evaluation.chance.play, in real environments."""

import dataclasses

import pytest

from agentrl.envs.options import EnvOptions
from agentrl.errors import EnvError
from agentrl.evaluation.chance import level as level_lib, play
from agentrl.evaluation.chance.level import EXPERT, KINDS, RANDOM, Level
from agentrl.evaluation.chance.play import Budget, Reference
from agentrl.rollout.environment import Environment
from agentrl.rollout.options import AgentOptions, Limits
from agentrl.runtime.event_loop import EventLoop
from tests.evaluation import recording

ENDLESS = 1e9
OPTIONS = {'levels': ('GoToRedBall',), 'style': 'compact'}
TASKS = 19


@pytest.fixture(scope='module')
def reference():
  with EventLoop() as loop:
    env = EnvOptions(name='babyai', options=OPTIONS, workers=1)
    with Environment(loop, env, expert=True) as environment:
      yield Reference(loop, environment, AgentOptions(), Limits(concurrency=4))


def panel_of(reference, count=TASKS, **fields):
  tasks = reference.environment.panel('test', count)
  kind_of = reference.environment.subtasks()
  return recording.panel(
      'babyai',
      task_ids=tasks,
      subtasks=tuple(map(kind_of, tasks)),
      **dict(horizon=6) | fields,
  )


def played(reference, kind, panel, kept=(), seconds=ENDLESS):
  parts = []
  found = reference.play(kind, panel, kept, Budget(seconds), parts.append)
  return found, parts


@pytest.mark.parametrize('kind', KINDS)
def test_the_same_panel_is_played_alike(reference, kind):
  panel = panel_of(reference)
  found, parts = played(reference, kind, panel)
  assert [x.key for x in found] == level_lib.places(panel)
  assert len(parts[0]) == 8 and parts[-1] == found
  slower = dataclasses.replace(
      reference, limits=dataclasses.replace(reference.limits, concurrency=1)
  )
  assert played(slower, kind, panel)[0] == found
  # Whoever stops and goes on has the same in the end, and repeats nothing.
  again, rest = played(reference, kind, panel, parts[0])
  assert again == found and len(rest) <= 2
  assert played(reference, kind, panel, found) == (found, [])
  summary = level_lib.summarise(
      Level(kind=kind, key='', panel=panel, outcomes=found)
  )
  assert summary['n'] == TASKS and summary['invalid'] == 0
  if kind == EXPERT:
    assert summary['mean'] > 0.5


def test_other_seeds_and_samples_are_other_episodes(reference):
  panel = panel_of(reference, 8, horizon=12)
  rets = lambda panel: [x.turns for x in played(reference, RANDOM, panel)[0]]
  first = rets(panel)
  assert rets(panel_of(reference, 8, horizon=12, seed=1)) != first
  several = panel_of(reference, 2, samples=2, attempts=2)
  found, _ = played(reference, RANDOM, several)
  assert [x.key for x in found] == level_lib.places(several)
  assert len(set(x.key for x in found)) == 8


def test_a_budget_ends_with_a_whole_part(reference):
  panel = panel_of(reference)
  found, parts = played(reference, RANDOM, panel, seconds=0.0)
  assert len(found) == 8 and len(parts) == 1  # one at least
  spent = Budget(0.0)
  spent.spend(1.0, 1)
  keep = parts.append
  assert reference.play(EXPERT, panel, (), spent, keep) == ()


class Without:
  """An environment whose servers offer nothing to act by."""

  def __init__(self, environment, failing=lambda task: True):
    self.environment, self.failing = environment, failing
    self.resets = []

  def __getattr__(self, name):
    return getattr(self.environment, name)

  def client(self):
    return Client(self, self.environment.client())


class Client:

  def __init__(self, owner, client):
    self.owner, self.client = owner, client

  def __getattr__(self, name):
    return getattr(self.client, name)

  async def __aenter__(self):
    await self.client.__aenter__()
    return self

  async def __aexit__(self, *exc_info):
    await self.client.__aexit__(*exc_info)

  async def reset(self, task_id):
    self.owner.resets.append(task_id)
    self.task = task_id
    return await self.client.reset(task_id)

  async def expert_action(self):
    if self.owner.failing(self.task):
      raise EnvError('There is no expert.')
    return await self.client.expert_action()


def test_an_environment_without_an_expert_is_soon_found_out(reference):
  panel = panel_of(reference)
  without = Without(reference.environment)
  other = dataclasses.replace(reference, environment=without)
  assert played(other, EXPERT, panel) == (None, [])
  assert len(without.resets) == 2 * 8  # a part, twice


def test_tasks_that_the_expert_cannot_do_are_counted(reference):
  panel = panel_of(reference)
  lost = panel.task_ids[:2]
  without = Without(reference.environment, lambda task: task in lost)
  other = dataclasses.replace(reference, environment=without)
  found, _ = played(other, EXPERT, panel)
  whole, _ = played(reference, EXPERT, panel)
  assert [x.task for x in found if x.success is None] == list(lost)
  assert found[2:] == whole[2:]
  level = Level(kind=EXPERT, key='', panel=panel, outcomes=found)
  assert level_lib.summarise(level)['not_played'] == {'env_error': 2}


def test_an_episode_that_failed_once_is_played_again(reference):
  panel = panel_of(reference)
  broken = {panel.task_ids[3]}

  def failing(task):
    found = task in broken
    broken.discard(task)
    return found

  other = dataclasses.replace(
      reference, environment=Without(reference.environment, failing)
  )
  # Parts are as large as the machine is quick.
  found, _ = played(other, EXPERT, panel)
  whole, _ = played(reference, EXPERT, panel)
  assert found == whole


@pytest.mark.parametrize('format', ['function_calling', 'tools', 'plain'])
def test_any_format_will_do(reference, format):
  agent = AgentOptions(format=format)
  panel = panel_of(reference, 4)
  other = dataclasses.replace(reference, agent=agent)
  found, _ = played(other, EXPERT, panel)
  assert all(x.success is not None for x in found)


def test_what_is_quick_is_played_in_larger_parts(reference, monkeypatch):
  panel = panel_of(reference, 60)
  sizes, old = [], Reference._episodes

  def noted(self, play, panel, tasks):
    sizes.append(len(tasks))
    return old(self, play, panel, tasks)

  monkeypatch.setattr(Reference, '_episodes', noted)
  monkeypatch.setattr(play, '_QUICK_S', ENDLESS)
  whole, _ = played(reference, EXPERT, panel)
  assert sizes == [8, 16, 32, 4]
  sizes.clear()
  monkeypatch.setattr(play, '_QUICK_S', 0.0)
  assert played(reference, EXPERT, panel)[0] == whole
  assert sizes == [8] * 7 + [4]
  sizes.clear()
  played(reference, EXPERT, panel_of(reference, 5, samples=3))
  assert sizes == [2, 2, 1]
