"""Plans runs on meshes of simulated devices; writes what was planned.

    python -m tests.parallel.simulated_plans OUT.npz CASE...

A case is `DATAxFSDPxTENSORxSEQUENCE/REMAT`. All have as many devices as the
first: they are fixed when a process first asks for them.
"""

import sys

import numpy as np

from agentrl.modes import train
from agentrl.parallel.mesh import AXES
from agentrl.planning import plan
from configs import textcraft_grpo

MODEL = 'llama3.2-1b'
ROWS, LENGTH = 8, 1024  # of an update, and of its only microbatch


def read(shape, remat, **overrides):
  """The config of mode 'train' with one microbatch an update."""
  config = textcraft_grpo.get_config(f'model={MODEL}')
  sizes = [int(size) for size in shape.split('x')]
  config.mesh.update(dict(zip(AXES, sizes, strict=True)))
  config.model.remat = remat
  config.rollout.max_context = LENGTH
  config.rollout.tasks_per_step = 4
  config.optim.max_tokens = ROWS * LENGTH
  config.update_from_flattened_dict(overrides)
  return train.read(config)


def main(path, cases):
  arrays = {}
  for case in cases:
    wanted = read(*case.split('/'))
    plan.simulate(wanted.mesh)
    found = plan.make(
        'train', wanted, plan.find_shape(wanted.model), 80 * 2**30
    )
    arrays |= {f'{case}/held/{k}': v for k, v in found.held.items()}
    arrays |= {f'{case}/engine/{k}': v for k, v in found.engine.items()}
    arrays |= {f'{case}/runs/{k}': v for k, v in found.runs.items()}
    for name, program in found.programs.items():
      arrays[f'{case}/{name}/bytes'] = program.bytes
      arrays[f'{case}/{name}/flops'] = program.work.flops
      for kind, devices, count, size in program.work.collectives:
        arrays[f'{case}/{name}/{kind}/{devices}'] = (count, size)
    arrays[f'{case}/gradients'] = found.gradients
    arrays[f'{case}/peak'] = found.peak
  np.savez(path, **arrays)


if __name__ == '__main__':
  main(sys.argv[1], sys.argv[2:])
