"""Tests for launch.py: what it refuses, and how.

Of each kind one command is started as a user does; its siblings are forks of a
process that has imported what takes long.
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from agentrl.config import leaves, read, record
from configs import quickstart
from tests import forks

ROOT = pathlib.Path(__file__).parent.parent
QUICKSTART = '--config=configs/quickstart.py:tiny'


def launch(*flags):
  return subprocess.run(
      [sys.executable, 'launch.py', *flags],
      capture_output=True,
      text=True,
      cwd=ROOT,
      timeout=600,
  )


@pytest.fixture(name='parse', scope='module')
def _parse():
  """`launch` for what ends before its mode is imported."""
  # A mode is not imported: a fork is as slow to end as its modules are many.
  with forks.starter('agentrl.config.report', 'agentrl.runtime.workdir') as run:
    yield functools.partial(run, 'launch.py')


@pytest.fixture(name='enter', scope='module')
def _enter():
  """`launch` for what its mode does."""
  with forks.starter('agentrl.modes.train', 'agentrl.planning.report') as run:
    yield functools.partial(run, 'launch.py')


def check_refused(result, said):
  """A command has ended as one that the user has to mend."""
  assert result.returncode == 2, result.stderr
  assert 'Traceback' not in result.stderr
  (line,) = result.stderr.strip().splitlines()
  assert line.startswith('ConfigError: ') and said in line
  assert result.stdout == ''


@pytest.mark.parametrize(
    'flags, said',
    [
        ((), '--config=configs/quickstart.py'),
        ((QUICKSTART, '--wrokdir=x'), '--wrokdir. Did you mean --workdir?'),
        ((QUICKSTART, '--config.env.options.level=x'), 'did you mean levels?'),
    ],
)
def test_what_cannot_be_run_is_one_line_and_exit_code_two(flags, said):
  check_refused(launch(*flags), said)


@pytest.mark.parametrize(
    'flags, said',
    [
        (('--config=configs/none.py',), "no config file 'configs/none.py'"),
        (('--config.seed=1', '--fields'), '--config=configs/quickstart.py'),
        ((QUICKSTART, '--config.mode=fly'), "'fly'; known: train, "),
        ((QUICKSTART, '--workdir=runs/x', 'extra'), "arguments ['extra']"),
        (
            (QUICKSTART, '--workdir=a', '--workdir=b'),
            '--workdir is given twice',
        ),
        ((QUICKSTART, '--config.num_steps=many'), "whole number, got 'many'"),
        ((QUICKSTART, '--config.algo.kl=1'), 'Did you mean algo.kl_coef?'),
        (
            (QUICKSTART, '--config.optim.warmup_stepz=1'),
            'field optim.warmup_stepz. Did you mean optim.warmup_steps?',
        ),
        ((QUICKSTART, '--fields=optimm'), 'Did you mean optim?'),
        (('--confg=configs/quickstart.py',), 'Did you mean --config?'),
        ((QUICKSTART, '--dryrun'), 'Did you mean --dry_run?'),
        ((QUICKSTART, '--qqqq=1'), '--qqqq. --help lists them.'),
        ((QUICKSTART, '--nodry_run=x'), 'does not take an argument'),
        ((QUICKSTART, '--config.seed'), 'Missing value for flag'),
        ((QUICKSTART, 'extra', '--config.sampler.api_key=k'), 'api_key_file'),
        ((QUICKSTART, '--flagfile=none'), 'none'),
        ((QUICKSTART.replace('tiny', 'tiny=maybe'),), "'maybe'"),
        ((QUICKSTART + ',speed=9',), "'speed'; known: algo, tiny"),
        ((QUICKSTART, '--device_memory_gib=24'), 'with --dry_run only'),
        ((QUICKSTART, '--host_devices=4'), '=4 acts with --dry_run only, in m'),
        (
            ('--config=configs/babyai_sft.py', '--host_devices=4', '--dry_run'),
            'acts with --dry_run only, in mode train.',
        ),
        ((QUICKSTART, '--dry_run', '--view'), '--view shows what a run writes'),
        ((QUICKSTART, '--config.sampler.api_key=k'), 'sampler.api_key_file'),
    ],
)
def test_words_that_cannot_be_used_are_one_line_and_exit_code_two(
    parse, flags, said
):
  check_refused(parse(*flags), said)


@pytest.mark.parametrize(
    'flags, said',
    [
        ((QUICKSTART, '--config.env.name=babay'), "'babay'; known: textcraft,"),
        ((QUICKSTART,), '--workdir=runs/NAME'),
        ((QUICKSTART, '--workdir=launch.py/run'), 'Cannot write'),
    ],
)
def test_what_a_mode_refuses_is_one_line_and_exit_code_two(enter, flags, said):
  check_refused(enter(*flags), said)


@pytest.mark.parametrize('flag', ['--help', '--helpfull', '-?'])
def test_help_lists_modes_configs_and_flags(parse, flag):
  shown = (launch if flag == '--help' else parse)(flag).stdout
  for text in ('\n  serve_policy  ', '\n  configs/quickstart.py ', '--fields'):
    assert text in shown
  assert max(map(len, shown.partition('\nflags:')[0].splitlines())) <= 80
  assert ('--pdb' in shown) == (flag == '--helpfull')


@pytest.mark.parametrize(
    'flags',
    [
        ('--help',),
        ('--helpfull',),
        ('--fields',),
    ],
)
def test_a_listing_whose_reader_has_gone_ends_without_a_word(flags):
  read_end, write_end = os.pipe()
  os.close(read_end)
  done = subprocess.run(
      [sys.executable, 'launch.py', *flags],
      stdout=write_end,
      stderr=subprocess.PIPE,
      text=True,
      cwd=ROOT,
      timeout=600,
  )
  os.close(write_end)
  assert done.stderr == ''


def test_a_dry_run_whose_reader_has_gone_ends_without_a_word(enter):
  assert enter(QUICKSTART, '--dry_run', reader=False).stderr == ''


def test_full_help_has_the_fields_of_the_configs_mode(parse):
  assert '--config.seed:' in parse('--helpfull').stdout
  shown = parse('--helpfull', '--config=configs/export.py').stdout
  assert '--config.export.dtype:' in shown
  assert '--config.seed:' not in shown


def test_fields_are_those_of_the_configs_mode(parse):
  shown = launch('--config=configs/quickstart.py', '--fields=optim').stdout
  assert [line.split()[0] for line in shown.splitlines()] == [
      'field',
      *(path for path in leaves('train') if path.startswith('optim.')),
  ]
  shown = parse('--fields', '--config=configs/export.py').stdout
  assert len(shown.splitlines()) == 1 + len(leaves('export'))
  assert 'num_steps' in parse('--fields').stdout  # of mode 'train'


def test_flags_are_parsed_before_jax_is_imported():
  """Else XLA_FLAGS and the like, which modes set, would come too late."""
  code = f"""
