"""Cells as jobs of a cluster, through submitit.

Jobs outlive the command that submitted them; the same command waits for those
that still run. A job whose time is over saves, and is queued again.
"""

import json
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import submitit
from submitit.slurm.slurm import SlurmExecutor, SlurmJob

from agentrl.errors import ConfigError
from experiments.sweeps import local
from experiments.sweeps.cells import Cell

# In place of submitit's five minutes. The signal comes this long before the end:
# time for a step to end and a checkpoint to be written.
_MINUTES = 24 * 60
_SIGNAL_DELAY_S = 300

_JOBS = 'jobs'  # folder of submitit's files
_IDS = 'jobs.json'  # cell -> job id
_POLL_S = 1.0


class Training:
  """A run as a job; submitit calls `checkpoint` before it ends the job."""

  def __init__(self, command: Sequence[str], log: str):
    self._command, self._log = tuple(command), log
    self._child = None

  def __call__(self) -> str:
    """How the run ended."""
    self._child = local.start(self._command, pathlib.Path(self._log))
    while (ending := self._child.ending(_POLL_S)) is None:
      pass
    self._child.hang_up()
    return ending

  def checkpoint(self) -> submitit.helpers.DelayedSubmission:
    """Lets the run save; gives the job that continues it."""
    local.interrupt(self._child)
    while self._child.ending(_POLL_S) is None:
      pass
    self._child.hang_up()
    return submitit.helpers.DelayedSubmission(
        Training(self._command, self._log)
    )


def executor(
    kind: str, out: pathlib.Path, jobs: int, options: Mapping[str, Any]
) -> submitit.Executor:
  """What submits the cells of a sweep.

  Args:
    kind: 'slurm', or 'local' for submitit's executor of this machine, which
      starts all cells at once.
    out: folder of the sweep, which all machines share.
    jobs: tasks of the array at a time.
    options: submitit's parameters of Slurm.

  Raises:
    ConfigError: there is no such cluster, or an option is unknown.
  """
  if kind == 'local':
    found = submitit.LocalExecutor(out / _JOBS)
    found.update_parameters(
        timeout_min=_MINUTES, signal_delay_s=_SIGNAL_DELAY_S
    )
    return found
  try:
    found = SlurmExecutor(out / _JOBS)
  except RuntimeError as error:
    raise ConfigError(
        f'--cluster=slurm: {error} Start it where sbatch is, or look at the'
        ' file with --show.'
    ) from error
  _update(found, out, jobs, options)
  return found


def train(
    cells: Sequence[Cell], out: pathlib.Path, executor: submitit.Executor
) -> list[str]:
  """Submits the cells, waits, and returns the reason of each that failed.

  Args:
    cells: unfinished ones.
    out: folder of the sweep.
    executor: by `executor`.
  """
  jobs = going(cells, out, executor)
  for name, job in jobs.items():
    print(f'{name}: job {job.job_id} of before goes on', flush=True)
  new = [cell for cell in cells if cell.name not in jobs]
  if new:
    with executor.batch():
      submitted = [executor.submit(_training(cell, out)) for cell in new]
    for cell, job in zip(new, submitted, strict=True):
      jobs[cell.name] = job
      print(f'{cell.name}: job {job.job_id}', flush=True)
    ids = _read(out) | {name: job.job_id for name, job in jobs.items()}
    (out / _IDS).write_text(json.dumps(ids, indent=2) + '\n')
  try:
    return _wait(jobs, out)
  except KeyboardInterrupt:
    return ['Jobs go on. The same command waits for them.']


def script(
    cells: Sequence[Cell],
    out: pathlib.Path,
    jobs: int,
    options: Mapping[str, Any],
) -> str:
  """The sbatch file of these cells, also where there is no Slurm.

  Raises:
    ConfigError: an option is unknown.
  """

  class Writer(SlurmExecutor):

    @classmethod
    def affinity(cls) -> int:
      return 2  # it submits nothing

  writer = Writer(out / _JOBS)
  _update(writer, out, jobs, options)
  if len(cells) > 1:
    writer.parameters['map_count'] = len(cells)
  return writer._make_submission_file_text(writer._submitit_command_str, '')


def _update(
    executor: SlurmExecutor,
    out: pathlib.Path,
    jobs: int,
    options: Mapping[str, Any],
) -> None:
  defaults = dict(
      time=_MINUTES,
      signal_delay_s=_SIGNAL_DELAY_S,
      job_name=out.name,
      array_parallelism=jobs,
  )
  try:
    executor.update_parameters(**defaults | dict(options))
  except (TypeError, ValueError) as error:
    said = ' '.join(str(error).split())
    raise ConfigError(f'--slurm cannot be used: {said}') from error


def _training(cell: Cell, out: pathlib.Path) -> Training:
  return Training(cell.command(out / cell.name), str(out / f'{cell.name}.log'))


def _read(out: pathlib.Path) -> dict[str, str]:
  path = out / _IDS
  return json.loads(path.read_text()) if path.exists() else {}


def going(
    cells: Sequence[Cell], out: pathlib.Path, executor: submitit.Executor
) -> dict[str, submitit.Job]:
  """Jobs of an earlier command that are queued or run; none of this machine."""
  if not isinstance(executor, SlurmExecutor):
    return {}
  ids = _read(out)
  jobs = {
      cell.name: SlurmJob(out / _JOBS, ids[cell.name])
      for cell in cells
      if cell.name in ids
  }
  return {
      name: job for name, job in jobs.items() if not job.done(force_check=True)
  }


def _wait(jobs: Mapping[str, submitit.Job], out: pathlib.Path) -> list[str]:
  reasons, left = [], dict(jobs)
  while left:
    for name, job in list(left.items()):
      if job.done():
        del left[name]
        reasons += _reason(name, job, out)
    time.sleep(_POLL_S if left else 0)
  return reasons


def _reason(name: str, job: submitit.Job, out: pathlib.Path) -> list[str]:
  """Why a job failed; empty if it did not."""
  log = out / f'{name}.log'
  try:
    ending = job.result()
  except Exception as error:  # of another process, and so of any kind
    first = str(error).strip().splitlines() or ['no reason is given']
    return [f'{name}: job {job.job_id} failed: {first[0]} ({log})']
  if ending == 'ended with exit code 0':
    print(f'{name}: done', flush=True)
    return []
  return [f'{name} {ending}: {local.last_line(log)} ({log})']
