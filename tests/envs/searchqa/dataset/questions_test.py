"""Tests for agentrl.envs.searchqa.dataset.questions."""

import collections

from agentrl.envs.searchqa.dataset import questions
from agentrl.envs.searchqa.scoring import fold, normalise


def test_no_two_questions_read_the_same(all_questions):
  assert len({x.text for x in all_questions}) == len(all_questions)
  assert len({x.name for x in all_questions}) == len(all_questions)


def test_splits_share_no_start_and_no_family(all_questions):
  starts, first_facts = {}, {}
  for question in all_questions:
    start, *relations = question.name.split(' / ')
    assert starts.setdefault(start, question.split) == question.split
    if len(relations) == 1:
      # A fact and its inverse are of one split: their passage shows it.
      for title in question.hops[0].titles:
        entity = title.partition(':')[0]
        if not start.startswith('city'):
          split = first_facts.setdefault(entity, question.split)
          assert split == question.split, question
  assert len(starts) > 1000 and len(first_facts) > 300


def test_no_question_says_its_answer(all_questions):
  for question in all_questions:
    text = f' {normalise(fold(question.text))} '
    for answer in question.answers:
      assert f' {normalise(fold(answer))} ' not in text


def test_answers_are_not_to_be_guessed(all_questions):
  """The usual answer to the last relation is right for few questions."""
  by_relation = collections.defaultdict(collections.Counter)
  for question in all_questions:
    relation = question.name.split(' / ')[-1]
    by_relation[relation][question.answers[0]] += 1
  guessed = sum(x.most_common(1)[0][1] for x in by_relation.values())
  assert len(by_relation) == len(questions.RELATIONS)
  assert guessed / len(all_questions) < 0.15


def test_known_questions(all_questions):
  by_name = {x.name: (x.text, x.answers[0]) for x in all_questions}
  assert by_name['element Ra / year of discovery'] == (
      'In which year was the element radium discovered?',
      '1898',
  )
  assert by_name['element Mo / place of discovery / capital'] == (
      (
          'What is the capital of the country where the element molybdenum was'
          ' discovered?'
      ),
      'Stockholm',
  )
