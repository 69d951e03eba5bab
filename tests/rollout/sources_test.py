"""Tests for agentrl.rollout.sources: quotas, cursors, horizons, metrics."""

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from agentrl import schedules
from agentrl.data import collate
from agentrl.data.quotas import Quotas
from agentrl.data.tasks import TaskIterator
from agentrl.errors import DataError
from agentrl.rollout import collect
from agentrl.rollout.sources import Source, Sources
from agentrl.schedules import Horizon
from agentrl.types import Group, Turns
from tests import tiny

NOTING = Horizon(
    init=lambda: [],
    # What it has seen is its state.
    update=lambda state, step, stats: (
        [*state, [step, stats.get('rollout/success')]],
        len(state) + 1,
    ),
    name='noting',
)


def make(weights, total, schedule=NOTING, tasks=5, **how):
  return Sources(
      [
          Source(TaskIterator(range(tasks), seed=i), schedule, name, weight)
          for i, (name, weight) in enumerate(weights.items())
      ],
      total,
      **how,
  )


def play(shares):
  """Two episodes of each task, equal in return for tasks of even number."""
  ties, other = tiny.tied_and_not()
  return [
      [
          Group(task_id, ordinal, (other if task_id % 2 else ties).episodes)
          for ordinal, task_id in share.tasks
      ]
      for share in shares
  ]


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=4).filter(any),
    st.integers(1, 9),
)
def test_each_step_has_its_quotas_and_each_source_its_own_order(weights, total):
  named = {'abcd'[i]: weight for i, weight in enumerate(weights)}
  sources, state, played = make(named, total), None, {n: [] for n in named}
  state = sources.first_horizon()
  for step in range(6):
    state, turns = sources.horizons(state, step, {})
    found = sources.collect(step, turns, play, rounds=1)
    counts = tuple(len(groups) for groups in found.by_source.values())
    assert counts == Quotas(weights, total).at(step)
    assert tuple(found.quotas.values()) == counts
    assert turns.keys() == {name for name, n in found.quotas.items() if n}
    for name, groups in found.by_source.items():
      played[name] += [(group.ordinal, group.task_id) for group in groups]
  for i, name in enumerate(named):
    alone = TaskIterator(range(5), seed=i)
    assert played[name] == alone.next_tasks(len(played[name]))


def test_a_resume_goes_on_where_each_source_was():
  weights = {'a': 2, 'b': 1}
  one = make(weights, 4)
  state = one.first_horizon()
  for step in range(3):
    state, turns = one.horizons(state, step, {})
    one.collect(step, turns, play, rounds=1)
  saved = json.loads(json.dumps([one.cursor(), state]))
  other = make(weights, 4)
  other.restore(saved[0])
  for step in range(3, 6):
    state, turns = one.horizons(state, step, {})
    saved[1], again = other.horizons(saved[1], step, {})
    assert (saved[1], again) == (state, turns)
    found = one.collect(step, turns, play, rounds=1)
    assert other.collect(step, turns, play, rounds=1) == found
  with pytest.raises(DataError, match='another task list or seed'):
    make(weights, 4, tasks=6).restore(one.cursor())


def test_a_run_of_one_environment_keeps_what_it_always_kept():
  tasks = TaskIterator(range(5), seed=0)
  sources = Sources([Source(tasks, schedules.fixed(3))], 4)
  assert sources.cursor() == tasks.state()
  assert sources.first_horizon() is None
  state, turns = sources.horizons(None, 0, {})
  assert (state, turns) == (None, {'': 3})
  found = sources.collect(0, turns, play, rounds=1)
  assert found.metrics() == collect.rollout_metrics(found.groups, 3)
  assert sources.remember({'old': 1.0}, found.metrics()) == found.metrics()


def test_ties_are_replaced_by_tasks_of_the_same_source():
  asked = []

  def noting(shares):
    asked.append({share.name: len(share.tasks) for share in shares})
    return play(shares)

  sources = make({'a': 1, 'b': 1}, 6)
  found = sources.collect(0, {'a': 1, 'b': 1}, noting, rounds=50)
  assert asked[0] == {'a': 3, 'b': 3} and len(asked) > 1
  for groups in found.by_source.values():
    assert sum(not collect.is_tied(group) for group in groups) == 3
  again = make({'a': 1, 'b': 1}, 6).collect(0, {'a': 1, 'b': 1}, play, rounds=2)
  assert len(again.groups) == sum(map(sum, (x.values() for x in asked[:2])))


