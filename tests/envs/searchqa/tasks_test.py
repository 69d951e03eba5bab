"""Tests for agentrl.envs.searchqa.tasks."""

import pytest

from agentrl.envs.searchqa import tasks
from agentrl.envs.searchqa.records import SPLITS
from agentrl.errors import EnvError


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
