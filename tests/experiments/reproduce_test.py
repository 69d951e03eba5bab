"""Tests for experiments.reproduce."""

import importlib
import types

import pytest

from experiments import reproduce


@pytest.mark.parametrize(
    'steps, every, expected',
    [
        (350, 100, [(10, 100), (20, 100), (30, 150)]),
        (150, 100, [(10, 100), (20, 50), (30, 0)]),
        (90, 0, [(10, 90), (20, 0), (30, 0)]),
    ],
)
def test_steps_are_counted_by_their_turns(steps, every, expected):
  horizon = types.SimpleNamespace(turns=(10, 20, 30), every=every)
  assert [*reproduce.stages(horizon, steps)] == expected


@pytest.mark.parametrize('env', reproduce.ENVS)
def test_every_environment_has_a_recipe_and_tokens(env):
  config = importlib.import_module(f'configs.{env}_grpo').get_config()
  assert config.horizon.kind == 'stepwise'
  assert reproduce.FIXED[env] <= max(config.horizon.turns)
  assert len(reproduce.TOKENS[env]) == 3
  (_, fixed), (_, growing) = reproduce.commands(env)
  assert 'horizon.kind=fixed' in fixed and 'horizon' not in growing
