"""The rank of this process, from the variables of the launcher."""

import dataclasses
import re
from collections.abc import Callable, Mapping

from agentrl.errors import ConfigError

_PORT = 29500  # of MASTER_ADDR, as torchrun has it
# torchrun's; a child process is not a rank of the run.
VARIABLES = (
    *('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE'),
    *('MASTER_ADDR', 'MASTER_PORT'),
)
# Kubernetes' name for the number of a pod in an indexed Job, as those of a JobSet.
_POD = 'JOB_COMPLETION_INDEX'
# Ports by the number of a job, as JAX has them: Linux gives 32768 to 60999 to
# connections, so these are rarely taken.
_JOB_PORTS = 1 << 12
_FIRST_JOB_PORT = (1 << 16) - _JOB_PORTS


@dataclasses.dataclass(frozen=True)
class Rank:
  """This process among those of the run.

  Attributes:
    count: processes.
    index: this one's number.
    coordinator: `host:port` of process 0; None: there is one process.
    local: this one's number on its machine, where that has several: it uses
      the device of this number. None: all devices of the machine that it sees.
  """

  count: int = 1
  index: int = 0
  coordinator: str | None = None
  local: int | None = None


Environ = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class _Launcher:
  """The variables in which a launcher says which process this is."""

  count: str
  index: str
  local: str
  local_count: Callable[[Environ], int]
  coordinator: Callable[[Environ], str | None]  # without MASTER_ADDR


def find(environ: Environ) -> Rank:
  """The rank of this process, from the variables of its launcher.

  Known are `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` (torchrun's
  names, which Kubernetes' training operators set and anybody can), Slurm's step
  (`srun`) and Open MPI's `mpirun`. In a pod of an indexed Job, as those of a
  JobSet, `RANK` may be left out. With Slurm and Open MPI, `MASTER_ADDR` and
  `MASTER_PORT` take the place of the address that follows from their variables.

  A process that is alone on its machine uses all devices there. JAX's own
  detection of Slurm and Open MPI would give it the first alone.

  Raises:
    ConfigError: they are incomplete or contradict each other.
  """
  step = _step(environ)
  if not environ.get('WORLD_SIZE'):
    if environ.get('RANK'):
      raise ConfigError(
          f'RANK={environ["RANK"]} is set and WORLD_SIZE is not; set it to the'
          ' number of processes, or unset RANK.'
      )
    return Rank() if step is None else _of(step, environ)
  count = _number(environ, 'WORLD_SIZE')
  if count < 1:
    raise ConfigError(f'WORLD_SIZE={count} is no number of processes.')
  if step is not None:
    _check_nested(count, step, environ)
  return Rank() if count == 1 else _of(_TORCHRUN, environ)


def _step(environ: Environ) -> _Launcher | None:
  """The launcher that started several processes, if it was srun or mpirun."""
  # A batch script outside of srun is one process, whatever was allocated.
  for launcher in (_SLURM, _OPEN_MPI):
    if _number(environ, launcher.count) > 1:
      return launcher
  return None


def _of(launcher: _Launcher, environ: Environ) -> Rank:
  count = _number(environ, launcher.count)
  named = launcher.index
  if launcher is _TORCHRUN and not environ.get(named):
    named = _POD
  if not environ.get(named):
    raise ConfigError(
        f'{launcher.count}={count} asks for several processes, but'
        f' {launcher.index} is not set; set {launcher.index} (0 to'
        f' {count - 1}), MASTER_ADDR and MASTER_PORT in each, or unset'
        f' {launcher.count}.'
    )
  index = _number(environ, named)
  if index >= count:
    raise ConfigError(f'{named}={index} is not below {launcher.count}={count}.')
  local = None
  # Where Slurm binds one GPU to each task, that is its number 0.
  bound = _devices(environ) == 1
  if launcher.local_count(environ) > 1 and not bound:
    local = _number(environ, launcher.local, 0)
  return Rank(count, index, _coordinator(launcher, environ), local)


def _coordinator(launcher: _Launcher, environ: Environ) -> str:
  """Where process 0 listens.

  Raises:
    ConfigError: no variable says so.
  """
  found = launcher.coordinator(environ)
  address, port = environ.get('MASTER_ADDR'), environ.get('MASTER_PORT')
  host, _, usual = (found or f':{_PORT}').rpartition(':')
  host = address or host
  if not host:
    count = _number(environ, launcher.count)
    raise ConfigError(
        f'{launcher.count}={count} asks for several processes, but MASTER_ADDR'
        ' is not set; set it to the host of process 0, or unset'
        f' {launcher.count}.'
    )
  number = _number(environ, 'MASTER_PORT') if port else int(usual)
  if not 0 < number < 1 << 16:
    raise ConfigError(f'MASTER_PORT={port} is no port.')
  return f'{host}:{number}'


