r"""Hours and memory of each number of AgentGym-RL's tables, by the planner.

    python -m experiments.reproduce > experiments/reproduce.md

For each environment and arm: the command, and what it would take on 1, 8 and 64 H100:
the memory from the plan (as `--dry_run` makes it), the hours from the estimate of
experiments/2026-11-paper-7b, whose rates are assumed. None of these runs has been made.
"""

import dataclasses
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from absl import app, flags

from agentrl.modes import reading
from agentrl.planning import plan as plan_lib

estimate = importlib.import_module('experiments.2026-11-paper-7b.estimate')

_PLAN = flags.DEFINE_list(
    'plan', None, "One plan as JSON: environment, GPUs, the config's arguments."
)

MODEL = 'qwen2.5-7b'
MEMORY_GIB = 79.6  # of an H100, as nvidia-smi tells it
ENVS = ('textcraft', 'babyai', 'sciworld', 'searchqa', 'webarena')
# The arm with one horizon: its turns, and the flags that make it so.
FIXED = {
    'textcraft': 30,
    'babyai': 20,
    'sciworld': 20,
    'searchqa': 5,
    'webarena': 15,
}
# GPUs -> the flags of a plan. One has room for an adapter alone; of 64, each
# eight have a copy of the model, so that a GPU needs what it needs of eight.
GPUS = {
    1: ('model.lora.rank=16', 'model.dtype=bfloat16'),
    8: ('mesh.fsdp=8',),
    64: ('mesh.data=8', 'mesh.fsdp=8'),
}
# Environment -> tokens before the first turn, sampled in a turn, and of an
# observation, where it is likely; half and twice as many in the other columns.
TOKENS = {
    'textcraft': (600, 100, 40),
    'babyai': (450, 100, 60),
    'sciworld': (700, 100, 80),
    'searchqa': (400, 150, 500),
    'webarena': (1500, 200, 1500),
}
SPEEDS = {'low': 2.0, 'likely': 1.0, 'high': 0.5}


def stages(horizon: Any, steps: int) -> Iterator[tuple[int, int]]:
  """Yields turns and how many of the steps have them."""
  every = horizon.every or steps
  for index, turns in enumerate(horizon.turns):
    last = index == len(horizon.turns) - 1
    count = steps - index * every if last else min(every, steps - index * every)
    yield turns, max(count, 0)


def make(env: str, gpus: int) -> dict[str, Any]:
  """GiB a GPU, and hours at each speed of both arms: `{arm: {speed: hours}}`.

  Simulates the devices of this process, so each plan has a process of its own.
  """
  config = importlib.import_module(f'configs.{env}_grpo').get_config(
      f'model={MODEL}'
  )
  plan_gpus = min(gpus, 8)
  for flag in GPUS[plan_gpus]:
    name, value = flag.split('=')
    section = config
    *path, last = name.split('.')
    for key in path:
      section = getattr(section, key)
    section[last] = int(value) if value.isdigit() else value
  wanted = reading.read(config)
  plan_lib.simulate(wanted.mesh, wanted.compile_cache)
  shape = plan_lib.find_shape(wanted.model)
  plan = plan_lib.make('train', wanted, shape, 80 << 30)
  steps = config.num_steps
  arms = {
      'fixed': [(FIXED[env], steps)],
      'ScalingInter': [*stages(wanted.horizon, steps)],
  }
  episodes = config.rollout.tasks_per_step * config.rollout.group_size
  hours: dict[str, dict[str, float]] = {}
  for arm, parts in arms.items():
    for speed, factor in SPEEDS.items():
      names = ('prompt', 'completion', 'observation')
      tokens = [round(factor * count) for count in TOKENS[env]]
      assumed = dataclasses.replace(
          estimate.ASSUMED[speed], **dict(zip(names, tokens, strict=True))
      )
      seconds = sum(
          count
          * estimate.estimate(
              plan, turns, shape, assumed, gpus=gpus, episodes=episodes
          ).seconds
          for turns, count in parts
      )
      hours.setdefault(arm, {})[speed] = seconds / 3600
  return {'gib': plan.peak / 2**30, 'hours': hours, 'steps': steps}


