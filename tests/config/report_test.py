"""Tests for what the command line shows of configs."""

import json
import pathlib
import re

import pytest

from agentrl import config as config_lib, envs
from agentrl.config import report
from agentrl.errors import ConfigError
from configs import quickstart

CONFIGS = pathlib.Path(report.__file__).parent.parent.parent / 'configs'


def test_an_overview_has_each_mode_and_each_config_file():
  lines = report.overview(CONFIGS).splitlines()
  assert max(map(len, lines)) <= 80
  first = [
      line.split()[0]
      for line in lines
      if line.startswith('  ') and line[2] != ' '
  ]
  assert set(config_lib.MODES) < set(first)
  assert 'configs/quickstart.py' in first
  assert 'configs/common.py' not in first  # no config
  assert '  sft           supervised fine-tuning.' in lines


def columns(out):
  """The cells of each printed line."""
  head, *lines = out.splitlines()
  starts = [head.index(name) for name in head.split()]
  ends = [*starts[1:], None]
  return [
      [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
      for line in lines
  ]


def cells(mode, section, capsys, **names):
  report.show_fields(mode, section, **names)
  return {path: rest for path, *rest in columns(capsys.readouterr().out)}


@pytest.mark.parametrize('mode', config_lib.MODES)
def test_every_field_of_a_mode_is_listed_and_nothing_is_cut_off(mode, capsys):
  found = cells(mode, '', capsys)
  known = config_lib.leaves(mode)
  assert list(found) == list(known)
  for path, (kind, default, meaning, constraint) in found.items():
    assert kind and default
    assert meaning == known[path].meaning.text
    assert known[path].meaning.constraint in constraint


def test_the_fields_of_a_section(capsys):
  found = cells('train', 'optim', capsys)
  assert all(path.startswith('optim.') for path in found)
  assert found['optim.lr'] == ['number', '1e-06', 'learning rate', 'above 0']
  assert "optim.name='muon'" in found['optim.momentum'][-1]
  assert list(cells('train', 'optim.lr', capsys)) == ['optim.lr']
  found = cells('train', 'algo', capsys)
  assert 'algo.ddof' in found and 'algo.lam' not in found
  found = cells('train', 'algo', capsys, algo='ppo')
  assert 'algo.ddof' not in found and found['algo.critic.warmup'][1] == '0'
  found = cells('train', 'algo', capsys, algo='gigpo')
  assert found['algo.gamma'][1] == '0.95'
  found = cells('train', 'env.options', capsys, env='babyai')
  assert found['env.options.style'][1] == "'full'"
  assert list(found) == [f'env.options.{x}' for x in envs.get('babyai').options]
  found = cells('evaluate', 'agent', capsys)
  assert found['agent.format'][1] == "the run's, else 'react'"
  with pytest.raises(ConfigError, match='Did you mean optim'):
    report.show_fields('train', 'optimm')


def test_fields_wrap_on_a_terminal_and_lose_nothing(capsys, monkeypatch):
  monkeypatch.setenv('FORCE_COLOR', '1')
  monkeypatch.setenv('NO_COLOR', '1')
  monkeypatch.setenv('COLUMNS', '80')
  report.show_fields('train', 'optim')
  out = re.sub('\x1b[^m]*m', '', capsys.readouterr().out)
  assert max(map(len, out.splitlines())) <= 80
  shown = [''.join(column) for column in zip(*columns(out), strict=True)]
  for leaf in config_lib.leaves('train').values():
    if leaf.path.startswith('optim.'):
      assert leaf.path in shown[0]
      for text, column in (
          (leaf.meaning.text, shown[3]),
          (leaf.meaning.constraint, shown[4]),
      ):
        assert text.replace(' ', '') in column.replace(' ', '')


def origins(config, run=None, given=()):
  wanted = config_lib.read(config, run)
  found = {
      path: (value, origin)
      for path, value, origin in report.origins(config, wanted, run, given)
  }
  # All that a workdir keeps.
  flat = {
      path: list(v) if isinstance(v, tuple) else v
      for path, (v, _) in found.items()
  }
  nested = {}
  for path, value in flat.items():
    *parents, name = path.split('.')
    section = nested
    for part in parents:
      section = section.setdefault(part, {})
    section[name] = value
  assert nested == json.loads(json.dumps(config_lib.record(wanted)))
  return found


def test_values_are_from_defaults_from_the_config_or_from_flags():
  config = quickstart.get_config('tiny,algo=gigpo')
  config.optim.lr = 0.5
  config.algo.gamma = 0.5
  found = origins(config, given={'optim.lr', 'eval', 'optim.b'})
  assert found['mode'] == ('train', 'config')
  assert found['num_steps'] == (2, 'config')
  assert found['optim.lr'] == (0.5, 'flag')
  assert found['optim.b1'] == (0.9, 'default')
  assert found['eval.every'] == (0, 'flag')
  assert found['algo.name'] == ('gigpo', 'config')
  assert found['algo.gamma'] == (0.5, 'config')
  assert found['algo.step_weight'] == (1.0, 'default')
  assert 'algo.lam' not in found  # of another algorithm
  assert found['env.options.style'] == ('compact', 'config')
  assert found['env.options.expert_macros'] == (True, 'default')
  assert found['env.options.levels'] == (('GoToRedBall',), 'config')
  assert 'env.options.max_depth' not in found
  assert found['horizon.turns'] == ((3, 6), 'config')
  config.algo.gamma = 0.95
  assert origins(config)['algo.gamma'] == (0.95, 'default')


def test_a_dict_is_one_value():
  config = quickstart.get_config('tiny')
  config.sampler.update(kind='sglang')
  config.sampler.launch = dict(python='python', flags={'tp_size': 2})
  found = origins(config)
  assert found['sampler.launch.flags'] == ({'tp_size': 2}, 'config')


def test_values_that_a_run_brings_are_the_runs():
  run = config_lib.record(config_lib.read(quickstart.get_config('tiny')))
  config = config_lib.defaults('evaluate')
  config.eval.horizon = 9
  config.eval.seed = 4
  config.env.options.style = 'full'
  found = origins(config, run, {'eval.seed'})
  assert found['env.name'] == ('babyai', 'run')
  assert found['env.options.levels'] == (('GoToRedBall',), 'run')
  assert found['env.options.style'] == ('full', 'default')
  assert found['eval.horizon'] == (9, 'config')
  assert found['eval.seed'] == (4, 'flag')
  assert found['eval.samples'] == (1, 'run')  # the default, too
  assert found['env.url'] == (None, 'default')
  assert found['eval.temperature'] == (1.0, 'default')
  # Another environment has its own options.
  config.env.name = 'textcraft'
  config.env.options.style = None
  found = origins(config, run)
  assert found['env.name'] == ('textcraft', 'default')
  assert found['env.options.max_depth'] == (None, 'default')
  assert found['agent.format'] == ('plain', 'run')


def test_a_value_is_a_line_of_aligned_columns(capsys):
  config = quickstart.get_config('tiny')
  report.show_values(config, config_lib.read(config), None, {'seed'})
  lines = capsys.readouterr().out.splitlines()
  assert len({line.rindex('  ') for line in lines}) == 1
  assert [line.split() for line in lines if line.startswith('seed ')] == [
      ['seed', '0', 'flag']
  ]


def test_every_option_of_an_environment_has_its_meaning(capsys):
  meanings = set()
  for spec in envs.every():
    if not spec.options:
      continue
    report.show_fields('train', 'env.options', env=spec.name)
    found = {x[0]: x[3] for x in columns(capsys.readouterr().out)}
    assert list(found) == [f'env.options.{name}' for name in spec.options]
    assert all(found.values())
    meanings |= set(found.values())
  assert len(meanings) > 30
