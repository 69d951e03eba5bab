"""Tests for mode='agentevol': one round's parts; runs are in tests.e2e."""

import dataclasses
import json
import types

import pytest

from agentrl import config as config_lib
from agentrl.data import episodes as episodes_lib
from agentrl.modes import agentevol, checkpoints, learning
from agentrl.runtime.event_loop import Interrupted
from agentrl.training import state as state_lib
from agentrl.training.agentevol import LoopState
from configs import babyai_agentevol
from tests import fakes, tiny

pytestmark = pytest.mark.usefixtures('quick_compilation')


def read(**fields):
  config = babyai_agentevol.get_config('tiny')
  config.update_from_flattened_dict(fields)
  return config_lib.read(config)


def make_hooks(run, demonstrations=()):
  return agentevol._Hooks(run, None, tiny.init_params(), demonstrations)


def kept(*returns):
  return [fakes.make_episode((value,), task_id=9) for value in returns]


@pytest.mark.parametrize('weighting, weight', [('equal', 1), ('return', 2 / 3)])
def test_a_round_begins_with_the_base_and_learns_all_that_was_kept(
    make_run, weighting, weight
):
  fields = {'algo.epochs': 2, 'algo.weighting': weighting}
  run = make_run(read(**fields))
  demonstration = fakes.make_episode()
  hooks = make_hooks(run, [demonstration])
  params, metrics = hooks.learn(1, kept(0.75, 0.25))
  assert metrics['train/updates'] == 2  # one minibatch, twice
  assert metrics['train/tokens'] == 2 * 3 * len(demonstration.tokens)
  # A demonstration is as good as it gets.
  assert metrics['policy/weight'] == pytest.approx(weight)
  assert (params['embed'] != hooks.base_params['embed']).any()
  path = run.session.directory / 'rounds' / '1' / 'sft.jsonl'
  assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize('place', range(3))
def test_a_round_counts_updates_and_ends_with_the_metrics_of_one(
    make_run, place
):
  """Wherever the demonstration stands that teaches nothing."""
  run = make_run(read(**{'algo.epochs': 2, 'algo.minibatch_size': 1}))
  episodes = kept(1.0, 0.5, 0.0)
  turns = tuple(
      dataclasses.replace(turn, learn=False, reward=0.0)
      for turn in episodes[2].turns
  )
  nothing = dataclasses.replace(episodes.pop(), turns=turns)
  episodes.insert(place, nothing)
  _, metrics = make_hooks(run, episodes).learn(0, [])
  assert metrics['train/updates'] == 4
  assert metrics['policy/loss'] > 0
  path = run.session.directory / 'rounds' / '0' / 'sft.jsonl'
  assert len(path.read_text().splitlines()) == 6


def test_a_round_leaves_its_line_and_both_kinds_of_episodes(
    make_run, monkeypatch
):
  evaluated = []

  def evaluate(run, arena, serving, *inputs, checkpoint, panel):
    evaluated.append((*inputs, checkpoint))
    raise Interrupted  # the loop saves the round before it stops

  monkeypatch.setattr(learning, 'evaluate', evaluate)
  run = make_run(read(num_steps=2))
  directory = run.session.directory
  run.record.open(run.session.stack, 3, 0, shown=())
  hooks = make_hooks(run)
  groups = [fakes.make_group(0.0, 1.0)]
  hooks.record(0, {'policy/loss': 1.0}, [], [])
  for number in (1, 2):
    hooks.record(number, {}, groups, kept(1.0))
  lines = (directory / 'metrics.jsonl').read_text().splitlines()
  lines = [json.loads(line) for line in lines]
  assert [line['step'] for line in lines] == [0, 1, 2]
  assert ['rollout/return_mean' in line for line in lines] == [0, 1, 1]
  for number in (0, 1):
    with pytest.raises(Interrupted):
      hooks.evaluate(number, number + 1)
  hooks.evaluate(2, 3)  # after the last round the mode itself evaluates
  assert evaluated == [('before', 0, 1, 1), ('round_1', 1, 2, 2)]
  # A run that goes on plays what is missing.
  run.record.restore(run.record.state() | {'evals': {'before': {}}})
  with pytest.raises(Interrupted):
    hooks.evaluate(1, 2)
  hooks.evaluate(0, 1)
  assert evaluated[2:] == [('round_1', 1, 2, 2)]
  path = agentevol._kept_path(run.session, 2)
  assert list(episodes_lib.read(path)) == kept(1.0)
  path = episodes_lib.step_path(directory, 'train', 2)
  assert list(episodes_lib.read(path)) == list(groups[0].episodes)
  assert not episodes_lib.step_path(directory, 'train', 0).exists()


def test_a_checkpoint_has_parameters_and_no_optimizer(make_run):
  run, loop = make_run(read()), LoopState(1, 2, {'cursor': 3})
  params = tiny.new_state().params
  make_hooks(run).save(params, loop)  # waits until it is complete
  assert run.checkpoints.latest == 1
  like = state_lib.abstract(agentevol._state(run, 0, params))
  state, _, found = checkpoints.restore(make_run(read()), like)
  assert LoopState(**found) == loop and int(state.step) == 1
  assert state.opt_state is None
  tiny.assert_trees_equal(state.params, params)


def test_an_exploration_is_named_by_its_round(make_run):
  asked = []

  class Collector:

    def collect(self, tasks, samples, sampler, **options):
      asked.append((tasks, samples, options))

  run = make_run(read(), collector=Collector())
  serving = types.SimpleNamespace(make_sampler=lambda temperature: None)
  hooks = dataclasses.replace(make_hooks(run), serving=serving)
  hooks.explore(2, [(5, 7)], policy_version=3)
  assert asked == [(
      [(5, 7)],
      run.session.config.explore.samples,
      {
          'name': 'round-2',
          'horizon': run.session.config.explore.horizon,
          'policy_version': 3,
          'seed': run.session.seed('round-2'),
      },
  )]
