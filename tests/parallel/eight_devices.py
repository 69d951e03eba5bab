"""A process with eight simulated devices, and the arrays that it leaves."""

import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).parent.parent.parent


def arrays_of(module: str, path: pathlib.Path) -> dict[str, np.ndarray]:
  """What `python -m module path` writes to `path`, an .npz file."""
  subprocess.run(
      [sys.executable, '-m', module, str(path)],
      check=True,
      cwd=ROOT,
      env=os.environ
      | {
          'XLA_FLAGS': '--xla_force_host_platform_device_count=8',
          'JAX_PLATFORMS': 'cpu',
      },
      timeout=300,
  )
  with np.load(path) as arrays:
    return dict(arrays)
