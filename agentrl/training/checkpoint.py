"""Checkpoints: Orbax over TensorStore, and the host's bookkeeping beside it.

A checkpoint is everything a resume needs (invariant 12): the train state, the
reference parameters when there are any, and a JSON record of the host's side
(task cursor, horizon state, policy version, evaluations so far). Checksums of
its files are the last thing written before it is renamed into place, and are
checked before anything of it is used.
"""

import asyncio
import dataclasses
import json
import logging
import os
import pathlib
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from concurrent import futures
from typing import Any, Self

import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as managers

from agentrl.errors import CheckpointError, is_lack_of_memory
from agentrl.models.config import TransformerConfig
from agentrl.parallel import distributed
from agentrl.runtime import workdir as workdir_lib
from agentrl.training import checksums
from agentrl.training.state import TrainState

# Orbax reports a failed write as one of these: the file system's own errors,
# and TensorStore's status turned into a ValueError.
_WRITE_ERRORS = (OSError, ValueError, RuntimeError)
# And an unusable one as one of these: no such step or item, another tree or
# shape, a file that cannot be parsed.
_READ_ERRORS = (OSError, ValueError, KeyError, TypeError)
# Of a failed write, where the machine has no memory left, for a thread perhaps.
_TEMPORARY = '.orbax-checkpoint-tmp'  # ends the name of an unfinished folder
_ASK_AGAIN_S = 0.05


def _is_ours(record: logging.LogRecord) -> bool:
  """False for Orbax's tracebacks: their errors are raised here, in one line."""
  return not (record.exc_info and 'orbax' in record.pathname)


class _TemporaryPath(ocp.path.atomicity.AtomicRenameTemporaryPath):
  """A folder that gets the checksums of its items and then its final name.

  So a kill leaves no checkpoint without them. Orbax uses the class for the
  folders of the items too, which lie in one that is still temporary.
  """

  async def finalize(self) -> None:
    if not self.get_final().parent.name.endswith(_TEMPORARY):
      await asyncio.to_thread(checksums.write, pathlib.Path(self.get()))
    await super().finalize()


@dataclasses.dataclass(frozen=True)
class _Chosen:
  """Orbax's interface to the choice of checkpoints that are kept."""

  stays: Callable[[int], bool]

  def should_preserve(self, checkpoints, *, context):
    del context
    return [self.stays(checkpoint.step) for checkpoint in checkpoints]


