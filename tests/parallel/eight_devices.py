"""Processes with eight simulated devices, and the arrays that they leave."""

import os
import pathlib
import socket
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).parent.parent.parent


def arrays_of(
    module: str, path: pathlib.Path, *args: str, processes: int = 1
) -> dict[str, np.ndarray]:
  """What `python -m module path ARGS` writes to `path`, an .npz file."""
  command = [sys.executable, '-m', module, str(path), *args]
  run(command, processes=processes)
  with np.load(path) as arrays:
    return dict(arrays)


def run(command: list[str], *, processes: int, **options) -> None:
  """Runs a command in processes that share eight simulated devices."""
  with socket.socket() as reserved:
    # Until they end nobody else is given this port; the coordinator, which
    # listens with the same option, may share it.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(('127.0.0.1', 0))
    port = reserved.getsockname()[1]
    children = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | _environment(rank, processes, port),
            **options,
        )
        for rank in range(processes)
    ]
    try:
      for child in children:
        assert child.wait(timeout=1800) == 0, command
    finally:
      for child in children:
        child.kill()
        child.wait()


def _environment(rank: int, processes: int, port: int) -> dict[str, str]:
  devices = f'--xla_force_host_platform_device_count={8 // processes}'
  return {
      'XLA_FLAGS': devices,
      'JAX_PLATFORMS': 'cpu',
      # Threads: as many as devices, the default, and collectives that a device
      # runs at the same time may wait for each other for ever.
      'NPROC': '64',
      'RANK': str(rank),
      'WORLD_SIZE': str(processes),
      'MASTER_ADDR': '127.0.0.1',
      'MASTER_PORT': str(port),
  }
