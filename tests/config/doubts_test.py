"""Tests for agentrl.config.doubts."""

import pytest

from agentrl.config import doubts, mixture
from configs import mixture_grpo, quickstart, sciworld_laptop


def found(module, **fields):
  config = module.get_config()
  config.update_from_flattened_dict(fields)
  return list(doubts.find(mixture.read(config)))


@pytest.mark.parametrize('module', [quickstart, mixture_grpo, sciworld_laptop])
def test_a_config_of_ours_has_none(module):
  assert found(module) == []


@pytest.mark.parametrize(
    'fields, said',
    [
        # Two updates a step.
        (
            {'optim.warmup_steps': 200, 'optim.lr': 1e-3},
            (
                'optim.warmup_steps=200 is longer than all 140 updates: the'
                ' learning rate ends at 0.0007 and never reaches'
                ' optim.lr=0.001.'
            ),
        ),
        (
            {'num_steps': 3, 'optim.warmup_steps': 7},
            'longer than all 6 updates',
        ),
        (
            {'warmstart.warmup_steps': 49, 'warmstart.lr': 1.0},
            'warmstart.warmup_steps=49 is longer than all 48 updates',
        ),
    ],
)
def test_a_warm_up_beyond_its_updates(fields, said):
  [line] = found(quickstart, **fields)
  assert said in line


@pytest.mark.parametrize(
    'fields', [{'optim.warmup_steps': 140}, {'warmstart.warmup_steps': 48}]
)
def test_a_warm_up_that_just_ends(fields):
  assert found(quickstart, **fields) == []


# Of 560 tasks and 256 episodes of the expert: at 3e-3 there are 1.7 and 0.8.
@pytest.mark.parametrize(
    'weight, hardly', [(0.0, 0), (1e-3, 2), (3e-3, 1), (1e-2, 0)]
)
def test_a_member_that_is_hardly_played(weight, hardly):
  config = quickstart.get_config()
  level = {'env': {'options': {'levels': ('GoToLocal',)}}}
  config.mixture = {'a': {'weight': 1.0}, 'c': {'weight': weight, **level}}
  lines = list(doubts.find(mixture.read(config)))
  lines = [line for line in lines if line.startswith('mixture.c.weight')]
  assert len(lines) == hardly, lines


def test_episodes_that_wait_for_a_simulator():
  [line] = found(sciworld_laptop, **{'rollout.concurrency': 16})
  assert 'share env.options.simulators=4' in line
  assert 'Set rollout.concurrency=4.' in line


def test_determinism_that_repeats_nothing():
  ahead = {
      'rollout.ahead': 1,
      'algo.ratio': 'sampler',
      'sampler.deterministic': True,
  }
  [line] = found(quickstart, **ahead)
  assert 'With rollout.ahead=1 the same command repeats no run' in line
