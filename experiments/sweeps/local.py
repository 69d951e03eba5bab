"""Cells as child processes of this machine, a bounded number at a time."""

import concurrent.futures
import contextlib
import os
import pathlib
import queue
import sys
import threading
import time
from collections.abc import Sequence

import psutil

from agentrl.errors import ConfigError
from agentrl.runtime import lock, supervisor
from agentrl.runtime.children import Child
from experiments.sweeps.cells import Cell

ROOT = pathlib.Path(__file__).parents[2]

_POLL_S = 0.2
_PATIENCE_S = 2 * supervisor.GRACE_S
_LAST_BYTES = 4000  # of a log: its last line says why a run failed


def train(cells: Sequence[Cell], out: pathlib.Path, jobs: int) -> list[str]:
  """Trains the cells, and returns the reason of each that failed.

  Ctrl-C lets the running cells save and stop; a second one ends them at once.
  They end with this process, whatever ends it. Several at a time have cores of
  their own where there are enough: on two cores, two runs that share both took
  three times as long as one alone, two of one core each 1.3 to 1.6 times.

  Args:
    cells: unfinished ones.
    out: folder of the sweep.
    jobs: cells at a time.
  """
  stopping = threading.Event()
  shares: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
  for cores in _share_cores(min(jobs, len(cells))):
    shares.put(cores)
  with concurrent.futures.ThreadPoolExecutor(
      jobs, initializer=_pin, initargs=(shares,)
  ) as pool:
    waiting = [pool.submit(_train, cell, out, stopping) for cell in cells]
    try:
      found = [future.result() for future in waiting]
    except KeyboardInterrupt:
      stopping.set()
      for future in waiting:
        future.cancel()
      print('Stopping: the running cells save first.', flush=True)
      concurrent.futures.wait(waiting)
      return ['Stopped. The same command continues.']
  return [reason for reason in found if reason is not None]


def last_line(log: pathlib.Path) -> str:
  """The last line of a log, which is the error of a run that failed."""
  with log.open('rb') as file:
    file.seek(max(log.stat().st_size - _LAST_BYTES, 0))
    lines = file.read().decode(errors='replace').split('\n')
  lines = [line.strip() for line in lines if line.strip()]
  return lines[-1] if lines else '(it printed nothing)'


def start(command: Sequence[str], log: pathlib.Path) -> Child:
  """Starts a run, which ends with this process."""
  return Child(
      [sys.executable, *command],
      log=log,
      env=dict(os.environ),  # a run may need its keys
      cwd=str(ROOT),
      supervised=True,
  )


def interrupt(child: Child) -> None:
  """Asks a run to save and stop; returns at once."""
  with contextlib.suppress(psutil.NoSuchProcess):
    for run in psutil.Process(child.pid).children():  # of the supervisor
      run.terminate()


def _share_cores(jobs: int) -> list[set[int]]:
  """Cores of each job; none where they are too few, or cannot be chosen."""
  if not hasattr(os, 'sched_getaffinity'):  # macOS
    return []
  cores = sorted(os.sched_getaffinity(0))
  each = len(cores) // max(jobs, 1)
  return [set(cores[i * each : (i + 1) * each]) for i in range(jobs) if each]


def _pin(shares: queue.SimpleQueue[set[int]]) -> None:
  """Gives this thread, and the runs that it starts, cores of their own."""
  if not shares.empty():
    os.sched_setaffinity(0, shares.get())


def _await_end(workdir: pathlib.Path) -> None:
  """Waits for a run of a sweep that was killed: it may still be saving."""
  deadline = time.monotonic() + _PATIENCE_S
  while workdir.is_dir() and time.monotonic() < deadline:
    try:
      with lock.hold(workdir):
        return
    except ConfigError:  # which the run will say, if it does not end
      time.sleep(_POLL_S)


def _train(
    cell: Cell, out: pathlib.Path, stopping: threading.Event
) -> str | None:
  if stopping.is_set():
    return None
  log = out / f'{cell.name}.log'
  _await_end(out / cell.name)
  print(f'{cell.name}: running, see {log}', flush=True)
  child = start(cell.command((out / cell.name).absolute()), log)
  asked = False
  while (ending := child.ending(_POLL_S)) is None:
    if stopping.is_set() and not asked:
      interrupt(child)
      asked = True
  child.hang_up()
  if ending == 'ended with exit code 0':
    print(f'{cell.name}: done', flush=True)
    return None
  if stopping.is_set():
    return None
  return f'{cell.name} {ending}: {last_line(log)} ({log})'