class Checkpoints:
  """Numbered checkpoints in a directory; the newest `keep` are kept.

  Number n is the state after n rl steps; 0 is the state that the first rl step
  starts from. The one that `keep_best` names is kept beside them, and the file
  `best` in the directory names it.
  """

  def __init__(self, directory: pathlib.Path, *, keep: int = 2):
    self._directory = directory.absolute()
    logging.getLogger('absl').addFilter(_is_ours)
    try:
      self._manager = ocp.CheckpointManager(
          self._directory,
          options=ocp.CheckpointManagerOptions(
              preservation_policy=managers.AnyPreservationPolicy(
                  [managers.LatestN(keep), _Chosen(self._stays)]
              ),
              create=True,
              # In the background its failure would be the caller's at once, and
              # the writers would wait for the folder for twenty minutes.
              async_options=ocp.AsyncOptions(
                  create_directories_asynchronously=False
              ),
              temporary_path_class=_TemporaryPath,
          ),
      )
    except OSError as error:
      raise CheckpointError(
          f'Cannot use {self._directory} for checkpoints: {error}.'
      ) from error
    self._named = workdir_lib.best_checkpoint(self._directory)
    self._best = self._named  # to be named once it is complete
    self._began = False  # a save

  @property
  def latest(self) -> int | None:
    """The newest checkpoint's number; one that is being written counts."""
    return self._manager.latest_step()

  @property
  def numbers(self) -> list[int]:
    """The numbers of all complete checkpoints, ascending."""
    return sorted(self._manager.all_steps())

  def save(
      self, number: int, items: dict[str, Any], host: dict[str, Any]
  ) -> None:
    """Saves in the background; `wait` raises if it failed.

    Args:
      number: rl steps done.
      items: trees of `jax.Array` by name; each can be restored alone. They are
        copied out before this returns, so the next train step may donate them.
      host: JSON values.

    Raises:
      CheckpointError: this write or the one before it failed. Older
        checkpoints stay loadable.
    """
    json.dumps(host)  # a value that is no JSON is our bug: fail here, loudly
    self._meet()
    self._began = True
    try:
      started = self._manager.save(
          number,
          args=ocp.args.Composite(
              **{k: ocp.args.StandardSave(v) for k, v in items.items()},
              host=ocp.args.JsonSave(host),
          ),
      )
    except _WRITE_ERRORS as error:
      raise self._failed(number, error) from error
    if not started:
      raise CheckpointError(
          f'Checkpoint {number} was not written: {self._directory} holds'
          f' checkpoint {self.latest} already; is another run using it?'
      )

  def wait(self) -> None:
    """Returns once the last save is on disk; CheckpointError if it is not."""
    self._meet()
    self._wait()

  def _meet(self) -> None:
    """Returns once the last save of every process has ended, well or not.

    Orbax lets its threads wait for those of the other processes, which for one
    that is gone takes until JAX aborts this process, within 100 s. A collective
    fails at once.
    """
    if not self._began or distributed.count() == 1:
      return
    waiter = futures.ThreadPoolExecutor(1)
    ended = waiter.submit(self._manager.wait_until_finished)
    waiter.shutdown(wait=False)
    while distributed.anywhere(not ended.done()):
      time.sleep(_ASK_AGAIN_S)

  def _wait(self) -> None:
    try:
      self._manager.wait_until_finished()
      self._manager.check_for_errors()
    except _WRITE_ERRORS as error:
      raise self._failed(None, error) from error
    self._name_best()

  def keep_best(self, number: int) -> None:
    """Has `best` name this checkpoint, or once it is complete.

    Until then the one that is named now stays: a kill leaves no name without a
    checkpoint.

    Raises:
      CheckpointError: the last save failed, or `best` cannot be written.
    """
    self.wait()
    self._best = number
    self._name_best()

  def _name_best(self) -> None:
    """Writes `best`, if it is to name another; no save is under way."""
    if self._best != self._named and self._best in self.numbers:
      if distributed.is_first():
        workdir_lib.name_best(self._directory, self._best)
      self._named = self._best

  def _stays(self, number: int) -> bool:
    return number in (self._named, self._best)

  def host(self, number: int | None = None) -> dict[str, Any]:
    """The host's record of a checkpoint, without its arrays.

    Raises:
      CheckpointError: there is none, or it is damaged.
    """
    return self._read(number, host=ocp.args.JsonRestore())['host']

  def restore(
      self, like: dict[str, Any], number: int | None = None
  ) -> dict[str, Any]:
    """Items of a checkpoint; those that are not asked for are not read.

    Args:
      like: trees of `jax.ShapeDtypeStruct` with shardings by item name: the
        shapes and shardings to restore to.
      number: which; None takes the newest.

    Raises:
      CheckpointError: there is none, it is damaged, or its tree or shapes are
        those of another model.
    """
    args = {name: ocp.args.StandardRestore(x) for name, x in like.items()}
    return self._read(number, **args)

  def __enter__(self) -> Self:
    return self

  def __exit__(
      self, kind: Any, error: BaseException | None, trace: Any
  ) -> None:
    """Waits for the last save, but for one that another process has left."""
    if error is None:
      self._meet()  # after an error the others are elsewhere
    elif distributed.lost(error):
      return
    try:
      self._wait()
    finally:
      self._manager.close()

  def close(self) -> None:
    """Waits for the last save; CheckpointError if it is not on disk."""
    self.__exit__(None, None, None)

  def _read(self, number: int | None, **args: Any) -> dict[str, Any]:
    number = self.latest if number is None else number
    if number is None:
      raise CheckpointError(f'There is no checkpoint in {self._directory}.')
    self._check(number, args)
    try:
      items = self._manager.restore(number, args=ocp.args.Composite(**args))
    except Exception as error:
      # Orbax wraps what is wrong with an array's data in a bare Exception.
      if type(error) is Exception:
        raise self._unreadable(number, error.__cause__) from error
      if isinstance(error, _READ_ERRORS):
        raise self._unreadable(number, error) from error
      raise
    return {name: items[name] for name in args}

  def _check(self, number: int, items: Collection[str]) -> None:
    """Refuses a checkpoint whose files are not as they were written."""
    directory = self._directory / str(number)
    if not directory.is_dir():
      return  # Orbax says so
    if not checksums.exist(directory):
      # Only earlier versions wrote one without.
      logging.getLogger('absl').warning(
          'Checkpoint %d in %s has no checksums: damage to it would not show.',
          *(number, self._directory),
      )
      return
    damage = checksums.find_damage(directory, items)
    if damage is not None:
      older = [x for x in self.numbers if x < number]
      way_out = (
          f'Remove {directory} to go on from checkpoint {older[-1]}'
          if older
          else 'There is no older one: begin again with another --workdir'
      )
      raise CheckpointError(
          f'Checkpoint {number} in {self._directory} is damaged: {damage}.'
          f' {way_out}.'
      )

  def _unreadable(
      self, number: int, error: BaseException | None
  ) -> CheckpointError:
    # Orbax goes on with advice about its own options.
    reason = str(error).partition('. ')[0].partition('\nIf this')[0]
    reason = ' '.join(reason.split()).strip('\'".')
    return CheckpointError(
        f'Checkpoint {number} in {self._directory} is damaged or is not of this'
        f' model: {reason}. Use the config that wrote it, or remove'
        f' {self._directory / str(number)} to go on from an older one.'
    )

  def _failed(self, number: int | None, error: Exception) -> CheckpointError:
    for partial in self._directory.glob(f'*{_TEMPORARY}*'):
      shutil.rmtree(partial, ignore_errors=True)  # it takes the space needed
    self._manager.reload()  # what failed is no longer a checkpoint
    which = 'The last checkpoint' if number is None else f'Checkpoint {number}'
    reason = _why_not_written(error)
    rest = (
        'There is no older one'
        if self.latest is None
        else f'Checkpoint {self.latest} is intact'
    )
    return CheckpointError(
        f'{which} could not be written to {self._directory}: {reason}. {rest};'
        f' {_remedy(reason)} and start the same command again.'
    )


