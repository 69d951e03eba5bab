"""The quickstart as a user runs it: `launch.py` in a process of its own."""

import dataclasses
import json
import pathlib
import re
import shutil
import signal
import subprocess

import jax
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import (
    EventAccumulator,
)

from agentrl import envs
from agentrl.data import episodes as episodes_lib
from tests.e2e.running import (
    QUICKSTART,
    SMALL,
    assert_equal_to_the_bit,
    check_finished,
    export,
    finish,
    launch,
    lines,
    start,
    summary_of,
    wait_for,
)
from tests.waiting import alive, gone

pytestmark = pytest.mark.slow


def children_of(pid):
  listing = subprocess.run(
      ['ps', '-o', 'pid=', '--ppid', str(pid)], capture_output=True, text=True
  )
  return [int(word) for word in listing.stdout.split()]


@dataclasses.dataclass(frozen=True)
class Runs:
  whole: pathlib.Path  # ran to its end at once
  # Began anew over what is left of a run that was killed before its first
  # checkpoint, was killed after a step, and started again.
  resumed: pathlib.Path
  discarded: int  # lines of metrics that it set aside as it began
  orphans: list[int]  # children of the killed process that outlived it
  said: str  # by the process that continued
  second: subprocess.CompletedProcess  # started while the first was running


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  base = tmp_path_factory.mktemp('runs')
  whole, resumed = base / 'whole', base / 'resumed'
  done = launch(whole, *SMALL, config=QUICKSTART)
  assert done.returncode == 0, done.stdout + done.stderr

  shutil.copytree(
      whole, resumed, ignore=shutil.ignore_patterns('checkpoints', 'lock')
  )
  process = start(resumed, *SMALL, config=QUICKSTART)
  lock = resumed / 'lock'
  wait_for(lambda: lock.exists() and lock.read_text(), process)
  second = launch(resumed, *SMALL, config=QUICKSTART)
  # Killed with a step recorded beyond the newest complete checkpoint or just
  # after it, whatever comes: both must continue.
  wait_for((resumed / 'checkpoints' / '1').exists, process)
  children = children_of(process.pid)
  assert children, 'the run has no environment server?'
  discarded = len(lines(resumed / 'metrics.jsonl.discarded'))
  process.send_signal(signal.SIGKILL)
  process.wait()
  gone(*children)
  orphans = [pid for pid in children if alive(pid)]
  # Where programs are kept is no part of what the run is.
  kept = f'--config.compile_cache={jax.config.jax_compilation_cache_dir or ""}'
  again = launch(resumed, *SMALL, kept, config=QUICKSTART)
  assert again.returncode == 0, again.stdout + again.stderr
  return Runs(whole, resumed, discarded, orphans, again.stdout, second)


def test_a_run_leaves_its_record_behind(runs):
  summary = json.loads((runs.whole / 'summary.json').read_text())
  assert summary['mode'] == 'train' and summary['steps'] == 3
  assert summary['wall_s'] > 0 and summary['tokens'] > 0
  names = ['untrained', 'before', 'step_2', 'after']
  assert list(summary['eval']) == names
  assert list(summary['eval_small']) == [*names[:2], 'step_1', *names[2:]]
  for panel, size in (('eval', 4), ('eval_small', 2)):
    for result in summary[panel].values():
      assert 0 <= result['low'] <= result['mean'] <= result['high'] <= 1
      assert result['n'] == size
  for panel, size in (('chance', 4), ('chance_small', 2)):
    assert list(summary[panel]) == ['random', 'expert']
    assert [level['n'] for level in summary[panel].values()] == [size, size]
    levels = [level['panel'] for level in summary[panel].values()]
    assert (
        levels
        == [summary[panel.replace('chance', 'eval')]['after']['panel']] * 2
    )
  metrics = lines(runs.whole / 'metrics.jsonl')
  assert [line['step'] for line in metrics] == [0, 1, 2]
  for name, line in (('before', metrics[0]), ('untrained', metrics[0])):
    success = summary['eval'][name]['mean']
    assert line[f'eval_{name}/success'] == success
  assert metrics[-1]['eval/success'] == summary['eval']['after']['mean']
  for line, panels in zip(
      metrics, ({'eval_small'}, *2 * [{'eval', 'eval_small'}]), strict=True
  ):
    groups = {name.partition('/')[0] for name in line}
    assert {x for x in groups if x in ('eval', 'eval_small')} == panels
  files = (runs.whole / 'episodes').glob('eval*/*')
  assert sorted(f'{x.parent.name}/{x.stem}' for x in files) == [
      *('eval/000000', 'eval/000002', 'eval/000003', 'eval/untrained'),
      'eval_small/000001',
  ]
  assert [line['rollout/horizon'] for line in metrics] == [1, 2, 2]
  assert [line['policy/version'] for line in metrics] == [2, 3, 4]
  for line in metrics:
    assert line['sampler/logprob_abs_diff_mean'] < 1e-4
    assert 'rollout/tied_groups' in line
  sides = ('train', 'sampler')
  waits = [line[f'{x}/compile_wait_s'] for line in metrics for x in sides]
  assert summary['compile_wait_s'] == pytest.approx(sum(waits)) and waits[0] > 0
  programs = [sum(line[f'{x}/programs'] for x in sides) for line in metrics]
  assert programs == sorted(programs) and summary['programs'] == programs[-1]
  warm = lines(runs.whole / 'warmstart.jsonl')
  assert warm and all(line['train/grad_norm'] > 0 for line in warm)
  assert list((runs.whole / 'tensorboard').iterdir())
  for step in range(3):
    path = episodes_lib.step_path(runs.whole, 'train', step)
    assert len(list(episodes_lib.read(path))) == 8
    assert path.with_suffix('.npz').exists()


