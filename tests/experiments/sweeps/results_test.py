"""Tables and figures of sweeps, against the functions of mode compare."""

import dataclasses
import json
import pathlib

import pytest

from agentrl import envs
from agentrl.data import episodes as episodes_lib
from agentrl.evaluation.compare import comparison
from agentrl.evaluation.stats import intervals, training_seeds
from experiments.sweeps import (
    cells as cells_lib,
    figure,
    folder,
    results,
    tables,
)
from tests.evaluation import recording
from tests.experiments.sweeps import recorded

TINY = 'configs/quickstart.py:tiny'


@pytest.fixture(scope='module')
def cells():
  return cells_lib.make(TINY, [{}], [':algo=grpo;rloo', 'seed=0;1'])


@pytest.fixture(scope='module')
def records(cells):
  return cells_lib.check(cells)


def write(out, cells, records, solved, **fields):
  folder.keep(out, cells)
  for cell, count in zip(cells, solved, strict=True):
    if count is not None:
      recorded.write_run(
          out / cell.name, records[cell.name], solved=count, **fields
      )
  return list(results.read(out))


def rows_of(text):
  return [
      [cell.strip() for cell in line.strip('|').split('|')]
      for line in text.splitlines()
      if line.startswith('|')
  ]


def test_the_table_has_runs_arms_and_paired_tests(tmp_path, cells, records):
  runs = write(tmp_path, cells, records, (2, 4, 6, 8))
  rows = {row[0]: row for row in rows_of(tables.of_runs(runs))[::-1]}
  run = rows['algo=grpo-seed=1']
  assert run[1:3] == ['2', '4'] and run[4].startswith('0.500 [')
  assert run[5:] == ['yes', '10:05', '']
  assert rows['algo=grpo-seed=0'][5] == 'no'
  arms = results.arms(runs)
  assert [arm.name for arm in arms] == ['algo=grpo', 'algo=rloo']
  assert arms[1].scores() == [0.75, 1.0]
  over = training_seeds.over_seeds({'': [0.75, 1.0]}, seed=0)
  arm = rows_of(tables.of_runs(runs))[9]
  assert arm[0] == 'algo=rloo' and arm[3] == '0.875'
  assert arm[5] == f'[{over.mean_low:.3f}, {over.mean_high:.3f}]'


def test_arms_have_random_actions_and_the_expert_beside_them(
    tmp_path, cells, records
):
  runs = write(tmp_path, cells, records, (2, 4, 6, 8))
  assert 'random' not in tables.of_runs(runs)
  for cell in cells:
    path = tmp_path / cell.name / 'summary.json'
    levels = {'random': {'mean': 0.25}, 'expert': {'mean': 1.0}}
    if cell is cells[3]:  # another panel
      levels['random'] = {'mean': 0.5}
    summary = json.loads(path.read_text()) | {'chance': levels}
    path.write_text(json.dumps(summary))
  found = list(results.read(tmp_path))
  head, *arms = rows_of(tables.of_runs(found))[6:10]
  assert head[-2:] == ['random', 'expert']
  assert [row[-2:] for row in arms[1:]] == [['0.250', '1.000'], ['', '1.000']]
  # A line stands for all runs of the figure, or for none.
  figure.draw(found, tmp_path / 'figure.svg')
  text = (tmp_path / 'figure.svg').read_text()
  assert 'expert<' in text and 'random<' not in text


def test_the_test_is_that_of_mode_compare(tmp_path, cells, records):
  runs = write(tmp_path, cells, records, (2, 4, 6, 8))
  values = lambda a, b: {
      (task, 0): ((task < a) + (task < b)) / 2 for task in range(8)
  }
  found = comparison.compare(values(6, 8), values(2, 4), seed=0, bounds=(0, 1))
  row = rows_of(tables.of_runs(runs))[-1]
  assert row[:2] == ['algo=rloo', '+0.500']
  low, high = found.difference.low, found.difference.high
  assert row[2] == f'[{low:+.3f}, {high:+.3f}]'
  assert row[3] == row[4] == f'{found.p_value:.4f}'
  assert row[5] == 'permutation'


