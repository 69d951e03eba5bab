"""Tests for agentrl.rollout.orders."""

import pytest

from agentrl.config.sections import TaskOptions
from agentrl.data.tasks import TaskIterator
from agentrl.envs.options import EnvOptions
from agentrl.errors import ConfigError
from agentrl.rollout import orders
from agentrl.rollout.task_lists import TaskLists

LISTS = TaskLists(EnvOptions(name='textcraft'))


def make(**options):
  tasks = LISTS.tasks('train')
  return orders.make(TaskOptions(**options), tasks, LISTS, seed=3)


def kinds(order, count=400):
  return {LISTS.subtasks()(task) for _, task in order.next_tasks(count)}


def test_the_default_is_a_shuffled_list():
  order = make()
  expected = TaskIterator(LISTS.tasks('train'), seed=3).next_tasks(9)
  assert order.next_tasks(9) == expected


def test_without_names_each_kind_is_a_stage():
  order = make(order='stages', threshold=0.5, window=1)
  assert kinds(order) == {'depth 1'}
  order.see({'rollout/success': 0.5})
  assert kinds(order) == {'depth 1', 'depth 2'}


def test_stages_have_the_kinds_that_they_name_and_no_other():
  order = make(
      order='stages', stages=(('depth 2',), ('depth 1', 'depth 3')), window=1
  )
  assert kinds(order) == {'depth 2'}
  order.see({'rollout/success': 1.0})
  assert kinds(order) == {'depth 1', 'depth 2', 'depth 3'}


def test_an_unknown_kind_is_refused_with_those_there_are():
  with pytest.raises(ConfigError, match="'depth 9'.*depth 1, depth 2"):
    make(order='stages', stages=(('depth 1',), ('depth 9',)))


@pytest.mark.parametrize('stages', [(('a',), ()), (('a',), ('b', 'a'))])
def test_stages_that_add_nothing_new_are_refused(stages):
  with pytest.raises(ConfigError, match='adds a kind'):
    TaskOptions(order='stages', stages=stages).check()
