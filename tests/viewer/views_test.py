"""Tests for agentrl.viewer.views: what each environment shows of an episode."""

import dataclasses
import json
import pathlib
import re

import pytest
from hypothesis import given, settings, strategies as st

from agentrl import envs
from agentrl.envs import blocks
from agentrl.envs.blocks import Moment
from agentrl.envs.textcraft import env as textcraft, recipes, tasks
from agentrl.envs.web import replay_view as browser
from agentrl.types import Message
from agentrl.viewer import views
from tests.viewer import played, runs


def moment(opening, *turns, done=None, **fields):
  """A moment of an episode whose turns are (action, observation)."""
  made = tuple(
      runs.turn(i, action=action, observation=observation)
      for i, (action, observation) in enumerate(turns)
  )
  done = len(made) if done is None else done
  return Moment((Message('user', opening),), made, done, **fields)


def block(found, kind, title=None):
  [one] = [
      x for x in found if x['kind'] == kind and title in (None, x.get('title'))
  ]
  return one


def shown(env, moment):
  return views.at(moment, views.of(env))


def texts(found):
  return [x['text'] for x in found['items']]


def test_textcraft_holds_what_its_server_says():
  episode = played.expert_episode('textcraft')
  assert episode.success
  at = lambda done: shown(
      'textcraft', Moment(episode.prompt, episode.turns, done)
  )
  assert texts(block(at(0), 'items')) == []
  # The server's own word, after all but the last turn.
  before = len(episode.turns) - 1
  held = block(at(before), 'items')
  last = episode.turns[-1].action
  for name in texts(held):
    assert name.partition(' ')[2] in last
  root = block(at(before), 'tree')['root']
  assert root['mark'] is None and root['children']
  assert block(at(before + 1), 'tree')['root']['mark'] == blocks.DONE


RECIPES = """Crafting commands:
craft 1 stick using 2 planks
craft 4 oak planks using 1 oak logs
craft 1 ladder using 7 stick

Goal: craft ladder."""


def test_textcraft_resolves_kinds_of_items():
  found = shown(
      'textcraft',
      moment(
          RECIPES,
          ('get 1 oak logs', 'Got 1 oak logs'),
          (
              'craft 4 oak planks using 1 oak logs',
              'Crafted 4 minecraft:oak_planks',
          ),
      ),
  )
  assert texts(block(found, 'items')) == ['4 oak planks']
  [stick] = block(found, 'tree')['root']['children']
  [planks] = stick['children']
  assert (planks['text'], planks['mark']) == ('2 planks', 'done')
  assert stick['mark'] is None


@pytest.mark.parametrize('world', [0, 1, 7])
def test_textcraft_resolves_kinds_as_the_world_of_the_task_has_them(world):
  env = textcraft.TextCraft(distractors=0, worlds=8)
  task = world * tasks.NUM_TASKS + recipes.load().goals.index('minecraft:bowl')
  opening, turns = env.reset(task, 0), []
  while not turns or turns[-1].reward == 0:
    action = env.expert_action()
    result = env.step(action)
    turns.append(
        runs.turn(
            len(turns),
            action=action,
            observation=result.observation,
            reward=result.reward,
        )
    )
  found = shown(
      'textcraft',
      Moment((Message('user', opening),), turns, len(turns) - 1, task=task),
  )
  root = block(found, 'tree')['root']
  assert root['mark'] is None
  assert [x['mark'] for x in root['children']] == [blocks.DONE]


def test_textcraft_shows_the_way_that_things_are_held_for():
  opening = RECIPES.replace('2 planks', '2 planks, 1 glue')
  opening = opening.replace('\n\n', '\ncraft 9 stick using 1 bamboo\n\n')
  ways = (('oak logs', ['1 bamboo']), ('planks', ['2 planks', '1 glue']))
  for held, children in ways:
    turn = (f'get 2 {held}', f'Got 2 {held}')
    found = shown('textcraft', moment(opening, turn))
    [stick] = block(found, 'tree')['root']['children']
    assert [x['text'] for x in stick['children']] == children


@pytest.mark.parametrize('style', ['compact', 'full'])
def test_babyai_draws_what_the_policy_reads(style):
  seen = {
      'compact': (
          'red ball 1 front 2 left 1\ngrey open door 1 front 3\nwall front 4'
      ),
      'full': (
          'You see: a red ball 1, 2 steps in front of you and 1 step to your'
          ' left; a grey open door 1, 3 steps in front of you. A wall is 4'
          ' steps in front of you. You are not carrying anything.'
      ),
  }[style]
  found = shown('babyai', moment(f'Your goal: go\n{seen}', picture=True))
  things = block(found, 'grid')['things']
  assert things[0] == {
      'kind': 'ball', 'color': 'red', 'state': '', 'right': -1, 'ahead': 2
  }  # fmt: skip
  assert things[1]['state'] == 'open' and things[1]['kind'] == 'door'
  assert len(things) == 2 and block(found, 'picture')['done'] == 0


