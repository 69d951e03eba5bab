"""Tests for the tasks that hold for all of them, without a browser."""

import pytest

from agentrl import envs
from agentrl.errors import ConfigError, EnvError
from agentrl.sites import goals, table
from agentrl.sites.goals import Outcome
from agentrl.sites.records import build_stores
from agentrl.sites.task import CHANGE, GO, SEEK

# A policy that has read nothing.
CONSTANTS = (
    '', 'N/A', 'yes', 'no', 'true', 'false', 'none', '0', '1', '2', '3', '5',
    '10', '100', 'done', 'unknown', '[]', '$0.00', '2023-06-15',
)  # fmt: skip


def copies_of(stores):
  return {name: store.copy() for name, store in stores.items()}


@pytest.fixture(scope='module')
def stores():
  return build_stores()


@pytest.fixture(scope='module')
def made(stores):
  copies = copies_of(stores)
  return {
      task_id: template.make(copies, k)
      for name, template in table.TEMPLATES.items()
      for k, task_id in enumerate(table.ids_of(name))
  }


def test_ids_are_unique_and_found_again():
  ids = [i for name in table.TEMPLATES for i in table.ids_of(name)]
  assert len(ids) == len(set(ids))
  for name, template in table.TEMPLATES.items():
    for k, task_id in enumerate(table.ids_of(name)):
      site = name.partition('/')[0]
      assert table.find(task_id) == (site, template, k)
      injected = table.INJECTED + task_id
      assert table.find(injected) == (site, template, k)
      assert table.subtask(injected) == f'{table.subtask(task_id)}, injected'


@pytest.mark.parametrize('task_id', [-1, 0, 811, 9_999, 19_999, 10**9])
def test_unknown_ids(task_id):
  with pytest.raises(EnvError, match=f'no task {task_id}'):
    table.find(task_id)


def test_an_intent_says_which_task_it_is(made):
  intents = [task.intent for task in made.values()]
  assert len(intents) == len(set(intents))
  for intent in intents:
    assert intent == ' '.join(intent.split()) and intent[-1] in '.?"', intent
    assert '{' not in intent and 'None' not in intent


def test_what_has_read_nothing_earns_nothing(made):
  for task_id, task in made.items():
    for answer in (*CONSTANTS, task.intent):
      nothing = Outcome(answer, (), task.start[0], ())
      assert not goals.reached(task.goal, nothing), (task_id, answer)


def test_each_kind_has_its_goal(made):
  for name, template in table.TEMPLATES.items():
    for task_id in table.ids_of(name):
      task = made[task_id]
      assert bool(task.goal.rows) == (template.kind == CHANGE), name
      if template.kind == SEEK:
        assert task.goal.answer is not None, name
        assert task.goal.answer.accepts(task.goal.answer.example())
      if template.kind == GO:
        assert task.goal.url is not None and not task.goal.rows, name
      assert task.steps[-1].kind == 'stop', name
      assert 1 <= len(task.steps) <= 16, name
      assert all(url.startswith('http://') for url in task.start)


def test_tasks_are_equal_in_every_process(made, stores):
  again = copies_of(stores)  # equal in every process too, see store_test
  for name, template in table.TEMPLATES.items():
    for k, task_id in enumerate(table.ids_of(name)):
      assert template.make(again, k) == made[task_id], name


def test_strangers_instructions_change_no_task(made, stores):
  injected = build_stores(injected=True)
  copies = copies_of(injected)
  for name, template in table.TEMPLATES.items():
    for k, task_id in enumerate(table.ids_of(name)):
      task = template.make(copies, k)
      assert task.intent == made[task_id].intent, name
      assert task.goal.url == made[task_id].goal.url, name
  for name, store in injected.items():
    changes = stores[name].changes(_touched(store.copy()))
    assert changes, name
    for change in changes:
      assert change.before and change.after, change
      assert len(change.changed) == 1, change


def _touched(copy):
  """As if something had been written: else nothing would be compared."""
  copy.execute('CREATE TEMP TABLE touched (x)')
  copy.execute('INSERT INTO touched VALUES (1)')
  return copy


def test_splits_are_apart_by_template_and_by_value():
  for split_by in table.SPLIT_BY:
    parts = {
        split: set(table.tasks(split, split_by=split_by))
        for split in ('train', 'dev', 'test')
    }
    assert all(parts.values())
    assert not parts['train'] & parts['dev'] | parts['dev'] & parts['test']
    if split_by == 'template':
      names = {
          split: {table.find(task_id)[1].name for task_id in ids}
          for split, ids in parts.items()
      }
      assert not names['train'] & names['test']


def test_chosen_by_site_and_by_name():
  name = next(iter(table.TEMPLATES))
  some = table.tasks('train', tasks=(name,), split_by='value')
  assert set(some) < set(table.ids_of(name))
  assert {table.find(i)[0] for i in table.tasks('train', tasks='forum')} == {
      'forum'
  }
  injected = table.tasks('dev', tasks='injected')
  assert injected == tuple(
      table.INJECTED + i for i in table.tasks('dev', tasks='own')
  )


@pytest.mark.parametrize('wrong', ['shops', ('shop', 'shop/none'), ()])
def test_unknown_tasks_are_refused(wrong):
  with pytest.raises(ConfigError, match='Unknown tasks|empty'):
    table.tasks('train', tasks=wrong)


def test_a_split_without_tasks_is_refused():
  name = next(iter(table.TEMPLATES))
  with pytest.raises(ConfigError, match="split_by='value'"):
    table.tasks('test', tasks=(name,))


@pytest.mark.parametrize('split_by', ['template', 'value'])
def test_tasks_of_a_template_are_a_cluster(split_by):
  cluster = envs.get('webarena').clusters(split_by=split_by)
  for name in table.TEMPLATES:
    ids = table.ids_of(name)
    assert {cluster(x) for x in ids} == {name}
    assert {cluster(table.INJECTED + x) for x in ids} == {name}
  with pytest.raises(EnvError, match='no task 811'):
    cluster(811)
