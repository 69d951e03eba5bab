"""Tests for agentrl.envs.searchqa.tasks."""

import pytest

from agentrl import envs
from agentrl.envs.searchqa import tasks
from agentrl.envs.searchqa.dataset.questions import RELATIONS
from agentrl.envs.searchqa.records import SPLITS
from agentrl.errors import ConfigError, EnvError


def test_the_table_of_ids_is_that_of_the_questions(all_questions):
  assert len(all_questions) == tasks.NUM_TASKS
  for split in SPLITS:
    for task_id in tasks.tasks(split):
      assert all_questions[task_id].split == split
  for task_id, question in enumerate(all_questions):
    assert tasks.hops_of(task_id) == len(question.hops)


@pytest.mark.parametrize('task_id', [-1, tasks.NUM_TASKS])
def test_there_is_no_other_task(task_id):
  with pytest.raises(EnvError, match=f'no task {task_id}; ids are 0 to 8746'):
    tasks.hops_of(task_id)


def test_questions_of_one_country_are_a_cluster_whatever_they_start_from(
    all_questions,
):
  family = envs.get('searchqa').clusters()
  of = {x.name: family(task_id) for task_id, x in enumerate(all_questions)}
  starts = {}
  for name, country in of.items():
    starts.setdefault(country, set()).add(name.partition(' / ')[0])
  assert len({family(x) for x in tasks.tasks('test')}) == 81
  assert max(map(len, starts.values())) > 3  # a name, a capital, a domain
  # One start is in one cluster, and one cluster in one split.
  assert sum(map(len, starts.values())) == len(set().union(*starts.values()))
  splits = {(family(i), x.split) for i, x in enumerate(all_questions)}
  assert len(splits) == len(starts)
  with pytest.raises(EnvError, match='ids are 0 to 8746'):
    family(-1)


def test_questions_of_a_file_stand_alone(tmp_path):
  path = tmp_path / 'questions.jsonl'
  path.write_text('{"question": "who?", "answer": "Ann"}')
  assert envs.get('searchqa').clusters(questions=str(path)) is None


def test_few_hops_can_be_chosen(all_questions):
  chosen = tasks.tasks('test', max_hops=2)
  assert {len(all_questions[task_id].hops) for task_id in chosen} == {1, 2}
  assert chosen == tasks.tasks('test')[: len(chosen)]
  assert tasks.tasks('test', max_hops=3) == tasks.tasks('test')


@pytest.mark.parametrize('split', SPLITS)
def test_each_relation_is_asked_for_alone_in_every_split(split):
  for relation in RELATIONS:
    assert tasks.tasks(split, max_hops=1, relations=(relation,))


def test_relations_can_be_chosen(all_questions):
  chosen = tasks.tasks('test', relations=('capital', 'language'))
  asked = {tasks.relations_of(all_questions[i]) for i in chosen}
  assert {('capital',), ('language',)} <= asked
  assert {relation for chain in asked for relation in chain} == {
      'capital',
      'language',
  }
  of_cities = ('country of city',)
  chosen = tasks.tasks('test', relations=of_cities)
  assert len(chosen) == 48 and set(chosen) <= set(
      tasks.tasks('test', max_hops=1)
  )
  assert chosen == tuple(
      i
      for i in tasks.tasks('test')
      if tasks.relations_of(all_questions[i]) == of_cities
  )


@pytest.mark.parametrize(
    'options, says',
    [
        ({'max_hops': 0}, 'must be 1 to 3 or None, got 0'),
        ({'max_hops': 'two'}, "got 'two'"),
        ({'max_hops': 1, 'questions': 'q.jsonl'}, 'of a file have no hops'),
        ({'relations': ()}, r'tuple of capital, .* or None, got \(\)'),
        ({'relations': 'capital'}, "None, got 'capital'"),
        ({'relations': ('capitol',)}, r"None, got \('capitol',\)"),
        ({'relations': (['capital'],)}, 'relations must be a tuple of'),
        (
            {'relations': ('capital',), 'questions': 'q.jsonl'},
            'of a file have no relations',
        ),
    ],
)
def test_bad_choices_of_questions_are_refused(options, says):
  with pytest.raises(ConfigError, match=says):
    tasks.tasks('train', **options)