LOOK = """This room is called the kitchen. In it, you see:
\tthe agent
\ta stove, which is turned off.
You also see:
\tA door to the hallway (that is closed)"""


def test_sciworld_knows_the_room_of_the_last_look():
  task = 'Your task is to boil water.'
  looked = moment(f'{task}\n{LOOK}', ('activate stove', 'It is on.'))
  found = shown('sciworld', looked)
  assert ['room', 'kitchen'] in block(found, 'facts', 'Room')['items']
  marks = {x['text']: x['mark'] for x in block(found, 'items')['items']}
  assert marks['a stove, which is turned off.'] == blocks.NOW
  assert len(marks) == 3
  left = moment(
      f'{task}\n{LOOK}', ('go to hallway', 'You move to the hallway.')
  )
  found = shown('sciworld', left)
  assert ['room', 'hallway'] in block(found, 'facts', 'Room')['items']
  assert not block(found, 'items')['items']
  probed = dataclasses.replace(left, probed=LOOK.replace('kitchen', 'hallway'))
  assert len(block(shown('sciworld', probed), 'items')['items']) == 3


def test_searchqa_marks_query_and_answer_in_the_passages():
  text = 'Area: total: 148,460 sq km of land in Bangladesh.'
  found = shown(
      'searchqa',
      moment(
          'Question: How large?',
          (
              '<search>Bangladesh area</search>',
              (
                  f'<information>Doc 1(Title: A (b)) {text}\nDoc 2(Title: C) D'
                  '</information>'
              ),
          ),
          ('<answer>148,460</answer>', 'Your answer is right.'),
      ),
  )
  first, second = block(found, 'passages')['items']
  hits = [text[a:b] for a, b in first['hits']]
  assert hits == ['Area', '148,460', 'Bangladesh']
  assert first['title'].startswith('A') and second['text'] == 'D'


@pytest.mark.parametrize(
    'action, number',
    [('click [8]', 8), ('type [12] [a [b]] [1]', 12), ('```hover [3]```', 3),
     ('scroll [down]', None), ('goto [8]', None), ('I click [8]', None)],
)  # fmt: skip
def test_browser_finds_the_element_that_a_command_names(action, number):
  assert browser.acted_on(action) == number


def test_browser_shows_the_page_before_an_action_where_its_element_is_known():
  page = (
      "[1] RootWebArea 'x'\n\t[2] button 'Go'\nOBJECTIVE: press\nURL: http://a/"
  )
  turns = [('click [2]', page.replace('http://a/', 'http://b/'))]
  known = moment(page, *turns, picture=True, box=(1, 2, 30, 10))
  found = shown('miniwob', known)
  before, now = [x for x in found if x['kind'] == 'picture']
  assert (before['done'], before['box']) == (0, [1, 2, 30, 10])
  assert (now['done'], now['box']) == (1, None)
  facts = dict(block(found, 'facts')['items'])
  assert facts['element'] == "[2] button 'Go'"
  assert facts['address'] == 'http://b/'


def test_an_environment_without_a_view_shows_its_text_and_pictures():
  found = views.at(moment('hello', picture=True), None)
  assert [x['kind'] for x in found] == ['picture']
  assert views.at(moment('hello'), None)[0]['text'] == 'hello'
  own = lambda moment: [blocks.facts('Own', opening=moment.opening)]
  assert views.at(moment('x'), own)[0]['items'] == [['opening', 'x']]


words = st.text(max_size=60) | st.sampled_from([
    RECIPES, LOOK, 'Got 1 x', 'Crafted 1 y', '<search>a</search>', 'click [1]',
    '<information>Doc 1(Title: ', 'goal: ', '[1] a',
])  # fmt: skip


@pytest.mark.parametrize('env', envs.ENVS)
@settings(max_examples=30)
@given(
    opening=words,
    turns=st.lists(st.tuples(words, words), max_size=4),
    data=st.data(),
)
def test_no_text_breaks_a_view(env, opening, turns, data):
  done = data.draw(st.integers(0, len(turns)))
  found = shown(
      env, moment(opening, *turns, done=done, picture=data.draw(st.booleans()))
  )
  assert found and all('kind' in x for x in found)
  json.dumps(found)


def test_the_guides_example_is_a_view():
  guide = pathlib.Path(envs.__file__).with_name('views.md').read_text()
  code = re.search(r'```python\n(.*?)```', guide, re.DOTALL)[1]
  names = {}
  exec(compile(code, 'views.md', 'exec'), names)
  found = views.at(moment('', ('up', 'You are on floor 2')), names['view'])
  assert block(found, 'facts')['items'] == [['floor', '2']]
  assert block(found, 'bar')['words'] == '0 of 3'