def test_what_was_cached_is_not_told_where_results_are_deterministic(runs):
  path = episodes_lib.step_path(runs.whole, 'train', 2)
  turns = [x for episode in episodes_lib.read(path) for x in episode.turns]
  assert turns and {turn.cached_tokens for turn in turns} == {None}


def test_a_killed_run_continues_as_if_nothing_had_happened(runs):
  assert 'Continuing after step' in runs.said
  resumed = lines(runs.resumed / 'metrics.jsonl')
  assert [line['step'] for line in resumed] == [0, 1, 2]
  assert_equal_to_the_bit(runs.whole, runs.resumed)
  summaries = [
      json.loads((run / 'summary.json').read_text())
      for run in (runs.whole, runs.resumed)
  ]
  config = json.loads((runs.whole / 'config.json').read_text())
  expected = len(resumed) * config['algo']['minibatches']
  assert [summary['updates'] for summary in summaries] == [expected] * 2
  for panel in ('chance', 'chance_small'):
    assert summaries[0][panel] == summaries[1][panel]
  one, other = summaries
  for name in ('eval', 'eval_small', 'best'):
    assert one[name] == other[name], name


def test_the_best_checkpoint_is_kept_beside_the_newest(runs):
  for run in (runs.whole, runs.resumed):
    summary = json.loads((run / 'summary.json').read_text())
    best, folder = summary['best'], run / 'checkpoints'
    found = summary['eval'][best['evaluation']]
    assert found['checkpoint'] == best['checkpoint']
    assert (
        found['mean']
        == best['success']
        == max(
            x['mean']
            for name, x in summary['eval'].items()
            if name != 'untrained'
        )
    )
    assert (folder / 'best').read_text() == f'{best["checkpoint"]}\n'
    kept = {x.name for x in folder.iterdir()} - {'best'}
    assert {'3', str(best['checkpoint'])} <= kept and len(kept) <= 3


def test_a_finished_run_plays_nothing_again_and_goes_on_from_there(
    runs, tmp_path
):
  run = tmp_path / 'run'
  shutil.copytree(runs.whole, run)
  check_finished(run, *SMALL, config=QUICKSTART)
  before = summary_of(run)
  fewer = ('--config.num_steps=2', '--config.checkpoint.keep_best=False')
  done = launch(run, *SMALL, *fewer, config=QUICKSTART)
  assert done.returncode == 2 and 'has done 3 steps' in done.stderr
  done = launch(run, *SMALL, '--config.num_steps=4', config=QUICKSTART)
  assert done.returncode == 0, done.stdout + done.stderr
  after = summary_of(run)
  names = ['untrained', 'before', 'step_2', 'step_3', 'after']
  assert list(after['eval']) == names
  assert after['chance'] == before['chance']
  for panel in ('eval', 'eval_small'):
    assert after[panel]['step_3'] == before[panel]['after']
  rates = {k: x['mean'] for k, x in after['eval'].items() if k != 'untrained'}
  assert after['best']['success'] == max(rates.values())
  assert (run / 'checkpoints' / f'{after["best"]["checkpoint"]}').exists()
  assert [line['step'] for line in lines(run / 'metrics.jsonl')] == [0, 1, 2, 3]


def test_a_second_run_on_the_workdir_is_refused(runs):
  assert runs.second.returncode == 2, runs.second.stdout
  [line] = runs.second.stderr.strip().splitlines()
  assert f'{runs.resumed} is in use: process ' in line


