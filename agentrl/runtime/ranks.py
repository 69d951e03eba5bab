"""The rank of this process, from the variables of the launcher."""

import dataclasses
from collections.abc import Mapping

from agentrl.errors import ConfigError

_PORT = 29500  # of MASTER_ADDR, as torchrun has it
# torchrun's; a child process is not a rank of the run.
VARIABLES = (
    *('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE'),
    *('MASTER_ADDR', 'MASTER_PORT'),
)


@dataclasses.dataclass(frozen=True)
class Rank:
  """This process among those of the run.

  Attributes:
    count: processes.
    index: this one's number; None: JAX gets it from the launcher.
    coordinator: `host:port` of process 0; None: JAX gets it from the launcher.
    local: this one's number on its machine, where that has several: it uses
      the device of this number. None: all devices of the machine.
  """

  count: int = 1
  index: int | None = None
  coordinator: str | None = None
  local: int | None = None


def find(environ: Mapping[str, str]) -> Rank:
  """The rank of this process, from the variables of its launcher.

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
    return Rank(
        count,
        index,
        f'{environ["MASTER_ADDR"]}:{port}',
        _number(environ, 'LOCAL_RANK', 0) if several else None,
    )
  # A batch script outside of srun is one process, whatever was allocated.
  for name in ('SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE'):
    if _number(environ, name) > 1:
      return Rank(_number(environ, name))
  return Rank()


def _number(environ: Mapping[str, str], name: str, default: int = 1) -> int:
  text = environ.get(name, '')
  if text and not text.isdecimal():
    raise ConfigError(f'{name}={text!r} is not a number.')
  return int(text) if text else default