def save(
    checkpoints: Checkpoints,
    state: TrainState,
    ref_params: Any,
    host: dict[str, Any],
) -> None:
  """Starts a checkpoint of the arrays and of the host's record.

  Args:
    checkpoints: of the run.
    state: after step `host['books']['step']`.
    ref_params: of the reference policy, or None.
    host: JSON values.
  """
  checkpoints.save(host['books']['step'], _items(state, ref_params), host)


def restore(
    checkpoints: Checkpoints, like: TrainState, *, reference: bool
) -> tuple[TrainState, Any]:
  """The train state and the reference parameters of the newest checkpoint.

  Args:
    checkpoints: of the run; holds one at least.
    like: shapes and shardings to restore to, see `state.abstract`.
    reference: whether the run has reference parameters; None without them.
  """
  items = checkpoints.restore(_items(like, like.params if reference else None))
  state = TrainState(
      params=items['params'], critic=items.get('critic'), **items['optimizer']
  )
  return state, items.get('ref_params')


def _items(state: TrainState, ref_params: Any) -> dict[str, Any]:
  """Trees by name, apart: serving and evaluation read `params` alone."""
  items = {
      'params': state.params,
      'optimizer': {'step': state.step, 'opt_state': state.opt_state},
      'critic': state.critic,
      'ref_params': ref_params,
  }
  return {name: tree for name, tree in items.items() if tree is not None}


def shape_of(workdir: pathlib.Path, number: int | None) -> TransformerConfig:
  """The shape of a run's policy; asks jax for no device.

  Args:
    workdir: of the run.
    number: of a checkpoint that it has; None: the newest.

  Raises:
    CheckpointError: it cannot be read.
  """
  folder = workdir_lib.last_checkpoint(workdir)
  if number is not None:
    folder = workdir / 'checkpoints' / f'{number}'
  assert folder is not None  # a run without a checkpoint was refused before
  return TransformerConfig(
      **workdir_lib.read_record(folder / 'host' / 'metadata')['model']
  )


def check_model(
    fields: Mapping[str, Any], ours: TransformerConfig, place: str
) -> None:
  """Refuses a checkpoint of another architecture, even if its arrays fit.

  Args:
    fields: fields of a `TransformerConfig`, in the checkpoint.
    ours: of this run.
    place: of the checkpoint, for the message.

  Raises:
    CheckpointError: they differ.
  """
  theirs = TransformerConfig(**fields)
  for field in dataclasses.fields(TransformerConfig):
    then, now = getattr(theirs, field.name), getattr(ours, field.name)
    if then != now:
      raise CheckpointError(
          f'{place} is of a model with {field.name}={then!r}, and model.name is'
          f' now one with {now!r}: put the model back that the run began with,'
          ' or use another --workdir.'
      )


def _remedy(reason: str) -> str:
  """The remedy for a failed write, by the system's reason."""
  no_room = map(os.strerror, workdir_lib.NO_ROOM)
  if any(words in reason for words in no_room):
    return 'free some space'
  if is_lack_of_memory(reason):
    return 'free some memory'
  return 'make that a folder which can be written to'


def _why_not_written(error: Exception) -> str:
  """The system's own words ("No space left on device")."""
  if isinstance(error, OSError) and error.strerror:
    return error.strerror
  lines = str(error).strip().splitlines() or [repr(error)]
  # TensorStore's status names every file on the way; the cause comes last.
  reason = lines[0].rpartition(': ')[2].partition(' [os_error')[0]
  return re.sub(r'^\[Errno \d+\] ', '', reason)  # an OSError as a text
