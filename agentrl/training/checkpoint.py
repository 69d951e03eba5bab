"""Checkpoints: Orbax over TensorStore, and the host's bookkeeping beside it.

A checkpoint is everything a resume needs (invariant 12): the train state, the
reference parameters when there are any, and a JSON record of the host's side
(task cursor, horizon state, policy version, evaluations so far).
"""

import json
import pathlib
from typing import Any

import jax
import orbax.checkpoint as ocp

from agentrl.errors import CheckpointError

# Orbax reports a failed write as one of these: the file system's own errors,
# and TensorStore's status turned into a ValueError.
_WRITE_ERRORS = (OSError, ValueError, RuntimeError)


class Checkpoints:
  """Numbered checkpoints in a directory; the newest `keep` are kept.

  Number n is the state after n rl steps; 0 is the state that the first rl step
  starts from.
  """

  def __init__(self, directory: pathlib.Path, *, keep: int = 2):
    self._directory = directory.absolute()
    try:
      self._manager = ocp.CheckpointManager(
          self._directory,
          options=ocp.CheckpointManagerOptions(max_to_keep=keep, create=True),
      )
    except OSError as error:
      raise CheckpointError(
          f'Cannot use {self._directory} for checkpoints: {error}.'
      ) from error

  @property
  def latest(self) -> int | None:
    """The newest complete checkpoint's number."""
    return self._manager.latest_step()

  def save(
      self, number: int, items: dict[str, Any], host: dict[str, Any]
  ) -> None:
    """Saves in the background; `wait` tells whether it worked.

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
    try:
      self._manager.save(
          number,
          args=ocp.args.Composite(
              **{k: ocp.args.StandardSave(v) for k, v in items.items()},
              host=ocp.args.JsonSave(host),
          ),
      )
    except _WRITE_ERRORS as error:
      raise self._failed(number, error) from error

  def wait(self) -> None:
    """Returns once the last save is on disk; CheckpointError if it is not."""
    try:
      self._manager.wait_until_finished()
      self._manager.check_for_errors()
    except _WRITE_ERRORS as error:
      raise self._failed(None, error) from error

  def host(self, number: int | None = None) -> dict[str, Any]:
    """The host's record of a checkpoint, without its arrays."""
    number = self._number(number)
    try:
      restored = self._manager.restore(
          number, args=ocp.args.Composite(host=ocp.args.JsonRestore())
      )
    except (OSError, ValueError, KeyError) as error:
      raise CheckpointError(
          f'Checkpoint {number} in {self._directory} cannot be read: {error}'
      ) from error
    return restored['host']

  def restore(
      self, like: dict[str, Any], number: int | None = None
  ) -> dict[str, Any]:
    """Items of a checkpoint; those that are not asked for are not read.

    Args:
      like: trees of `jax.ShapeDtypeStruct` with shardings by item name: the
        shapes and places wanted.
      number: which; None takes the newest.

    Raises:
      CheckpointError: there is none, it is damaged, or its tree or shapes are
        those of another model.
    """
    number = self._number(number)
    try:
      restored = self._manager.restore(
          number,
          args=ocp.args.Composite(
              **{k: ocp.args.StandardRestore(v) for k, v in like.items()}
          ),
      )
    except (OSError, ValueError, KeyError, TypeError) as error:
      raise CheckpointError(
          f'Checkpoint {number} in {self._directory} does not fit this model'
          f' or is damaged: {error}'
      ) from error
    items = {name: restored[name] for name in like}
    jax.tree.map(self._check_shape, like, items)
    return items

  def close(self) -> None:
    self._manager.close()

  def _number(self, number: int | None) -> int:
    number = self.latest if number is None else number
    if number is None:
      raise CheckpointError(f'There is no checkpoint in {self._directory}.')
    return number

  def _check_shape(self, wanted, found):
    if wanted.shape != found.shape:
      raise CheckpointError(
          f'A checkpoint in {self._directory} holds an array of shape'
          f' {found.shape} where this model has {wanted.shape}.'
      )

  def _failed(self, number: int | None, error: Exception) -> CheckpointError:
    which = 'The last checkpoint' if number is None else f'Checkpoint {number}'
    reason = str(error).strip().splitlines() or [repr(error)]
    return CheckpointError(
        f'{which} could not be written to {self._directory}: {reason[0]}.'
        f' Checkpoint {self.latest} is intact; free some space and start the'
        ' same command again.'
    )
