"""A run of two processes equals that of one with as many devices."""

import json
import sys
import time

import jax
import numpy as np
import pytest

from agentrl.models import transformer, variants
from tests import tiny
from tests.e2e.running import (
    QUICKSTART,
    SHORT,
    command,
    lines,
    small,
    wait_for,
)
from tests.parallel import eight_devices

FLAGS = (
    '--config.num_steps=2',
    '--config.horizon.turns=(1, 2)',
    '--config.warmstart.episodes=4',
    '--config.eval.num_tasks=4',
    '--config.mesh.tensor=2',
)
EMBEDDED = (
    '--config.sampler.max_running=8',
    '--config.sampler.deterministic=True',
)
SERVERS = '--config.sampler.kind=sglang'
LAUNCH = (
    SERVERS,
    f'--config.sampler.launch.python={sys.executable}',
    '--config.sampler.launch.module=agentrl.serving.launch_server',
    "--config.sampler.launch.flags=('--skip-server-warmup',)",
)
# What clocks say, and what each engine had cached.
LOCAL = (
    'time',
    'train/compile',
    'train/programs',
    'sampler/compile',
    'sampler/programs',
    'rollout/cached_share',
    'rollout/sampler',
    'rollout/env',
)


def same_metrics(found, expected):
  assert len(found) == len(expected)
  for line, wanted in zip(found, expected, strict=True):
    assert line.keys() == wanted.keys()
    for name, value in wanted.items():
      if not name.startswith(LOCAL):
        np.testing.assert_allclose(
            line[name], value, rtol=1e-4, atol=1e-5, err_msg=name
        )


@pytest.mark.slow
def test_two_processes_train_as_one_and_continue(tmp_path):
  one, two = tmp_path / 'one', tmp_path / 'two'
  start = lambda workdir, *flags, processes: eight_devices.run(
      command(workdir, *FLAGS, *EMBEDDED, *flags, config=QUICKSTART),
      processes=processes,
  )
  start(one, processes=1)
  start(two, processes=2)
  for name in ('warmstart.jsonl', 'metrics.jsonl'):
    same_metrics(lines(two / name), lines(one / name))
  episodes = lambda run: [
      (e['episode_id'], e['task_id'], e['seed'], e['tokens'])
      for e in lines(run / 'episodes' / 'train' / '000001.jsonl')
  ]
  assert episodes(two) == episodes(one)

  # Two more processes go on where two ended, on another mesh.
  start(two, '--config.num_steps=3', '--config.mesh.data=2', processes=2)
  assert [line['step'] for line in lines(two / 'metrics.jsonl')] == [0, 1, 2]
  assert json.loads((two / 'summary.json').read_text())['steps'] == 3


# The rule itself is in tests/rollout/ahead_test.py, with two processes as well.
@pytest.mark.slow
@pytest.mark.extra
def test_two_processes_play_ahead_what_one_plays_in_turns(tmp_path):
  one, two = tmp_path / 'one', tmp_path / 'two'
  # No parameter moves, so that episodes follow from their seeds.
  flags = (
      *(*FLAGS, *EMBEDDED, '--config.algo.ratio=sampler'),
      *('--config.optim.lr=1e-30', '--config.eval.num_tasks=0'),
      *('--config.horizon.turns=(2, 2)', '--config.rollout.group_size=2'),
  )
  start = lambda workdir, steps, *more, processes: eight_devices.run(
      command(
          *(workdir, *flags, f'--config.num_steps={steps}', *more),
          config=QUICKSTART,
      ),
      processes=processes,
  )
  start(one, 4, processes=1)
  ahead = ('--config.rollout.ahead=1', '--config.checkpoint.every=1')
  start(two, 3, *ahead, processes=2)
  start(two, 4, *ahead, processes=2)  # goes on with what was ahead

  def episodes(run):
    return sorted(
        (e['episode_id'], e['task_id'], e['seed'], e['tokens'])
        for step in range(4)
        for e in lines(run / 'episodes' / 'train' / f'{step:06}.jsonl')
    )

  assert episodes(two) == episodes(one)
  metrics = lines(two / 'metrics.jsonl')
  assert [line['step'] for line in metrics] == [0, 1, 2, 3]
  assert max(line['rollout/staleness_max'] for line in metrics) in (1, 2, 3)