def _check_nested(count: int, step: _Launcher, environ: Environ) -> None:
  """Refuses torchrun's variables that contradict those of srun or mpirun.

  torchrun, started by srun once a machine, starts more processes than srun and
  numbers them itself.

  Raises:
    ConfigError: they cannot both be true.
  """
  tasks, index = _number(environ, step.count), environ.get(step.index)
  if count < tasks:
    raise ConfigError(
        f'WORLD_SIZE={count} contradicts {step.count}={tasks}: unset'
        f' WORLD_SIZE, RANK and MASTER_ADDR to have {tasks} processes, or start'
        f' {count}.'
    )
  by_torchrun = bool(environ.get('LOCAL_RANK'))
  if count == tasks and not by_torchrun and environ.get('RANK') != index:
    raise ConfigError(
        f'RANK={environ.get("RANK")} contradicts {step.index}={index}: is it'
        ' exported for all tasks alike? Unset RANK and WORLD_SIZE.'
    )


def _slurm_local_count(environ: Environ) -> int:
  """Tasks on this machine, of a list such as `2(x3),1`."""
  text = environ.get('SLURM_STEP_TASKS_PER_NODE', '1')
  counts: list[int] = []
  for part in text.split(','):
    match = re.fullmatch(r'(\d+)(?:\(x(\d+)\))?', part)
    if match is None:
      raise ConfigError(
          f'SLURM_STEP_TASKS_PER_NODE={text!r} is no list such as 2(x3),1.'
      )
    counts += [int(match[1])] * int(match[2] or 1)
  node = _number(environ, 'SLURM_NODEID', 0)
  if node >= len(counts):
    raise ConfigError(
        f'SLURM_NODEID={node} is not in SLURM_STEP_TASKS_PER_NODE={text}.'
    )
  return counts[node]


def _slurm_coordinator(environ: Environ) -> str | None:
  """The first host of a list such as `gpu[003-006,9],login1`."""
  match = re.match(
      r'([^,\[]+)(?:\[(\w+))?', environ.get('SLURM_STEP_NODELIST', '')
  )
  if match is None:
    return None
  return (
      f'{match[1]}{match[2] or ""}:{_port_of(_number(environ, "SLURM_JOB_ID", 0))}'
  )


def _open_mpi_coordinator(environ: Environ) -> str | None:
  """The host of mpirun, where it starts process 0; Open MPI 5 does not say."""
  match = re.match(
      r'(\d+)\.\d+;tcp://([^,:]+)', environ.get('OMPI_MCA_orte_hnp_uri', '')
  )
  if match is None:
    return None
  return f'{match[2]}:{_port_of(int(match[1]) // _JOB_PORTS)}'


def _port_of(job: int) -> int:
  return _FIRST_JOB_PORT + job % _JOB_PORTS


def _devices(environ: Environ) -> int:
  """The devices in CUDA_VISIBLE_DEVICES; 0 where it is not set."""
  names = environ.get('CUDA_VISIBLE_DEVICES', '').split(',')
  return len([name for name in names if name.strip()])


def _number(environ: Environ, name: str, default: int = 1) -> int:
  text = environ.get(name, '')
  if text and not text.isdecimal():
    raise ConfigError(f'{name}={text!r} is not a number.')
  return int(text) if text else default


_TORCHRUN = _Launcher(
    'WORLD_SIZE',
    'RANK',
    'LOCAL_RANK',
    lambda environ: _number(environ, 'LOCAL_WORLD_SIZE'),
    lambda environ: None,
)
_SLURM = _Launcher(
    'SLURM_STEP_NUM_TASKS',
    'SLURM_PROCID',
    'SLURM_LOCALID',
    _slurm_local_count,
    _slurm_coordinator,
)
_OPEN_MPI = _Launcher(
    'OMPI_COMM_WORLD_SIZE',
    'OMPI_COMM_WORLD_RANK',
    'OMPI_COMM_WORLD_LOCAL_RANK',
    lambda environ: _number(environ, 'OMPI_COMM_WORLD_LOCAL_SIZE'),
    _open_mpi_coordinator,
)
