"""`summary.json` of a run: how far it came, why it ended, how to go on.

Each run that ends by itself leaves one, whatever ends it; one that is killed leaves
none, and one that goes on removes that of its interrupted process.
"""

import contextlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from agentrl import files
from agentrl.errors import CheckpointError, DivergedError
from agentrl.runtime import starts, workdir as workdir_lib
from agentrl.runtime.event_loop import Interrupted

FILE = 'summary.json'
# Its `status`: at the end of the run, by a signal, by an error.
FINISHED, STOPPED, FAILED = 'finished', 'stopped', 'failed'
_MOST = 2000  # characters of a reason


def write(workdir: pathlib.Path, values: Mapping[str, Any]) -> pathlib.Path:
  """Writes a summary, whole or not at all; returns its path.

  Args:
    workdir: of the run.
    values: JSON values; without a `status` the run has finished.
  """
  path = workdir / FILE
  text = json.dumps({'status': FINISHED, **values}, indent=2)
  files.write_whole(path, f'{text}\n')  # who goes on reads evaluations there
  return path


def read(workdir: pathlib.Path) -> dict[str, Any]:
  """The summary of a run; {} where it has none (yet).

  Raises:
    CheckpointError: it is damaged.
  """
  path = workdir / FILE
  return workdir_lib.read_record(path) if path.exists() else {}


def finished(values: Mapping[str, Any]) -> bool:
  """True if this summary is of a run that reached its end; {} is of none.

  Earlier versions wrote a summary at the end alone, without a status.
  """
  return bool(values) and values.get('status', FINISHED) == FINISHED


def withdraw(workdir: pathlib.Path) -> None:
  """Removes the summary of an interrupted process: the run goes on."""
  with contextlib.suppress(CheckpointError):  # the run's end writes it anew
    values = read(workdir)
    if values and not finished(values):
      (workdir / FILE).unlink()


def leave(
    workdir: pathlib.Path,
    error: BaseException,
    values: Mapping[str, Any],
    *,
    go_on: str | None = None,
) -> None:
  """Writes the summary of a run that ends before its last step.

  A finished run that is started again, and interrupted before it does a step,
  stays finished. A disk that takes no file is no second error: what ended the
  run is said anyhow.

  Args:
    workdir: of the run; no checkpoint is being written any more.
    error: that ends the run.
    values: how far it came: `mode`, `steps` and more, JSON values.
    go_on: the way on; None: that of a run with checkpoints.
  """
  by_signal = isinstance(error, (Interrupted, KeyboardInterrupt))
  reason = str(error) if by_signal else f'{type(error).__name__}: {error}'
  if go_on is None:
    diverged = isinstance(error, DivergedError)
    way = workdir_lib.way_out if diverged else workdir_lib.way_on
    go_on = way(workdir)
  last = workdir_lib.last_checkpoint(workdir)
  with contextlib.suppress(OSError):
    try:
      before = read(workdir)
    except CheckpointError:
      before = {}
    if finished(before) and before.get('steps', 0) >= values['steps']:
      return
    write(
        workdir,
        {
            'status': STOPPED if by_signal else FAILED,
            **values,
            'reason': reason[:_MOST] or 'a signal',
            'checkpoint': None if last is None else int(last.name),
            'go_on': go_on,
            'command': starts.command(),
        },
    )
