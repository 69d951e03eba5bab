"""`config.json` and `summary.json` of a run, checked for the shape that runs write.

A folder of runs may hold anybody's files: what pages index into is checked here,
once.
"""

import functools
import json
import pathlib
from collections.abc import Container, Mapping
from typing import Any

import msgspec

from agentrl.errors import DataError
from agentrl.evaluation.workdirs import files, folders
from agentrl.runtime import summary as summary_lib, workdir

_MOST_BYTES = 2**22  # of either file; runs write some kB


class _Named(msgspec.Struct):
  name: str | None = None


class _Env(msgspec.Struct):
  name: str | None = None
  options: dict[str, Any] = {}


class _Member(msgspec.Struct):
  env: _Env | None = None
  eval: dict[str, Any] | None = None
  agent: dict[str, Any] | None = None
  rollout: dict[str, Any] | None = None


class _Config(_Member):
  """The fields of a config that pages read."""

  mode: str | None = None
  seed: int | None = None
  num_steps: int | None = None
  model: _Named | None = None
  algo: _Named | None = None
  mixture: dict[str, _Member] | None = None


class _Summary(msgspec.Struct):
  """The fields of a summary that pages read."""

  mode: str | None = None
  status: str | None = None
  reason: str | None = None
  steps: int | None = None
  wall_s: float | None = None
  eval: dict[str, Any] = {}


def config(run: pathlib.Path) -> dict[str, Any]:
  """The config of a run; {} where it has none. It is shared: nobody changes it.

  Of an exported policy, the sections that it was exported with.

  Raises:
    DataError: it is damaged; names the field.
  """
  exported = (run / workdir.EXPORTED).is_file()
  name = workdir.EXPORTED if exported else workdir.CONFIG
  return _config(run / name, folders.stamp_of(run, (name,)))


# Lists of thousands of runs, groups of them and their evaluations all ask for it.
@functools.lru_cache(16_384)
def _config(path: pathlib.Path, stamp: tuple[Any, ...]) -> dict[str, Any]:
  del stamp  # another one where it was written anew
  return _read(path, _Config)


def summary(run: pathlib.Path) -> dict[str, Any]:
  """The summary of a run; {} where it has none (yet); see `runtime.summary`.

  Raises:
    DataError: it is damaged; names the field.
  """
  return _read(run / summary_lib.FILE, _Summary)


def env_sections(config: Mapping[str, Any]) -> list[dict[str, Any]]:
  """The environments of a run: `env` of each mixture member, or panel.

  Args:
    config: by `config`.
  """
  env = config.get('env') or {}
  if members := config.get('mixture'):
    return [env_of_member(config, name) for name in members]
  panels = (config.get('eval') or {}).get('panels')
  if not panels and ';' not in (env.get('name') or ''):
    return [env]
  # An evaluation of several environments has the options of each under its name.
  return [
      {'name': name, 'options': options}
      for name, options in env.get('options', {}).items()
      if isinstance(options, dict)
  ]


def env_of_member(config: Mapping[str, Any], member: str) -> dict[str, Any]:
  """`env` of a member of a mixture: its own values over those of the run.

  Another environment takes over no options; None is an environment's default.
  """
  whole = config.get('env') or {}
  own = config['mixture'][member].get('env') or {}
  env = {**whole, **own}
  options = dict(own.get('options', {}))
  if env.get('name') == whole.get('name'):
    options = {**whole.get('options', {}), **options}
  return env | {'options': {k: v for k, v in options.items() if v is not None}}


def env_options(
    config: Mapping[str, Any], names: Container[str]
) -> dict[str, Any]:
  """The options of an environment in a run; {}: the run has another one.

  Args:
    config: by `config`.
    names: of the environment, in episodes and in configs.

  Raises:
    DataError: members of a mixture play it under different ones.
  """
  first, *others = [
      section.get('options', {})
      for section in env_sections(config)
      if section.get('name') in names
  ] or [{}]
  if any(options != first for options in others):
    raise DataError(
        'Several members of this mixture play one environment under different'
        ' options, and its episodes do not say under which.'
    )
  return first


def section_in(
    config: Mapping[str, Any], section: str, names: Container[str]
) -> dict[str, Any]:
  """A section of a run where it plays an environment.

  That of the run, with the values of the first member of a mixture that plays it.

  Args:
    config: by `config`.
    section: `agent` or `rollout`.
    names: as `env_options` has them.
  """
  own = [
      member.get(section) or {}
      for name, member in (config.get('mixture') or {}).items()
      if env_of_member(config, name).get('name') in names
  ]
  return {**(config.get(section) or {}), **(own[0] if own else {})}


def known(read, run: pathlib.Path) -> dict[str, Any]:
  """`read(run)`, or {} where the file is damaged: for lists of many runs."""
  try:
    return read(run)
  except DataError:
    return {}


def _read(path: pathlib.Path, shape: type) -> dict[str, Any]:
  if not path.is_file():
    return {}
  try:
    content = _decode(files.read_whole(path, _MOST_BYTES))
    msgspec.convert(content, shape)
  except (ValueError, RecursionError) as error:  # msgspec's is a ValueError
    raise DataError(f'{path.name} of this run is damaged: {error}') from error
  return content


def _decode(data: bytes) -> Any:
  """The JSON of a file, which may hold NaN."""
  try:
    return msgspec.json.decode(data)  # three times as fast
  except msgspec.DecodeError:
    return json.loads(data)
