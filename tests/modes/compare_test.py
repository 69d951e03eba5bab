"""Tests for mode='compare': evaluations in, differences and refusals out."""

import csv
import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from agentrl.errors import ConfigError, DataError, PanelError
from agentrl.evaluation import results
from agentrl.evaluation.stats import power
from agentrl.evaluation.workdirs import run_facts
from agentrl.modes import compare
from configs import compare as config_lib
from tests.evaluation import recording

ROOT = pathlib.Path(__file__).parents[2]
# a and b by task: two won, one lost, one both, one neither, one missing.
FIRST = [[1], [1], [0], [1], [0], [None]]
SECOND = [[0], [0], [1], [1], [0], [1]]


def run(arg, workdir):
  """Runs a comparison; returns what it wrote as JSON."""
  compare.run(config_lib.get_config(arg), str(workdir))
  return json.loads((workdir / 'comparison.json').read_text())


def row_of(found, *, env='textcraft', subtask='all', metric='success'):
  [row] = [
      row
      for row in found['rows']
      if (row['env'], row['subtask'], row['metric']) == (env, subtask, metric)
  ]
  return row


@pytest.fixture
def pair(tmp_path):
  recording.simple(tmp_path / 'e1', FIRST, name='new')
  recording.simple(tmp_path / 'e2', SECOND, name='old')
  return f'a={tmp_path}/e1,b={tmp_path}/e2'


def test_a_comparison_has_the_figures_that_follow_by_hand(pair, tmp_path):
  found = run(pair, tmp_path / 'out')
  row = row_of(found)
  counts = {'won': 2, 'lost': 1, 'both': 1, 'neither': 1, 'missing': 1}
  assert {name: row[name] for name in counts} == counts
  assert (row['a'], row['b'], row['unit']) == ('new', 'old', 'task')
  # Of five pairs 3 and 2 succeed; of three discordant ones two are won:
  # p = 1; mid-p = 1 - C(3, 1) / 8.
  assert (row['mean_a'], row['mean_b']) == (0.6, 0.4)
  assert row['difference'] == pytest.approx(0.2)
  assert row['low'] < 0.2 < row['high']
  assert (row['test'], row['p_value'], row['mid_p_value']) == (
      'mcnemar',
      1.0,
      pytest.approx(0.625),
  )
  # z(0.975) + z(0.8) standard errors, of which the interval has 2 z(0.975).
  z = stats.norm.ppf([0.975, 0.8])
  width = row['high'] - row['low']
  assert row['detectable'] == pytest.approx(width / 2 * z.sum() / z[0])
  assert (row['pairs'], row['tasks']) == (5, 5)


def test_a_viewer_lists_a_comparison_as_finished(pair, tmp_path):
  run(pair, tmp_path / 'c')
  summary = json.loads((tmp_path / 'c/summary.json').read_text())
  assert summary['mode'] == 'compare' and summary['wall_s'] > 0
  for _ in range(2):
    found = run_facts.read(tmp_path, 'c')
    assert (found.status, found.mode) == ('finished', 'compare')
    assert found.steps is None and found.compares == ('e1:new', 'e2:old')
    (tmp_path / 'c/summary.json').unlink(missing_ok=True)  # an earlier version
  # All policies of a comparison, less one that lies elsewhere.
  path = tmp_path / 'c/comparison.json'
  text = path.read_text()
  stored = json.loads(text)
  third = stored['policies'][0] | {'evaluation': str(tmp_path / 'e3')}
  elsewhere = stored['policies'][0] | {'evaluation': '/elsewhere'}
  stored['policies'] += [elsewhere, third]
  path.write_text(json.dumps(stored))
  found = run_facts.read(tmp_path, 'c').compares
  assert found == ('e1:new', 'e2:old', 'e3:new')
  path.write_text(text)
  # What lies elsewhere, or was damaged, has no link.
  (tmp_path / 'root').mkdir()
  (tmp_path / 'c').rename(tmp_path / 'root/c')
  assert run_facts.read(tmp_path / 'root', 'c').compares == ()
  for text in ('{', '[]', '{"policies": [{"evaluation": 3}]}'):
    (tmp_path / 'root/c/comparison.json').write_text(text)
    found = run_facts.read(tmp_path / 'root', 'c')
    assert (found.status, found.compares) == ('finished', ())


