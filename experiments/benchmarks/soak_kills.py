r"""Kills a run at random moments and compares it with one that nobody killed.

    python -m experiments.benchmarks.soak_kills --kills=60 --traffic_seed=0

Trainer, environment server and engine (an embedded one, in a process of its
own) get SIGKILL, a few times each run; a run that ended is started again by the
same command. All runs have one seed and a deterministic engine: their metrics,
episodes and parameters must be those of a run that was left alone, to the last
bit, and no process or memory may stay. Prints a JSON line a run and a summary;
exits with 1 if anything is off.
"""

import collections
import json
import pathlib
import sys
import tempfile
import time
from typing import Any

import jax
import numpy as np
import psutil
from absl import app, flags, logging

from agentrl.training import language_model
from experiments.benchmarks import soak_flags, soak_run

_KILLS = flags.DEFINE_integer('kills', 60, 'In all.')
_KILLS_A_RUN = flags.DEFINE_integer('kills_a_run', 10, 'Of them.')

VICTIMS = ('trainer', 'environment', 'engine')
STEPS = 5
_CONFIG = f'--config={soak_run.ROOT}/configs/quickstart.py:tiny'
# A policy that succeeds now and then, so that there is something to learn.
_BASE = (
    _CONFIG,
    '--config.num_steps=1',
    '--config.eval.num_tasks=0',
    '--config.warmstart.episodes=256',
    '--config.warmstart.epochs=3',
)
_FLAGS = (
    _CONFIG,
    f'--config.num_steps={STEPS}',
    '--config.eval.num_tasks=4',
    '--config.warmstart.episodes=0',
    '--config.rollout.group_size=8',
    '--config.checkpoint.every=1',
    '--config.sampler.kind=sglang',
    '--config.sampler.timeout_s=60',
    f'--config.sampler.launch.python={sys.executable}',
    '--config.sampler.launch.module=agentrl.serving.launch_server',
    '--config.sampler.launch.flags=--enable-deterministic-inference',
    '--config.sampler.launch.restarts=1000',
    '--config.sampler.launch.backoff_s=0',
)
# What a clock says, and what a kill costs.
OWN = (
    'time',
    'train/compile',
    'train/programs',
    'sampler/compile',
    'sampler/programs',
    'rollout/cached_share',
    'sampler/retries',
    'sampler/abort',
)
TIMED = ('_s', '_s_mean')
_END_S = 600.0


def differences(
    one: pathlib.Path, other: pathlib.Path, *, steps: int = STEPS
) -> list[str]:
  """How the records of two runs differ; what clocks said is no difference."""
  found = []
  both = [soak_run.lines(run / 'metrics.jsonl') for run in (one, other)]
  for name, lines in zip(('one', 'other'), both, strict=True):
    counted = [line['step'] for line in lines]
    if counted != list(range(steps)):
      found.append(f'the {name} run has steps {counted}')
  for a, b in zip(*both, strict=False):
    names = {
        name
        for name in a.keys() | b.keys()
        if not name.startswith(OWN) and not name.endswith(TIMED)
    }
    found += [
        f'step {a["step"]}: {name} is {a.get(name)} and {b.get(name)}'
        for name in sorted(names)
        if a.get(name) != b.get(name)
    ]
  for step in range(steps):
    path = f'episodes/train/{step:06d}.jsonl'
    if _episodes(one / path) != _episodes(other / path):
      found.append(f'{path} differs')
  return found


def _episodes(path: pathlib.Path) -> list[tuple[Any, ...]]:
  names = ('episode_id', 'tokens', 'completion_mask', 'sampler_logprobs')
  names += ('return', 'stop_reason', 'policy_version')
  return [tuple(line[name] for name in names) for line in soak_run.lines(path)]


