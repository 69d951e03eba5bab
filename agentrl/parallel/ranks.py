"""Several processes of one run: joining them, and decisions that they share.

Every process runs the whole mode with its own devices; arrays span them all.
Each plays its share of the episodes and gets those of the others, so that all
compute the same on the host. Process 0 alone writes files, see `is_first`; but
for checkpoints, logs of servers, and the episodes of an evaluation under way, which
each process adds to a file of its own.
"""

import contextlib
import faulthandler
import pathlib
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import jax

from agentrl import shipped
from agentrl.errors import AgentrlError, ConfigError, ProcessLost
from agentrl.parallel import distributed
from agentrl.runtime import (
    ending,
    peers,
    ranks,
    rendezvous,
    workdir as workdir_lib,
)
from agentrl.runtime.event_loop import EventLoop, Interrupted

T = TypeVar('T')


def join(environ: Mapping[str, str], mode: str, *, ready: bool) -> None:
  """Connects the processes of a run, if there are several.

  Args:
    environ: variables of this process.
    mode: its name.
    ready: True if the mode can run in several processes.

  Raises:
    ConfigError: it cannot, or the processes do not find each other.
  """
  rank = ranks.find(environ)
  if rank.coordinator is None:
    return
  if not ready:
    raise ConfigError(
        f'mode={mode!r} runs in one process, and this is one of {rank.count}'
        ' (WORLD_SIZE, Slurm or Open MPI says so). Start it once; only the'
        ' modes that learn span several.'
    )
  rendezvous.meet(rank.coordinator, rank.count, rank.index)
  try:
    distributed.initialize(
        rank.coordinator,
        rank.count,
        rank.index,
        local_device_ids=None if rank.local is None else [rank.local],
    )
  except (RuntimeError, ValueError) as error:
    reason = str(error).strip().splitlines()[-1]
    raise ConfigError(
        f'The {rank.count} processes of this run did not find each other'
        f' (coordinator {rank.coordinator}): {reason}'
    ) from error


def check_devices() -> None:
  """Refuses an environment in which JAX finds no device.

  Raises:
    ConfigError: JAX_PLATFORMS asks for devices that are not here.
  """
  try:
    jax.devices()
  # Where a platform is not even installed, jax asserts.
  except (AssertionError, RuntimeError) as error:
    platforms = jax.config.jax_platforms  # type: ignore[attr-defined]  # jax adds its options at run time
    reason = str(error).partition(' (set JAX_PLATFORMS')[0].rstrip('.')
    reason = ' '.join(reason.split()) or 'JAX finds no such device'
    raise ConfigError(
        f'JAX_PLATFORMS={platforms!r} cannot be used here: {reason}. Unset it'
        ' to take the devices that there are; JAX for NVIDIA GPUs is in'
        f' {shipped.requirements("cuda")}.'
    ) from error


own = distributed.own


def gather(work: Callable[[], list[T]]) -> list[T]:
  """Results of the work of all processes, in the order of their numbers.

  Raises:
    AgentrlError: as the first process that failed; it is raised in all.
    Interrupted: one of them was asked to stop.
  """
  result: list[T] = []
  failure: AgentrlError | Interrupted | None = None
  try:
    result = work()
  except (AgentrlError, Interrupted) as error:
    failure = error
  # Processes of one run and one user trust each other's pickles.
  message = pickle.dumps((result, failure))
  outcomes = [pickle.loads(part) for part in distributed.share(message)]
  for _, theirs in outcomes:
    if theirs is not None:
      raise failure or theirs
  return [item for items, _ in outcomes for item in items]


def same(work: Callable[[], T]) -> T:
  """The result of this process, once the same work of all has succeeded.

  Raises:
    AgentrlError: as the first process that failed; it is raised in all.
    Interrupted: one of them was asked to stop.
  """
  results: list[T] = []

  def keep() -> list[T]:
    results.append(work())
    return []

  gather(keep)
  return results[0]


def interrupted(loop: EventLoop) -> bool:
  """True if any process was asked to stop; all have to call this together."""
  if distributed.anywhere(loop.interrupted):
    loop.interrupted = True
  return loop.interrupted


def check(loop: EventLoop) -> None:
  """Raises Interrupted in all processes if one was asked to stop."""
  if interrupted(loop):
    raise Interrupted(loop.asked)


@contextlib.contextmanager
def together(
    workdir: pathlib.Path, environ: Mapping[str, str]
) -> Iterator[None]:
  """Tells that another process is gone as what it is.

  A collective that fails for it raises the error here. Where nothing fails, for
  half a minute, this process is ended, and the same words are its last.

  Args:
    workdir: of the run, for the way on.
    environ: variables of this process.

  Raises:
    ProcessLost: in place of whatever failed for want of another process.
  """
  again = lambda: f'Start all of them again: {workdir_lib.way_on(workdir)}'

  def lost(reason: str) -> ProcessLost:
    return ProcessLost(
        f'Another process of this run than {distributed.index()} is gone: see'
        f' what it said last ({reason}). {again()}'
    )

  def leave(error: ProcessLost) -> None:
    print(f'{type(error).__name__}: {error}', file=sys.stderr)
    ending.leave(2)

  def end() -> None:
    leave(lost('its connection was closed, and what needs it waits on'))

  def aborted() -> None:
    faulthandler.dump_traceback()
    leave(
        ProcessLost(
            f'A library aborts process {distributed.index()} of this run: see'
            ' what it says above. JAX does so where the clock of a machine is'
            f' set back, or forward by more than 100 s. {again()}'
        )
    )

  host, _, _ = (ranks.find(environ).coordinator or '').rpartition(':')
  processes: dict[str, Any] = dict(
      aborted=aborted,
      index=distributed.index(),
      count=distributed.count(),
      share=distributed.share,
  )
  try:
    with peers.watched(host or None, end, **processes):
      yield
  except Exception as error:
    reason = distributed.lost(error)
    if reason is None:
      raise
    raise lost(reason) from error
