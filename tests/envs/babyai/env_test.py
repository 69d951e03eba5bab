"""Tests for agentrl.envs.babyai.env and its expert."""

import json
import random

import pytest

from agentrl.envs.babyai import levels
from agentrl.envs.babyai.env import CHECK, BabyAI
from agentrl.errors import ConfigError, EnvError


def task(level, seed=0):
  return seed * 40 + levels.NAMES.index(level)


def play(env, limit=300):
  """The expert's transcript until the end."""
  found = []
  for _ in range(limit):
    action = env.expert_action()
    found.append((action, env.step(action)))
    if found[-1][1].terminated or found[-1][1].truncated:
      return found
  raise AssertionError('no end')


def test_the_first_observation_has_goal_view_and_actions():
  env = BabyAI()
  first, second, third = env.reset(task('GoToLocalS8N7', 3), 0).splitlines()
  assert first == 'Your goal: go to the purple ball'
  assert second.startswith('You see: a ')
  head, _, listed = third.partition(': ')
  assert head == 'Available actions'
  assert json.loads(listed) == env.available_actions()
  assert {'turn left', 'turn right', CHECK} <= set(env.available_actions())


def test_compact_observations_are_short_and_equal_in_content():
  full, compact = BabyAI(), BabyAI(style='compact')
  for seed in range(5):
    task_id = task('GoToLocalS8N7', seed)
    long, short = full.reset(task_id, 0), compact.reset(task_id, 0)
    assert len(short) < len(long) / 3
    assert full.available_actions() == compact.available_actions()
    assert short.splitlines()[0].split(': ')[1] == (
        long.splitlines()[0].split(': ')[1]
    )


def test_success_is_minigrids_reward_of_the_share_of_steps():
  env = BabyAI()
  env.reset(task('GoToLocalS8N7', 3), 0)
  *before, (_, last) = play(env)
  assert all(r.reward == 0 and r.success is False for _, r in before)
  steps, limit = env._grid.step_count, env._grid.max_steps
  assert last.terminated and last.success and not last.truncated
  assert last.reward == pytest.approx(1 - 0.9 * steps / limit)


def test_a_macro_counts_its_primitive_steps():
  env = BabyAI()
  env.reset(task('GoToLocalS8N7', 3), 0)
  action = next(x for x in env.available_actions() if x.startswith('go to'))
  before = env._grid.step_count
  env.step(action)
  assert env._grid.step_count > before


def test_minigrids_limit_truncates_without_reward():
  env = BabyAI()
  env.reset(task('GoToRedBall', 1), 0)
  for _ in range(64):
    result = env.step('turn left')
    if result.terminated or result.truncated:
      break
  assert env._grid.step_count == 64
  assert (result.truncated, result.terminated) == (True, False)
  assert (result.reward, result.success) == (0.0, False)


def test_an_unknown_action_costs_no_step_and_gives_no_reward():
  env = BabyAI()
  env.reset(task('GoToLocalS8N7'), 0)
  for action in ('dance', '', 'go to red ball 99', 'x' * 10**6):
    result = env.step(action)
    assert result.observation.startswith('You cannot do ')
    assert len(result.observation) < 2000
    assert (result.reward, result.terminated) == (0.0, False)
  assert env._grid.step_count == 0


def test_checking_lists_the_actions():
  env = BabyAI(style='compact')
  env.reset(task('GoToLocalS8N7'), 0)
  assert env.step(CHECK).observation == (
      f'You can: {", ".join(env.available_actions())}.'
  )


def test_pick_up_is_pickup():
  env = BabyAI()
  env.reset(task('PickupLoc', 2), 0)
  action = next(x for x in env.available_actions() if x.startswith('pickup'))
  env.step(action.replace('pickup', 'pick up the'))
  assert env._grid.carrying is not None


def test_levels_restrict_the_tasks_and_keep_their_ids():
  env = BabyAI(levels=['GoToRedBall'])
  assert env.reset(task('GoToRedBall', 2), 0) == BabyAI().reset(
      task('GoToRedBall', 2), 0
  )
  with pytest.raises(EnvError, match='is of level Pickup; .*only GoToRedBall'):
    env.reset(task('Pickup'), 0)


@pytest.mark.parametrize(
    'options', [{'style': 'long'}, {'levels': ['GoTo']}, {'levels': []}]
)
def test_wrong_options_are_refused(options):
  with pytest.raises(ConfigError):
    BabyAI(**options)


def test_nothing_is_printed(capfd):
  env = BabyAI()
  for seed in range(8):  # some of these layouts are rejected at first
    env.reset(task('BossLevel', seed), 0)
  captured = capfd.readouterr()
  assert captured.out == captured.err == ''


def test_asking_the_expert_changes_nothing():
  asked, alone = BabyAI(), BabyAI()
  rng = random.Random(1)
  task_id = task('GoToObjMazeS7', 5)
  assert asked.reset(task_id, 0) == alone.reset(task_id, 0)
  for _ in range(30):
    asked.expert_action()
    action = rng.choice(alone.available_actions())
    result = asked.step(action)
    assert result == alone.step(action)
    if result.terminated:
      break


def test_the_expert_can_take_over_at_any_time():
  env = BabyAI()
  for seed in range(4):
    env.reset(task('GoToSeqS5R2', seed), 0)
    for action in ('turn left', 'move forward', 'turn right', 'move forward'):
      if env.step(action).terminated:
        break
    else:
      assert play(env)[-1][1].success


def test_macros_make_the_experts_episodes_shorter():
  turns = {}
  for macros in (True, False):
    env = BabyAI(expert_macros=macros)
    turns[macros] = 0
    for seed in range(10):
      env.reset(task('GoToLocalS8N7', seed), 0)
      transcript = play(env)
      turns[macros] += len(transcript)
      if not macros:
        said = {action for action, _ in transcript}
        assert said <= {'turn left', 'turn right', 'move forward'}
  assert turns[True] < 0.6 * turns[False]


def open_a_box(env, task_id):
  """Starts a task and opens the first box in view."""
  env.reset(task_id, 0)
  walks = [x for x in env.available_actions() if x.startswith('go to')]
  env.step(next(x for x in walks if ' box ' in x))
  env.step('toggle')


def test_an_opened_box_is_given_up_only_where_it_was_the_goal():
  env = BabyAI()
  open_a_box(env, task('PickupLoc', 5))  # pick up a blue box
  for _ in range(2):
    with pytest.raises(EnvError, match='gave up BabyAI task 218: Disappeared'):
      env.expert_action()
  open_a_box(env, task('PickupLoc', 3))  # pick up the purple ball
  assert play(env)[-1][1].success


def test_a_key_that_does_not_exist_ends_the_search(monkeypatch):
  build = levels.build

  def build_without_boxes(task_id):
    grid = build(task_id)
    kept = [x if x is None or x.type != 'box' else None for x in grid.grid.grid]
    grid.grid.grid = kept
    return grid

  monkeypatch.setattr(levels, 'build', build_without_boxes)
  env = BabyAI()
  env.reset(task('KeyInBox'), 0)
  with pytest.raises(EnvError, match='gave up .*no box to hold it'):
    play(env)


def test_closing_twice_is_fine():
  env = BabyAI()
  env.reset(0, 0)
  env.close()
  env.close()
