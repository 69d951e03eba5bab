"""SGLang's server on a machine without a GPU: `python -m sglang_on_cpu FLAG ...`.

The flags are those of `python -m sglang.launch_server`, and win over the ones
that a CPU needs. `install.py` beside this file puts it into the environment
that it makes.
"""

import os
import runpy
import sys

FLAGS = (
    *('--device', 'cpu'),
    *('--attention-backend', 'torch_native'),
    *('--sampling-backend', 'pytorch'),
    *('--dtype', 'float32'),
    '--disable-cuda-graph',
    '--skip-server-warmup',
    '--sleep-on-idle',  # else an idle server uses a whole core
    # A share of the host's memory would be gigabytes for each server.
    *('--max-total-tokens', '32768'),
)

if __name__ == '__main__':
  # With it SGLang imports kernels that its wheel for CUDA does not have.
  os.environ.pop('SGLANG_USE_CPU_ENGINE', None)
  # There is no GPU of whose state a crash could tell; that would take a minute.
  for name in ('CUDA_COREDUMP', 'PYSPY_DUMP'):
    os.environ.setdefault(f'SGLANG_{name}_BEFORE_CRASH', '0')
  sys.argv[1:1] = FLAGS
  runpy.run_module('sglang.launch_server', run_name='__main__', alter_sys=True)
