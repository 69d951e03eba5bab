"""Tests for agentrl.rollout.collector, with an environment in this process."""

import collections
import dataclasses
import io
import types

import pytest
import rich.console

from agentrl import envs, schedules
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError, EnvError
from agentrl.rollout import collector as collector_lib, seeds
from agentrl.rollout.agent import make_agent
from agentrl.rollout.ahead import Ahead, Settings
from agentrl.rollout.collect import Assignment
from agentrl.rollout.collector import Collector
from agentrl.rollout.options import AgentOptions, Limits
from agentrl.rollout.sources import Source, Sources
from agentrl.runtime.event_loop import EventLoop
from agentrl.text import tokenizer as tokenizer_lib
from tests import fakes

LIMITS = Limits(max_completion_tokens=4, max_context=4096, concurrency=2)


class Environment:
  """Walks of as many steps as their task says."""

  name, deaths, spec = 'fake', (), envs.get('textcraft')

  def __init__(self):
    self.clients = []

  def client(self):
    self.clients.append(fakes.FakeEnv())
    return self.clients[-1]

  def tasks(self, split):
    assert split == 'train'
    return (1, 2, 3, 4)


@pytest.fixture
def collector():
  """Plays in it; its console can be read."""
  tokenizer = tokenizer_lib.train_bpe(['go'], 300)
  style = AgentOptions(format='plain', instructions='compact')
  agent = make_agent(envs.get('textcraft'), tokenizer, style)
  console = rich.console.Console(file=io.StringIO(), width=200)
  with EventLoop() as loop:
    yield Collector(loop, console, Environment(), agent, LIMITS)


def says(collector, *words):
  """A policy that says these words, turn by turn, again and again."""
  return fakes.FakePolicy([collector.agent.write(word) for word in words])


def collect(collector, policy, tasks=((0, 2), (1, 1)), **options):
  options = dict(name='some', horizon=3, seed=5) | options
  return collector.collect(tasks, 2, policy, **options)


def test_groups_come_in_the_order_of_their_tasks(collector):
  policy = says(collector, 'go')
  groups = collect(
      collector, policy, [(4, 3), (5, 1)], split='test', policy_version=9
  )
  assert [(g.ordinal, g.task_id) for g in groups] == [(4, 3), (5, 1)]
  episodes = [episode for group in groups for episode in group.episodes]
  assert [e.episode_id for e in episodes] == [
      'some-4-0',
      'some-4-1',
      'some-5-0',
      'some-5-1',
  ]
  assert {(e.split, e.policy_version, e.horizon) for e in episodes} == {
      ('test', 9, 3)
  }
  assert all(e.success for e in episodes)
  assert [len(e.turns) for e in episodes] == [3, 3, 1, 1]


def test_seeds_follow_that_of_the_collection(collector):
  drawn = lambda seed: [
      episode.seed
      for group in collect(collector, says(collector, 'go'), seed=seed)
      for episode in group.episodes
  ]
  assert drawn(5) == drawn(5) != drawn(6)
  assert len(set(drawn(5))) == 4


def test_an_episode_is_played_as_it_is_assigned(collector):
  how = dict(name='some', split='test', horizon=3, policy_version=9)
  play = collector.play(says(collector, 'go'), **how)
  episode = collector.loop.run(play(Assignment(4, 2, 1, 77)))
  assert (episode.episode_id, episode.task_id) == ('some-4-1', 2)
  assert (episode.seed, episode.sample, episode.attempt) == (77, 1, 0)
  assert (episode.split, episode.policy_version) == ('test', 9)


def test_the_expert_plays_its_own_order_without_a_limit_of_words(collector):
  played = collector.play_expert(4, horizon=3, seed=7, max_context=64)
  assert sorted(e.task_id for e in played) == [1, 2, 3, 4]
  assert [e.success for e in played] == [e.task_id < 4 for e in played]
  again = collector.play_expert(2, horizon=3, seed=7, max_context=64)
  assert [e.task_id for e in again] == [e.task_id for e in played[:2]]
  assert {e.episode_id.partition('-')[0] for e in played} == {'expert'}
  assert collector_lib.expert_seed(7) == seeds.derive_seed(7, 'expert')
  assert collector.limits is LIMITS


def test_texts_are_those_of_whole_expert_episodes(collector):
  made = []

  def writes(tokenizer):
    made.append(tokenizer)
    return collector

  texts = collector_lib.expert_texts(writes, horizon=9, seed=7)
  assert [tokenizer.vocab_size for tokenizer in made] == [256 + 3]
  assert any('Walk 3 steps' in text for text in texts)
  assert 'go' in texts and 'You arrived.' in texts


def members(collector, *environments):
  """Collectors of a mixture, by the names a, b and so on."""
  return [
      dataclasses.replace(collector, environment=environment, member=name)
      for name, environment in zip('abc', environments, strict=False)
  ]