def test_an_error_counts_both_ways(pair, tmp_path):
  found = run(pair, tmp_path / 'out')
  row = row_of(found, metric='success_errors_fail')
  # The missing pair is one that b won.
  assert (row['won'], row['lost'], row['missing']) == (2, 2, 0)
  assert row['difference'] == 0 and row['pairs'] == 6


def test_outcomes_name_their_episodes(pair, tmp_path):
  found = run(pair, tmp_path / 'out')
  [outcomes] = found['outcomes']
  tasks = {
      name: [entry['task_id'] for entry in outcomes[name]]
      for name in ('won', 'lost', 'both', 'neither', 'missing')
  }
  assert tasks == {
      'won': [0, 1],
      'lost': [2],
      'both': [3],
      'neither': [4],
      'missing': [5],
  }
  assert outcomes['lost'][0] == {
      'task_id': 2,
      'sample': 0,
      'subtask': 'easy',
      'a': 'new-textcraft-2-0',
      'b': 'old-textcraft-2-0',
  }


def test_a_copy_of_itself_shows_no_difference(tmp_path):
  rng = np.random.default_rng(0)
  for name in ('e1', 'e2'):
    rng = np.random.default_rng(0)
    recording.simple(tmp_path / name, rng.integers(0, 2, (40, 2)).tolist())
  found = run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  assert {row['metric'] for row in found['rows']} == {
      'success',
      'success_errors_fail',
      'return',
  }
  for row in found['rows']:
    assert (row['difference'], row['p_value']) == (0, 1)
    assert (row['a'], row['b']) == ('e1:policy', 'e2:policy')
  assert row_of(found)['won'] == row_of(found)['lost'] == 0


