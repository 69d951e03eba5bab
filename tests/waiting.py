"""Waiting for what other processes do."""

import asyncio
import pathlib
import time


def wait_until(condition, seconds=120):
  """Whether `condition()` came true within so many seconds."""
  deadline = time.monotonic() + seconds
  while time.monotonic() < deadline:
    if condition():
      return True
    time.sleep(0.05)
  return False


async def until(condition):
  """Waits until `condition()`, as long as whoever waits for this does."""
  while True:
    if condition():
      return
    await asyncio.sleep(0.005)


def alive(pid):
  """Whether a process runs; one that nobody has reaped does not."""
  try:
    with open(f'/proc/{pid}/stat') as stat:
      return stat.read().rpartition(')')[2].split()[0] != 'Z'
  except (FileNotFoundError, ProcessLookupError):
    return False  # gone before the file was opened, or before it was read


def stopped(pid):
  """Whether all threads of a process have obeyed a SIGSTOP."""
  return all(
      task.joinpath('stat').read_text().rpartition(')')[2].split()[0] == 'T'
      for task in pathlib.Path(f'/proc/{pid}/task').iterdir()
  )


def gone(*pids):
  """Whether all have ended, waiting for it."""
  return wait_until(lambda: not any(map(alive, pids)))
