"""Tests for agentrl.envs.textcraft.env and its expert."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.envs.textcraft import expert, recipes, tasks
from agentrl.envs.textcraft.env import MAX_DISTRACTORS, TextCraft
from agentrl.errors import ConfigError, EnvError

PLANKS = recipes.load().goals.index('minecraft:oak_planks')
STICK = recipes.load().goals.index('minecraft:stick')


@pytest.fixture
def env():
  env = TextCraft()
  env.reset(STICK, 0)
  return env


def say(env, action):
  return env.step(action).observation


def test_observations_have_the_form_of_the_original(env):
  assert say(env, 'inventory') == 'Inventory: You are not carrying anything.'
  assert say(env, 'get 2 oak logs') == 'Got 2 oak logs'
  assert (
      say(env, 'craft 4 oak planks using 1 oak logs')
      == 'Crafted 4 minecraft:oak_planks'
  )
  assert say(env, 'inventory') == 'Inventory: [oak logs] (1) [oak planks] (4)'


def test_crafting_the_goal_ends_the_episode_with_reward_one(env):
  for action in ('get 1 oak logs', 'craft 4 oak planks using 1 oak logs'):
    result = env.step(action)
    assert (result.reward, result.terminated, result.success) == (
        0,
        False,
        False,
    )
  result = env.step('craft 4 stick using 2 oak planks')
  assert result.observation == 'Crafted 4 minecraft:stick'
  assert (result.reward, result.terminated, result.success) == (1, True, True)
  assert say(env, 'inventory') == 'Inventory: [oak planks] (2) [stick] (4)'


@pytest.mark.parametrize(
    'action, answer',
    [
        ('dance', 'Could not execute dance'),
        ('', 'Could not execute '),
        ('get 1 oak planks', 'Could not find oak planks'),  # craftable
        ('get 1 planks', 'Could not find planks'),  # a tag
        ('get 1 unobtainium', 'Could not find unobtainium'),
        ('get 0 oak logs', 'Could not find oak logs'),
        ('get oak logs', 'Could not execute get oak logs'),
        (
            'craft 1 oak planks using 1 oak logs',
            'Could not find enough items to craft minecraft:oak_planks',
        ),
        (
            'craft 1 torch using 2 coal',
            'Could not find a valid recipe for minecraft:torch',
        ),
        ('craft 1 torch using coal', 'Wrong item format: coal'),
        ('craft 1 torch using ', 'Could not execute craft 1 torch using'),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(env, action, answer):
  env.step('get 9 coal')
  result = env.step(action)
  assert result.observation == answer
  assert (result.reward, result.terminated) == (0, False)
  assert say(env, 'inventory') == 'Inventory: [coal] (9)'


def test_a_recipe_wants_its_exact_counts(env):
  env.step('get 5 oak logs')
  answer = say(env, 'craft 8 oak planks using 2 oak logs')
  assert answer == 'Could not find a valid recipe for minecraft:oak_planks'


def test_the_count_of_the_output_is_the_recipes_own(env):
  env.step('get 1 oak logs')
  answer = say(env, 'craft 64 oak planks using 1 oak logs')
  assert answer == 'Crafted 4 minecraft:oak_planks'


def test_an_item_that_became_of_a_tag_keeps_its_plural_name(env):
  # "oak log" is an item, too, but recipes name the kind: as in the original.
  assert say(env, 'get 1 oak log') == 'Got 1 oak log'
  answer = say(env, 'craft 4 oak planks using 1 oak log')
  assert answer == 'Could not find a valid recipe for minecraft:oak_planks'


def test_punctuation_around_a_command_is_forgiven(env):
  assert say(env, ' [get 1  oak logs.] ') == 'Got 1 oak logs'


def test_the_first_observation_lists_all_that_is_needed_and_some_that_is_not():
  env, book = TextCraft(), recipes.load()
  for task_id in (0, PLANKS, 300, 543):
    head, _, tail = env.reset(task_id, 7).partition('\n\n')
    title, *commands = head.splitlines()
    assert title == 'Crafting commands:'
    assert tail == f'Goal: craft {recipes.plain_name(book.goals[task_id])}.'
    needed = {x.command for x in book.closure(book.goals[task_id])}
    assert needed <= set(commands)
    assert len(commands) == len(set(commands))
    assert len(commands) - len(needed) <= MAX_DISTRACTORS


def test_a_seed_draws_the_distractors_and_nothing_else():
  env = TextCraft()
  assert env.reset(300, 1) == env.reset(300, 1)
  assert env.reset(300, 1) != env.reset(300, 2)
  assert (
      env.reset(300, 1).splitlines()[-1] == env.reset(300, 2).splitlines()[-1]
  )


def test_a_reset_empties_the_hands(env):
  env.step('get 1 coal')
  env.reset(STICK, 0)
  assert say(env, 'inventory') == 'Inventory: You are not carrying anything.'


def test_tasks_beyond_max_depth_are_refused():
  env = TextCraft(max_depth=1)
  env.reset(124, 0)
  with pytest.raises(EnvError, match='task 125 has depth 2, above max_depth=1'):
    env.reset(125, 0)


def test_tasks_below_min_depth_are_refused():
  env = TextCraft(min_depth=2)
  env.reset(125, 0)
  with pytest.raises(EnvError, match='task 124 has depth 1, below min_depth=2'):
    env.reset(124, 0)


def test_tasks_of_more_ingredients_are_refused():
  env = TextCraft(max_ingredients=1)
  env.reset(4, 0)
  with pytest.raises(EnvError, match='task 2 takes 3 ingredients, above max_i'):
    env.reset(2, 0)


def test_tasks_of_small_families_are_refused():
  env = TextCraft(min_family=4)
  kept = tasks.tasks('test', min_family=4)
  env.reset(kept[0], 0)
  [other, *_] = set(tasks.SPLITS['test']) - set(kept)
  with pytest.raises(EnvError, match=f'{other} is of a family .* min_family=4'):
    env.reset(other, 0)


def test_fewer_distractors_leave_all_that_a_plan_needs():
  for most in (0, 3):
    env = TextCraft(distractors=most)
    shown = env.reset(300, 0).splitlines()
    needed = recipes.load().closure(recipes.load().goals[300])
    commands = {recipe.command for recipe in needed}
    assert commands <= set(shown)
    # A heading, an empty line and the goal stand around the commands.
    assert len(shown) - 3 <= len(commands) + most
    assert solve(env)


@pytest.mark.parametrize('most', [-1, MAX_DISTRACTORS + 1, True, 'few'])
def test_a_bad_number_of_distractors_is_refused(most):
  with pytest.raises(ConfigError, match='distractors must be 0 to 10, got'):
    TextCraft(distractors=most)


def test_in_another_world_the_names_are_exchanged_and_nothing_else():
  env, count = TextCraft(worlds=3), tasks.NUM_TASKS
  shape = lambda text: sorted(
      ' '.join(word for word in line.split() if word.isdigit())
      for line in text.splitlines()
  )
  texts = [env.reset(world * count + 30, 0) for world in range(3)]
  assert len(set(texts)) == 3
  needed = recipes.load().closure(recipes.load().goals[30])
  for world in (1, 2):
    book, names = recipes.renamed(recipes.load(), world)
    goal = names[recipes.load().goals[30]]
    there = book.closure(goal)
    assert [shape(x.command) for x in there] == [
        shape(x.command) for x in needed
    ]
    assert {x.command for x in there} <= set(texts[world].splitlines())
    assert texts[world].endswith(f'Goal: craft {recipes.plain_name(goal)}.')
    assert texts[world] == env.reset(world * count + 30, 0)


def test_the_expert_solves_every_task_of_another_world():
  env = TextCraft(worlds=2)
  for task_id in range(tasks.NUM_TASKS, 2 * tasks.NUM_TASKS, 7):
    env.reset(task_id, 0)
    assert solve(env)


def test_a_world_that_is_not_there_is_refused():
  env = TextCraft(worlds=2)
  for world in (2, 998):
    with pytest.raises(EnvError, match=f'is of world {world}, which is none'):
      env.reset(world * tasks.NUM_TASKS, 0)
  assert env.reset(999 * tasks.NUM_TASKS, 0)
  with pytest.raises(EnvError, match='no task 544; ids are 0 to 543'):
    TextCraft().reset(tasks.NUM_TASKS, 0)


@pytest.mark.parametrize('worlds', [0, 501, True, 'many'])
def test_a_bad_number_of_worlds_is_refused(worlds):
  with pytest.raises(ConfigError, match='worlds must be 1 to 500, got'):
    TextCraft(worlds=worlds)


def test_a_very_long_action_is_not_repeated_back(env):
  for action in ('x' * 10**6, 'get ' + '9' * 10**6 + ' coal'):
    assert len(say(env, action)) < 200


def solve(env, limit=100):
  for turns in range(1, limit):
    result = env.step(env.expert_action())
    if result.terminated:
      return turns
  return None


def test_the_expert_solves_every_task():
  env = TextCraft()
  turns = {}
  for task_id in range(tasks.NUM_TASKS):
    env.reset(task_id, 0)
    turns[task_id] = solve(env)
  assert all(turns.values()), [x for x, found in turns.items() if not found]
  assert turns[PLANKS] == 2  # get the log, craft the planks


@given(seed=st.integers(0, 10**6), task_id=st.integers(0, 543))
@settings(max_examples=30)
def test_the_expert_mends_what_somebody_else_began(seed, task_id):
  env, rng = TextCraft(), random.Random(seed)
  env.reset(task_id, 0)
  items = sorted(recipes.load().items)
  for _ in range(5):
    name = recipes.plain_name(rng.choice(items))
    env.step(f'get {rng.randint(1, 9)} {name}')
  for _ in range(rng.randrange(4)):
    if env.step(env.expert_action()).terminated:
      return
  assert solve(env)


def test_the_expert_uses_what_is_held():
  book = recipes.load()
  goal = 'minecraft:oak_fence'  # 4 oak planks and 2 sticks
  held = {}
  assert expert.next_action(book, goal, held) == 'get 4 bamboo'
  held['minecraft:stick'] = 2
  assert expert.next_action(book, goal, held) == 'get 1 oak logs'
  held['minecraft:oak_planks'] = 4
  assert (
      expert.next_action(book, goal, held)
      == 'craft 3 oak fence using 2 stick, 4 oak planks'
  )


def walk(task_id):
  """What the expert crafts by each of its actions, and the progress."""
  env = TextCraft()
  env.reset(task_id, 0)
  items, said = [], []
  while not said or said[-1] < 1.0:
    command, _, inputs = env.expert_action().partition(' using ')
    items.append(command.split(' ', 2)[2] if inputs else None)
    result = env.step(f'{command} using {inputs}' if inputs else command)
    said.append(result.progress)
    assert (result.progress == 1.0) == result.success
  return items, said


def test_progress_is_the_share_of_items_of_which_enough_was_crafted():
  early = []
  for task_id in range(tasks.NUM_TASKS):
    items, said = walk(task_id)
    needed = {item for item in items if item}
    # Done with an item: none of it is crafted any more, to the end.
    done = [
        len(needed - set(items[turn + 1 :])) / len(needed)
        for turn in range(len(items))
    ]
    assert said == sorted(said) and said[0] == (len(items) == 1)
    if said != pytest.approx(done):
      early.append(task_id)
      assert all(x >= y - 1e-9 for x, y in zip(said, done, strict=True))
  # Its chest and its hook want planks of any kind, and count on the same ones.
  assert early == [527]


def planks(env, wood):
  env.step(f'get 1 {wood} logs')
  return env.step(f'craft 4 {wood} planks using 1 {wood} logs').progress


def test_progress_counts_any_one_item_of_a_kind_and_nothing_too_few():
  env = TextCraft()
  goals = recipes.load().goals
  env.reset(goals.index('minecraft:chest'), 0)  # of 8 planks of one wood
  said = [planks(env, wood) for wood in ('oak', 'spruce', 'birch', 'birch')]
  assert said == [0, 0, 0, 0.5]
  # A door of oak wants oak.
  env.reset(goals.index('minecraft:oak_door'), 0)  # of 6
  said = [planks(env, wood) for wood in ('birch', 'birch', 'oak', 'oak')]
  assert said == [0, 0, 0, 0.5]


def test_progress_is_the_best_so_far_and_starts_anew():
  env = TextCraft()
  table = recipes.load().goals.index('minecraft:crafting_table')
  env.reset(table, 0)
  assert planks(env, 'oak') == 0.5
  button = 'craft 1 oak button using 1 oak planks'
  assert [env.step(button).progress for _ in range(4)] == [0.5] * 4
  assert 'planks' not in say(env, 'inventory')
  env.reset(table, 0)
  assert env.step('inventory').progress == 0