import sys
from agentrl import launch
from agentrl.config import report
argv = ['launch.py', {QUICKSTART!r}, '--config.seed=3', '--fields']
config, rest, paths = launch._parse(argv)
assert rest == ['launch.py'] and paths == {{'seed'}}
report.show_fields('train')
assert config.seed == 3
assert not sys.modules.keys() & {{'jax', 'flax', 'optax', 'numpy'}}
"""
  subprocess.run([sys.executable, '-c', code], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    'code, flags',
    [
        (1, ('--help',)),
        (0, ('--fields', QUICKSTART)),
        (2, (QUICKSTART, '--config.optim.lr=-1', '--workdir=runs/none')),
        (2, (QUICKSTART, '--config.agent.format=none', '--dry_run')),
        (2, ('--config=configs/evaluate.py', '--config.eval.samples=0')),
        (2, ('--config=configs/export.py', '--config.export.dtype=int8')),
        (0, ('--config=configs/evaluate.py:model=expert', '--dry_run')),
        (0, ('--config=configs/evaluate.py:model=tests', '--dry_run')),
        (2, ('--config=configs/export.py:run=none', '--dry_run')),
        (2, ('--config=configs/inspect.py:episodes=none', '--dry_run')),
        (0, ('--config=configs/serve_env.py:env=textcraft', '--dry_run')),
        (0, ('--config=configs/serve_policy.py:model=tests', '--dry_run')),
        (0, ('--config=configs/view.py', '--dry_run')),
    ],
)
def test_what_compiles_nothing_imports_no_jax(code, flags):
  """Its import takes a second, which a typing error need not wait for."""
  done = subprocess.run(
      [sys.executable, '-X', 'importtime', 'launch.py', *flags],
      capture_output=True,
      text=True,
      cwd=ROOT,
  )
  lines = done.stderr.splitlines()
  names = {
      line.rpartition('|')[2].strip()
      for line in lines
      if line.startswith('import time:')
  }
  assert done.returncode == code, lines[-1]
  assert 'agentrl.config' in names
  assert not names & {'jax', 'jaxlib', 'flax', 'optax', 'orbax.checkpoint'}


def shown_values(result):
  """The values and origins that a dry run prints, by path."""
  lines = result.stdout.partition('\n\n')[0].splitlines()
  rows = [re.split(r'\s{2,}', line) for line in lines]
  return {path: (value, origin) for path, value, origin in rows}


@pytest.mark.parametrize(
    'config, path, value',
    [
        ('babyai_dpo.py:tiny', 'algo.loss', "'sigmoid'"),
        ('evaluate.py', 'sampler.max_running', '64'),
        ('serve_env.py:env=textcraft', 'env.name', "'textcraft'"),
        ('serve_policy.py', 'serve.port', '30000'),
    ],
)
def test_a_dry_run_shows_what_a_config_means_and_starts_nothing(
    enter, tmp_path, config, path, value
):
  workdir = tmp_path / 'run'
  result = enter(
      '--dry_run', f'--config=configs/{config}', f'--workdir={workdir}'
  )
  assert result.returncode == 0, result.stderr
  found = shown_values(result)
  assert found[path][0] == value
  assert {origin for _, origin in found.values()} <= {'default', 'config'}
  assert not workdir.exists()


def test_a_dry_run_says_what_a_run_brought(enter, tmp_path):
  config = quickstart.get_config('tiny')
  config.agent.format = 'react'
  (tmp_path / 'checkpoints' / '1').mkdir(parents=True)
  (tmp_path / 'config.json').write_text(json.dumps(record(read(config))))
  result = enter(
      '--dry_run',
      '--config=configs/evaluate.py',
      f'--config.model.name={tmp_path}',
      '--config.eval.seed=3',
  )
  assert result.returncode == 0, result.stderr
  found = shown_values(result)
  assert found['env.name'] == ("'babyai'", 'run')
  assert found['agent.format'] == ("'react'", 'run')
  assert found['model.name'] == (repr(str(tmp_path)), 'flag')
  assert found['eval.seed'] == ('3', 'flag')


def test_a_dry_run_plans_what_a_run_needs(tmp_path):
  workdir, programs = tmp_path / 'run', tmp_path / 'programs'
  command = (
      '--dry_run',
      '--config=configs/quickstart.py:algo=ppo,tiny',
      '--config.mesh.fsdp=2',
      '--device_memory_gib=24',
      f'--config.compile_cache={programs}',
      f'--workdir={workdir}',
  )
  result = launch(*command)
  assert result.returncode == 0, result.stderr
  found = shown_values(result)
  assert found['mode'] == ("'train'", 'config')
  assert found['horizon.turns'][0] == '(3, 6)'
  flags = {path for path, (_, origin) in found.items() if origin == 'flag'}
  assert flags == {'mesh.fsdp', 'compile_cache'}
  assert not workdir.exists()
  assert 'Plan of tiny-1m, 984,192 parameters, on 2 devices' in result.stdout
  assert 'that fits 24 GiB beside the embedded engine' in result.stdout
  assert 'collectives of a device' in result.stdout
  # From compiled programs that are read it is the same.
  kept = {path.name for path in programs.glob('*-cache')}
  assert any('accumulate' in name for name in kept)
  assert launch(*command).stdout == result.stdout
  assert {path.name for path in programs.glob('*-cache')} == kept


def test_a_dry_run_refuses_what_a_run_would(enter):
  result = enter('--dry_run', QUICKSTART, '--config.eval.horizon=0')
  assert result.returncode == 2 and result.stdout == ''
  assert 'eval.horizon must be at least 1' in result.stderr
  result = enter('--dry_run', QUICKSTART, '--config.mesh.tensor=3')
  assert result.returncode == 2
  assert 'does not divide the 4 attention heads' in result.stderr


def test_an_environment_server_that_answers_html_is_one_clear_error(
    enter, tmp_path
):
  # A real server of something else.
  server = subprocess.Popen(
      [sys.executable, '-m', 'http.server', '0', '--bind', '127.0.0.1'],
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
      env=os.environ | {'PYTHONUNBUFFERED': '1'},
      cwd=tmp_path,
  )
  try:
    port = server.stdout.readline().split('port ')[1].split()[0]
    result = enter(
        QUICKSTART,
        f'--config.env.url=http://127.0.0.1:{port}',
        f'--workdir={tmp_path}/run',
    )
  finally:
    server.kill()
    server.wait()
    server.stdout.close()
  assert result.returncode == 2
  (line,) = result.stderr.strip().splitlines()
  for word in ('EnvError', '/create', '501'):
    assert word in line
  # The corrected command finds a workdir that nobody has claimed.
  assert not (tmp_path / 'run' / 'config.json').exists()


def test_a_full_disk_is_one_line_whatever_was_being_written(tmp_path):
  flags = f'{QUICKSTART} --workdir={tmp_path}'
  result = subprocess.run(
      # One block of 1024 bytes: less than config.json takes.
      ['bash', '-c', f'ulimit -f 1; {sys.executable} launch.py {flags}'],
      capture_output=True,
      text=True,
      cwd=ROOT,
      timeout=600,
  )
  assert result.returncode == 2, result.stderr
  (line,) = result.stderr.strip().splitlines()
  assert 'File too large' in line


@pytest.mark.parametrize(
    'platform',
    [
        'cuda',  # known to jax, but not installed
        'nonsense',
        # Without its package as unknown as nonsense.
        pytest.param('rocm', marks=pytest.mark.extra),
    ],
)
def test_devices_that_are_not_here_are_one_line(tmp_path, platform):
  words = f"JAX_PLATFORMS='{platform}' cannot be used here"
  # Which jax reads when it is imported.
  with forks.starter('agentrl.modes.train', JAX_PLATFORMS=platform) as run:
    result = run('launch.py', QUICKSTART, f'--workdir={tmp_path}')
    assert result.returncode == 2, result.stderr
    [line] = result.stderr.strip().splitlines()
    assert line.startswith('ConfigError: ') and words in line
    result = run('launch.py', '--config=configs/doctor.py')
  assert result.returncode == 1 and 'Traceback' not in result.stderr
  assert words in result.stdout and 'unset JAX_PLATFORMS' in result.stdout
