"""Running `launch.py` as a user does, in a process of its own."""

import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import time

from tensorboard.backend.event_processing.event_accumulator import (
    EventAccumulator,
)

from agentrl.data import episodes as episodes_lib
from agentrl.runtime import starts

ROOT = pathlib.Path(__file__).parent.parent.parent
# What a clock says, and how much of the same replies was cached already.
_CLOCKS = ('_s_mean', '_wait_s', '/programs', 'rollout/cached_share')
# Less than a tiny config, and yet all that the mode does.
SHORT = {
    'sft': ('--config.data.expert_episodes=8', '--config.algo.epochs=2'),
    'dpo': (
        '--config.warmstart.episodes=8',
        '--config.warmstart.epochs=1',
        '--config.explore.tasks=8',
        '--config.explore.samples=1',
        '--config.algo.minibatch_size=4',
    ),
    'agentevol': (
        '--config.num_steps=1',
        '--config.data.expert_episodes=8',
        '--config.explore.tasks=4',
        '--config.algo.epochs=1',
    ),
}


def small(name, *arguments):
  """The tiny variant of `configs/NAME.py`, with a smaller network."""
  arguments = ','.join(('tiny', *arguments))
  return f'tests/e2e/small.py:configs.{name}:{arguments}'


QUICKSTART = small('quickstart')
# The smallest run by RL that still warm-starts, evaluates, grows its horizon, and
# keeps its best checkpoint.
SMALL = (
    '--config.num_steps=3',
    '--config.horizon.turns=(1, 2)',
    '--config.warmstart.episodes=8',
    '--config.eval.num_tasks=4',
    '--config.eval.horizon=2',
    '--config.eval.every=2',
    "--config.eval.small={'num_tasks': 2, 'every': 1}",
    '--config.checkpoint.keep=1',
    '--config.checkpoint.keep_best=True',
    '--config.sampler.max_running=8',
    '--config.rollout.concurrency=8',
    '--config.sampler.deterministic=True',
)


def command(workdir, *flags, config):
  """A command line, in which the last of two flags of a name counts."""
  flags = {flag.partition('=')[0]: flag for flag in flags}.values()
  return [
      sys.executable,
      str(ROOT / 'launch.py'),
      f'--config={ROOT / config}',
      f'--workdir={workdir}',
      *flags,
  ]


def launch(workdir, *flags, config):
  return subprocess.run(
      command(workdir, *flags, config=config),
      cwd=ROOT,
      capture_output=True,
      text=True,
      timeout=900,
  )


def finish(workdir, *flags, config):
  """The output of a run that succeeds."""
  done = launch(workdir, *flags, config=config)
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def export(run_dir, folder):
  """Exports the checkpoint of a run.

  All modes that train are checked so at the end of a run of theirs; their
  checkpoints are read in one way.
  """
  said = finish(folder, config=f'configs/export.py:run={run_dir}')
  assert 'read again and equal' in said.replace('\n', ' ')
  card = (folder / 'README.md').read_text()
  assert '| after * |' in card


def check_finished(workdir, *flags, config):
  """A run that has ended, started once more, measures nothing again."""
  files = [*workdir.glob('*.jsonl'), *workdir.glob('episodes/**/*.jsonl')]
  files.remove(workdir / starts.FILE)
  begun = len(starts.read(workdir))
  before = {path: path.read_bytes() for path in files}
  evals, levels = (summary_of(workdir)[x] for x in ('eval', 'chance'))
  points = tensorboard_points(workdir)
  said = finish(workdir, *flags, config=config)
  assert 'as evaluated before' in ' '.join(said.split())
  assert len(starts.read(workdir)) == begun + 1
  for path, data in before.items():
    assert path.read_bytes() == data, path
  assert summary_of(workdir)['eval'] == evals
  assert summary_of(workdir)['chance'] == levels
  assert tensorboard_points(workdir) == points


def summary_of(workdir):
  return json.loads((workdir / 'summary.json').read_text())


def tensorboard_points(workdir):
  """(step, value) of every scalar by its name."""
  events = EventAccumulator(str(workdir / 'tensorboard')).Reload()
  return {
      name: [(x.step, x.value) for x in events.Scalars(name)]
      for name in events.Tags()['scalars']
  }


def start(workdir, *flags, config):
  """A run that goes on by itself; what it says can be read."""
  return subprocess.Popen(
      command(workdir, *flags, config=config),
      cwd=ROOT,
      stdout=subprocess.PIPE,
      text=True,
  )


def wait_for(condition, process):
  """Returns when `condition()` holds, while the process runs."""
  deadline = time.monotonic() + 900
  while not condition():
    assert process.poll() is None and time.monotonic() < deadline
    time.sleep(0.05)


def finish_killed(workdir, *flags, config, after=1):
  """The output of a run that is killed after this checkpoint, and continued."""
  process = start(workdir, *flags, config=config)
  wait_for((workdir / 'checkpoints' / f'{after}').exists, process)
  process.send_signal(signal.SIGKILL)
  process.wait()
  process.stdout.close()
  said = finish(workdir, *flags, config=config)
  assert 'Continuing after step' in said
  return said


def lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def measured(path):
  """The lines of metrics without what differs from run to run."""
  timed = lambda name: name.startswith('time') or name.endswith(_CLOCKS)
  return [
      {name: value for name, value in line.items() if not timed(name)}
      for line in lines(path)
  ]


def assert_equal_to_the_bit(one, other):
  """Two runs of mode 'train' did and measured the same."""
  found = [measured(run / 'metrics.jsonl') for run in (one, other)]
  for a, b in zip(*found, strict=True):
    assert a == b
  for step in range(len(found[0])):
    a, b = (
        list(episodes_lib.read(episodes_lib.step_path(run, 'train', step)))
        for run in (one, other)
    )
    for field in dataclasses.fields(a[0]):
      if field.name != 'turns':  # which hold times
        for x, y in zip(a, b, strict=True):
          assert getattr(x, field.name) == getattr(y, field.name)
