"""What a run keeps, so that the same command continues it (invariant 12)."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import config as config_lib, metrics
from agentrl.data import episodes
from agentrl.errors import CheckpointError, ConfigError

_CONFIG = 'config.json'
# In an exported folder: how the policy was asked.
EXPORTED = 'agentrl.json'
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
# Fields of before that had one value which a run could have.
_GONE = ('rollout.top_p', 'rollout.top_k', 'optim.warmup_steps', 'eval.every')


def check_config(config: Mapping[str, Any], workdir: pathlib.Path) -> bool:
  """Refuses a workdir that holds another run than this one.

  Only a run that left something counts: a refused one has nothing that could
  be continued or lost.

  Args:
    config: of the run, from `config.record`.
    workdir: where it is to run.

  Returns:
    Whether what lies there is of this very run.

  Raises:
    ConfigError: fields differ that would make it another run; names them all.
      Or the config that is kept there cannot be read.
  """
  path = workdir / _CONFIG
  last = last_checkpoint(workdir)
  holds = last is not None or _has_lines(workdir / 'metrics.jsonl')
  if not path.exists():
    return holds
  try:
    old = config_lib.flat(read_record(path))
  except CheckpointError as error:
    if not holds:
      return False
    raise ConfigError(f'{error} Put it back, or use another --workdir.') from (
        error
    )
  new = config_lib.flat(config)
  # An older run's config lists what its file did: the rest was the default.
  old = config_lib.usual(config) | old
  names = new.keys() | {name for name in old if name not in _GONE}
  changed = [
      f'{name}={old.get(name)!r} (now {new.get(name)!r})'
      for name in sorted(names)
      if old.get(name) != new.get(name) and not name.startswith(_FREE)
  ]
  if changed and holds:
    raise ConfigError(
        f'{workdir} holds a run with {", ".join(changed)}; use another'
        ' --workdir, or the old values to continue.'
    )
  return not changed


def keep_config(config: Mapping[str, Any], workdir: pathlib.Path) -> None:
  """Writes the config of a run that has been checked, for who continues it."""
  path = workdir / _CONFIG
  # At once: other processes may be reading the old one.
  partial = path.with_name(path.name + '.new')
  text = json.dumps(config, indent=2, sort_keys=True)
  partial.write_text(f'{text}\n', encoding='utf-8')
  partial.replace(path)


def read_record(path: pathlib.Path) -> dict[str, Any]:
  """The JSON object in a file that a run keeps in its workdir.

  Raises:
    CheckpointError: it is missing or torn.
  """
  try:
    found = json.loads(path.read_text(encoding='utf-8'))
  except OSError as error:
    reason = error.strerror
  except (ValueError, RecursionError) as error:
    reason = f'it is not JSON ({error})'
  else:
    if isinstance(found, dict):
      return found
    reason = 'it is no JSON object'
  raise CheckpointError(f'{path} of a run cannot be read: {reason}.')


def split(name: str) -> tuple[pathlib.Path, int | None] | None:
  """The run that `name` means, and the number of its checkpoint.

  Args:
    name: workdir of a training run, or one of its checkpoints/N.

  Returns:
    The workdir, and N or None; None where `name` is neither.
  """
  path, number = pathlib.Path(name), None
  if path.parent.name == 'checkpoints' and path.name.isdecimal():
    path, number = path.parent.parent, int(path.name)
  return (path, number) if (path / 'checkpoints').is_dir() else None


def trained_with(model: str | None) -> dict[str, Any] | None:
  """The sections that a model was trained with, where it keeps them.

  Args:
    model: a name; workdirs of runs, their checkpoints/N and folders that were
      exported have them.

  Raises:
    CheckpointError: the file cannot be read.
  """
  if model is None:
    return None
  run = split(model)
  if run is not None:
    return read_record(run[0] / 'config.json')
  exported = pathlib.Path(model) / EXPORTED
  return read_record(exported) if exported.is_file() else None


def read(config: ConfigDict) -> Any:
  """The checked config; what a run brings is that of `config.model.name`."""
  return config_lib.read(config, trained_with(config.model.name))


def last_checkpoint(workdir: pathlib.Path) -> pathlib.Path | None:
  """The newest complete checkpoint of the run in this workdir."""
  # One that is being written has another name until it is complete.
  found = (workdir / 'checkpoints').glob('*')
  found = [path for path in found if path.name.isdecimal()]
  return max(found, key=lambda path: int(path.name), default=None)


def way_on(workdir: pathlib.Path) -> str:
  """What an interrupted run says last."""
  last = last_checkpoint(workdir)
  if last is not None:
    return f'The same command continues from the last checkpoint, {last}.'
  return 'There was no checkpoint yet: the same command begins anew.'


def way_out(workdir: pathlib.Path) -> str:
  """What a run that diverged says last."""
  last = last_checkpoint(workdir)
  if last is not None:
    return (
        f'Go on from the last checkpoint, {last}, with a lower learning rate:'
        f' another --workdir, with --config.model.name={workdir}.'
    )
  return 'There was no checkpoint yet: begin anew with a lower learning rate.'


def _has_lines(path: pathlib.Path) -> bool:
  return path.exists() and path.stat().st_size > 0


def discard_from(workdir: pathlib.Path, step: int) -> int:
  """Sets aside what was recorded of `step` and later: it is played again.

  Returns:
    How many lines of metrics.
  """
  episodes.discard_from(workdir / 'episodes' / 'train', step)
  return metrics.discard_from(workdir / 'metrics.jsonl', step)