def parameters_differ(one: pathlib.Path, other: pathlib.Path) -> list[str]:
  """Which parameters of two runs' last checkpoints are not equal."""
  trees = [
      language_model.load_policy(str(run))[0].params for run in (one, other)
  ]
  found = []
  jax.tree_util.tree_map_with_path(
      lambda path, a, b: np.array_equal(a, b)
      or found.append(f'parameters {jax.tree_util.keystr(path)} differ'),
      *trees,
  )
  return found


def find(run: soak_run.Run, victim: str) -> psutil.Process | None:
  """The process to kill, if it is there."""
  try:
    trainer = psutil.Process(run.process.pid)
    if victim == 'trainer':
      return trainer
    if victim == 'engine':
      return next((server.main for server in run.servers()), None)
    for child in trainer.children():
      if 'agentrl.envs.server' in child.cmdline():
        return child
  except psutil.NoSuchProcess:
    pass  # it went while we looked
  return None


def trouble(
    run: soak_run.Run, kills: int, seconds: float, rng: np.random.Generator
) -> collections.Counter:
  """Starts the run, kills and starts again until it ended well.

  Args:
    run: not started yet.
    kills: in all.
    seconds: that it takes if it is left alone: the moments lie within.
    rng: draws moments and victims.

  Returns:
    How often each was killed.

  Raises:
    RuntimeError: it ended with an error that was no kill's.
  """
  done = collections.Counter()
  run.start()
  killed = False  # in this start
  while True:
    if sum(done.values()) < kills:
      victim = VICTIMS[rng.integers(len(VICTIMS))]
      # Of less than a whole run: every start does the same again.
      _wait(run, rng.uniform(0, seconds / 3))
      process = find(run, victim)
      if run.process.poll() is None and process is not None:
        process.kill()
        done[victim] += 1
        killed = True
        if victim == 'trainer':
          run.process.wait(_END_S)
    else:
      _wait(run, _END_S)
    code = run.process.poll()
    if code is None:
      continue
    if code == 0:
      return done
    if not killed:
      raise RuntimeError(
          f'{run.directory} ended with {code}: {run.last_words()}'
      )
    run.start()
    killed = False


def _wait(run: soak_run.Run, seconds: float) -> None:
  deadline = time.monotonic() + seconds
  while run.process.poll() is None and time.monotonic() < deadline:
    time.sleep(0.02)


def main(argv):
  del argv
  logging.set_verbosity(logging.WARNING)
  rng = np.random.default_rng(soak_flags.SEED.value)
  total, failures, number = collections.Counter(), [], 0
  with tempfile.TemporaryDirectory() as folder:
    base = pathlib.Path(folder)
    start = soak_run.Run(base / 'base', _BASE)
    trouble(start, 0, 0.0, rng)
    flags_of_all = (*_FLAGS, f'--config.model.name={start.directory}')
    whole = soak_run.Run(base / 'whole', flags_of_all)
    begin = time.monotonic()
    trouble(whole, 0, 0.0, rng)
    seconds = time.monotonic() - begin
    gradients = [
        line['train/grad_norm']
        for line in soak_run.lines(whole.directory / 'metrics.jsonl')
    ]
    if not any(gradients):
      failures.append('the run that is compared with learnt nothing')
    while sum(total.values()) < _KILLS.value and not failures:
      number += 1
      run = soak_run.Run(base / f'run{number}', flags_of_all)
      left = _KILLS.value - sum(total.values())
      begin = time.monotonic()
      try:
        killed = trouble(run, min(left, _KILLS_A_RUN.value), seconds, rng)
      finally:
        run.end()
      found = differences(whole.directory, run.directory)
      found += parameters_differ(whole.directory, run.directory)
      found += run.await_end(30)
      failures += found
      total += killed
      facts = dict(run=number, kills=killed, differences=found)
      print(json.dumps(facts | {'seconds': round(time.monotonic() - begin)}))
      sys.stdout.flush()
  summary = dict(kills=total, all=sum(total.values()), runs=number)
  print(json.dumps(summary | dict(whole_s=round(seconds), failures=failures)))
  if failures:
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
