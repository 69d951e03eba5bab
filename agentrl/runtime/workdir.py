"""The workdir of a run: where it is, and the files that others find in it."""

import errno
import json
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

from agentrl import files
from agentrl.errors import CheckpointError, ConfigError

CONFIG = 'config.json'
BEST = 'best'  # beside numbered checkpoints, the number of one of them
# A file that finds no room: the disk is full, over quota, or the file too large.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# A file that cannot be written: of these, or on a disk that is read-only.
FULL = (*NO_ROOM, errno.EROFS)
# In an exported folder: how the policy was asked.
EXPORTED = 'agentrl.json'


def make(workdir: str | None) -> pathlib.Path:
  """The directory of a run, which exists and can be written.

  Raises:
    ConfigError: it was not given, or cannot be used.
  """
  if not workdir:
    raise ConfigError('This mode needs a directory: --workdir=runs/NAME')
  path = pathlib.Path(workdir).absolute()
  try:
    path.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=path).close()
  except OSError as error:
    raise ConfigError(
        f'Cannot write to --workdir={workdir}: {error}'
    ) from error
  return path


def read_record(path: pathlib.Path) -> dict[str, Any]:
  """The JSON object in a file that a run keeps in its workdir.

  Raises:
    CheckpointError: it is missing or torn.
  """
  try:
    record = json.loads(path.read_text(encoding='utf-8'))
  except OSError as error:
    reason = error.strerror
  except (ValueError, RecursionError) as error:
    reason = f'it is not JSON ({error})'
  else:
    if isinstance(record, dict):
      return record
    reason = 'it is no JSON object'
  raise CheckpointError(
      f'{path} of a run cannot be read: {reason}. Put the file back.'
  )


def run_of(name: str) -> tuple[pathlib.Path, int | None] | None:
  """The run that `name` means, and the number of its checkpoint.

  Args:
    name: workdir of a training run, or one of its checkpoints/N, or
      checkpoints/best.

  Returns:
    The workdir, and N or None; None where `name` is neither.

  Raises:
    CheckpointError: the run names no best checkpoint.
  """
  path, number = pathlib.Path(name), None
  if path.parent.name == 'checkpoints' and path.name == BEST:
    number = best_checkpoint(path.parent)
    if number is None and path.parent.is_dir():
      raise CheckpointError(
          f'{path} names no checkpoint: the run was not trained with'
          ' checkpoint.keep_best=True. Name one of its checkpoints/N.'
      )
    path = path.parent.parent
  elif path.parent.name == 'checkpoints' and path.name.isdecimal():
    path, number = path.parent.parent, int(path.name)
  return (path, number) if (path / 'checkpoints').is_dir() else None


def check_checkpoint(workdir: pathlib.Path, number: int | None) -> None:
  """Refuses a checkpoint that a run does not have; see `check_number`.

  Raises:
    CheckpointError: there is none of this number, or none at all.
  """
  # Without Orbax, which would ask jax for its devices.
  paths = (workdir / 'checkpoints').glob('*')
  numbers = sorted(int(path.name) for path in paths if path.name.isdecimal())
  check_number(numbers, workdir, number)


def check_number(
    numbers: Sequence[int], workdir: pathlib.Path, number: int | None
) -> None:
  """Refuses a checkpoint that is not among those of a run.

  Args:
    numbers: of the complete ones.
    workdir: of the run.
    number: of the wanted one; None: any will do.

  Raises:
    CheckpointError: there is none of this number, or none at all.
  """
  if not numbers:
    raise CheckpointError(
        f'{workdir} holds a run without a complete checkpoint; let it run'
        ' longer.'
    )
  if number is not None and number not in numbers:
    raise CheckpointError(
        f'{workdir} has no checkpoint {number}; known:'
        f' {", ".join(map(str, numbers))}.'
    )


def best_checkpoint(checkpoints: pathlib.Path) -> int | None:
  """The number in the file `best` of a run's checkpoints; None: there is none.

  Raises:
    CheckpointError: it has no number.
  """
  path = checkpoints / BEST
  try:
    text = path.read_text(encoding='utf-8').strip()
  except FileNotFoundError:
    return None
  except (OSError, ValueError) as error:
    raise CheckpointError(f'{path} cannot be read: {error}.') from error
  if not text.isdecimal():
    raise CheckpointError(
        f'{path} has {text!r:.80} in place of the number of a checkpoint;'
        ' remove it, or write the number.'
    )
  return int(text)


def name_best(checkpoints: pathlib.Path, number: int) -> None:
  """Writes the file `best` of a run's checkpoints, whole or not at all.

  Raises:
    CheckpointError: it cannot be written.
  """
  path = checkpoints / BEST
  try:
    files.write_whole(path, f'{number}\n')
  except FileNotFoundError as error:
    raise CheckpointError(
        f'{checkpoints} was deleted while the run wrote to it.'
    ) from error
  except OSError as error:
    raise CheckpointError(f'{path} cannot be written: {error}.') from error


def last_checkpoint(workdir: pathlib.Path) -> pathlib.Path | None:
  """The newest complete checkpoint of the run in this workdir."""
  # One that is being written has another name until it is complete.
  entries = (workdir / 'checkpoints').glob('*')
  checkpoints = [path for path in entries if path.name.isdecimal()]
  return max(checkpoints, key=lambda path: int(path.name), default=None)


def way_on(workdir: pathlib.Path) -> str:
  """The advice that an interrupted run ends with."""
  last = last_checkpoint(workdir)
  if last is not None:
    return f'The same command continues from the last checkpoint, {last}.'
  return 'There was no checkpoint yet: the same command begins anew.'


def unwritten(workdir: pathlib.Path, error: Exception) -> str | None:
  """The last words of a run whose disk takes no file.

  Args:
    workdir: of the run.
    error: that ends it.

  Returns:
    What failed, what is lost, and the way on; None: it is another error.
  """
  cause: BaseException | None = error
  while cause is not None:
    if isinstance(cause, OSError) and cause.errno in FULL:
      return (
          f'{str(error).rstrip(".")}. The run ends here and loses nothing up to'
          ' its last checkpoint; later steps are done again. Mend the disk'
          f' first. {way_on(workdir)}'
      )
    cause = cause.__cause__
  return None


def way_out(workdir: pathlib.Path) -> str:
  """The advice that a diverged run ends with."""
  last = last_checkpoint(workdir)
  if last is not None:
    return (
        f'Go on from the last checkpoint, {last}, with a lower learning rate:'
        f' another --workdir, with --config.model.name={workdir}.'
    )
  return 'There was no checkpoint yet: begin anew with a lower learning rate.'
