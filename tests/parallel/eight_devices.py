"""Meshes of eight simulated devices, in one process or shared by several."""

import contextlib
import math
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import jax
import numpy as np

from agentrl.parallel import distributed, mesh as mesh_lib

ROOT = pathlib.Path(__file__).parent.parent.parent
ALONE = '1x1x1x1'


def make_mesh(shape):
  """The mesh of `DATAxFSDPxTENSORxSEQUENCE`, of as many devices as it needs."""
  sizes = [int(size) for size in shape.split('x')]
  return mesh_lib.make_mesh(
      dict(zip(mesh_lib.AXES, sizes, strict=True)),
      jax.devices()[: math.prod(sizes)],
  )


def flat(tree) -> dict[str, np.ndarray]:
  """Host arrays by `path/of/leaf`."""
  return {
      jax.tree_util.keystr(
          path, simple=True, separator='/'
      ): distributed.to_host(leaf)
      for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def assert_same(actual, expected):
  """Asserts that flat trees are equal but for the order of float32 sums."""
  assert actual.keys() == expected.keys()
  for name, value in expected.items():
    # A KL that is 0 is a difference of ones.
    scale = max(np.abs(value).max(), 1e-3 if 'metrics' in name else 0.0)
    np.testing.assert_allclose(
        actual[name], value, rtol=1e-5, atol=1e-5 * scale, err_msg=name
    )


def sent(work):
  """`(count, bytes)` by `kind/devices` of a program's collectives."""
  return {f'{c.kind}/{c.devices}': (c.count, c.bytes) for c in work.collectives}


def arrays_of(
    module: str, path: pathlib.Path, *args: str, processes: int
) -> dict[str, np.ndarray]:
  """Arrays that `python -m module path ARGS` writes to `path`, an .npz file."""
  command = [sys.executable, '-m', module, str(path), *args]
  run(command, processes=processes)
  with np.load(path) as arrays:
    return dict(arrays)


def run(command: list[str], *, processes: int, **options) -> None:
  """Runs a command in processes that share eight simulated devices."""
  with started(command, processes=processes, **options) as children:
    for child in children:
      assert child.wait(timeout=1800) == 0, command


@contextlib.contextmanager
def started(
    command: list[str], *, processes: int, **options
) -> Iterator[list[subprocess.Popen]]:
  """As `run`, with the processes in hand, which end with the block."""
  with socket.socket() as reserved:
    # Until they end nobody else is given this port; the coordinator, which
    # listens with the same option, may share it.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(('127.0.0.1', 0))
    port = reserved.getsockname()[1]
    shared = os.environ | environment(8 // processes)
    shared |= {
        'WORLD_SIZE': str(processes),
        'MASTER_ADDR': '127.0.0.1',
        'MASTER_PORT': str(port),
    }
    children = [
        subprocess.Popen(
            command, cwd=ROOT, env=shared | {'RANK': str(rank)}, **options
        )
        for rank in range(processes)
    ]
    try:
      yield children
    finally:
      for child in children:
        child.kill()
        child.wait()


def environment(devices: int) -> dict[str, str]:
  """Variables with which a process has so many devices."""
  return {
      'JAX_NUM_CPU_DEVICES': str(devices),
      'JAX_PLATFORMS': 'cpu',
      # Threads: as many as devices, the default, and collectives that a device
      # runs at the same time may wait for each other for ever.
      'NPROC': '64',
  }
