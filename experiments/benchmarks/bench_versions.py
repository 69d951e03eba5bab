"""Times decode and train step of two checkouts of this code, in turn.

    git worktree add /tmp/old COMMIT
    python -m experiments.benchmarks.bench_versions --old=/tmp/old

Each checkout runs in a process of its own, both on one core, and they take turns;
what is compared is processor time, which other work on the machine hardly moves.
Prints one JSON line a case: the ratios new to old of the repeats, sorted.
"""

import json
import os
import statistics
import subprocess
import sys

from absl import app, flags

_OLD = flags.DEFINE_string('old', None, 'The other checkout.', required=True)
_MODEL = flags.DEFINE_string('model', 'tiny-4m', 'A name of models.variants.')
_ROWS = flags.DEFINE_integer('rows', 4, 'Rows of the update and of the decode.')
_LENGTH = flags.DEFINE_integer('length', 128, 'Tokens of each of them.')
_REPEATS = flags.DEFINE_integer('repeats', 9, 'Of each case on each side.')

# Runs in both checkouts, so it knows only what both have.
_CHILD = """
import json, sys, time
from experiments.benchmarks import bench_train_step as bench
import jax, numpy as np
from agentrl.algos import sft
from agentrl.engine import decode
from agentrl.engine.model_runner import ModelRunner
from agentrl.models import transformer, variants
from agentrl.parallel import mesh as mesh_lib
from agentrl.training import optim, programs as programs_lib, state as state_lib

model, rows, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = variants.get(model)
module = transformer.Transformer(config, scan_layers=True, remat='dots')
mesh = mesh_lib.make_mesh(dict(data=1, fsdp=-1, tensor=1, sequence=1))
tx = optim.make_optimizer(1e-5)
params = transformer.init_params(module, jax.random.key(0))
runner = ModelRunner(
    transformer.Transformer(config), transformer.unstack_layers(params),
    slots=rows, max_len=length, max_rows=rows)
state = state_lib.create(params, tx, mesh)
batch = bench.make_batch(rows, length, config.vocab_size)
programs = programs_lib.compile_programs(module, sft.loss, tx, state)
asked = [
    dict(slot=i, token=1, position=length - decode.MAX_STEPS,
         budget=decode.MAX_STEPS, seed=i, stop_ids=(), temperature=1.0,
         top_p=1.0, top_k=config.vocab_size, min_p=0.0, logit_params=None,
         top_logprobs=0)
    for i in range(rows)
]

def train_step():
  global state
  state = programs_lib.update(
      programs, state, batch, np.arange(rows), max_tokens=rows * length).state
  jax.block_until_ready(state)

cases = dict(
    train_step=train_step,
    decode=lambda: runner.decode(asked, steps=decode.MAX_STEPS, floor=1))
for line in sys.stdin:
  case = cases[line.strip()]
  start = time.process_time()
  case()
  print('seconds', time.process_time() - start, flush=True)
"""


def _start(folder: str) -> subprocess.Popen:
  args = (_MODEL.value, str(_ROWS.value), str(_LENGTH.value))
  return subprocess.Popen(
      [sys.executable, '-c', _CHILD, *args],
      cwd=folder,
      env=os.environ | {'PYTHONPATH': folder, 'JAX_PLATFORMS': 'cpu'},
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
  )


def _ask(side: subprocess.Popen, case: str) -> float:
  """Processor seconds of one call."""
  assert side.stdin is not None and side.stdout is not None
  side.stdin.write(f'{case}\n')
  side.stdin.flush()
  for line in side.stdout:
    if line.startswith('seconds'):
      return float(line.split()[1])
  raise RuntimeError(f'The process of {case} ended.')


def main(argv):
  del argv
  os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
  sides = [_start(os.path.abspath(x)) for x in (_OLD.value, os.getcwd())]
  try:
    for case in ('train_step', 'decode'):
      for side in sides:
        _ask(side, case)  # compiles
      pairs = [[_ask(x, case) for x in sides] for _ in range(_REPEATS.value)]
      ratios = sorted(new / old for old, new in pairs)
      result = dict(
          case=f'{case} {_MODEL.value}',
          shape=[_ROWS.value, _LENGTH.value],
          old_s=statistics.median(old for old, _ in pairs),
          new_s=statistics.median(new for _, new in pairs),
          median_ratio=statistics.median(ratios),
          ratios=[round(x, 3) for x in ratios],
      )
      print(json.dumps(result))
  finally:
    for side in sides:
      side.kill()
      side.wait()


if __name__ == '__main__':
  app.run(main)
