"""A run of several processes: who they are, and what they decide together.

Every process runs the whole mode with the devices of its own; arrays span them
all. Each plays its share of the episodes, and all get all of them, so that what
is computed of them on the host is the same everywhere. What is written once, by
process 0, goes through `is_first`.
"""

import pickle
from collections.abc import Callable, Mapping
from typing import TypeVar

from agentrl.errors import AgentrlError, ConfigError
from agentrl.parallel import distributed
from agentrl.runtime import ranks
from agentrl.runtime.event_loop import EventLoop, Interrupted

T = TypeVar('T')


def join(environ: Mapping[str, str], mode: str, *, ready: bool) -> None:
  """Connects the processes of a run, if there are several.

  Args:
    environ: variables of this process.
    mode: its name.
    ready: whether the mode can run in several.

  Raises:
    ConfigError: it cannot, or they do not find each other.
  """
  rank = ranks.find(environ)
  if rank.count == 1:
    return
  if not ready:
    raise ConfigError(
        f'mode={mode!r} runs in one process, and this is one of {rank.count}'
        ' (WORLD_SIZE, Slurm or Open MPI says so). Start it once; only the'
        ' modes that learn span several.'
    )
  try:
    distributed.initialize(
        rank.coordinator,
        None if rank.index is None else rank.count,
        rank.index,
        local_device_ids=None if rank.local is None else [rank.local],
    )
  except (RuntimeError, ValueError) as error:
    reason = str(error).strip().splitlines()[-1]
    raise ConfigError(
        f'The {rank.count} processes of this run did not find each other'
        f' (coordinator {rank.coordinator or "found by JAX"}): {reason}'
    ) from error


def gather(work: Callable[[], list[T]]) -> list[T]:
  """What the work of every process gave, one process after the other.

  Raises:
    AgentrlError: as the first process that failed; it is raised in all.
    Interrupted: one of them was asked to stop.
  """
  result, failure = [], None
  try:
    result = work()
  except (AgentrlError, Interrupted) as error:
    failure = error
  # Between processes of one run and one user: pickle is no door here.
  message = pickle.dumps((result, failure))
  found = [pickle.loads(part) for part in distributed.share(message)]
  for _, error in found:
    if error is not None:
      raise failure or error
  return [item for items, _ in found for item in items]


def same(work: Callable[[], T]) -> T:
  """What the work of this process gave, where all do the same.

  Raises:
    AgentrlError: as the first process that failed; it is raised in all.
    Interrupted: one of them was asked to stop.
  """
  results = []
  gather(lambda: results.append(work()) or [])
  return results[0]


def interrupted(host: EventLoop) -> bool:
  """Whether any process was asked to stop; all have to ask this."""
  if b'1' in distributed.share(b'1' if host.interrupted else b'0'):
    host.interrupted = True
  return host.interrupted


def check(host: EventLoop) -> None:
  """Raises Interrupted in all processes if one was asked to stop."""
  if interrupted(host):
    raise Interrupted
