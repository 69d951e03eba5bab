"""Tests for agentrl.rollout.panel."""

import collections
import math

import pytest
from hypothesis import given, strategies as st

from agentrl import envs
from agentrl.envs.babyai import levels
from agentrl.rollout.panel import spread
from configs import miniwob_grpo, quickstart, webarena_laptop


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
  if min(parts.values()) >= 1 and kinds == sorted(kinds):
    assert found == every_nth(range(len(kinds)), count)


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
@pytest.mark.parametrize('config', [quickstart, miniwob_grpo, webarena_laptop])
def test_panels_of_recorded_runs_are_every_nth_task(config):
  config = config.get_config()
  options = {k: v for k, v in config.env.options.items() if v is not None}
  spec, count = envs.get(config.env.name), config.eval.num_tasks
  tasks = spec.tasks('test', **options)
  assert panel(spec.name, count, **options)[0] == every_nth(tasks, count)


@pytest.mark.parametrize(
    'name, count',
    [
        ('textcraft', 100),
        ('searchqa', 400),
        ('miniwob', 200),
        ('webarena', 200),
    ],
)
def test_panels_of_suites_whose_lists_are_in_order_are_every_nth_task(
    name, count
):
  tasks = envs.get(name).tasks('test')
  assert panel(name, count)[0] == every_nth(tasks, count)
