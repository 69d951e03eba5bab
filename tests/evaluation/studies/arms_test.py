"""Tests for agentrl.evaluation.studies.arms."""

import numpy as np
import pytest
from scipy import stats

from agentrl.errors import DataError
from agentrl.evaluation.studies import arms
from agentrl.evaluation.workdirs.run_facts import Facts, Rate


def config(seed, kind='fixed', algo='grpo', **more):
  return {
      'seed': seed,
      'compile_cache': f'/tmp/c{7 * seed + 5}',
      'horizon': {'kind': kind, 'turns': 5},
      'algo': {'name': algo},
      **more,
  }


def names(found):
  return {arm.name: arm.runs for arm in found}


def test_runs_that_differ_in_the_seed_alone_are_an_arm():
  configs = {
      'a0': config(0),
      'b0': config(0, 'stepwise'),
      'a1': config(1),
      'b1': config(1, 'stepwise'),
  }
  assert names(arms.sort_out(configs)) == {
      'horizon.kind=fixed': ('a0', 'a1'),
      'horizon.kind=stepwise': ('b0', 'b1'),
  }


def test_few_fields_name_an_arm():
  # An algorithm brings fields of its own; its name tells as much.
  configs = {
      'a0': config(0, algo='grpo', clip=0.2, extra=None),
      'b0': config(0, algo='ppo', lam=0.95),
      'c0': config(0, 'adaptive', algo='ppo', lam=0.95),
  }
  assert list(names(arms.sort_out(configs))) == [
      'horizon.kind=fixed, algo.name=grpo',
      'horizon.kind=fixed, algo.name=ppo',
      'horizon.kind=adaptive, algo.name=ppo',
  ]


@pytest.mark.parametrize(
    ('runs', 'name'),
    [
        (('x-seed=0', 'x-seed=1'), 'x'),
        (('less0', 'less1'), 'less'),
        (('a_s1', 'a_s10'), 'a'),
        (('deep/a/0', 'deep/a/1'), 'deep/a'),
        (('run1', 'run12'), 'run'),
        (('a', 'b'), 'a (+1)'),  # nothing in common
        (('0', '01'), '0 (+1)'),
        (('alone-seed=3',), 'alone-seed=3'),
    ],
)
def test_runs_with_one_name_but_the_seed_are_named_by_it(runs, name):
  # Five fields in which the others differ are no name.
  fields = 'abcde'
  others = {
      f'other{i}': config(0, **{field: field == x for field in fields})
      for i, x in enumerate(fields)
  }
  own = {
      run: config(i, **dict.fromkeys(fields, 0)) for i, run in enumerate(runs)
  }
  found = {arm.runs: arm.name for arm in arms.sort_out(own | others)}
  assert found[runs] == name


def test_arms_of_one_name_are_told_apart():
  configs = {
      f'x-{i}': config(i % 2, **{field: field == x for field in 'abcde'})
      for i, x in enumerate('aabbccddee')
  }
  found = names(arms.sort_out(configs))
  assert list(found) == [
      'x-0 (+1)',
      'x-2 (+1)',
      'x-4 (+1)',
      'x-6 (+1)',
      'x-8 (+1)',
  ]


def test_chosen_fields_put_others_together():
  configs = {
      'a': config(0),
      'b': config(1, 'stepwise'),
      'c': config(2, algo='ppo'),
      'd': {},
  }
  found = arms.sort_out(configs, ['algo.name'])
  assert names(found) == {
      'algo.name=grpo': ('a', 'b'),
      'algo.name=ppo': ('c',),
      'd': ('d',),
  }
  assert found[0].fields == {'algo.name': 'grpo'}
  with pytest.raises(DataError, match="No run has the field 'algo.nam'"):
    arms.sort_out(configs, ['algo.nam'])


def test_the_number_of_a_checkpoint_is_no_seed():
  start = '/runs/warm-{}/checkpoints/0'
  found = arms.sort_out({
      f'r{seed}': config(seed, model={'name': start.format(seed)})
      for seed in range(3)
  })
  assert [arm.runs for arm in found] == [('r0', 'r1', 'r2')]


def test_a_seed_in_a_path_is_no_difference():
  configs = {
      f'r{seed}': config(seed, model={'name': f'/runs/warm-{seed}/export'})
      for seed in (0, 1, 12)
  }
  ((_, _, runs),) = arms.sort_out(configs)
  assert runs == ('r0', 'r1', 'r12')
  other = config(3, model={'name': '/runs/cold-3/export'})
  assert len(arms.sort_out(configs | {'other': other})) == 2