def test_gains_are_paired_with_the_evaluation_before(tmp_path, cells, records):
  runs = write(tmp_path, cells, records, (2, 4, 6, 8))
  success = lambda *solved: {
      (task, 0): sum(task < x for x in solved) / 2 for task in range(8)
  }
  rows = {row[0]: row for row in rows_of(tables.of_runs(runs))[10:14]}
  assert rows['arm'][1:] == 'gain | over tasks | p | test | over seeds'.split(
      ' | '
  )
  for name, solved in (('algo=grpo', (2, 4)), ('algo=rloo', (6, 8))):
    found = comparison.compare(
        success(*solved), success(2, 2), seed=0, bounds=(0, 1)
    )
    low, high = found.difference.low, found.difference.high
    assert rows[name][1] == f'{(sum(solved) - 4) / 16:+.3f}'
    assert rows[name][2] == f'[{low:+.3f}, {high:+.3f}]'
    assert rows[name][3:5] == [f'{found.p_value:.4f}', 'permutation']
    seeds = [(x - 2) / 8 for x in solved]
    over = training_seeds.over_seeds({'': seeds}, seed=0)
    assert rows[name][5] == f'[{over.mean_low:+.3f}, {over.mean_high:+.3f}]'
  for cell in cells[:2]:  # a run without an evaluation before
    (tmp_path / cell.name / 'episodes' / 'eval' / '000000.jsonl').unlink()
  gains = [
      row[0]
      for row in rows_of(tables.of_runs(list(results.read(tmp_path))))
      if row[-2] == 'permutation' and len(row) == 6
  ]
  assert gains == ['algo=rloo']


def test_returns_are_told_where_parts_of_a_task_are_paid(
    tmp_path, cells, records
):
  assert '| return before |' not in tables.of_runs(
      write(tmp_path, cells, records, (2, 4, 6, 8))
  )
  paid = {task: 0.25 + 0.5 * (task % 2) for task in range(8)}
  path = tmp_path / cells[2].name / 'episodes' / 'eval' / '000002.jsonl'
  episodes_lib.write(
      path,
      [
          recording.episode('', 'babyai', task, 0, False, reward=reward)
          for task, reward in paid.items()
      ],
  )
  runs = list(results.read(tmp_path))
  rows = rows_of(tables.of_runs(runs))
  [start] = [i for i, row in enumerate(rows) if row[1] == 'return before']
  begun = [float(task < 2) for task in range(8)]
  ends = [
      intervals.mean_interval([[x] for x in values])
      for values in (begun, paid.values())
  ]
  assert rows[start + 4] == [
      'algo=rloo-seed=0',
      *(f'{x.mean:.3f} [{x.low:.3f}, {x.high:.3f}]' for x in ends),
      'no',
  ]
  # The other run of the arm solved all, and was paid for it.
  after = {(task, 0): (reward + 1) / 2 for task, reward in paid.items()}
  before = {(task, 0): value for task, value in enumerate(begun)}
  first = {(task, 0): ((task < 2) + (task < 4)) / 2 for task in range(8)}
  seeds = training_seeds.over_seeds({'': [0.25, 0.75]}, seed=0)
  gain, difference = (
      comparison.compare(after, x, seed=0) for x in (before, first)
  )
  shown = lambda x: [
      'algo=rloo',
      f'{x.difference.mean:+.3f}',
      f'[{x.difference.low:+.3f}, {x.difference.high:+.3f}]',
      f'{x.p_value:.4f}',
  ]
  assert rows[start + 9] == [
      *shown(gain),
      'permutation',
      f'[{seeds.mean_low:+.3f}, {seeds.mean_high:+.3f}]',
  ]
  # The other arm's returns are its success, and are compared nevertheless.
  assert rows[-1][:4] == shown(difference)
  for line in runs[2].metrics:
    line |= {'rollout/return_mean': 0.6, 'rollout/return_std': 0.2}
  figure.draw(runs, tmp_path / 'figure.svg')
  text = (tmp_path / 'figure.svg').read_text()
  assert 'success on held-out tasks' in text
  assert 'return on held-out tasks' in text


def test_tasks_of_one_template_are_one_cluster():
  spec = envs.get('textcraft')
  tasks = spec.tasks('test')
  template = spec.clusters()
  beds = {x for x in tasks if template(x) == template(tasks[-1])} | {
      x for x in tasks if x % 3 == 0
  }
  after = {(x, 0): float(x in beds) for x in tasks}
  before = dict.fromkeys(after, 0.0)
  mean = len(beds) / len(tasks)
  run = results.Run(
      cell=cells_lib.Cell('a.py', (('seed', '0'),), 'seed=0'),
      config={'env': {'name': 'textcraft', 'options': {}}},
      summary={
          'steps': 2,
          'wall_s': 1.0,
          'eval': {
              'before': dict(mean=0.0, low=0.0, high=0.1),
              'after': dict(mean=mean, low=0.1, high=0.9),
          },
      },
      metrics=[],
      played={'success': after, 'return': after},
      played_before={'success': before, 'return': before},
  )
  clusters = {x: template(x) for x in tasks}
  assert len(set(clusters.values())) == 71
  found, naive = (
      comparison.compare(after, before, seed=0, clusters=x, bounds=(0, 1))
      for x in (clusters, None)
  )
  ends = lambda x: f'[{x.difference.low:+.3f}, {x.difference.high:+.3f}]'
  assert ends(found) != ends(naive)
  [row] = [x for x in rows_of(tables.of_runs([run])) if x[4:5] == [found.test]]
  assert row[1:4] == [f'{mean:+.3f}', ends(found), '<= 0.000001']


