"""Tests for agentrl.envs.searchqa.env and its expert."""

import json

import pytest

from agentrl import envs
from agentrl.envs.searchqa import env as env_lib, expert, tasks
from agentrl.envs.searchqa.records import Hop, Passage, Question
from agentrl.errors import ConfigError, EnvError


@pytest.fixture(scope='module')
def radium(all_questions):
  """The id of a question that one knows."""
  [found] = [
      i
      for i, x in enumerate(all_questions)
      if x.name == 'element Ra / place of discovery'
  ]
  return found


@pytest.fixture
def env(radium):
  env = envs.get('searchqa').open().make()
  env.reset(radium, 0)
  return env


def made(task_id, **options):
  env = envs.get('searchqa').open(**options).make()
  env.reset(task_id, 0)
  return env


def test_the_first_observation_is_the_question(env, radium):
  question = 'Question: Which country saw the discovery of the element radium?'
  for seed in (0, 7):  # a seed changes nothing
    assert env.reset(radium, seed) == question


def test_a_search_shows_passages_in_the_form_of_the_original(env):
  result = env.step('<search> where was radium discovered? </search>')
  assert (result.reward, result.terminated, result.success) == (0, False, False)
  lines = result.observation.split('\n')
  assert lines[0] == (
      '<information>Doc 1(Title: Radium: Discovery) The element Radium was'
      ' discovered in 1898 in France by Pierre and Marie Curie. Origin of its'
      ' name: Latin: radius (ray).'
  )
  assert [x[:12] for x in lines[1:]] == ['Doc 2(Title:', 'Doc 3(Title:']
  assert lines[2].endswith('</information>')


def test_topk_is_the_number_of_passages(radium):
  for topk in (1, 5):
    shown = made(radium, topk=topk).step('<search>radium</search>').observation
    assert shown.count('(Title: ') == topk


def test_a_search_without_results_says_so(env):
  answer = env.step('<search>xqzzyx</search>').observation
  assert answer == '<information>Nothing was found.</information>'


@pytest.mark.parametrize(
    'answer', ['France', ' the FRANCE. ', 'French\nRepublic']
)
def test_a_right_answer_ends_with_reward_one(env, answer):
  result = env.step(f'I know it. <answer>{answer}</answer>')
  assert result.observation == 'Your answer is right.'
  assert (result.reward, result.terminated, result.success) == (1, True, True)


def test_a_wrong_answer_ends_with_nothing(env):
  result = env.step('<answer>Poland</answer>')
  assert result.observation == 'Your answer is wrong.'
  assert (result.reward, result.terminated, result.success) == (0, True, False)


def test_with_retry_a_wrong_answer_may_be_followed_by_another(radium):
  env = made(radium, retry=True)
  result = env.step('<answer>Poland</answer>')
  assert result.observation.startswith('Your answer is wrong. Search further')
  assert (result.reward, result.terminated, result.success) == (0, False, False)
  assert env.step('<answer>France</answer>').reward == 1


def test_f1_pays_for_words_but_success_is_exact(radium):
  result = made(radium, scoring='f1').step('<answer>republic France</answer>')
  assert (result.terminated, result.success) == (True, False)
  assert result.reward == pytest.approx(2 / 3)  # P = 1/2, R = 1
  result = made(radium, scoring='f1').step('<answer>Republic French</answer>')
  assert (result.reward, result.success) == (1, False)
  result = made(radium, scoring='f1').step('<answer>france</answer>')
  assert (result.reward, result.success) == (1, True)


@pytest.mark.parametrize(
    'action',
    [
        '',
        'France',
        '<answer>France',
        'France</answer>',
        '<answer>France</search>',
        '<answer> </answer>',
        '<search></search>',
        '<ANSWER>France</ANSWER>',
        '</answer>France<answer>',
        '\0<x>' * 1000,
    ],
)
def test_without_a_tag_there_is_a_hint(env, action):
  result = env.step(action)
  assert result.observation == env_lib.HINT
  assert (result.reward, result.terminated) == (0, False)
  assert env.step('<answer>France</answer>').success


