"""The config that a workdir keeps, so that the same command continues its run."""

import dataclasses
import datetime
import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import files
from agentrl.config import reading
from agentrl.config.build import MIXTURE
from agentrl.config.modes import flat
from agentrl.config.reading import read as read_config, usual
from agentrl.errors import CheckpointError, ConfigError
from agentrl.models.options import TINY
from agentrl.runtime import workdir as workdir_lib

# How environments are reached, and what is waited for: no episode that is valid
# changes with it.
_FREE_REACHING = (
    'env.url',
    'env.token_file',
    'env.retry_s',
    'env.timeout_s',
    'env.workers',
    'rollout.concurrency',
    'rollout.deadline_s',
    'rollout.attempts',
    'rollout.max_failed_share',
)
# More steps, other checkpoints, another panel or mesh and less memory continue
# the same run, wherever its programs are kept. A panel that the horizon follows
# does not.
_FREE = (
    *_FREE_REACHING,
    'compile_cache',
    'num_steps',
    'num_tokens',
    'checkpoint.',
    'eval.',
    'sampler.',
    'mesh.',
    'model.remat',
    'optim.max_tokens',
    'track.',
)
# Of those, what changes no episode; a server's flags may, where it runs does not.
_FREE_PLAYING = (
    *(x for x in _FREE if x != 'sampler.'),
    *('sampler.urls', 'sampler.router'),
)
# Of an evaluation, what changes neither what is played nor by whom.
_FREE_EVALUATION = (
    *_FREE_REACHING,
    'compile_cache',
    'sampler.',
    'api.token_',
    'api.timeout_s',
    'api.attempts',
    'api.backoff_s',
    'api.max_wait_s',
    'api.price_',
    'eval.curves',
)
# By mode, checkpoints before that of its first step; others number the steps.
_STEPLESS = {'agentevol': 1}
_SHOWN = 8  # fields that an error names; an old run may differ in fifty
_MEMBER = re.compile(rf'{MIXTURE}\.\w+\.')  # of a mixture: as the run's own
# Fields of before that had one value which a run could have.
_GONE = (
    *('rollout.top_p', 'rollout.top_k', 'optim.warmup_steps', 'eval.every'),
    'model.attention',
)


def check(config: Mapping[str, Any], workdir: pathlib.Path) -> bool:
  """Refuses a workdir that holds another run than this one.

  Only a run that left something counts: a refused one has nothing that could
  be continued or lost.

  Args:
    config: of the run, from `config.record`.
    workdir: where it is to run.

  Returns:
    Whether what lies there is of this very run.

  Raises:
    ConfigError: fields differ that would make it another run; names the first
      of them. Or the config that is kept there cannot be read.
  """
  path = workdir / workdir_lib.CONFIG
  fields = reading.leaves_of(config).keys() - {MIXTURE}  # a section of sections
  holds = _holds(workdir)
  if not path.exists():
    return holds
  try:
    old = flat(_kept(path), fields)
  except ConfigError:
    if holds:
      raise
    return False
  new = flat(config, fields)
  if old.get('mode', new['mode']) != new['mode']:
    old, new = ({'mode': side['mode']} for side in (old, new))
  else:
    _check_start(old, new, workdir, holds)
    # An older run's config lists what its file did: the rest was the default.
    defaults = usual(config)
    old, new = defaults | old, defaults | new
    # An old run was told another on each day; one that is open has the old one.
    if None in (old.get('agent.date'), new.get('agent.date')):
      old['agent.date'] = new['agent.date'] = None
  evaluates = config['mode'] == 'evaluate'
  free: tuple[str, ...] = _FREE_EVALUATION if evaluates else _FREE
  if any(_follows_evaluations(*item) for item in new.items()):
    free = tuple(start for start in free if start != 'eval.')
  names = new.keys() | {name for name in old if name not in _GONE}
  changed = [
      f'{name}={old.get(name)!r} (now {new.get(name)!r})'
      for name in sorted(names)
      if old.get(name) != new.get(name)
      and not _MEMBER.sub('', name).startswith(free)
  ]
  if changed and holds:
    more = len(changed) - _SHOWN
    raise ConfigError(
        f'{workdir} holds a run with {", ".join(changed[:_SHOWN])}'
        + (f' and {more} more that differ' if more > 0 else '')
        + '; use another --workdir, or to continue leave out what sets the new'
        f' values: the old ones stand in {path}.'
    )
  _check_steps(config, workdir)
  return not changed


def playing(config: Mapping[str, Any]) -> dict[str, Any]:
  """The fields that may decide how a run's policy plays, by their paths.

  Those of the panel are left out.

  Args:
    config: of the run, from `config.record`.
  """
  fields = reading.leaves_of(config).keys() - {MIXTURE}
  return {
      name: value
      for name, value in flat(config, fields).items()
      if not _MEMBER.sub('', name).startswith(_FREE_PLAYING)
  }


def _check_start(
    old: dict[str, Any], new: dict[str, Any], workdir: pathlib.Path, holds: bool
) -> None:
  """Takes two paths of one model for the same, and names one that is missing.

  What a model brings along is unknown without it: without this check, all of
  that would be said to differ.
  """
  before, now = old.get('model.name'), new.get('model.name')
  if not (isinstance(before, str) and isinstance(now, str)) or before == now:
    return
  if _is_same_path(before, now):
    new['model.name'] = before
  elif holds and os.path.isabs(before) and not os.path.exists(now):
    raise ConfigError(
        f'There is no model.name={now!r} in {pathlib.Path.cwd()}, and the run'
        f' in {workdir} started from {before}: name that, or use another'
        ' --workdir.'
    )


def _is_same_path(one: str, other: str) -> bool:
  return os.path.realpath(one) == os.path.realpath(other)