def test_arms_of_equal_runs_have_no_interval_over_seeds(
    tmp_path, cells, records
):
  text = tables.of_runs(write(tmp_path, cells, records, (2, 2, 6, 6)))
  difference = rows_of(text)[-1]
  assert difference[1] == '+0.500' and difference[-1] == 'all equal'


def test_tasks_of_a_single_template_count_singly(cells):
  template = envs.get('textcraft').clusters()
  tasks = envs.get('textcraft').tasks('train')
  one = [x for x in tasks if template(x) == template(tasks[0])]
  assert len(one) > 1
  played = {'success': {(x, 0): 1.0 for x in one}}
  config = {'env': {'name': 'textcraft', 'options': {}}}
  run = results.Run(cells[0], config, {}, [], played, {})
  assert results.Arm('a', [run]).clusters is None


def test_unfinished_runs_and_other_panels_are_said(tmp_path, cells, records):
  runs = write(tmp_path, cells, records, (2, None, 6, None))
  path = tmp_path / cells[2].name / 'episodes' / 'eval' / '000002.jsonl'
  lines = path.read_text().splitlines()
  path.write_text('\n'.join(lines[:-1]) + '\n')
  runs = list(results.read(tmp_path))
  assert [run.name for run in runs] == [cells[0].name, cells[2].name]
  assert 'not compared: Different panels' in tables.of_runs(runs)
  assert tables.of_runs([]) == 'No run is finished.\n'


