"""Tests for agentrl.envs.adapters.gymnasium, on Gymnasium's own environments."""

import gymnasium
import numpy as np
import pytest

from agentrl import envs
from agentrl.envs.adapters import gymnasium as adapter
from agentrl.errors import ConfigError, EnvError

SPEC = envs.get('gymnasium')
STILL = {'is_slippery': False}


def make(id, told=None, max_steps=None, **kwargs):
  options = dict(id=id, kwargs=kwargs, max_steps=max_steps, told=told)
  return SPEC.open(**options).make()


def play(env, task_id, seed=0, turns=300):
  """The texts, and the last result, of an expert's episode."""
  said = [env.reset(task_id, seed)]
  for _ in range(turns):
    result = env.step(env.expert_action())
    said.append(result.observation)
    if result.terminated or result.truncated:
      break
  return said, result


@pytest.mark.parametrize(
    'id, kwargs, least',
    [
        ('FrozenLake-v1', STILL, 1.0),
        ('Taxi-v4', {}, 1.0),
        ('CartPole-v1', {'max_steps': 40}, 0.95),
    ],
)
def test_the_expert_solves_what_is_described(id, kwargs, least):
  env = make(id, **kwargs)
  ends = [play(env, task)[1] for task in range(40)]
  assert sum(bool(end.success) for end in ends) / 40 >= least


def test_a_task_is_a_world_and_a_seed_is_chance():
  env, other = make('FrozenLake-v1'), make('FrozenLake-v1')
  assert env.reset(3, 0) == other.reset(3, 7)
  assert env.reset(3, 0) != env.reset(4, 0)
  assert play(env, 3, 5) == play(other, 3, 5)
  assert len({tuple(play(env, 3, seed)[0]) for seed in range(8)}) > 1


def test_rewards_and_observations_are_those_of_gymnasium():
  """The same actions in their environment itself."""
  env = make('Taxi-v4')
  env.reset(2001, 0)
  plain = gymnasium.make('Taxi-v4')
  seen, _ = plain.reset(seed=0)
  plain.unwrapped.s = seen = env._seen
  rng = np.random.default_rng(0)
  words = list(adapter.TOLD['Taxi-v4'].actions)
  for _ in range(50):
    move = int(rng.integers(6))
    result = env.step(words[move])
    seen, reward, terminated, _, _ = plain.step(move)
    assert (result.reward, result.terminated) == (reward, terminated)
    row, column, *_ = plain.unwrapped.decode(seen)
    assert result.observation.startswith(f'Taxi at {row} {column}.')


@pytest.mark.parametrize('task', range(8))
def test_what_is_said_to_be_beside_is_where_a_move_leads(task):
  env = make('FrozenLake-v1', **STILL)
  rng = np.random.default_rng(task)
  *lake, beside = env.reset(task, 0).splitlines()
  seen = set()
  for _ in range(200):
    move, cell = beside.split(', ')[rng.integers(4)].split()
    seen.add(cell)
    result = env.step(move)
    *after, beside = result.observation.splitlines()
    assert (after != lake) == (cell != 'edge')
    assert result.terminated == (cell in 'HG')
    if result.terminated:
      *after, beside = env.reset(task, 0).splitlines()
    lake = after
  assert {'edge', 'F', 'H'} <= seen


def test_a_lake_is_as_large_as_its_named_map_and_another_one_for_each_task():
  env = make('FrozenLake-v1', map_name='8x8', **STILL)
  *lake, beside = env.reset(0, 0).splitlines()
  assert [len(line.split()) for line in lake] == [8] * 8
  assert beside == 'left edge, ' + beside.split(', ', 1)[1]
  assert env.reset(1, 0) != env.reset(0, 0)
  assert play(env, 0)[1].success
  # A lake of one's own is the same one in every task.
  env = make('FrozenLake-v1', desc=['SF', 'HG'], **STILL)
  assert env.reset(1, 0) == env.reset(0, 0)
  assert env.reset(1, 0).startswith('Y F\nH G\n')


def test_a_time_limit_truncates():
  env = make('CartPole-v1', max_steps=5)
  _, result = play(env, 0)
  assert result.truncated and not result.terminated and result.success
  env = make('FrozenLake-v1', max_steps=2, **STILL)
  _, result = play(env, 0)
  assert result.truncated and not result.success


def test_an_unknown_action_changes_nothing():
  env = make('FrozenLake-v1', **STILL)
  first = env.reset(2000, 0)
  result = env.step('jump')
  assert result.observation == (
      f'This is no action. There are: left, down, right, up.\n{first}'
  )
  assert (result.reward, result.terminated) == (0.0, False)


def test_an_environment_that_is_not_described_is_told_by_its_numbers():
  env = make('Blackjack-v1')
  assert all(x.strip().isdigit() for x in env.reset(0, 0).split(','))
  assert env.available_actions() == ['action 0', 'action 1']
  with pytest.raises(EnvError, match='has no expert: give it one in a Told'):
    env.expert_action()
  spec = SPEC.under(id='Blackjack-v1')
  assert 'Blackjack-v1' in spec.instructions('plain', 'full')


def test_a_description_of_ones_own(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text("""
from agentrl.envs.adapters.gymnasium import Told

CLIFF = Told(
    goal='Walk along the cliff to the other corner.',
    actions={'up': 0, 'right': 1, 'down': 2, 'left': 3},
    observe=lambda env, seen: 'Row %d, column %d.' % divmod(int(seen), 12),
    success=lambda total, reward, terminated: terminated,
)
""")
  env = make('CliffWalking-v1', told=f'{path}:CLIFF')
  assert env.reset(0, 0) == 'Row 3, column 0.'
  said, result = play(env, 0)
  assert result.success and len(said) == 14
  spec = SPEC.under(id='CliffWalking-v1', told=f'{path}:CLIFF')
  assert 'Walk along the cliff' in spec.instructions('plain', 'full')
  assert [function.name for function in spec.functions] == [
      'up', 'right', 'down', 'left'
  ]  # fmt: skip
  assert SPEC.unsafe_options['told'](f'{path}:CLIFF')


@pytest.mark.parametrize(
    'kwargs, unsafe',
    [
        (None, False),
        ({}, False),
        ({'is_slippery': False, 'x': 0.5}, False),
        ({'render_mode': 'human'}, True),
        ({'size': 3, 'xml_file': '/tmp/evil.xml'}, True),
        ({'wrappers': ['a']}, True),
        ('evil', True),
    ],
)
def test_arguments_that_are_numbers_name_nothing(kwargs, unsafe):
  assert SPEC.unsafe_options['kwargs'](kwargs) == unsafe


@pytest.mark.parametrize(
    'options, said',
    [
        (
            {'id': 'Nonesuch-v1'},
            "env.options.id='Nonesuch-v1': .*doesn't exist",
        ),
        ({'id': 'nonesuch_pkg:X-v0'}, 'nonesuch_pkg'),
        ({'id': 'FrozenLake-v1', 'kwargs': {'size': 3}}, 'size'),
        (
            {'id': 'FrozenLake-v1', 'kwargs': {'map_name': '16x16'}},
            "map_name='16x16' is no map of FrozenLake; known: 4x4, 8x8",
        ),
        ({'id': 'Taxi-v4', 'told': 'none.py:X'}, 'none.py'),
    ],
)
def test_what_cannot_be_made_is_refused(options, said):
  with pytest.raises(ConfigError, match=said):
    SPEC.open(**options)


def test_actions_that_have_no_words_are_refused():
  env = make('Pendulum-v1')
  with pytest.raises(EnvError, match='only discrete ones and texts have words'):
    env.reset(0, 0)
