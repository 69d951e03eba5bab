"""Tests for agentrl.evaluation.workdirs.panels."""

import json
import os

import pytest

from agentrl import config as config_lib, envs
from agentrl.config import evaluation, modes
from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError, PanelError
from agentrl.evaluation import results
from agentrl.evaluation.compare import record as compared
from agentrl.evaluation.workdirs import files, panels
from agentrl.rollout import seeds
from configs import mixture_grpo
from tests.evaluation import recording
from tests.viewer import runs

OPTIONS = {'levels': ['GoToRedBall'], 'style': 'compact'}
EVAL = {'seed': 5, 'task_file': None, 'temperature': 1.0}


def write(
    root, run, stem, outcomes, *, seed=5, env='babyai', options=None,
    panel='eval', config=None, data_version=1,
):  # fmt: skip
  """An evaluation of a run: success of its tasks' samples."""
  tasks = envs.get(env).tasks('test', **(options or OPTIONS))
  played = [
      runs.episode(
          f'eval-{stem}-{i}-{sample}',
          env=env,
          task_id=tasks[i],
          sample=sample,
          split='test',
          seed=seeds.derive_seed(seed, tasks[i], sample),
          success=bool(success),
          data_version=data_version,
      )
      for i, samples in enumerate(outcomes)
      for sample, success in enumerate(samples)
  ]
  path = root / run / 'episodes' / panel / f'{stem}.jsonl'
  episodes_lib.write(path, played)
  usual = {
      'mode': 'train',
      'env': {'name': env, 'options': options or OPTIONS},
      'agent': {'template': None},
      'rollout': {},
      'eval': EVAL,
  }
  (root / run / 'config.json').write_text(json.dumps(config or usual))
  return played


def test_a_runs_evaluations_in_order(tmp_path):
  for stem in ('000010', 'untrained', '000000', '000002'):
    write(tmp_path, 'run', stem, [[0]])
  (tmp_path / 'run' / 'episodes' / 'eval' / 'notes.jsonl').write_text('')
  recording.simple(tmp_path / 'e', [[1]], name='new')
  assert [x.spec for x in panels.find(tmp_path, 'run')] == [
      'run:eval/untrained',
      'run:eval/000000',
      'run:eval/000002',
      'run:eval/000010',
  ]
  assert [x.label for x in panels.find(tmp_path, 'run')] == [
      'untrained',
      'before',
      'after step 2',
      'after step 10',
  ]
  assert [x.spec for x in panels.find(tmp_path, 'e')] == ['e:new']


def test_a_runs_panel_is_that_of_an_evaluation(tmp_path):
  write(tmp_path, 'run', '000002', [[1, 0], [0, 1], [1, 1]])
  found = panels.read(tmp_path, 'run:eval/000002')
  panel = found.panels['babyai']
  # As mode 'evaluate' has it for the same tasks.
  config = config_lib.defaults('evaluate')
  config.env.name = 'babyai'
  config.env.options = OPTIONS
  config.model.name = 'tiny-1m'
  made = evaluation.read(config)[0].configs[0]
  assert panel.hash == results.panel_hash(
      'babyai',
      task_options=evaluation.task_options(made),
      task_ids=envs.get('babyai').tasks('test', levels=('GoToRedBall',))[:3],
      samples=2,
      seed=5,
  )
  assert set(panel.subtasks) == {'GoToRedBall'} and panel.samples == 2
  assert [x.success for x in found.episodes['babyai'].values()] == [
      *(1, 0, 0, 1, 1, 1),
  ]


def test_of_two_panels_the_common_tasks_are_compared(tmp_path):
  write(tmp_path, 'a', '000002', [[1], [0]])
  write(tmp_path, 'b', '000002', [[1], [0], [1]])
  sides = [panels.read(tmp_path, f'{run}:eval/000002') for run in 'ab']
  found = compared.compare_policies(sides, seed=0)
  [left_out] = found.unpaired
  assert (left_out.tasks, left_out.only_a, left_out.only_b) == (2, 0, 1)
  assert found.rows[0].pairs == 2


def test_runs_of_two_data_versions_have_different_panels(tmp_path):
  write(tmp_path, 'a', '000002', [[1], [0]])
  write(tmp_path, 'b', '000002', [[1], [0]], data_version=2)
  sides = [panels.read(tmp_path, f'{run}:eval/000002') for run in 'ab']
  with pytest.raises(PanelError, match='data_version 1 and 2'):
    compared.compare_policies(sides, seed=0)