@pytest.mark.parametrize(
    'value',
    [
        'models/Qwen2.5-0.5B-Instruct',
        'http://127.0.0.1:36005',
        'http://node-1/v1',
        'runs/warm-v1',
        'models/llama-2',
    ],
)
def test_one_path_of_all_seeds_is_shown_as_it_is(value):
  configs = {
      f'{kind}{seed}': config(
          seed, kind, model={'name': value}, start=f'/runs/{kind}_{seed}'
      )
      for kind in ('fixed', 'stepwise')
      for seed in range(3)
  }
  for chosen in ((), ['model.name', 'horizon.kind']):
    found = arms.sort_out(configs, chosen)
    assert [len(arm.runs) for arm in found] == [3, 3]
    assert not chosen or found[0].fields['model.name'] == value
  assert arms.differing(configs) == {
      'seed': 3, 'compile_cache': 3, 'horizon.kind': 2, 'start': 2
  }  # fmt: skip


@pytest.mark.parametrize(
    'path',
    [
        '/runs/warm-{seed}/export',
        'runs/{seed}/checkpoints/1',
        '{seed}/export',
        'runs/warm_{seed}',
        'runs/a-seed={seed}/b-seed{seed}',
        'runs/round-1/demos-{seed}.jsonl',
        'gs://bucket-1/{seed}',
    ],
)
def test_a_path_may_follow_the_seed_at_its_own_places(path):
  configs = {
      f'r{seed}': config(seed, model={'name': path.format(seed=seed)})
      for seed in (0, 1, 12)
  }
  [arm] = arms.sort_out(configs, ['model.name'])
  assert arm == (f'model.name={path}', {'model.name': path}, tuple(configs))


def test_another_number_than_the_seed_is_a_difference():
  paths = ['runs/warm-v0', 'runs/warm-v1', 'runs/warm-5']
  configs = {path: config(i, start=path) for i, path in enumerate(paths)}
  found = names(arms.sort_out(configs))
  assert found == {f'start={path}': (path,) for path in paths}


def test_a_start_for_all_seeds_is_apart_from_one_for_each():
  configs = {
      f'{kind}{seed}': config(seed, start=f'runs/warm-{start}')
      for seed in range(3)
      for kind, start in (('each', seed), ('same', 1))
      if (kind, seed) != ('each', 1)  # the same run
  }
  assert names(arms.sort_out(configs)) == {
      'start=runs/warm-{seed}': ('each0', 'each2'),
      'start=runs/warm-1': ('same0', 'same1', 'same2'),
  }


def test_fields_that_differ_have_their_number_of_values():
  configs = {'a': config(0), 'b': config(1, 'stepwise'), 'c': config(2)}
  assert arms.differing(configs) == {
      'seed': 3, 'compile_cache': 3, 'horizon.kind': 2
  }  # fmt: skip


def facts(**success):
  return Facts(
      run='', status='finished', mode='train', env=None, model=None,
      algorithm=None, seed=None, steps=None, planned=None, started=None,
      updated=None, wall_s=None,
      success={
          name: Rate(mean, None, None, 8) for name, mean in success.items()
      },
  )  # fmt: skip


def test_a_score_is_the_last_evaluation():
  found = arms.scores(facts(before=0.25, step_10=0.5, after=0.75))
  assert found == {'': arms.Score(0.25, 0.75)}
  assert arms.scores(facts(before=0.25)) == {'': arms.Score(0.25, None)}
  mixed = arms.scores(
      facts(**{'before/x': 0.1, 'after/x': 0.2, 'after/y': 1.0})
  )
  assert mixed == {'x': arms.Score(0.1, 0.2), 'y': arms.Score(None, 1.0)}


def test_equal_runs_have_no_intervals():
  by_run = {run: {'': arms.Score(0.0, 0.5)} for run in 'abc'}
  [row] = arms.rows([arms.Arm('x', {}, tuple('abc'))], by_run, {}, seed=0)
  assert row['mean'] == row['iqm'] == 0.5
  assert {
      row[f'{x}{end}'] for x in ('', 'iqm_') for end in ('low', 'high')
  } == {None}


def test_rows_have_students_interval_and_the_best_first():
  values = {'a': [0.1, 0.5, 0.4], 'b': [0.9, 0.7, 0.75, 0.8], 'c': [0.3]}
  found = [
      arms.Arm(name, {}, tuple(f'{name}{i}' for i in range(len(each))))
      for name, each in values.items()
  ]
  by_run = {
      f'{name}{i}': {'': arms.Score(0.0, score)}
      for name, each in values.items()
      for i, score in enumerate(each)
  }
  rows = arms.rows(found, by_run, {}, seed=0)
  assert [row['group'] for row in rows] == ['b', 'a', 'c']
  for row in rows[:2]:
    mine = values[row['group']]
    ends = stats.ttest_1samp(mine, 0).confidence_interval(0.95)
    assert (row['low'], row['high']) == pytest.approx(tuple(ends))
    assert row['mean'] == pytest.approx(np.mean(mine))
  assert rows[0]['iqm'] == pytest.approx((0.75 + 0.8) / 2)
  assert rows[0]['iqm_low'] < rows[0]['iqm'] < rows[0]['iqm_high']
  assert rows[2]['low'] is rows[2]['iqm'] is None
  assert rows[2]['mean'] == 0.3