def test_tensorboard_has_the_steps_of_metrics_and_no_others(runs):
  for run in (runs.whole, runs.resumed):
    events = EventAccumulator(str(run / 'tensorboard')).Reload()
    recorded = lines(run / 'metrics.jsonl')
    for name in ('rollout/return_mean', 'policy/version', 'train/grad_norm'):
      shown = [(x.step, x.value) for x in events.Scalars(name)]
      kept = [(x['step'], np.float32(x[name])) for x in recorded]
      assert shown == kept, name


def test_a_run_killed_before_its_first_checkpoint_begins_anew(runs):
  # What it did from there on is compared with the whole run above.
  assert runs.discarded == 3


# Entries of the cache are tested in parallel/compile_cache_test.py.
@pytest.mark.extra
def test_programs_that_were_kept_give_the_same_run(runs, tmp_path):
  """The other run found all programs, which one before it had left."""
  cold, folder = tmp_path / 'cold', tmp_path / 'compiled'
  kept = f'--config.compile_cache={folder}'
  done = launch(cold, *SMALL, kept, config=QUICKSTART)
  assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
  found = {path.name.split('-')[0] for path in folder.glob('*-cache')}
  assert {'jit_accumulate', 'jit_apply', 'jit__decode'} <= found
  assert_equal_to_the_bit(cold, runs.resumed)


def test_a_killed_run_leaves_no_process(runs):
  assert runs.orphans == []


def test_another_config_is_not_continued_by_mistake(runs):
  result = launch(
      runs.whole, *SMALL, '--config.optim.lr=1.0', config=QUICKSTART
  )
  assert result.returncode == 2
  assert 'optim.lr' in result.stderr and 'Traceback' not in result.stderr


def test_the_inspector_shows_what_was_trained(runs):
  episodes = episodes_lib.step_path(runs.whole, 'train', 0)
  result = launch('', config=f'configs/inspect.py:episodes={episodes}')
  assert result.returncode == 0, result.stderr
  assert 'advantage' in result.stdout and 'PROBLEM' not in result.stdout
  page = episodes.with_suffix('.html').read_text()
  data = json.loads(re.search('id="data">(.*?)</script>', page)[1])
  columns = data['episodes'][0]['tokens']['columns']
  assert {'advantages', 'old_logprobs', 'last_logprobs'} <= set(columns)


def test_a_run_its_best_checkpoint_and_its_export_are_evaluated(runs, tmp_path):
  # An export is a model by its folder's name, asked as it was in training.
  folder = tmp_path / 'export'
  export(runs.whole, folder)
  models = f'{runs.whole};{runs.whole}/checkpoints/best;{folder}'
  said = finish(
      tmp_path / 'eval', config=f'configs/evaluate.py:model={models},n=4'
  )
  assert 'babyai, all: success ' in said  # in a pipe
  summary = json.loads((tmp_path / 'eval' / 'summary.json').read_text())
  ended = json.loads((runs.whole / 'summary.json').read_text())
  # The warm start made version 1, each step the next.
  best = str(ended['best']['checkpoint'] + 1)
  versions = summary['weight_version']
  assert (versions['whole'], versions['whole-best']) == ('4', best)
  for name in ('whole-best', 'export'):
    assert summary['eval'][name]['babyai']['test']['n'] == 4
  # Turns reuse the prefix of their episode.
  paths = sorted((tmp_path / 'eval' / 'episodes' / 'eval').glob('*/*.jsonl'))
  assert len(paths) == 3
  for path in paths:
    reused = 0
    for episode in episodes_lib.read(path):
      for before, turn in zip(episode.turns, episode.turns[1:], strict=False):
        assert turn.cached_tokens >= before.prompt_tokens - 1
        reused += turn.cached_tokens
    assert reused


def test_a_checkpoint_is_evaluated_on_an_item_file(runs, tmp_path):
  options = json.loads((runs.whole / 'config.json').read_text())['env'][
      'options'
  ]
  wanted = envs.get('babyai').tasks('dev', **options)[5:8]
  items = tmp_path / 'babyai_test.json'
  items.write_text(json.dumps([{'item_id': f'babyai_{x}'} for x in wanted]))
  result = launch(
      tmp_path / 'run',
      config=f'configs/evaluate.py:model={runs.whole},n=3,task_file={items}',
  )
  assert result.returncode == 0, result.stdout + result.stderr
  summary = json.loads((tmp_path / 'run' / 'summary.json').read_text())
  assert summary['weight_version'] == '4'
  folder = tmp_path / 'run' / 'episodes' / 'eval' / 'whole'
  played = lines(folder / 'babyai.jsonl')
  assert [x['task_id'] for x in played] == list(wanted)
