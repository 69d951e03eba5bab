"""A run of several processes: who they are, and what they decide together.

Every process runs the whole mode with the devices of its own; arrays span them
all. Each plays its share of the episodes, and all get all of them, so that what
is computed of them on the host is the same everywhere. What is written once, by
process 0, goes through `is_first`.
"""

import dataclasses
import pickle
from collections.abc import Callable, Mapping
from typing import TypeVar

from agentrl.errors import AgentrlError, ConfigError
from agentrl.modes.host import Host, Interrupted
from agentrl.parallel import distributed

T = TypeVar('T')
_PORT = 29500  # of MASTER_ADDR, as torchrun has it
# torchrun's; what a process starts is not one of the run's.
VARIABLES = (
    *('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE'),
    *('MASTER_ADDR', 'MASTER_PORT'),
)


@dataclasses.dataclass(frozen=True)
class Place:
  """This process among those of the run.

  Attributes:
    count: processes.
    index: this one's number; None: the launcher tells JAX.
    coordinator: `host:port` of process 0; None: the launcher tells JAX.
    local: this one's number on its machine, where that has several: it uses
      the device of this number. None: all devices of the machine.
  """

  count: int = 1
  index: int | None = None
  coordinator: str | None = None
  local: int | None = None


def find(environ: Mapping[str, str]) -> Place:
  """Where this process stands, from the variables of who launched it.

  Known are `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` (torchrun's
  names, which Kubernetes' training operators set and anybody can), Slurm's step
  (`srun`) and Open MPI's `mpirun`.

  Raises:
    ConfigError: they are incomplete or contradict each other.
  """
  count = _number(environ, 'WORLD_SIZE')
  if count > 1:
    missing = [k for k in ('RANK', 'MASTER_ADDR') if not environ.get(k)]
    if missing:
      raise ConfigError(
          f'WORLD_SIZE={count} asks for several processes, but'
          f' {" and ".join(missing)} is not set; set RANK (0 to {count - 1}),'
          ' MASTER_ADDR and MASTER_PORT in each, or unset WORLD_SIZE.'
      )
    index = _number(environ, 'RANK')
    if index >= count:
      raise ConfigError(f'RANK={index} is not below WORLD_SIZE={count}.')
    port = _number(environ, 'MASTER_PORT', _PORT)
    several = _number(environ, 'LOCAL_WORLD_SIZE') > 1
    return Place(
        count,
        index,
        f'{environ["MASTER_ADDR"]}:{port}',
        _number(environ, 'LOCAL_RANK', 0) if several else None,
    )
  # A batch script outside of srun is one process, whatever was allocated.
  for name in ('SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE'):
    if _number(environ, name) > 1:
      return Place(_number(environ, name))
  return Place()


def _number(environ: Mapping[str, str], name: str, default: int = 1) -> int:
  text = environ.get(name, '')
  if text and not text.isdecimal():
    raise ConfigError(f'{name}={text!r} is not a number.')
  return int(text) if text else default


def join(environ: Mapping[str, str], mode: str, *, ready: bool) -> None:
  """Connects the processes of a run, if there are several.

  Args:
    environ: variables of this process.
    mode: its name.
    ready: whether the mode can run in several.

  Raises:
    ConfigError: it cannot, or they do not find each other.
  """
  place = find(environ)
  if place.count == 1:
    return
  if not ready:
    raise ConfigError(
        f'mode={mode!r} runs in one process, and this is one of {place.count}'
        ' (WORLD_SIZE, Slurm or Open MPI says so). Start it once; only the'
        ' modes that learn span several.'
    )
  try:
    distributed.initialize(
        place.coordinator,
        None if place.index is None else place.count,
        place.index,
        local_device_ids=None if place.local is None else [place.local],
    )
  except (RuntimeError, ValueError) as error:
    reason = str(error).strip().splitlines()[-1]
    raise ConfigError(
        f'The {place.count} processes of this run did not find each other'
        f' (coordinator {place.coordinator or "found by JAX"}): {reason}'
    ) from error


def together(work: Callable[[], list[T]]) -> list[T]:
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


def alike(work: Callable[[], T]) -> T:
  """What the work of this process gave, where all do the same.

  Raises:
    AgentrlError: as the first process that failed; it is raised in all.
    Interrupted: one of them was asked to stop.
  """
  results = []
  together(lambda: results.append(work()) or [])
  return results[0]


def interrupted(host: Host) -> bool:
  """Whether any process was asked to stop; all have to ask this."""
  if b'1' in distributed.share(b'1' if host.interrupted else b'0'):
    host.interrupted = True
  return host.interrupted


def check(host: Host) -> None:
  """Raises Interrupted in all processes if one was asked to stop."""
  if interrupted(host):
    raise Interrupted