def test_members_of_a_mixture_play_at_one_time_under_their_names(collector):
  a, b = members(collector, Environment(), Environment())
  policy = says(collector, 'go')
  how = dict(name='train-0', horizon=3)
  jobs = [
      a.job([(0, 2), (1, 1)], 2, policy, seed=5, **how),
      b.job([(0, 3)], 2, policy, seed=6, **how),
  ]
  found = collector_lib.run_jobs(jobs, 'step 1')
  assert [[g.task_id for g in groups] for groups in found] == [[2, 1], [3]]
  ids = [e.episode_id for groups in found for g in groups for e in g.episodes]
  assert ids[0] == 'train-0-a-0-0' and ids[-1] == 'train-0-b-0-1'
  assert len(set(ids)) == len(ids)
  # Together it is what it is alone.
  alone = a.collect([(0, 2), (1, 1)], 2, policy, seed=5, **how)
  assert [[e.seed for e in g.episodes] for g in found[0]] == [
      [e.seed for e in g.episodes] for g in alone
  ]
  assert collector_lib.run_jobs(
      [jobs[0], b.job([], 2, policy, seed=6, **how)], ''
  )


def test_a_member_that_dies_ends_the_collection_by_its_name(collector):
  dead = Environment()
  down = {'create': EnvError('it is down')}
  dead.client = lambda: fakes.FakeEnv(fails=down)
  dead.revived = 0

  async def revive():
    dead.revived += 1

  dead.revive = revive
  limits = dataclasses.replace(LIMITS, attempts=2)
  a, b = members(
      dataclasses.replace(collector, limits=limits), Environment(), dead
  )
  policy = says(collector, 'go')
  how = dict(name='train-0', horizon=3, seed=5)
  jobs = [
      # More than the share of all that may fail.
      a.job([(i, 1) for i in range(9)], 2, policy, **how),
      b.job([(0, 1)], 2, policy, **how),
  ]
  with pytest.raises(EnvError, match='^mixture.b: .*env_error: it is down'):
    collector_lib.run_jobs(jobs, 'step 1')
  assert dead.revived >= 2  # it was tried again


def test_only_what_the_expert_solved_is_imitated(collector):
  said = lambda: collector.console.file.getvalue()
  played = [fakes.make_episode((value,)) for value in (1.0, 0.0, 1.0)]
  good = collector_lib.solved(played, collector.console, horizon=9)
  assert good == [played[0], played[2]]
  assert said() == '2 episodes of the expert; 1 more failed or were cut\n'
  collector_lib.solved(good, collector.console, horizon=9)
  assert said().endswith('\n2 episodes of the expert\n')
  with pytest.raises(
      ConfigError, match='solved none of 1 episodes within 9 turns; allow more'
  ):
    collector_lib.solved(played[1:2], collector.console, horizon=9)


def test_failures_of_the_sampler_are_counted_step_by_step():
  sampler = types.SimpleNamespace(
      counts=collections.Counter(retries=2, aborted_tokens=30, other=1)
  )
  turns = tuple(fakes.make_turn(weight_version=v) for v in ('3', '4', '4'))
  groups = [fakes.make_group(0.0)]
  episode = fakes.make_episode(policy_version=3, turns=turns)
  groups.append(types.SimpleNamespace(episodes=(episode,)))
  found = collector_lib.sampler_metrics(sampler, groups, collector_lib.Alone())
  assert found == {
      'sampler/retries': 2.0,
      'sampler/aborts': 0.0,
      'sampler/aborted_tokens': 30.0,
      'sampler/stale_turns': 2.0,
  }
  again = collector_lib.sampler_metrics(
      sampler, groups[:1], collector_lib.Alone()
  )
  assert set(again.values()) == {0.0}


class Hanging(Environment):
  """Every fourth environment never answers."""

  def client(self):
    hangs = len(self.clients) % 4 == 3
    self.clients.append(fakes.FakeEnv(step_s=1000.0 if hangs else 0.0))
    return self.clients[-1]


def test_a_member_that_never_returns_leaves_a_group_of_the_others(
    collector, tmp_path
):
  limits = dataclasses.replace(
      LIMITS, deadline_s=0.2, attempts=1, concurrency=8
  )
  hanging = dataclasses.replace(collector, environment=Hanging(), limits=limits)
  policy = says(collector, 'go')

  async def play(admission):
    job = hanging.job(
        [(admission.ordinal, admission.task_id)],
        4,
        policy,
        name='some',
        horizon=admission.horizon,
        seed=admission.round,
    )
    [group] = await job.run(job.tasks, max_failed_share=1.0)
    return group

  ahead = Ahead(
      Sources([Source(TaskIterator((1, 2, 3), seed=0), schedules.fixed(4))], 2),
      play,
      collector.loop,
      Settings(
          depth=1,
          bound=3,
          groups=2,
          episodes=8,
          rounds=3,
          max_failed_share=0.5,
      ),
      tmp_path,
  )
  horizon = None
  for step in range(3):
    horizon, collection = ahead.collect(step, horizon, {}, step)
    for group in collection.groups:
      reasons = collections.Counter(e.stop_reason for e in group.episodes)
      assert reasons == {'terminated': 3, 'timeout': 1}
    assert collection.metrics()['rollout/invalid'] == 2
