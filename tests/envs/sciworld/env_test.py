"""Tests for agentrl.envs.sciworld.env, with the real simulator."""

import pytest

from agentrl.envs.sciworld import tasks
from agentrl.envs.sciworld.env import SciWorld, open_factory
from agentrl.envs.sciworld.pool import Pool
from agentrl.errors import ConfigError, EnvError

ANIMAL = tasks.id_of('find-animal', 0)


@pytest.fixture(scope='module')
def pool():
  """One simulator for all tests: none may leave it in use."""
  pool = Pool(1, max_episodes=10**6, max_bytes=600 * 2**20)
  yield pool
  pool.close()


@pytest.fixture
def env(pool):
  """An environment as the original has it."""
  env = SciWorld(pool)
  yield env
  env.close()


def play(env, *actions):
  return [env.step(action) for action in actions]


def test_the_first_observation_is_the_task_and_a_look_around(env):
  assert env.details() == {}
  first = env.reset(ANIMAL, 0)
  task, _, look = first.partition('\n')
  assert task.startswith('Your task is to find a(n) animal.')
  assert look.startswith('This room is called the hallway.')
  assert env.details() == {
      'task_name': 'find-animal',
      'var_num': 0,
      'task_description': task,
      'observation': look,
      'reward': 0,
      'score': 0,
  }
  (result,) = play(env, 'look around')
  assert result.observation == look


def test_rewards_are_what_an_action_adds_to_the_share_done(env):
  env.reset(ANIMAL, 0)
  results, points = [], []
  while not results or not results[-1].terminated:
    assert not results or results[-1].success is False
    results += play(env, env.expert_action())
    points.append((env.details()['reward'], env.details()['score']))
  # Seen in the simulator: 8 for the door, 9 for the way on, ...
  rewards = [r.reward for r in results]
  assert rewards[:3] == [0.08, 0.09, 0.0]
  assert sum(rewards) == pytest.approx(1.0)
  assert results[-1].success and not results[-1].truncated
  assert points[:3] == [(8, 8), (9, 17), (0, 17)] and points[-1][1] == 100


def test_a_wrong_focus_ends_the_episode_and_takes_back_what_was_earned(env):
  env.reset(ANIMAL, 0)
  first, last = play(env, 'open door to greenhouse', 'focus on picture')
  assert (first.reward, first.terminated) == (0.08, False)
  assert (last.reward, last.terminated, last.success) == (-0.08, True, False)
  assert not last.truncated
  assert (env.details()['reward'], env.details()['score']) == (-108, -100)
  with pytest.raises(EnvError, match='not running; reset it first'):
    env.step('look around')
  env.reset(ANIMAL, 0)
  (again,) = play(env, 'open door to greenhouse')
  assert again == first


def test_progress_is_the_share_earned_and_lost_by_a_wrong_focus(env):
  env.reset(ANIMAL, 0)
  earned, said = 0.0, []
  while not said or said[-1] < 1.0:
    result = env.step(env.expert_action())
    earned += result.reward
    said.append(result.progress)
    assert result.progress == pytest.approx(earned)
    assert (result.progress == 1.0) == result.success
  assert said[:3] == [0.08, 0.17, 0.17] and result.terminated
  env.reset(ANIMAL, 0)
  lost = play(env, 'open door to greenhouse', 'dance', 'focus on picture')
  assert [result.progress for result in lost] == [0.08, 0.08, 0.0]


def test_success_alone_can_be_what_pays(pool):
  env = SciWorld(pool, scoring='success')
  env.reset(ANIMAL, 0)
  results = []
  while not results or not results[-1].terminated:
    results.append(env.step(env.expert_action()))
  *before, last = results
  assert {x.reward for x in before} == {0.0}
  assert (last.reward, last.success) == (1.0, True)
  assert results[0].progress == 0.08
  # Clients read points.
  assert (env.details()['reward'], env.details()['score']) == (100, 100)
  env.reset(ANIMAL, 0)
  wrong = play(env, 'open door to greenhouse', 'focus on picture')
  assert [x.reward for x in wrong] == [0.0, 0.0] and wrong[-1].terminated
  assert (env.details()['reward'], env.details()['score']) == (0, 0)


@pytest.mark.parametrize('simplifications', [(), ('easy',)])
def test_another_room_can_be_shown_at_once(pool, simplifications):
  def way(look):
    env = SciWorld(pool, simplifications=simplifications, look=look)
    env.reset(ANIMAL, 0)
    while True:
      action = env.expert_action()
      result = env.step(action)
      seen = result.observation
      if result.terminated:
        yield action, seen, result.reward, None
        assert result.success
        return
      if not look and seen.startswith('You move to the '):
        seen = f"{seen}\n{env._simulator.step('look around')}"
        assert 'you see: ' in seen
      yield action, seen, result.reward, env._simulator.moves()

  by_hand = list(way(look=False))
  # It takes no time, and changes nothing else.
  assert list(way(look=True)) == by_hand
  assert any('you see: ' in seen for _, seen, *_ in by_hand)


def test_an_ambiguous_action_is_asked_about_and_answered_by_number(env):
  env.reset(1, 0)  # it starts among three cups
  asked, answered, carried = play(env, 'pick up wood cup', '1', 'inventory')
  lines = asked.observation.splitlines()
  assert lines[0].startswith('Ambiguous request: Please enter the number')
  assert [line[:2] for line in lines[1:]] == ['0:', '1:', '2:']
  assert answered.observation == 'You move the wood cup to the inventory.'
  assert 'a wood cup (containing' in carried.observation
  env.step('pick up wood cup')
  assert env.available_actions() == ['0', '1', '2']