def test_a_schedule_sees_each_collection_of_its_own_source_once():
  sources = make({'a': 3, 'b': 1}, 1)
  state, stats, successes = sources.first_horizon(), {}, []
  for step in range(8):
    state, turns = sources.horizons(state, step, stats)
    [name] = turns
    own = {'rollout/episodes': 2.0, 'rollout/success': step / 10}
    metrics = own | {f'{name}/{key}': value for key, value in own.items()}
    stats = sources.remember(stats, metrics)
    successes.append((name, step))
  seen = {name: [x for x in state[name]] for name in 'ab'}
  for name in 'ab':
    steps = [step for who, step in successes if who == name]
    before = [None, *(step / 10 for step in steps[:-1])]
    assert seen[name] == [list(x) for x in zip(steps, before, strict=True)]
  assert len(seen['b']) == 2 and len(seen['a']) == 6


@pytest.mark.parametrize('trained', ['aabb', 'bbaa', 'abab', 'abba'])
def test_ahead_a_schedule_sees_each_collection_once_whoever_is_drawn(trained):
  # Two tasks a step, of each source one; members are not as fast.
  budget = schedules.token_budget((1, 2), tokens=1e6)
  sources = make({'a': 1, 'b': 1}, 2, budget, in_turns=False)
  state, stats = sources.first_horizon(), {}
  for step, name in enumerate(trained + trained):
    state, turns = sources.horizons(state, step, stats, [step + 2] * (step < 6))
    assert set(turns) == set('ab' if step < 6 else '')
    own = {'rollout/episodes': 2.0, 'rollout/completion_tokens': 8.0}
    metrics = own | {f'{name}/{key}': value for key, value in own.items()}
    stats = sources.remember(stats, metrics)
  state, _ = sources.horizons(state, 8, stats, [])
  assert state == {'a': [0, 32.0], 'b': [0, 32.0]}


def test_ahead_an_order_sees_what_was_trained_on():
  class Order(TaskIterator):
    seen = ()

    def see(self, stats):
      self.seen += (stats.get('rollout/success'),)

  orders = {name: Order(range(5), seed=0) for name in 'ab'}
  sources = Sources(
      [Source(order, NOTING, name) for name, order in orders.items()],
      1,
      in_turns=False,
  )
  stats = {}
  for step, name in enumerate('aab'):
    sources.see(step, stats)
    own = {'rollout/episodes': 2.0, 'rollout/success': step / 10}
    stats = {f'{name}/{key}': value for key, value in own.items()}
    stats = sources.remember({}, stats)
  sources.see(3, stats)
  assert orders['a'].seen == (None, 0.0, 0.1, None)
  assert orders['b'].seen == (None, None, None, 0.2)


@pytest.mark.parametrize('depth', [0, 1, 2, 3])
@pytest.mark.parametrize('metric', ['success', 'cut_share_untied'])
def test_a_gate_counts_collections_of_its_own_turns_alone(metric, depth):
  # Only episodes of three turns succeed, or are cut.
  gate = schedules.gated(
      (3, 6, 9), f'rollout/{metric}', threshold=0.5, window=1
  )
  sources = make({'': 1}, 1, gate, in_turns=not depth)
  state, stats, waiting, trained = sources.first_horizon(), {}, [], []
  for step in range(12):
    state, turns = sources.horizons(state, step, stats)
    waiting += [turns['']] * (1 if step else depth + 1)
    trained.append(waiting.pop(0))
    played = {
        'rollout/episodes': 2.0,
        'rollout/horizon': float(trained[-1]),
        'rollout/horizon_mean': float(trained[-1]),
        f'rollout/{metric}': float(trained[-1] == 3),
    }
    stats = sources.remember(stats, played)
  assert trained == [3] * (depth + 1) + [6] * (11 - depth)


