r"""Watches memory, file handles and disk of long runs, and says how fast they grow.

    python -m experiments.benchmarks.bench_long --env=textcraft --episodes=1000
    python -m experiments.benchmarks.bench_long --env=sciworld --horizon=5
    python -m experiments.benchmarks.bench_long --config=configs/quickstart.py:tiny

--env: a random policy plays episodes of an environment against its server, without a
model. --config: a run of `launch.py` makes rl steps; its workdir keeps the files of the
newest 20 steps and two checkpoints (`--overrides` has more fields).

All processes are looked at between episodes, or whenever a step was recorded: the player
or the run, servers, Java, browser. Prints a Markdown table with the mean of the first and
the last eighth after a warm-up, and the growth per 1,000 episodes or 100 steps with its
95% interval, by the means of eight parts (t). Of a run a second table has the stretches of
steps in which nothing was compiled. `--samples` keeps what was seen, a JSON line each.
"""

import contextlib
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import psutil
from absl import app, flags

from agentrl import envs, metrics
from agentrl.envs.options import EnvOptions
from agentrl.rollout import collect, play as play_lib
from agentrl.rollout.environment import Environment
from agentrl.rollout.options import AgentOptions, Limits
from agentrl.rollout.random_policy import RandomPolicy
from agentrl.rollout.text_agent import make_text_agent
from agentrl.runtime.event_loop import EventLoop
from experiments.benchmarks import footprint
from experiments.benchmarks.footprint import Sample

_ENV = flags.DEFINE_enum('env', None, list(envs.ENVS), 'Which environment.')
_CONFIG = flags.DEFINE_string('config', None, 'Or a config of mode train.')
_EPISODES = flags.DEFINE_integer('episodes', 1000, 'Of --env.', lower_bound=200)
_STEPS = flags.DEFINE_integer('steps', 100, 'Of --config.', lower_bound=10)
_HORIZON = flags.DEFINE_integer(
    'horizon', 10, 'Turns of an episode of --env, at most.', lower_bound=1
)
_OPTIONS = flags.DEFINE_string('options', '{}', 'Of --env, as JSON.')
_OVERRIDES = flags.DEFINE_list(
    'overrides', [], 'Fields of --config, as optim.lr=1e-4.'
)
_WORKDIR = flags.DEFINE_string(
    'workdir', None, 'Of --config; None: one that is removed at the end.'
)
_SAMPLES = flags.DEFINE_string('samples', None, 'File for what was seen.')
_WARMUP = flags.DEFINE_float(
    'warmup', 0.3, 'Share that is left out at first.', 0.0, 0.8
)
_ROOT = pathlib.Path(__file__).parents[2]
_POINTS = 100  # samples of --env
_AT_A_TIME = 8  # episodes
_POLL_S = 0.1
_RUN = 'trainer with engine'
_PLATEAU = 16  # steps without a new program
_BOUNDED = (
    'checkpoint.every=10',
    'checkpoint.keep_episodes=20',
    'eval.num_tasks=0',
    "eval.small={'num_tasks': 0}",
)

Keep = Callable[[Sample], None]


def play(keep: Keep) -> None:
  """Plays episodes of --env, and looks at all processes now and then."""
  options = EnvOptions(
      name=_ENV.value, options=json.loads(_OPTIONS.value), timeout_s=120.0
  )
  rng = random.Random(0)
  with EventLoop() as loop, Environment(loop, options) as environment:
    tasks = environment.tasks('train')
    limits = Limits(concurrency=_AT_A_TIME)
    play_one = play_lib.make_play(
        environment,
        make_text_agent(
            environment.spec, AgentOptions(format='function_calling')
        ),
        None,
        limits,
        acting=RandomPolicy,
        name='random',
        split='train',
        horizon=_HORIZON.value,
        policy_version=0,
    )
    done, size = 0, max(_EPISODES.value // _POINTS, 1)
    failed = 0
    while done < _EPISODES.value:
      groups = loop.run(
          collect.collect(
              [(done + i, rng.choice(tasks)) for i in range(size)],
              1,
              play_one,
              seed=done,
              concurrency=_AT_A_TIME,
          )
      )
      done += size
      failed += sum(not x.valid for group in groups for x in group.episodes)
      del groups
      keep(footprint.look(psutil.Process().pid, 'player', done))
    if failed:
      print(f'{failed} of {done:,} episodes failed.', flush=True)


def train(workdir: pathlib.Path, keep: Keep) -> None:
  """Makes rl steps of --config, and looks at all processes at each."""
  fields = {
      name: value
      for name, _, value in (
          x.partition('=')
          for x in (
              *_BOUNDED,
              *_OVERRIDES.value,
              f'num_steps={_STEPS.value}',
          )
      )
  }
  run = workdir / 'run'
  with (workdir / 'log').open('wb') as log:
    process = subprocess.Popen(
        [
            sys.executable,
            str(_ROOT / 'launch.py'),
            f'--config={_CONFIG.value}',
            f'--workdir={run}',
            *(f'--config.{name}={value}' for name, value in fields.items()),
        ],
        cwd=_ROOT,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
  try:
    path, seen = run / 'metrics.jsonl', 0
    while process.poll() is None:
      time.sleep(_POLL_S)
      lines = path.read_bytes().count(b'\n') if path.exists() else 0
      if lines > seen:
        seen = lines
        *_, last = metrics.read(path)
        programs = sum(
            last.get(f'{side}/programs', 0.0) for side in ('train', 'sampler')
        )
        with contextlib.suppress(psutil.NoSuchProcess):
          keep(footprint.look(process.pid, _RUN, seen, run, programs))
  finally:
    if process.poll() is None:
      process.send_signal(signal.SIGTERM)
      process.wait()
  if process.returncode:
    words = (workdir / 'log').read_text(errors='replace')[-2000:]
    raise SystemExit(f'The run ended with {process.returncode}: {words}')


def main(argv):
  del argv
  if (_ENV.value is None) == (_CONFIG.value is None):
    raise app.UsageError('Name either --env or --config.')
  samples: list[Sample] = []
  with contextlib.ExitStack() as stack:
    if _WORKDIR.value:
      workdir = pathlib.Path(_WORKDIR.value).absolute()
      workdir.mkdir(parents=True, exist_ok=True)
    else:
      workdir = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    file = None
    if _SAMPLES.value:
      file = stack.enter_context(open(_SAMPLES.value, 'w', encoding='utf-8'))

    def keep(sample: Sample) -> None:
      samples.append(sample)
      if file is not None:
        print(json.dumps(footprint.as_json(sample)), file=file, flush=True)

    if _ENV.value:
      play(keep)
    else:
      train(workdir, keep)
  unit, per = ('episodes', 1000) if _ENV.value else ('steps', 100)
  print(footprint.table(samples, unit=unit, per=per, warmup=_WARMUP.value))
  if _CONFIG.value:
    print(footprint.plateaus(samples, _RUN, least=_PLATEAU, per=per))


if __name__ == '__main__':
  app.run(main)