def _check_steps(config: Mapping[str, Any], workdir: pathlib.Path) -> None:
  """Refuses fewer steps than are done: the rest cannot be taken back."""
  last = workdir_lib.last_checkpoint(workdir)
  if last is None or 'num_steps' not in config:
    return
  done = int(last.name) - _STEPLESS.get(config['mode'], 0)
  if config['num_steps'] < done:
    raise ConfigError(
        f'{workdir} holds a run that has done {done} steps, more than'
        f' num_steps={config["num_steps"]}: go on with num_steps={done} or'
        ' more, or use another --workdir.'
    )


def lengthened(config: Mapping[str, Any], workdir: pathlib.Path) -> str:
  """A message on how added steps change the learning rate; '' for no change.

  Args:
    config: of the run, from `config.record`, that was checked.
    workdir: where it goes on, whose config is still that of before.
  """
  path = workdir / workdir_lib.CONFIG
  schedule = config.get('optim', {}).get('schedule', 'constant')
  last = workdir_lib.last_checkpoint(workdir)
  if last is None or schedule == 'constant' or not path.exists():
    return ''
  before, now = _kept(path).get('num_steps'), config.get('num_steps')
  if not before or not now or before == now:
    return ''
  return (
      f'The {schedule} learning rate was to reach 0 at step {before} and does'
      f' at step {now} now: it goes on from step {last.name}'
      f' {"higher" if now > before else "lower"} than it was.'
  )


def date(config: Any, workdir: pathlib.Path) -> str:
  """The day that chat templates of a run are told, as YYYY-MM-DD.

  That of its config, or else of the workdir, which keeps that of the first
  start: a run that goes on tomorrow has the same prompts. Else today.

  Args:
    config: of a mode in which a policy plays.
    workdir: where it is to run.

  Raises:
    ConfigError: the config that is kept there cannot be read.
  """
  day = config.agent.date
  path = workdir / workdir_lib.CONFIG
  if day is None and _holds(workdir) and path.exists():
    day = _kept(path).get('agent', {}).get('date')
  return day or datetime.date.today().isoformat()


def with_date(config: Any, date: str) -> Any:
  """A config that leaves `agent.date` open, with this one; else as it was."""
  if config.agent.date is not None:
    return config
  agent = dataclasses.replace(config.agent, date=date)
  return dataclasses.replace(config, agent=agent)


def keep(config: Mapping[str, Any], workdir: pathlib.Path) -> None:
  """Writes the config of a run that has been checked, for who continues it."""
  path = workdir / workdir_lib.CONFIG
  name = config.get('model', {}).get('name')
  if name and _is_local(name):  # it means the same from any folder
    name = str(pathlib.Path(name).absolute())
    config = {**config, 'model': {**config['model'], 'name': name}}
  data = f'{json.dumps(config, indent=2, sort_keys=True)}\n'.encode()
  # Asked for at every checkpoint, whose own errors speak of a full disk better.
  if path.is_file() and path.read_bytes() == data:
    return
  files.write_whole(path, data)  # other processes may be reading the old one


def _kept(path: pathlib.Path) -> dict[str, Any]:
  try:
    return workdir_lib.read_record(path)
  except CheckpointError as error:
    raise ConfigError(f'{error} Else use another --workdir.') from error


def _is_local(model: str) -> bool:
  """True for a path of a run or model, not for a name that is known anywhere."""
  return model not in TINY and os.path.exists(model)


def start_is_gone(model: str, workdir: pathlib.Path) -> bool:
  """True if the run in a workdir started from a local model that is not there.

  Args:
    model: its name, as the config has it now.
    workdir: of the run, whose config is kept.
  """
  if os.path.exists(model):
    return False
  path = workdir / workdir_lib.CONFIG
  kept = workdir_lib.read_record(path) if path.exists() else {}
  name = kept.get('model', {}).get('name')
  return bool(name) and os.path.isabs(name) and _is_same_path(name, model)


def trained_with(model: str | None) -> dict[str, Any] | None:
  """The sections that a model was trained with, where it keeps them.

  Args:
    model: a name; workdirs of runs, their checkpoints and folders that were
      exported have them.

  Raises:
    CheckpointError: the file cannot be read.
  """
  if model is None:
    return None
  run = workdir_lib.run_of(model)
  if run is not None:
    return workdir_lib.read_record(run[0] / workdir_lib.CONFIG)
  exported = pathlib.Path(model) / workdir_lib.EXPORTED
  return workdir_lib.read_record(exported) if exported.is_file() else None


def read(config: ConfigDict, workdir: str | None = None) -> Any:
  """The checked config; what a run brings is that of `config.model.name`.

  Args:
    config: of the mode.
    workdir: of a run that may go on there without the model that it started
      from; what that brought stands in its own config.
  """
  name = config.model.name
  run = trained_with(name)
  if run is None and workdir and isinstance(name, str):
    directory = pathlib.Path(workdir)
    if start_is_gone(name, directory):
      run = workdir_lib.read_record(directory / workdir_lib.CONFIG)
  return read_config(config, run)


def _follows_evaluations(name: str, value: Any) -> bool:
  """True for the field of a horizon that the panel then decides about."""
  return _MEMBER.sub('', name) == 'horizon.metric' and value != 'rollout'


def _holds(workdir: pathlib.Path) -> bool:
  """True if a run has left something there that would be lost."""
  return (
      workdir_lib.last_checkpoint(workdir) is not None
      or _has_lines(workdir / 'metrics.jsonl')
      or any((workdir / 'episodes' / 'eval').glob('*/*.jsonl'))
  )


def _has_lines(path: pathlib.Path) -> bool:
  return path.exists() and path.stat().st_size > 0