def commands(env: str) -> Iterator[tuple[str, str]]:
  """Yields the arms and their commands, for eight GPUs."""
  start = f'python launch.py --config=configs/{env}_grpo.py:model={MODEL}'
  flags_of = ' '.join(f'--config.{flag}' for flag in GPUS[8])
  fixed = (
      '--config.horizon.kind=fixed --config.horizon.every=0'
      f' --config.horizon.turns="({FIXED[env]},)"'
  )
  for arm, more in (('fixed', f' {fixed}'), ('ScalingInter', '')):
    yield arm, f'{start} {flags_of}{more} --workdir=runs/{env}-{arm.lower()}'


def _range(hours: dict[str, float]) -> str:
  likely, low, high = (hours[name] for name in ('likely', 'low', 'high'))
  return f'{likely:,.0f} ({high:,.0f} to {low:,.0f})'


def main(argv):
  del argv
  if _PLAN.value:
    env, gpus = _PLAN.value
    print(json.dumps(make(env, int(gpus))))
    return
  found = {}
  for env in ENVS:
    for gpus in GPUS:
      done = subprocess.run(
          [
              *(sys.executable, '-m', 'experiments.reproduce'),
              f'--plan={env},{gpus}',
          ],
          check=True,
          capture_output=True,
          text=True,
      )
      found[env, gpus] = json.loads(done.stdout.splitlines()[-1])
  print(_PAGE)
  print('| environment | arm | steps | 1 H100, adapter | 8 H100 | 64 H100 |')
  print('|---' * 6 + '|')
  for env in ENVS:
    for arm in ('fixed', 'ScalingInter'):
      cells = [
          _range(found[env, gpus]['hours'][arm])
          if found[env, min(gpus, 8)]['gib'] < MEMORY_GIB
          else 'does not fit'
          for gpus in GPUS
      ]
      steps = found[env, 8]['steps']
      print(f'| {env} | {arm} | {steps} | {" | ".join(cells)} |')
  print('\n| environment | GiB, 1 H100, adapter | GiB a GPU, 8 or 64 H100 |')
  print('|---' * 3 + '|')
  for env in ENVS:
    sizes = [f'{found[env, gpus]["gib"]:.1f}' for gpus in (1, 8)]
    print(f'| {env} | {" | ".join(sizes)} |')
  print('\n```bash')
  for env in ENVS:
    for _, command in commands(env):
      print(command)
  print('```')


_PAGE = """\
# What each number of the paper would take

AgentGym-RL (arXiv:2509.08755) trains Qwen2.5-7B-Instruct by GRPO in five environments, with
a fixed horizon and with ScalingInter-RL. **No run of that size has been made with this
code.** Below are the commands, the trainer\'s memory by the planner, and hours by an
[estimate](2026-11-paper-7b/README.md) whose rates are assumed, not measured: likely, and in
brackets from what would go well together to what would go wrong together. Made by
`python -m experiments.reproduce > experiments/reproduce.md`.

Evaluations, checkpoints, compiling and warm starts are not in it, nor the time of browsers
and of Java. A turn is assumed to have these tokens (before the first one, sampled,
observed): TextCraft 600, 100, 40; BabyAI 450, 100, 60; SciWorld 700, 100, 80; SearchQA 400,
150, 500; WebArena 1,500, 200, 1,500; twice and half of that at the ends. One GPU has room
for an adapter of rank 16 over frozen weights alone (`--config.model.lora.rank=16
--config.model.dtype=bfloat16` in place of `--config.mesh.fsdp=8`); 64 have
`--config.mesh.data=8` besides, and a group of eight needs what it needs alone. The
environments are this project\'s own SearchQA and sites of WebArena\'s kind; their options
take the public ones.

Hours of the steps of each recipe:
"""


if __name__ == '__main__':
  app.run(main)
