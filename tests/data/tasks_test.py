"""Tests for agentrl.data.tasks."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrl.data.tasks import StagedTasks, TaskIterator
from agentrl.errors import DataError

LISTS = st.lists(st.integers(0, 999), min_size=1, max_size=12, unique=True)


@given(
    task_ids=LISTS,
    seed=st.integers(0, 5),
    before=st.integers(0, 40),
    after=st.integers(0, 40),
)
def test_resumed_order_equals_the_uninterrupted_one(
    task_ids, seed, before, after
):
  whole = TaskIterator(task_ids, seed=seed).next_tasks(before + after)
  first = TaskIterator(task_ids, seed=seed)
  start = first.next_tasks(before)
  state = json.loads(json.dumps(first.state()))  # as a checkpoint keeps it
  second = TaskIterator(task_ids, seed=seed)
  second.restore(state)
  assert start + second.next_tasks(after) == whole


@given(task_ids=LISTS, seed=st.integers(0, 5))
def test_every_epoch_has_every_task_once(task_ids, seed):
  iterator = TaskIterator(task_ids, seed=seed)
  for _ in range(3):
    epoch = iterator.next_tasks(len(task_ids))
    assert sorted(task for _, task in epoch) == sorted(task_ids)


def test_ordinals_count_over_epochs():
  drawn = TaskIterator([5, 6, 7], seed=0).next_tasks(8)
  assert [ordinal for ordinal, _ in drawn] == list(range(8))


def test_epochs_and_seeds_differ_in_order():
  task_ids = list(range(50))
  iterator = TaskIterator(task_ids, seed=0)
  orders = [iterator.next_tasks(50) for _ in range(2)]
  orders.append(TaskIterator(task_ids, seed=1).next_tasks(50))
  assert len({tuple(task for _, task in order) for order in orders}) == 3


def test_order_is_the_same_on_every_machine():
  # Written down once: shuffling must not change with Python or its hash seed.
  drawn = TaskIterator(range(8), seed=0).next_tasks(8)
  assert [task for _, task in drawn] == [0, 2, 1, 4, 6, 7, 3, 5]


def test_cursor_of_other_tasks_is_refused():
  state = TaskIterator([1, 2, 3], seed=0).state()
  with pytest.raises(DataError, match='another task list'):
    TaskIterator([1, 2, 4], seed=0).restore(state)
  with pytest.raises(DataError, match='seed'):
    TaskIterator([1, 2, 3], seed=1).restore(state)


@pytest.mark.parametrize(
    'task_ids, message', [([], 'empty'), ([1, 2, 1], '1 of its 3 tasks twice')]
)
def test_unusable_list_is_refused(task_ids, message):
  with pytest.raises(DataError, match=message):
    TaskIterator(task_ids, seed=0)


@pytest.mark.parametrize('taken, now', [(1, 2), (2, 1), (2, 3)])
def test_cursor_of_another_data_version_is_refused(taken, now):
  state = TaskIterator([1, 2, 3], seed=0, data_version=taken).state()
  TaskIterator([1, 2, 3], seed=0, data_version=taken).restore(state)
  with pytest.raises(DataError, match=f'data_version {taken} .* has {now}:'):
    TaskIterator([1, 2, 3], seed=0, data_version=now).restore(state)


def test_cursors_of_the_first_data_version_are_those_of_older_checkpoints():
  assert 'data_version' not in TaskIterator([1, 2, 3], seed=0).state()


def staged(threshold=0.5, window=2, **changes):
  settings = dict(seed=0, threshold=threshold, window=window) | changes
  return StagedTasks([[0, 1, 2], [10, 11], [20]], **settings)


@given(
    successes=st.lists(st.none() | st.floats(0, 1), max_size=12),
    cut=st.integers(0, 12),
    seed=st.integers(0, 3),
)
def test_stages_resume_as_if_nothing_had_happened(successes, cut, seed):
  def step(order, success):
    order.see({} if success is None else {'rollout/success': success})
    tasks = order.next_tasks(4)
    return tasks, order.metrics([ordinal for ordinal, _ in tasks])

  whole = staged(seed=seed)
  expected = [step(whole, success) for success in successes]
  first = staged(seed=seed)
  found = [step(first, success) for success in successes[:cut]]
  state = json.loads(json.dumps(first.state()))
  second = staged(seed=seed)
  second.restore(state)
  found += [step(second, success) for success in successes[cut:]]
  assert found == expected
  ordinals = [ordinal for tasks, _ in found for ordinal, _ in tasks]
  assert ordinals == list(range(len(ordinals)))


def test_a_stage_adds_its_tasks_once_those_before_are_mastered():
  order = staged(threshold=0.75, window=2)
  drawn = lambda: {task for _, task in order.next_tasks(12)}
  metrics = lambda: order.metrics([10**6])  # a task that is yet to be drawn
  assert drawn() == {0, 1, 2}
  order.see({'rollout/success': 1.0})  # one step is no mean of two
  assert drawn() == {0, 1, 2}
  order.see({})  # no valid episode
  order.see({'rollout/success': 0.5})
  assert drawn() == {0, 1, 2, 10, 11}
  # The mean begins anew.
  order.see({'rollout/success': 1.0})
  assert metrics() == {'rollout/task_stage': 1.0}
  order.see({'rollout/success': 0.4})
  assert metrics() == {'rollout/task_stage': 1.0}
  order.see({'rollout/success': 1.0})
  order.see({'rollout/success': 0.6})
  assert drawn() == {0, 1, 2, 10, 11, 20}
  for _ in range(4):  # there is no other
    order.see({'rollout/success': 1.0})
  assert metrics() == {'rollout/task_stage': 2.0}


def test_a_stage_ends_by_its_own_tasks_alone():
  order = staged(threshold=0.5, window=1)
  ahead = [order.next_tasks(4) for _ in range(3)]  # of a run that plays ahead
  stages = []
  for _ in range(8):
    ordinals = [ordinal for ordinal, _ in ahead.pop(0)]
    order.see({'rollout/success': 1.0, **order.metrics(ordinals)})
    ahead.append(order.next_tasks(4))
    stages.append(order.metrics(ordinals)['rollout/task_stage'])
  assert stages == [0, 0, 0, 1, 1, 1, 2, 2]
  # The first of a collection decides.
  [(first, _), *_] = ahead[0]
  assert order.metrics([first, 0, first + 1]) == {'rollout/task_stage': 0}


def test_a_cursor_of_another_order_is_refused():
  for order, other in (
      (staged(), TaskIterator([0, 1, 2], seed=0)),
      (TaskIterator([0, 1, 2], seed=0), staged()),
      (staged(), StagedTasks([[0]], seed=0, threshold=1.0, window=1)),
  ):
    with pytest.raises(DataError, match='tasks.order'):
      order.restore(other.state())
  with pytest.raises(DataError, match='another task list or seed'):
    staged().restore(staged(seed=1).state())


def test_a_stage_that_adds_nothing_is_refused():
  with pytest.raises(DataError, match='adds no task'):
    StagedTasks([[1], []], seed=0, threshold=1.0, window=1)
