"""Tests for agentrl.rollout.panel."""

import collections
import itertools
import math

import pytest
from hypothesis import given, strategies as st

from agentrl import envs
from agentrl.envs.babyai import levels
from agentrl.envs.sciworld import tasks as sciworld_tasks
from agentrl.envs.textcraft import tasks as textcraft_tasks
from agentrl.rollout.panel import spread
from configs import babyai_sft, quickstart, textcraft_laptop, webarena_laptop


def every_nth(tasks, count):
  return tuple(tasks[i * len(tasks) // count] for i in range(count))


def panel(name, count, **options):
  """The panel of a test split, and the kinds of its tasks."""
  spec = envs.get(name)
  kind_of = spec.subtasks(**options)
  found = spread(
      spec.tasks('test', **options),
      count,
      lambda task: (kind_of(task), spec.stratum and spec.stratum(task)),
  )
  return found, collections.Counter(map(kind_of, found))


@st.composite
def lists(draw):
  """A list of tasks in any order of kinds, their kinds, and a count."""
  kinds = draw(st.lists(st.integers(0, 6), min_size=1, max_size=60))
  return kinds, draw(st.integers(0, len(kinds)))


@given(lists())
def test_a_panel_has_each_task_once_in_order_and_as_many_kinds_as_it_can(case):
  kinds, count = case
  found = spread(range(len(kinds)), count, lambda task: (kinds[task],))
  assert len(found) == count and sorted(set(found)) == list(found)
  met = collections.Counter(kinds[task] for task in found)
  assert len(met) == min(count, len(set(kinds)))
  sizes = collections.Counter(kinds)
  parts = {kind: count * size / len(kinds) for kind, size in sizes.items()}
  if min(parts.values()) >= 1:
    for kind, part in parts.items():
      assert math.floor(part) <= met[kind] <= math.ceil(part)


@given(lists(), st.integers(0, 60))
def test_a_smaller_panel_is_a_part_of_a_larger_one(case, fewer):
  kinds, count = case
  of = lambda count: spread(
      range(len(kinds)), count, lambda task: (kinds[task] // 2, kinds[task])
  )
  assert set(of(min(fewer, count))) <= set(of(count))


@pytest.mark.parametrize(
    'name', ['babyai', 'textcraft', 'sciworld', 'searchqa', 'miniwob']
)
def test_panels_of_an_environment_are_nested(name):
  found = [set(panel(name, count)[0]) for count in (8, 40, 64, 90)]
  for smaller, larger in itertools.pairwise(found):
    assert smaller < larger


@given(st.integers(1, 300), st.integers(0, 8))
def test_a_power_of_two_of_one_kind_is_every_nth_task(size, power):
  count = min(2**power, 1 << size.bit_length() - 1)
  found = spread(range(size), count, lambda task: ('all',))
  assert found == every_nth(range(size), count)


@pytest.mark.parametrize('size', [1, 2, 3, 5, 31, 100, 300])
def test_at_every_size_a_panel_is_spread_over_its_list(size):
  for count in range(1, size + 1):
    found = spread(range(size), count, lambda task: ())
    gaps = [b - a for a, b in itertools.pairwise((*found, size))]
    # Half of the greatest gap, but for rounding, has been divided already.
    assert max(gaps) <= 2 * size / count + 1


@given(lists(), st.integers(2, 4))
def test_finer_kinds_are_met_in_proportion(case, parts):
  kinds, count = case
  # A list that cycles through them, which every n-th task would miss.
  tasks = [(kind, part) for kind in kinds for part in range(parts)]
  count *= parts
  found = spread(range(len(tasks)), count, lambda i: (tasks[i][0], tasks[i]))
  met = collections.Counter(tasks[i] for i in found)
  for kind in set(kinds):
    of_kind = [met[kind, part] for part in range(parts)]
    assert max(of_kind) - min(of_kind) <= 1


@pytest.mark.parametrize('count', [40, 64, 90, 100, 200, 256, 400])
def test_a_panel_of_babyai_meets_all_levels_equally(count):
  found, kinds = panel('babyai', count)
  assert len(kinds) == 13
  met = collections.Counter(map(levels.level_of, found))
  assert len(met) == 40
  assert max(met.values()) - min(met.values()) <= 1


def test_small_panels_meet_rare_kinds():
  assert set(panel('sciworld', 20)[1]) == set(
      map(envs.get('sciworld').subtasks(), envs.get('sciworld').tasks('test'))
  )
  assert panel('textcraft', 4)[1] == {f'depth {i}': 1 for i in (1, 2, 3, 4)}
  assert len(panel('babyai', 7)[1]) == 7


# Figures that are recorded are of these panels.
@pytest.mark.parametrize('config', [quickstart, babyai_sft, webarena_laptop])
def test_panels_of_recorded_runs_are_every_nth_task(config):
  config = config.get_config()
  options = {k: v for k, v in config.env.options.items() if v is not None}
  spec, count = envs.get(config.env.name), config.eval.num_tasks
  tasks = spec.tasks('test', **options)
  assert panel(spec.name, count, **options)[0] == every_nth(tasks, count)


def test_a_panel_of_all_tasks_is_the_list():
  tasks = envs.get('textcraft').tasks('test')
  assert panel('textcraft', len(tasks))[0] == tasks


@pytest.mark.parametrize('count', [31, 62, 64, 100, 256, 310])
def test_a_list_that_cycles_through_goals_is_no_trap(count):
  # Of 12,400 tasks each 775th has one goal, and 775 divides 12,400 by 16.
  options = textcraft_laptop.get_config().env.options
  found, _ = panel(
      'textcraft', count, **{k: v for k, v in options.items() if v}
  )
  met = collections.Counter(map(textcraft_tasks.goal_of, found))
  assert len(met) == 31 and max(met.values()) - min(met.values()) <= 1
  # Nor are the goals all of the same few worlds.
  assert len(set(map(textcraft_tasks.world_of, found))) > 0.9 * count


@pytest.mark.parametrize('count', [64, 128, 200, 256])
def test_a_panel_of_sciworld_meets_the_tasks_of_each_topic_equally(count):
  found, _ = panel('sciworld', count)
  met = collections.Counter(map(sciworld_tasks.task_of, found))
  for names in (('boil', 'melt', 'freeze'), sciworld_tasks.NAMES[11:15]):
    of_topic = [met[name] for name in names]
    assert sum(of_topic) and max(of_topic) - min(of_topic) <= 1