def test_several_samples_have_the_permutation_test(tmp_path):
  first = [[1, 1], [1, 0], [1, 1], [0, 0]]
  second = [[0, 0], [0, 0], [1, 0], [0, 0]]
  recording.simple(tmp_path / 'e1', first)
  recording.simple(tmp_path / 'e2', second)
  row = row_of(run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out'))
  totals = np.mean(first, 1) - np.mean(second, 1)
  expected = stats.permutation_test(
      (totals,),
      lambda x, axis: x.mean(axis),
      permutation_type='samples',
      vectorized=True,
  ).pvalue
  assert row['test'] == 'permutation' and row['mid_p_value'] is None
  assert row['difference'] == pytest.approx(totals.mean())
  assert row['p_value'] == pytest.approx(expected)


def test_returns_have_the_paired_t_interval_and_progress_its_bounds(tmp_path):
  rng = np.random.default_rng(1)
  values = {'e1': rng.normal(1, 1, 12), 'e2': rng.normal(0, 1, 12)}
  done = {'e1': rng.uniform(0.4, 1, 12), 'e2': rng.uniform(0, 0.6, 12)}
  for name, rewards in values.items():
    played = [
        recording.episode(
            name,
            'sciworld',
            task,
            0,
            reward > 0,
            reward=reward,
            progress=done[name][task],
        )
        for task, reward in enumerate(rewards.tolist())
    ]
    panel = recording.panel('sciworld', task_ids=range(12))
    recording.write(tmp_path / name, {name: played}, [panel])
  found = run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  row = row_of(found, env='sciworld', metric='return')
  expected = stats.ttest_rel(values['e1'], values['e2'])
  assert (row['low'], row['high']) == pytest.approx(
      tuple(expected.confidence_interval(0.95))
  )
  assert row['won'] is None and row['method'] == 't'
  row = row_of(found, env='sciworld', metric='progress')
  assert row['difference'] == pytest.approx(
      done['e1'].mean() - done['e2'].mean()
  )
  assert -1 <= row['low'] < row['difference'] < row['high'] <= 1


def test_subtasks_have_holms_p_values_and_all_has_none(tmp_path):
  first = [[1]] * 8 + [[1], [0]] * 4
  second = [[0]] * 8 + [[0], [1]] * 4
  subtasks = ('easy',) * 8 + ('hard',) * 8
  for name, outcomes in (('e1', first), ('e2', second)):
    recording.simple(tmp_path / name, outcomes, subtasks=subtasks)
  found = run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  easy, hard = (row_of(found, subtask=x) for x in ('easy', 'hard'))
  # All eight won: 2 / 2^8. Four of eight: 1.
  assert easy['p_value'] == pytest.approx(2**-7)
  assert easy['p_holm'] == pytest.approx(2**-6)
  assert hard['p_value'] == hard['p_holm'] == 1
  assert row_of(found)['p_holm'] is None
  assert row_of(found)['won'] == easy['won'] + hard['won'] == 12


@pytest.mark.parametrize('subtasks', [None, ('x', 'y') * 8])
def test_three_policies_are_adjusted_for_their_pairs(
    subtasks, tmp_path, capsys
):
  outcomes = {'e1': [[1]] * 16, 'e2': [[1]] * 8 + [[0]] * 8, 'e3': [[0]] * 16}
  fields = {'subtasks': subtasks} if subtasks else {}
  for name, played in outcomes.items():
    recording.simple(tmp_path / name, played, name=name, **fields)
  arg = f'a={tmp_path}/e1,b={tmp_path}/e2,more={tmp_path}/e3'
  found = run(arg, tmp_path / 'out')
  rows = [
      row
      for row in found['rows']
      if (row['subtask'], row['metric']) == ('all', 'success')
  ]
  # All of 8, of 16 and of 8 discordant pairs are won.
  assert [row['p_value'] for row in rows] == pytest.approx(
      [2**-7, 2**-15, 2**-7]
  )
  assert [row['p_holm'] for row in rows] == pytest.approx(
      [2**-6, 3 * 2**-15, 2**-6]
  )
  assert {(r['holm_family'], r['holm_tests']) for r in rows} == {('pairs', 3)}
  of_subtasks = [row for row in found['rows'] if row['subtask'] != 'all']
  assert bool(of_subtasks) == bool(subtasks)
  for row in of_subtasks:
    assert row['holm_tests'] == 6 and row['p_holm'] >= 2 * row['p_value']
  with (tmp_path / 'out' / 'comparison_matrix.csv').open() as file:
    table = list(csv.DictReader(file))
  assert [(x['a'], x['b'], x['won'], x['lost']) for x in table] == [
      ('e1', 'e2', '8', '0'), ('e1', 'e3', '16', '0'), ('e2', 'e3', '8', '0')
  ]  # fmt: skip
  page = (tmp_path / 'out' / 'comparison.md').read_text()
  assert '| e1 | 1.000 |' in page and '8 won, 0 lost; n 16' in page
  for text in (page, capsys.readouterr().out):
    assert 'all tasks for the pairs of policies' in text
    assert ('all subtasks of all pairs' in text) == bool(subtasks)


def test_two_policies_have_no_word_of_a_family_of_pairs(pair, tmp_path, capsys):
  found = run(pair, tmp_path / 'out')
  assert row_of(found)['p_holm'] is None
  page = (tmp_path / 'out' / 'comparison.md').read_text()
  assert 'adjusted' not in page + capsys.readouterr().out


@pytest.mark.parametrize('samples, words', [(1, '1.9e-09'), (2, '<= 0.000001')])
def test_small_p_values_are_said_as_they_are(samples, words, tmp_path, capsys):
  for name, success in (('e1', 1), ('e2', 0)):
    recording.simple(tmp_path / name, [[success] * samples] * 30)
  run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  page = (tmp_path / 'out' / 'comparison.md').read_text()
  for text in (page, capsys.readouterr().out):
    assert words in text and '0.0000 ' not in text and '0.0001' not in text


def test_templates_are_the_clusters(tmp_path):
  first, second = [[1]] * 6 + [[0]] * 6, [[0]] * 6 + [[1]] * 6
  templates = tuple('aaabbbcccddd')
  for name, outcomes in (('e1', first), ('e2', second)):
    recording.simple(tmp_path / name, outcomes, clusters=templates)
  row = row_of(run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out'))
  # Totals 3, 3, -3, -3: each of 16 sign vectors is as extreme.
  assert (row['test'], row['p_value']) == ('permutation', 1.0)


def test_every_policy_meets_every_later_one(tmp_path):
  both = {
      name: [recording.episode(name, 'textcraft', t, 0, s) for t, s in outcomes]
      for name, outcomes in (
          ('expert', [(0, 1), (1, 1)]),
          ('random', [(0, 0), (1, 0)]),
      )
  }
  panel = recording.panel(task_ids=range(2))
  recording.write(tmp_path / 'e1', both, [panel])
  recording.simple(tmp_path / 'e2', [[1], [0]], name='mine')
  compared = lambda found: [
      (row['a'], row['b']) for row in found['rows'] if row['metric'] == 'return'
  ]
  found = run(f'a={tmp_path}/e1,more={tmp_path}/e2', tmp_path / 'out')
  assert compared(found) == [
      ('expert', 'random'),
      ('expert', 'mine'),
      ('random', 'mine'),
  ]
  found = run(f'a={tmp_path}/e2,b={tmp_path}/e1:random', tmp_path / 'out')
  assert compared(found) == [('mine', 'random')]
  assert compared(run(f'a={tmp_path}/e1', tmp_path / 'out')) == [
      ('expert', 'random')
  ]


def test_an_environment_of_one_side_is_listed_and_left_out(tmp_path, capsys):
  panels = [recording.panel(x, task_ids=[0]) for x in ('textcraft', 'babyai')]
  played = [recording.episode('p', x.env, 0, 0, 1) for x in panels]
  recording.write(tmp_path / 'e1', {'p': played}, panels)
  recording.simple(tmp_path / 'e2', [[0]], name='q')
  found = run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  assert found['skipped'] == [
      {'env': 'babyai', 'a': 'p', 'b': 'q', 'only': 'p'}
  ]
  assert {row['env'] for row in found['rows']} == {'textcraft'}
  said = 'babyai, which only p has'
  assert said in capsys.readouterr().out
  assert said in (tmp_path / 'out' / 'comparison.md').read_text()


def test_a_pair_without_a_valid_episode_has_no_figures(tmp_path):
  recording.simple(tmp_path / 'e1', [[None], [1]], subtasks=('x', 'y'))
  recording.simple(tmp_path / 'e2', [[1], [1]], subtasks=('x', 'y'))
  found = run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  row = row_of(found, subtask='x')
  assert (row['difference'], row['p_value'], row['missing']) == (None, None, 1)
  assert row_of(found, subtask='y')['p_holm'] == 1


def test_settings_that_differ_are_shown(tmp_path):
  for name, horizon, temperature in (('e1', 10, 0.0), ('e2', 20, 1.0)):
    panel = recording.panel(
        task_ids=[0], horizon=horizon, options={'max_depth': 2}
    )
    recording.write(
        tmp_path / name,
        {name: [recording.episode(name, 'textcraft', 0, 0, 1)]},
        [panel],
        config={'agent': {'format': 'plain'}, 'model': {'name': name}},
        **{name: {'sampler': {'temperature': temperature, 'top_p': 1.0}}},
    )
  found = run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  values = {s['name']: (s['value_a'], s['value_b']) for s in found['settings']}
  assert values == {
      'sampler.temperature': (0.0, 1.0),
      'textcraft.horizon': (10, 20),
  }
  page = (tmp_path / 'out' / 'comparison.md').read_text()
  assert '| e1 | e2 | textcraft.horizon | 10 | 20 |' in page


def test_the_files_and_the_table_say_the_same(pair, tmp_path, capsys):
  found = run(pair, tmp_path / 'out')
  with (tmp_path / 'out' / 'comparison.csv').open() as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == len(found['rows'])
  for line, row in zip(rows, found['rows'], strict=True):
    assert line == {k: '' if v is None else str(v) for k, v in row.items()}
  shown = capsys.readouterr().out
  page = (tmp_path / 'out' / 'comparison.md').read_text()
  for text in (shown, page):
    assert '95% over tasks' in text and '+0.200' in text
  assert 'Intervals (95%) and tests are over tasks' in page
  assert recording.SUCCESS in page and 'detectable' in page


def test_the_table_is_short_where_no_episode_is_missing(tmp_path, capsys):
  recording.simple(tmp_path / 'e1', [[1], [0]])
  recording.simple(tmp_path / 'e2', [[0], [0]])
  run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  lines = capsys.readouterr().out.splitlines()
  assert not any('success_errors_fail' in line for line in lines)


# Panels that do not compare.


@pytest.mark.parametrize(
    'outcomes, fields, words',
    [
        ([[1, 1]] * 6, {}, 'samples 1 and 2'),
        ([[1]] * 6, {'seed': 7}, 'seed 0 and 7'),
        (
            [[1]] * 6,
            {'hash': '0', 'options': {'depth': 2}},
            "options {} and {'depth': 2}",
        ),
        ([[1]] * 6, {'hash': '0'}, 'options that give ids their meaning'),
        ([[1]] * 6, {'subtasks': tuple('abcdef')}, 'different subtasks'),
        ([[1]] * 6, {'clusters': tuple('abcdef')}, 'subtasks or templates'),
        ([[1]] * 6, {'env': 'babyai'}, 'no environment in common'),
        # Before all else: what else differs follows from it.
        (
            [[1]] * 6,
            {'data_version': 2, 'hash': '0', 'subtasks': tuple('abcdef')},
            r'data_version 1 and 2\. Evaluate \w+ of \S*/e1 again',
        ),
        (
            [[1]] * 4,
            {'data_version': 3, 'seed': 7},
            'other tasks of textcraft under the same ids',
        ),
    ],
)
def test_another_panel_is_refused_by_name(
    pair, tmp_path, outcomes, fields, words
):
  (tmp_path / 'e2' / 'evaluation.json').unlink()
  recording.simple(tmp_path / 'e2', outcomes, **fields)
  with pytest.raises(PanelError, match=words):
    run(pair, tmp_path / 'out')
  assert not list((tmp_path / 'out').iterdir())


def test_tasks_in_another_order_are_the_same_tasks(pair, tmp_path):
  expected = run(pair, tmp_path / 'expected')
  recording.write(
      tmp_path / 'e2',
      {
          'old': [
              recording.episode('old', 'textcraft', t, 0, SECOND[t][0])
              for t in (1, 0, 2, 3, 4, 5)
          ]
      },
      [recording.panel(task_ids=(1, 0, 2, 3, 4, 5))],
  )
  found = run(pair, tmp_path / 'out')
  assert found['rows'] == expected['rows'] and found['unpaired'] == []


def test_panels_of_two_sizes_are_compared_on_the_tasks_of_both(
    pair, tmp_path, capsys
):
  # FIRST and SECOND have tasks 0 to 5; the larger panel has 3 to 8 as well.
  tasks = (0, 1, 3, 4, 8, 9)
  recording.write(
      tmp_path / 'e2',
      {
          'old': [
              recording.episode('old', 'textcraft', t, 0, t in (0, 9))
              for t in tasks
          ]
      },
      [recording.panel(task_ids=tasks, subtasks=tuple('xxyyzz'))],
  )
  recording.simple(tmp_path / 'e1', FIRST, name='new', subtasks=tuple('xx-yy-'))
  found = run(pair, tmp_path / 'out')
  assert found['unpaired'] == [
      {'env': 'textcraft', 'a': 'new', 'b': 'old', 'tasks': 4, 'only_a': 2,
       'only_b': 2}
  ]  # fmt: skip
  pairs = {
      (x['task_id'], x['sample'])
      for name in ('won', 'lost', 'both', 'neither', 'missing')
      for x in found['outcomes'][0][name]
  }
  assert pairs == {(task, 0) for task in (0, 1, 3, 4)}
  rows = [row for row in found['rows'] if row['metric'] == 'success']
  assert {row['subtask'] for row in rows} == {'all', 'x', 'y'}
  whole = rows[0]
  assert whole['pairs'] + whole['missing'] == 4
  [panel] = found['panels']
  assert panel['tasks'] == 4
  line = 'Compared are the 4 of both; left out: 2 of new alone, 2 of old alone.'
  assert line in capsys.readouterr().out
  assert line in (tmp_path / 'out' / 'comparison.md').read_text()


def test_panels_without_a_common_task_are_refused(pair, tmp_path):
  played = [recording.episode('q', 'textcraft', t, 0, 1) for t in (7, 8)]
  recording.write(
      tmp_path / 'e2', {'q': played}, [recording.panel(task_ids=(7, 8))]
  )
  with pytest.raises(PanelError, match='no task of textcraft in common'):
    run(pair, tmp_path / 'out')


@pytest.mark.parametrize(
    'fields, words',
    [
        ({'seed': 7}, 'seed 0 and 7'),
        ({'attempts': 2}, 'attempts 1 and 2'),
        ({'options': {'depth': 2}}, "options {} and {'depth': 2}"),
        ({'task_options': {'depth': 2}}, 'task options'),
        ({'data_version': 2}, 'data_version 1 and 2'),
        ({'subtasks': ('hard',) * 4}, 'different subtasks'),
    ],
)
def test_panels_of_two_sizes_that_differ_otherwise_are_refused(
    tmp_path, fields, words
):
  named = {'task_options': {}} if 'task_options' in fields else {}
  recording.simple(tmp_path / 'e1', [[1]] * 6, **named)
  recording.simple(tmp_path / 'e2', [[1]] * 4, **fields)
  if 'attempts' in fields:
    lines = [
        recording.episode('policy', 'textcraft', t, 0, 1) for t in range(4)
    ]
    lines = [dataclasses.replace(x, attempt=k) for x in lines for k in (0, 1)]
    panel = recording.panel(task_ids=range(4), attempts=2)
    recording.write(tmp_path / 'e2', {'policy': lines}, [panel])
  with pytest.raises(PanelError, match=words):
    run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')


# Evaluations that cannot be read.


def test_an_unfinished_evaluation_is_refused(pair, tmp_path):
  (tmp_path / 'e2' / results.FILE).unlink()
  with pytest.raises(DataError, match='no finished evaluation'):
    run(pair, tmp_path / 'out')


def test_errors_are_shown_for_all_subtasks_or_for_none(tmp_path, capsys):
  subtasks = ('x', 'x', 'y', 'y')
  for name, last in (('e1', None), ('e2', 1)):
    outcomes = [[1], [0], [1], [last]]
    recording.simple(tmp_path / name, outcomes, subtasks=subtasks)
  run(f'a={tmp_path}/e1,b={tmp_path}/e2', tmp_path / 'out')
  lines = capsys.readouterr().out.splitlines()
  assert sum('success_errors_fail' in line for line in lines) == 3


def test_another_format_is_refused(pair, tmp_path):
  path = tmp_path / 'e2' / results.FILE
  path.write_text(path.read_text().replace('"format": 1', '"format": 9'))
  with pytest.raises(DataError, match='has format 9'):
    run(pair, tmp_path / 'out')


@pytest.mark.parametrize(
    'change, words',
    [
        (lambda lines: lines[:-2], r'2 of 6 lack \[\(4, 0\), \(5, 0\)\]'),
        (lambda lines: [*lines, lines[3]], r'more than once \[\(3, 0\)\]'),
        (
            lambda lines: [
                *lines,
                lines[0].replace('"task_id": 0', '"task_id": 9'),
            ],
            r'foreign \[\(9, 0\)\]',
        ),
        (lambda lines: [*lines, '{"torn'], 'line 7.*command.*repairs it'),
        (lambda lines: [*lines, lines[0][:-1]], 'line 7.*command.*repairs it'),
        (lambda lines: [*lines[:-1], lines[5][:90]], 'line 6.*repairs it'),
        (lambda lines: [*lines[:2], 'x', *lines[3:]], 'line 3.*repairs it'),
        (lambda lines: [*lines, '{}'], 'line 7.*repairs it'),
        (None, 'is missing'),
    ],
)
def test_other_episodes_than_the_panels_are_refused(
    pair, tmp_path, change, words
):
  path = results.episodes_path(tmp_path / 'e1', 'new', 'textcraft')
  lines = path.read_text().splitlines()
  path.unlink()
  if change is not None:
    path.write_text('\n'.join(change(lines)) + '\n')
  with pytest.raises(DataError, match=words) as refused:
    run(pair, tmp_path / 'out')
  assert str(path) in str(refused.value)


def test_a_panel_that_contradicts_itself_is_refused(pair, tmp_path):
  recording.simple(tmp_path / 'e2', SECOND, subtasks=('a', 'b'))
  with pytest.raises(DataError, match='2 subtasks or templates for 6 tasks'):
    run(pair, tmp_path / 'out')


@pytest.mark.parametrize(
    'arg, words',
    [
        ('a=E/e1,b=E/e1', "'new' of .* is named twice"),
        ('a=E/e1,b=E/../E/e1:new', 'is named twice'),
        ('a=E/e1,b=E/e2:none', "no policy 'none'; it has old"),
        ('a=E/e1', "holds one policy, 'new': name another"),
        ('b=E/e1', 'Name evaluations'),
        ('a=E/e1;E/e2,b=E/e3', 'unit=seed.*more=E3;E4'),
        ('a=E/e1;E/e2,b=E/e3,unit=seed', 'two evaluations a side.*2 and 1'),
        ('a=E/e1,b=E/e2,more=E/e3,unit=seed', 'two evaluations a side'),
        ('a=E/e1,b=E/e2,unit=run', "compare.unit='run'; known: task, seed"),
        ('a=E/e1,b=E/e2,rate=0.5', 'plan.rate=0.5 has no effect'),
    ],
)
def test_what_cannot_be_compared_is_refused(pair, tmp_path, arg, words):
  arg = arg.replace('E/..', f'{tmp_path}/e1/..').replace('/E/', '/')
  arg = arg.replace('E/', f'{tmp_path}/')
  with pytest.raises(ConfigError, match=words):
    run(arg, tmp_path / 'out')


def test_a_comparison_needs_a_workdir(pair):
  with pytest.raises(ConfigError, match='--workdir'):
    compare.run(config_lib.get_config(pair), None)


def test_a_comparison_leaves_the_summary_of_a_run_alone(pair, tmp_path):
  for name in ('config.json', 'summary.json'):
    (tmp_path / 'e1' / name).write_text('{}')
  with pytest.raises(ConfigError, match='e1 holds a run.*another --workdir'):
    run(pair, tmp_path / 'e1')
  assert (tmp_path / 'e1' / 'summary.json').read_text() == '{}'


# Algorithms: the unit is the training seed.


@pytest.fixture
def runs(tmp_path):
  """Three runs of one algorithm and two of another, in two environments."""
  rng = np.random.default_rng(2)
  rates = {'a1': 0.9, 'a2': 0.6, 'a3': 0.8, 'b1': 0.3, 'b2': 0.5}
  panels = [
      recording.panel(env, task_ids=range(10), samples=2)
      for env in ('textcraft', 'babyai')
  ]
  table = {}
  for name, rate in rates.items():
    drawn = rng.random((2, 10, 2)) < rate
    table[name] = drawn
    played = [
        recording.episode(
            name, panel.env, task, sample, drawn[i, task, sample], progress=0.5
        )
        for i, panel in enumerate(panels)
        for task in range(10)
        for sample in range(2)
    ]
    recording.write(tmp_path / name, {'step': played}, panels)
  arg = (
      f'a={tmp_path}/a1;{tmp_path}/a2;{tmp_path}/a3,'
      f'b={tmp_path}/b1;{tmp_path}/b2,unit=seed'
  )
  return arg, table


def test_algorithms_have_intervals_over_seeds_beside_those_over_tasks(
    runs, tmp_path, capsys
):
  arg, table = runs
  found = run(arg, tmp_path / 'out')
  of = {
      (row['env'], row['metric'], row['side']): row
      for row in found['seed_rows']
  }
  assert {row['unit'] for row in of.values()} == {'training seed'}
  first = [table[name][0].mean() for name in ('a1', 'a2', 'a3')]
  second = [table[name][0].mean() for name in ('b1', 'b2')]
  over_a = of['textcraft', 'success', 'a']
  assert over_a['scores'] == {'textcraft': pytest.approx(first)}
  assert (over_a['seeds'], over_a['mean']) == (3, pytest.approx(np.mean(first)))
  expected = stats.ttest_ind(first, second, equal_var=False)
  difference = of['textcraft', 'success', 'difference']
  assert (difference['mean_low'], difference['mean_high']) == pytest.approx(
      tuple(expected.confidence_interval(0.95))
  )
  # One vote an environment; returns of two have no common scale.
  assert of['all', 'success', 'b']['mean'] == pytest.approx(
      np.mean([table['b1'].mean(), table['b2'].mean()])
  )
  assert ('all', 'progress', 'a') in of and ('all', 'return', 'a') not in of

  # The same difference over tasks: of the runs' means, paired by task.
  row = row_of(found)
  tasks = lambda names: np.mean([table[name][0].mean(1) for name in names], 0)
  paired = tasks(('a1', 'a2', 'a3')) - tasks(('b1', 'b2'))
  assert row['difference'] == pytest.approx(paired.mean())
  assert (row['unit'], row['won']) == ('task', None)
  assert found['outcomes'] == []
  page = (tmp_path / 'out' / 'comparison.md').read_text()
  shown = capsys.readouterr().out
  for words in ('over tasks', 'over seeds'):
    assert words in page and words in shown
  with (tmp_path / 'out' / 'comparison_seeds.csv').open() as file:
    lines = list(csv.DictReader(file))
  assert [line['side'] for line in lines[:3]] == ['a', 'b', 'difference']
  assert {line['unit'] for line in lines} == {'training seed'}


def test_a_run_of_several_policies_is_refused(runs, tmp_path):
  arg, _ = runs
  both = {
      name: [recording.episode(name, 'textcraft', 0, 0, 1)] for name in 'xy'
  }
  recording.write(tmp_path / 'b2', both, [recording.panel(task_ids=[0])])
  with pytest.raises(ConfigError, match='several policies, x, y.*:POLICY'):
    run(arg, tmp_path / 'out')


def test_a_run_without_a_valid_episode_is_refused(tmp_path):
  for name, success in (('a1', 1), ('a2', None), ('b1', 1), ('b2', 0)):
    recording.simple(tmp_path / name, [[success]] * 3)
  arg = f'a={tmp_path}/a1;{tmp_path}/a2,b={tmp_path}/b1;{tmp_path}/b2,unit=seed'
  with pytest.raises(PanelError, match='a2 has no valid episode in textcraft'):
    run(arg, tmp_path / 'out')


# Plans.


def plan(arg, workdir):
  compare.run(config_lib.get_config(f'plan,{arg}'), str(workdir))
  return json.loads((workdir / 'plan.json').read_text())['plans']


def test_a_plan_prints_the_sizes_of_power(tmp_path, capsys):
  [found] = plan('rate=0.6,difference=0.1,icc=0.4', tmp_path)
  expected = power.plan(0.6, 0.1, icc=0.4)
  assert found['sizes'] == [size._asdict() for size in expected]
  assert found['rate'] == {'value': 0.6, 'origin': 'given'}
  assert found['agreement'] == {'value': 1.0, 'origin': 'assumed'}
  lines = capsys.readouterr().out.splitlines()
  assert '0.600 against 0.700' in lines[0] and '(assumed)' in lines[0]
  assert lines[1].split()[:2] == ['k', 'tasks']
  shown = [tuple(map(int, line.split())) for line in lines[2:]]
  assert shown == [(s.samples, s.tasks, s.episodes) for s in expected]


def test_a_plan_needs_no_workdir_and_warns_without_icc(capsys):
  compare.run(config_lib.get_config('plan,rate=0.6'), None)
  assert 'right for k = 1, too few tasks for more' in capsys.readouterr().out


def test_a_plan_goes_by_an_evaluation_but_for_what_is_given(tmp_path):
  outcomes = [[1, 1]] * 4 + [[1, 0]] * 4 + [[0, 0]] * 4
  recording.simple(tmp_path / 'e1', outcomes)
  [found] = plan(f'a={tmp_path}/e1', tmp_path)
  icc = power.intraclass_correlation(outcomes)
  assert found['rate'] == {'value': 0.5, 'origin': 'estimated'}
  assert found['icc'] == {'value': pytest.approx(icc), 'origin': 'estimated'}
  assert found['env'] == 'textcraft'
  [found] = plan(f'a={tmp_path}/e1,rate=0.25', tmp_path)
  assert found['rate'] == {'value': 0.25, 'origin': 'given'}


@pytest.mark.parametrize(
    'arg, words',
    [
        ('difference=0.1', 'needs the success of the weaker policy'),
        ('rate=0.95', 'cannot grow by'),
        ('rate=0.5,difference=0', 'plan.difference must be above 0'),
        ('rate=1.5', 'plan.rate must be below 1'),
        ('rate=0.5,difference=0.000001', 'do not detect'),
        ('rate=0.5,agreement=0.5', 'plan.agreement=0.5 has no effect'),
        ('rate=0.5,icc=0.5,a=E1', 'compare.a has no effect'),
        ('rate=0.5,more=E3', 'compare.more=.* has no effect'),
        ('rate=0.5,b=E2', 'compare.b needs compare.a'),
        ('rate=0.5,unit=seed', 'two evaluations a side'),
        ('a=E1', 'no finished evaluation'),
    ],
)
def test_what_cannot_be_planned_is_refused(tmp_path, arg, words):
  with pytest.raises((ConfigError, DataError), match=words):
    plan(arg, tmp_path)


def test_samples_of_a_plan_are_numbers_from_one():
  config = config_lib.get_config('plan,rate=0.5')
  config.plan.samples = (0,)
  with pytest.raises(ConfigError, match=r'plan.samples must be .*\(0,\)'):
    compare.run(config, None)


# The program.


def launch(*argv, code=None):
  program = ['-c', code] if code else ['launch.py']
  return subprocess.run(
      [sys.executable, *program, *argv],
      capture_output=True,
      text=True,
      cwd=ROOT,
      timeout=120,
  )


def test_the_command_compares_and_imports_no_jax(pair, tmp_path):
  code = (
      'import sys\n'
      'from agentrl import launch\n'
      'from absl import app\n'
      'def main(arguments):\n'
      '  launch._main(arguments)\n'
      "  assert 'jax' not in sys.modules\n"
      'app.run(main, flags_parser=launch._parse)'
  )
  out = tmp_path / 'out'
  result = launch(
      f'--config=configs/compare.py:{pair}', f'--workdir={out}', code=code
  )
  assert result.returncode == 0, result.stderr
  assert f'See {out}/comparison.md' in result.stdout
  assert sorted(path.name for path in out.iterdir()) == [
      'comparison.csv',
      'comparison.json',
      'comparison.md',
      'summary.json',
  ]