@pytest.mark.parametrize(
    'action',
    ['', 'xyzzy', 'teleport to kitchen', '\ud800', 'é\0', 'x' * 10**5],
)
def test_an_unknown_action_changes_nothing_but_the_text(env, action):
  env.reset(ANIMAL, 0)
  unknown, look = play(env, action, 'look around')
  assert unknown.observation == 'No known action matches that input.'
  assert (unknown.reward, unknown.terminated) == (0.0, False)
  assert env.reset(ANIMAL, 0).endswith(look.observation)


def test_spaces_and_lines_are_one_space(env):
  env.reset(ANIMAL, 0)
  (result,) = play(env, ' open  door\nto kitchen ')
  assert result.observation == 'The door is now open.'


def test_too_many_moves_are_a_truncation_and_free_the_simulator(pool):
  env, other = SciWorld(pool, max_moves=25), SciWorld(pool)
  env.reset(ANIMAL, 0)
  # A look takes no time, an open door 1 tick, a wait 11: 1 + 11 + 11 + 11.
  *before, last = play(
      env, 'look around', 'open door to kitchen', 'wait', 'wait', 'wait'
  )
  assert not any(r.truncated or r.terminated for r in before)
  assert (last.truncated, last.terminated, last.success) == (True, False, False)
  other.reset(ANIMAL, 0)
  other.close()


def test_asking_what_can_be_done_changes_nothing(env):
  actions = ('look around', 'open door to kitchen', 'go to kitchen', 'wait1')
  env.reset(ANIMAL, 0)
  plain = play(env, *actions)
  env.reset(ANIMAL, 0)
  asked = []
  for action in actions:
    listed = env.available_actions()
    assert action in listed and listed == sorted(set(listed))
    asked += play(env, action)
  assert asked == plain


def test_the_expert_can_be_asked_late_and_sees_past_what_changes_nothing(env):
  env.reset(ANIMAL, 0)
  begun = play(env, 'open door to greenhouse', 'inventory', 'go to greenhouse')
  seen = env.details()
  assert env.expert_action() == 'open door to outside'
  assert env.details() == seen  # asking brought it back
  done = play(env, 'open door to outside')
  assert env.expert_action() == 'go to outside'
  # The score went on from where it was.
  assert sum(r.reward for r in begun + done) == pytest.approx(0.17)
  env.reset(ANIMAL, 0)
  plain = play(
      env, 'open door to greenhouse', 'go to greenhouse', 'open door to outside'
  )
  assert plain[-1] == done[-1]


@pytest.mark.parametrize(
    'actions, next_action',
    [
        # A door that is not on the way, and a thing that does not open.
        (('open door to kitchen', 'open air'), 'go to greenhouse'),
        # Back where it came from: it goes there again.
        (('go to greenhouse', 'go to hallway'), 'go to greenhouse'),
    ],
)
def test_the_expert_goes_on_where_the_rest_of_its_way_still_leads(
    env, actions, next_action
):
  env.reset(ANIMAL, 0)
  play(env, 'open door to greenhouse', *actions)
  seen = env.details()
  assert env.expert_action() == next_action
  assert env.details() == seen  # asking brought it back
  while not (result := env.step(env.expert_action())).terminated:
    pass
  assert result.success


def test_the_expert_has_no_plan_off_its_way(env):
  env.reset(ANIMAL, 0)
  play(env, 'open door to greenhouse', 'open door to bedroom', 'go to bedroom')
  with pytest.raises(EnvError, match="'open door to bedroom' left after 1 of"):
    env.expert_action()
  env.step('look around')  # the episode itself goes on


def test_a_simplification_changes_the_world(pool):
  env = SciWorld(pool, simplifications=['teleportAction'])
  env.reset(ANIMAL, 0)
  (result,) = play(env, 'teleport to kitchen')
  assert result.observation == 'You teleport to the kitchen.'
  env.close()


def test_tasks_outside_the_options_are_refused(pool):
  env = SciWorld(pool)
  with pytest.raises(
      EnvError, match='4639 is grow-plant; this server has only'
  ):
    env.reset(4639, 0)
  with pytest.raises(EnvError, match='no task 7207; ids are 0 to 7206'):
    env.reset(7207, 0)
  env = SciWorld(pool, simplifications=('noElectricalAction',))
  with pytest.raises(EnvError, match='cannot be done with noElectricalAction'):
    env.reset(tasks.id_of('power-component', 0), 0)


@pytest.mark.parametrize(
    'options, words',
    [
        ({'tasks': 'some'}, 'Unknown SciWorld tasks'),
        ({'simplifications': ['fly']}, "Unknown simplifications \\['fly'\\]"),
        ({'simplifications': 'easy'}, 'must be a list'),
        ({'simplifications': ['easy', 'openDoors']}, 'stands alone'),
        ({'max_moves': 0}, 'max_moves must be at least 1 or None, got 0'),
        ({'max_moves': 'x'}, "max_moves must be at least 1 or None, got 'x'"),
        ({'scoring': 'em'}, "Unknown scoring 'em'; known: score, success"),
        ({'look': 1}, 'look must be True or False, got 1'),
        ({'simulators': 0}, 'simulators must be at least 1, got 0'),
        ({'simulators': '2'}, "simulators must be at least 1, got '2'"),
        ({'simulator_bytes': 0}, 'simulator_bytes must be at least 1'),
    ],
)
def test_wrong_options_are_refused(options, words):
  with pytest.raises(ConfigError, match=words):
    open_factory(**options)