@pytest.mark.parametrize(
    'action, ends',
    [
        ('<answer>France</answer><search>radium</search>', True),
        ('<search>radium</search><answer>France</answer>', False),
        ('<search><answer>France</answer>', True),
        ('<think>maybe <answer> it</think>\n<answer>France</answer>', True),
        ('<information>x</information>\n<search>radium</search>', False),
    ],
)
def test_the_first_whole_tag_counts(env, action, ends):
  assert env.step(action).terminated == ends


def test_a_task_that_is_not_there_is_refused(env):
  for task_id in (-1, 8747):
    with pytest.raises(EnvError, match=f'no task {task_id}; ids are 0 to 8746'):
      env.reset(task_id, 0)


@pytest.mark.parametrize(
    'options, words',
    [
        (dict(topk=0), 'topk must be 1 to 100, got 0'),
        (dict(topk=True), 'topk must be 1 to 100, got True'),
        (dict(topk='3'), "topk must be 1 to 100, got '3'"),
        (dict(scoring='bleu'), "scoring 'bleu'; known: em, f1"),
        (dict(retry=1), 'retry must be True or False, got 1'),
        (
            dict(retry=True, scoring='f1'),
            "scoring='f1' has no effect with retr",
        ),
        (dict(questions=''), 'questions must be the path'),
        (dict(retriever_url='localhost:8'), 'retriever_url must be as http://'),
        (
            dict(retriever_url=8000),
            'retriever_url must be as http://.* got 8000',
        ),
        (
            dict(retriever_url='http://x', retriever_timeout_s=0),
            'retriever_timeout_s must be above 0, got 0',
        ),
        (
            dict(retriever_timeout_s=5.0),
            'retriever_timeout_s has no effect without retriever_url',
        ),
        (dict(top_k=3), 'no option top_k; did you mean topk'),
    ],
)
def test_wrong_options_are_refused(options, words):
  with pytest.raises(ConfigError, match=words):
    envs.get('searchqa').open(**options)


def test_the_expert_takes_its_words_from_what_it_found():
  question = Question(
      name='x',
      split='train',
      text='Who?',
      answers=('Ann Lee', 'Lee'),
      hops=(
          Hop(('Town',), 'of Ann', ('town', 'the town')),
          Hop(('Ann',), 'née Lee', ('ann',)),
      ),
  )
  town = Passage('Town', 'the town of Ann')
  other = Passage('Other', 'the town of Ann')
  ann = Passage('Ann', 'Ann, née Lee')
  act = lambda *searches: expert.next_action(
      question, [expert.Search(*x) for x in searches]
  )
  assert act() == '<search>town</search>'
  assert act(('town', (other,))) == '<search>the town</search>'
  with pytest.raises(EnvError, match="did not find hop 1 of 'Who.?'"):
    act(('town', (other,)), ('the town', ()))
  assert act(('town', (other, town))) == '<search>ann</search>'
  assert act(('town', (town,)), ('ann', (ann,))) == '<answer>Lee</answer>'
  assert act(('x', (ann, town))) == '<answer>Lee</answer>'


def test_the_expert_cannot_play_questions_of_others(tmp_path):
  path = tmp_path / 'q.jsonl'
  path.write_text(json.dumps({'question': 'who?', 'answer': 'Ann'}))
  env = made(0, questions=str(path))
  with pytest.raises(EnvError, match="knows no way to answer 'line 1'"):
    env.expert_action()
  assert env.step('<answer>ann</answer>').success


def test_questions_of_other_relations_are_refused(all_questions):
  chosen = tasks.tasks('test', relations=('capital',))
  env = made(chosen[0], relations=('capital',))
  other = tasks.tasks('test', relations=('anthem',))[0]
  with pytest.raises(
      EnvError, match=f'{other} follows anthem, which relations'
  ):
    env.reset(other, 0)