def test_what_is_no_panel_is_refused_with_the_reason(tmp_path):
  played = write(tmp_path, 'run', '000002', [[1, 0], [0, 1]])
  path = tmp_path / 'run' / 'episodes' / 'eval' / '000002.jsonl'
  episodes_lib.write(path, played[:-1])
  with pytest.raises(DataError, match='3 episodes, not 2 of each of its 2'):
    panels.read(tmp_path, 'run:eval/000002')
  write(tmp_path, 'run', '000002', [[1], [0]], seed=6)
  with pytest.raises(DataError, match='not played under eval.seed=5'):
    panels.read(tmp_path, 'run:eval/000002')
  for spec in ('run:eval/000003', 'run:../x', 'nothing:000002', ''):
    with pytest.raises(files.Missing):
      panels.read(tmp_path, spec)


def test_a_small_panel_is_a_panel_of_its_own(tmp_path):
  for stem in ('000000', '000005', '000010'):
    write(tmp_path, 'run', stem, [[1]], panel='eval_small')
  write(tmp_path, 'run', '000010', [[1], [0]])
  found = panels.find(tmp_path, 'run')
  assert [(x.panel, x.label) for x in found] == [
      ('eval', 'after step 10'),
      ('eval_small', 'small panel, before'),
      ('eval_small', 'small panel, after step 5'),
      ('eval_small', 'small panel, after step 10'),
  ]
  read = panels.read(tmp_path, 'run:eval_small/000010')
  assert len(read.panels['babyai'].task_ids) == 1


def test_members_of_a_mixture_have_panels_of_their_own(tmp_path):
  config = {
      'mode': 'train',
      'env': {'name': None, 'options': {}},
      'agent': {'template': None},
      'eval': EVAL | {'seed': 1},
      'mixture': {
          'first': {'env': {'name': 'babyai', 'options': OPTIONS},
                    'eval': {'seed': 5}},
          'second': {'env': {'name': 'textcraft',
                             'options': {'max_depth': None}}},
      },
  }  # fmt: skip
  write(tmp_path, 'run', '000000-first', [[1], [0]], config=config)
  write(
      tmp_path, 'run', '000000-second', [[1]], config=config, env='textcraft',
      options={'max_depth': None}, seed=1,
  )  # fmt: skip
  assert [x.label for x in panels.find(tmp_path, 'run')] == [
      'first, before',
      'second, before',
  ]
  first = panels.read(tmp_path, 'run:eval/000000-first').panels['babyai']
  assert set(first.subtasks) == {'GoToRedBall'} and first.seed == 5
  second = panels.read(tmp_path, 'run:eval/000000-second').panels['textcraft']
  assert second.seed == 1


def test_a_members_panel_is_that_of_an_evaluation(tmp_path):
  config = modes.record(config_lib.read(mixture_grpo.get_config('tiny')))
  given = config['mixture']['textcraft']['env']['options']
  write(
      tmp_path, 'run', '000000-textcraft', [[1], [0]], config=config,
      env='textcraft', options=given, seed=config['eval']['seed'],
  )  # fmt: skip
  found = panels.read(tmp_path, 'run:eval/000000-textcraft').panels['textcraft']
  made = config_lib.defaults('evaluate')
  made.env.update(name='textcraft', options=given)
  made.model.name = 'tiny-1m'
  expected = evaluation.task_options(evaluation.read(made)[0].configs[0])
  assert found.task_options == expected


def test_evaluations_that_are_kept_follow_the_files(tmp_path):
  write(tmp_path, 'run', '000000', [[0]])
  folder = tmp_path / 'run' / 'episodes' / 'eval'
  for _ in range(2):  # the second time, as it was kept
    os.utime(folder, (1e9, 1e9))
    assert len(panels.find(tmp_path, 'run')) == 1
  panels.find(tmp_path, 'run').clear()  # a list of its own
  write(tmp_path, 'run', '000004', [[0]])
  assert len(panels.find(tmp_path, 'run')) == 2
  os.utime(folder, (1e9 + 1, 1e9 + 1))
  assert len(panels.find(tmp_path, 'run')) == 2
  (folder / '000000.jsonl').unlink()
  (found,) = panels.find(tmp_path, 'run')
  assert found.spec == 'run:eval/000004'


def test_the_first_line_gives_ids_their_meaning(tmp_path):
  write(tmp_path, 'a', '000000', [[0], [1]])
  write(tmp_path, 'b', '000000', [[0]], data_version=2)
  path = tmp_path / 'a' / 'episodes' / 'eval' / '000000.jsonl'
  path.write_text('\n' + path.read_text() + 'torn')
  a, b = (
      panels.meanings(tmp_path, panels.find(tmp_path, run)[0]) for run in 'ab'
  )
  assert a.keys() == b.keys() == {'babyai'} and a != b
  for content in ('', '{', '[1]', '{"env": 3}'):
    path.write_text(content)
    with pytest.raises(DataError, match='000000.jsonl'):
      panels.meanings(tmp_path, panels.find(tmp_path, 'a')[0])