@pytest.mark.slow
def test_a_process_that_is_gone_is_named_with_the_way_on(tmp_path):
  run, said = tmp_path / 'run', tmp_path / 'said'
  flags = (
      *FLAGS,
      *EMBEDDED,
      '--config.num_steps=50',
      '--config.eval.num_tasks=0',
      '--config.gauges.every=0',
      '--config.rollout.tasks_per_step=1',
      '--config.rollout.group_size=2',
      '--config.checkpoint.every=1',
  )
  with (
      said.open('w') as stderr,
      eight_devices.started(
          command(run, *flags, config=QUICKSTART), processes=2, stderr=stderr
      ) as (first, second),
  ):
    wait_for((run / 'checkpoints' / '1').exists, first)
    second.kill()
    killed = time.monotonic()
    assert first.wait(timeout=100) == 2, said.read_text()
    assert time.monotonic() - killed < 60
  last = said.read_text().splitlines()[-1]
  assert last.startswith('ProcessLost: Another process of this run than 0 is')
  assert 'continues from the last checkpoint' in last


def check_record(run, steps):
  metrics = lines(run / 'metrics.jsonl')
  assert [line['step'] for line in metrics] == list(range(steps))
  for line in metrics:
    # Who sampled had the weights that were trained.
    assert line['sampler/logprob_abs_diff_mean'] < 1e-4
    assert line['sampler/stale_turns'] == 0


# Whose servers they are, and whether models or adapters are pushed: in one
# process, both are in other tests.
@pytest.mark.slow
@pytest.mark.extra
def test_each_process_starts_servers_of_its_own(tmp_path):
  run = tmp_path / 'run'
  flags = (*FLAGS, *LAUNCH, f'--config.sampler.push_dir={tmp_path / "weights"}')
  eight_devices.run(command(run, *flags, config=QUICKSTART), processes=2)
  check_record(run, 2)
  for log in ('0-0.log', '1-0.log'):
    # Each played its share of the episodes.
    assert 'Serving' in (run / 'servers' / log).read_text()


@pytest.mark.slow
@pytest.mark.extra
def test_processes_share_servers_that_run(tmp_path):
  run = tmp_path / 'run'
  config = variants.get('tiny-1m')
  module = transformer.Transformer(config, scan_layers=True)
  # Other weights: none of the run's until it hands them over.
  other = transformer.init_params(module, jax.random.key(7))
  with tiny.serving(other, config, max_len=1024) as url:
    flags = (
        *(*FLAGS, SERVERS, f'--config.sampler.urls=("{url}",)'),
        f'--config.sampler.push_dir={tmp_path / "weights"}',
    )
    eight_devices.run(command(run, *flags, config=QUICKSTART), processes=2)
  check_record(run, 2)


@pytest.fixture(scope='module')
def base(tmp_path_factory):
  """A model that was trained in full, to add adapters to."""
  run = tmp_path_factory.mktemp('runs') / 'base'
  flags = ('--config.eval.num_tasks=0', '--config.data.expert_episodes=4')
  eight_devices.run(
      command(run, *flags, config=small('babyai_sft')), processes=1
  )
  return run


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.parametrize('own', [True, False])
def test_processes_push_adapters_alone(base, tmp_path, own):
  run, weights = tmp_path / 'run', tmp_path / 'weights'
  flags = (
      *FLAGS,
      f'--config.model.name={base}',
      '--config.model.lora.rank=2',
      '--config.sampler.push_lora=True',
      f'--config.sampler.push_dir={weights}',
  )
  start = lambda *where: eight_devices.run(
      command(run, *flags, *where, config=QUICKSTART), processes=2
  )
  if own:
    start(*LAUNCH)
  else:
    config = variants.get('tiny-1m')
    module = transformer.Transformer(config, scan_layers=True)
    other = transformer.init_params(module, jax.random.key(7))
    with tiny.serving(other, config, max_len=1024) as url:
      start(SERVERS, f'--config.sampler.urls=("{url}",)')
  check_record(run, 2)
  folders = [weights / f'process_{i}' for i in range(2)] if own else [weights]
  for folder in folders:
    assert len(list(folder.glob('base_*'))) == 1
    [newest] = folder.glob('version_3_*')
    assert (newest / 'adapter_config.json').exists()


# All modes share a batch out as RL does above.
@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.parametrize('mode', SHORT)
def test_offline_modes_learn_the_same_in_two_processes(tmp_path, mode):
  one, two = tmp_path / 'one', tmp_path / 'two'
  small = ('--config.eval.num_tasks=2', *SHORT[mode])
  flags = (*EMBEDDED, '--config.mesh.tensor=2', *small)
  for run, processes in ((one, 1), (two, 2)):
    config = small(f'babyai_{mode}')
    eight_devices.run(command(run, *flags, config=config), processes=processes)
  same_metrics(lines(two / 'metrics.jsonl'), lines(one / 'metrics.jsonl'))
  evals = [
      json.loads((r / 'summary.json').read_text())['eval'] for r in (one, two)
  ]
  assert evals[0] == evals[1] and 'after' in evals[0]