def test_a_gate_counts_no_collection_of_several_turns():
  gate = schedules.gated((3, 6), 'rollout/success', threshold=2.0, window=1)
  sources = make({'': 1}, 1, gate)
  stats = {'rollout/success': 1.0, 'rollout/episodes': 2.0}
  for horizons, seen in [((6, 4.5), []), ((6, 6), [1.0]), ((), [1.0])]:
    names = ('rollout/horizon', 'rollout/horizon_mean')
    of_turns = dict(zip(names, horizons, strict=False))
    state, _ = sources.horizons([1, []], 5, stats | of_turns)
    assert state == [1, seen]


def test_metrics_of_each_source_stand_beside_those_of_all():
  sources = make({'a': 1, 'b': 1, 'c': 0}, 4, schedules.fixed(3))
  found = sources.collect(0, {'a': 3, 'b': 5}, play, rounds=1)
  metrics = found.metrics()
  assert metrics['rollout/horizon'] == 5
  assert metrics['rollout/episodes'] == 2 * metrics['a/rollout/episodes']
  for name, turns in (('a', 3), ('b', 5)):
    own = collect.rollout_metrics(found.by_source[name], turns)
    assert {k: metrics[f'{name}/{k}'] for k in own} == own
  quotas = [metrics[f'{name}/quota'] for name in 'abc']
  assert quotas == [2, 2, 0] and 'c/rollout/episodes' not in metrics


def test_of_a_range_of_turns_the_largest_is_the_horizon():
  sources = make({'a': 1, 'b': 1}, 4, schedules.random((2, 7)))
  state, turns = sources.horizons(sources.first_horizon(), 0, {})
  assert turns == {'a': Turns(2, 7), 'b': Turns(2, 7)}
  asked = []
  found = sources.collect(
      0,
      turns | {'b': 3},
      lambda shares: asked.append([s.horizon for s in shares]) or play(shares),
      rounds=1,
  )
  assert asked == [[Turns(2, 7), 3]]
  metrics = found.metrics()
  names = ('rollout/horizon', 'a/rollout/horizon', 'b/rollout/horizon')
  assert [metrics[name] for name in names] == [7, 7, 3]
  episodes = [e.horizon for group in found.groups for e in group.episodes]
  assert metrics['rollout/horizon_mean'] == np.mean(episodes)


def test_an_evaluation_waits_for_the_next_step_of_its_source():
  seen = {'a': [], 'b': []}

  def noting(name):
    def update(state, step, stats):
      seen[name].append((step, stats.get('eval/success')))
      return state, 1

    return Horizon(init=lambda: None, update=update, name='noting')

  sources = Sources(
      [
          Source(TaskIterator(range(5), seed=0), noting(name), name, weight)
          for name, weight in (('a', 3), ('b', 1))
      ],
      1,
  )
  played, stats = [], {}
  for step in range(8):
    _, turns = sources.horizons({'a': None, 'b': None}, step, stats)
    [name] = turns
    played.append(name)
    metrics = {f'{name}/rollout/episodes': 2.0}
    if step in (1, 2, 3):
      metrics |= {f'{each}/eval/success': step / 10 for each in 'ab'}
    stats = sources.remember(stats, metrics)
  for name in 'ab':
    own = [step for step in range(8) if played[step] == name]
    expected, last = [], -1
    for step in own:
      # Of several evaluations since its last step the newest.
      due = [e for e in (1, 2, 3) if last <= e < step]
      expected.append((step, due[-1] / 10 if due else None))
      last = step
    assert seen[name] == expected
  assert [value for _, value in seen['a']].count(None) < len(seen['a'])
  assert len(seen['b']) == 2 and seen['b'][1][1] is not None


def test_groups_and_anchors_of_sources_never_mix():
  # The same tasks under the same ordinals, with the same observations.
  [groups] = play([type('Share', (), {'tasks': [(0, 1), (1, 3)]})])
  found = make({'a': 1, 'b': 1}, 4).collect(
      0, {'a': 1, 'b': 1}, lambda shares: [groups, groups], rounds=1
  )
  batch = collate.collate(found.groups)
  size = len(groups[0].episodes)
  np.testing.assert_array_equal(batch.group_ids, np.repeat(range(4), size))
  anchors = [
      set(batch.anchor_ids[batch.group_ids == group].ravel()) - {-1}
      for group in range(4)
  ]
  assert all(anchors) and sum(map(len, anchors)) == len(set.union(*anchors))
