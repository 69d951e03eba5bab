"""What a run keeps, so that the same command continues it (invariant 12)."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import metrics
from agentrl.data import episodes
from agentrl.errors import CheckpointError, ConfigError
from agentrl.models.config import TransformerConfig
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.state import TrainState

# More steps, other checkpoints, another panel, mesh or kernel continue the same
# run, wherever its programs are kept.
_FREE = (
    'compile_cache',
    'num_steps',
    'checkpoint.',
    'eval.',
    'env.url',
    'env.retry_s',
    'sampler.',
    'mesh.',
    'model.attention',
)


def keep_config(
    config: ConfigDict, path: pathlib.Path, *, write: bool = True
) -> None:
  """Writes the config, or checks that a resumed run has the same one.

  Args:
    config: of the run.
    path: where it is kept.
    write: whether it is this process that writes.

  Raises:
    ConfigError: a field differs that would make it another run.
  """
  text = config.to_json_best_effort(indent=2, sort_keys=True)
  if path.exists():
    old, new = (_flat(json.loads(t)) for t in (path.read_text(), text))
    changed = [
        name
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and not name.startswith(_FREE)
    ]
    if changed:
      name = changed[0]
      raise ConfigError(
          f'{path.parent} holds a run with {name}={old.get(name)!r}, this'
          f' config has {new.get(name)!r}; use another --workdir, or the old'
          ' value to continue.'
      )
  if write:
    # At once: other processes may be reading the old one.
    partial = path.with_name(path.name + '.new')
    partial.write_text(text)
    partial.replace(path)


def _flat(tree: dict[str, Any], prefix: str = '') -> dict[str, Any]:
  flat = {}
  for key, value in tree.items():
    if isinstance(value, dict):
      flat |= _flat(value, f'{prefix}{key}.')
    else:
      flat[prefix + key] = value
  return flat


def check_model(
    found: Mapping[str, Any], ours: TransformerConfig, place: str
) -> None:
  """Refuses a checkpoint of another architecture, whatever its arrays fit.

  Args:
    found: fields of a `TransformerConfig`, in the checkpoint.
    ours: of this run.
    place: of the checkpoint, for the message.

  Raises:
    CheckpointError: they differ.
  """
  theirs = TransformerConfig(**found)
  for field in dataclasses.fields(TransformerConfig):
    then, now = getattr(theirs, field.name), getattr(ours, field.name)
    if then != now:
      raise CheckpointError(
          f'{place} is of a model with {field.name}={then!r}, and model.name is'
          f' now one with {now!r}: put the model back that the run began with,'
          ' or use another --workdir.'
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
  # Apart, so that whoever serves or evaluates reads the parameters alone.
  items = {
      'params': state.params,
      'optimizer': {'step': state.step, 'opt_state': state.opt_state},
  }
  if state.critic is not None:
    items['critic'] = state.critic
  if ref_params is not None:
    items['ref_params'] = ref_params
  checkpoints.save(host['books']['step'], items, host)


def restore(
    checkpoints: Checkpoints, like: TrainState, *, reference: bool
) -> tuple[TrainState, Any, dict[str, Any]]:
  """The newest checkpoint: train state, reference parameters, host's record.

  Args:
    checkpoints: of the run; holds one at least.
    like: the wanted shapes and places, see `state.abstract`.
    reference: whether the run has reference parameters; None without them.
  """
  host = checkpoints.host()
  items = {
      'params': like.params,
      'optimizer': {'step': like.step, 'opt_state': like.opt_state},
  }
  if like.critic is not None:
    items['critic'] = like.critic
  if reference:
    items['ref_params'] = like.params
  items = checkpoints.restore(items)
  state = TrainState(
      params=items['params'], critic=items.get('critic'), **items['optimizer']
  )
  return state, items.get('ref_params'), host


def discard_from(workdir: pathlib.Path, step: int) -> int:
  """Sets aside what was recorded of `step` and later: it is played again.

  Returns:
    How many lines of metrics.
  """
  episodes.discard_from(workdir / 'episodes' / 'train', step)
  return metrics.discard_from(workdir / 'metrics.jsonl', step)