def test_attempts_at_a_task_are_one_sample_of_it(tmp_path, cells, records):
  runs = write(tmp_path, cells, records, (4, None, None, None))
  path = tmp_path / cells[0].name / 'episodes' / 'eval' / '000002.jsonl'
  first = list(episodes_lib.read(path))
  second = [
      dataclasses.replace(e, attempt=1, success=e.task_id < 2) for e in first
  ]
  episodes_lib.write(path, [*first, *second])
  [run] = results.read(tmp_path)
  expected = [1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
  assert run.played['success'] == {(i, 0): x for i, x in enumerate(expected)}
  assert runs[0].played['success'].keys() == run.played['success'].keys()


def test_members_of_a_mixture_are_compared_with_themselves(tmp_path):
  cells = cells_lib.make(
      'configs/mixture_grpo.py:tiny', [{}], ['optim.lr=1e-4;2e-4', 'seed=0;1']
  )
  solved = [
      {'babyai': 2 * n, 'textcraft': 2, 'searchqa': n} for n in (1, 2, 3, 4)
  ]
  runs = write(tmp_path, cells, cells_lib.check(cells), solved)
  assert [run.name for run in runs[:4]] == [
      'optim.lr=1e-4-seed=0/babyai',
      'optim.lr=1e-4-seed=0/searchqa',
      'optim.lr=1e-4-seed=0/textcraft',
      'optim.lr=1e-4-seed=1/babyai',
  ]
  assert runs[1].after['mean'] == 0.125 and runs[1].before['mean'] == 0.25
  assert [run.config['env']['name'] for run in runs[:3]] == [
      'babyai',
      'searchqa',
      'textcraft',
  ]
  arms = {arm.name: arm for arm in results.arms(runs)}
  assert arms['optim.lr=2e-4/babyai'].scores() == [0.75, 1.0]
  assert arms['optim.lr=2e-4/babyai'].clusters is None
  # Tasks that share an id with those of another environment stay apart.
  assert set(arms['optim.lr=1e-4/textcraft'].values().values()) == {0.0, 1.0}
  template = envs.get('textcraft').clusters()
  assert arms['optim.lr=1e-4/textcraft'].clusters == {
      task: template(task) for task in range(8)
  }
  for run in runs:
    assert run.column('rollout/success') == [0.5, 0.5]
    assert not any('/rollout/' in name for name in run.metrics[0])
  text = tables.of_runs(runs)
  for member in ('babyai', 'searchqa', 'textcraft'):
    assert (
        f'Differences in success to `optim.lr=1e-4/{member}`, the first arm'
        in text
    )
  tests = [row for row in rows_of(text) if row[-2] == 'permutation'][-3:]
  assert [row[:2] for row in tests] == [
      ['optim.lr=2e-4/babyai', '+0.500'],
      ['optim.lr=2e-4/searchqa', '+0.250'],
      ['optim.lr=2e-4/textcraft', '+0.000'],
  ]
  figure.draw(runs, tmp_path / 'figure.svg')
  assert '>optim.lr=1e-4/babyai<' in (tmp_path / 'figure.svg').read_text()


def test_a_member_without_options_of_its_own_has_those_of_its_environment(
    tmp_path,
):
  members = (
      "mixture={'babyai': {}, 'textcraft': {'env': {'name': 'textcraft'}}}"
  )
  cells = cells_lib.make(TINY, [{}], [members])
  solved = {'babyai': 2, 'textcraft': 4}
  runs = write(tmp_path, cells, cells_lib.check(cells), [solved])
  babyai, textcraft = results.arms(runs)
  template = envs.get('textcraft').clusters()
  assert textcraft.clusters == {task: template(task) for task in range(8)}
  assert textcraft.scores() == [0.5]
  assert babyai.clusters is None and babyai.scores() == [0.25]


def test_a_run_of_fewer_steps_is_not_finished(tmp_path, cells, records):
  assert not write(tmp_path, cells, records, (2, 4, 6, 8), steps=1)
  for record in records.values():
    record['num_tokens'] = 100
  assert not write(tmp_path, cells, records, (2, 4, 6, 8), steps=1, sampled=99)
  runs = write(tmp_path, cells, records, (2, 4, 6, 8), steps=1, sampled=100)
  assert len(runs) == 4


def test_the_figure_is_drawn_and_names_each_arm(tmp_path, cells, records):
  runs = write(tmp_path, cells, records, (2, 4, 6, 8))
  figure.draw(runs, tmp_path / 'figure.svg')
  text = (tmp_path / 'figure.svg').read_text()
  assert 'algo=grpo' in text and 'algo=rloo' in text
  assert 'return on held-out tasks' not in text
  figure.draw(runs, tmp_path / 'again.svg')
  assert (tmp_path / 'again.svg').read_text() == text
  assert 'turns of an episode' not in text
  assert 'success on held-out tasks' in text
  for run in runs:
    run.config['eval']['split'] = 'train'
  figure.draw(runs, tmp_path / 'again.svg')
  assert 'success on training tasks' in (tmp_path / 'again.svg').read_text()


def test_a_long_name_has_a_line_an_override(tmp_path):
  cells = cells_lib.make(
      TINY, [{}], [':algo=grpo', 'optim.lr=1e-4;2e-4', 'seed=0']
  )
  runs = write(tmp_path, cells, cells_lib.check(cells), (2, 4))
  figure.draw(runs, tmp_path / 'figure.svg')
  text = (tmp_path / 'figure.svg').read_text()
  assert text.count('>algo=grpo<') == 2
  assert '>optim.lr=1e-4<' in text and '>optim.lr=2e-4<' in text


def test_the_figure_has_horizons_where_arms_differ_in_them(
    tmp_path, cells, records
):
  runs = write(tmp_path, cells, records, (2, 4, 6, 8))
  for run, turns in zip(runs, (3, 5, 6, 6), strict=True):
    for line in run.metrics:
      line['rollout/horizon'] = turns
  figure.draw(runs, tmp_path / 'figure.svg')
  assert 'turns of an episode' in (tmp_path / 'figure.svg').read_text()
  arms = [figure.horizons(arm) for arm in results.arms(runs)]
  assert arms == [{0: 4, 1: 4}, {0: 6, 1: 6}]
  for line in runs[3].metrics:  # each episode drew its own
    line['rollout/horizon_mean'] = 4.5
  assert figure.horizons(results.arms(runs)[1]) == {0: 5.25, 1: 5.25}


def test_a_folder_of_another_sweep_is_refused(tmp_path, cells, records):
  write(tmp_path, cells, records, (2, 4, 6, 8))
  kept = folder.read(tmp_path)
  assert kept == cells
  folder.check(tmp_path, kept, cells, records)
  more = cells_lib.make(TINY, [{}], [':algo=grpo;rloo', 'seed=0;1;2'])
  folder.check(tmp_path, kept, more, cells_lib.check(more))  # it grew
  for config, grids, words in (
      (TINY, [':algo=grpo', 'seed=0;1'], 'algo=rloo-seed=0.* lacks'),
      ('configs/quickstart.py', [':algo=grpo;rloo', 'seed=0;1'], 'not configs'),
  ):
    other = cells_lib.make(config, [{}], grids)
    with pytest.raises(ValueError, match=words):
      folder.check(tmp_path, kept, other, cells_lib.check(other))


def test_a_cell_of_another_config_is_refused(tmp_path, cells, records):
  write(tmp_path, cells, records, (2, 4, 6, 8))
  changed = json.loads(json.dumps(records))
  changed[cells[1].name]['optim']['lr'] = 1.0
  with pytest.raises(ValueError, match=rf'Cell {cells[1].name}: .*optim\.lr'):
    folder.check(tmp_path, cells, cells, changed)


def test_a_folder_of_something_else_is_refused(tmp_path):
  (tmp_path / 'notes.txt').write_text('mine')
  with pytest.raises(ValueError, match='no sweep but notes.txt'):
    folder.read(tmp_path)
  assert folder.read(pathlib.Path(tmp_path / 'new')) == []
