"""The checkpoint that a config names. Imports no jax."""

import pathlib

from agentrl.config.modes import Source
from agentrl.errors import CheckpointError, ConfigError
from agentrl.runtime import workdir as workdir_lib


def find(source: Source) -> tuple[pathlib.Path, int | None]:
  """The run that is meant, and the number of its checkpoint, if one is named.

  Raises:
    CheckpointError: there is no such run.
    ConfigError: path and step name different checkpoints.
  """
  location = workdir_lib.run_of(source.path)
  if location is None:
    raise CheckpointError(
        f'{source.path} is neither the workdir of a run that trains nor one of'
        ' its checkpoints/N or checkpoints/best.'
    )
  path, number = location
  if None not in (number, source.step) and number != source.step:
    raise ConfigError(
        f'checkpoint.path={source.path} is checkpoint {number}, and'
        f' checkpoint.step={source.step} another; leave one of them out.'
    )
  return path, source.step if number is None else number
