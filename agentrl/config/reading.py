"""From a ConfigDict to the dataclass of its mode, checked.

This is the only check of what a config says of one section; `modes` checks what
is about two, and `mixture` what is about members.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import envs, fields, plugins
from agentrl.algos import algorithm
from agentrl.algos.hyperparams import Grpo, Online
from agentrl.config import names
from agentrl.config.build import (
    MIXTURE,
    NAME,
    OPTION,
    OPTIONS,
    Leaf,
    check_mode,
    idle,
    leaves,
    owners,
    unknown,
)
from agentrl.config.modes import MODES
from agentrl.envs.options import EnvName
from agentrl.errors import ConfigError
from agentrl.fields import Meaning

_LONGEST_PATH = 1024
# They come along with a URL, the run's or another.
_OF_SERVERS = ('env.token_file', 'env.retry_s')


def read(config: ConfigDict, run: Mapping[str, Any] | None = None) -> Any:
  """The config as its mode's dataclass, checked: the only check there is.

  Args:
    config: from `defaults`, with what was chosen.
    run: the config of the run that it goes on from, as its workdir keeps it;
      it gives what a run brings and `config` leaves open.

  Raises:
    ConfigError: names the field, the value and the way out.
  """
  values = config.to_dict()
  mode = values.pop('mode', None)
  check_mode(mode)
  algo = values.get('algo')
  named = algo.get('name') if isinstance(algo, dict) else ''
  table = leaves(mode, named or '')
  chosen = _flat(values, '', mode, table, named or '')
  _bring(chosen, mode, run or {})
  chosen.setdefault(NAME, Grpo.name)
  chosen.setdefault('env.name', EnvName.name)
  result = _make(MODES[mode], chosen, '')
  _check_acting(result, result, '')
  result.check()
  return result


def replace_sections(config: Any, values: Mapping[str, Any]) -> Any:
  """A config that was read, with other sections, checked likewise.

  Args:
    config: by `read`.
    values: all that the new sections have, by their paths.

  Raises:
    ConfigError: names the field, the value and the way out.
  """
  values = dict(values)
  names = {path.partition('.')[0] for path in values}
  values.setdefault('env.name', EnvName.name)
  config = dataclasses.replace(
      config,
      **{
          name: _make(type(getattr(config, name)), values, f'{name}.')
          for name in names
      },
  )
  _check_acting(config, config, '')
  config.check()
  return config


def brought(mode: str, run: Mapping[str, Any]) -> dict[str, Any]:
  """Values that a run brings to a config of this mode, by their paths here."""
  values = {}
  for path, source in MODES[mode].BROUGHT.items():
    value: Any = run
    for part in source.split('.'):
      value = value.get(part) if isinstance(value, Mapping) else None
    if value is not None:
      values[path] = value
  return values


def _flat(
    values: Any, section: str, mode: str, table: Mapping[str, Leaf], algo: str
) -> dict[str, Any]:
  """Values by their paths; refuses names that the mode lacks."""
  inner = names.children(section, table)
  if section == 'env' and 'env.name' in table:
    inner.append('options')
  if not isinstance(values, Mapping):
    raise ConfigError(fields.no_section(section, values, inner))
  start = f'{section}.' if section else ''
  for name in values:
    # Options are checked with their environment.
    if name not in inner and section != OPTIONS:
      raise ConfigError(unknown(start + name, mode, algo))
  result: dict[str, Any] = {}
  for name, value in values.items():
    path, leaf = start + name, table.get(start + name)
    if leaf is None and section == OPTIONS:
      leaf = Leaf(path, Any, None, OPTION)
    if leaf is None:
      result |= _flat(value, path, mode, table, algo)
    elif value is not None or leaf.default is not None:
      result[path] = value  # else the default, which may be an algorithm's own
  return result


def _bring(values: dict[str, Any], mode: str, run: Mapping[str, Any]) -> None:
  """Fills what is open; an empty text stands for an explicit None."""
  from_run = brought(mode, run)
  if values.get('env.name') not in (None, from_run.get('env.name')):
    # Another environment than the run's has other servers, options and tasks.
    elsewhere = lambda path: path.startswith('env.') or path == 'eval.task_file'
    from_run = {path: x for path, x in from_run.items() if not elsewhere(path)}
  if values.get('eval.split'):  # in place of the run's file
    from_run.pop('eval.task_file', None)
  if values.get('eval.task_file') or from_run.get('eval.task_file'):
    from_run.pop('eval.split', None)  # which had no effect there
  for path in MODES[mode].BROUGHT:
    if path == OPTIONS:
      for name, value in from_run.get(path, {}).items():
        values.setdefault(f'{path}.{name}', value)
    elif values.get(path) == '':
      values[path] = None
    elif values.get(path) is None:
      values.pop(path, None)
      idle = path in _OF_SERVERS and not values.get('env.url')
      if path in from_run and not idle:
        values[path] = from_run[path]


def _make(cls: type, values: Mapping[str, Any], prefix: str) -> Any:
  """The dataclass of a section, checked unless it is a whole mode's."""
  arguments = {}
  for item in dataclasses.fields(cls):
    path, kind = prefix + item.name, item.type
    if kind is Online:
      kind = algorithm.hyperparams(values[NAME])
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
      arguments[item.name] = _make(kind, values, f'{path}.')
    elif path == OPTIONS:
      arguments[item.name] = _options(values)
    elif path in values:
      meaning = fields.meaning(item)
      value = fields.convert(path, values[path], kind, meaning)
      if meaning.file:
        value = _text(path, value, meaning)
      fields.check(path, value, meaning)
      arguments[item.name] = value
  section = cls(**arguments)
  if hasattr(section, 'check') and prefix:
    section.check()
  return section


def _text(path: str, value: str, meaning: Meaning) -> str:
  """The text of a file that a field names; a text itself stays as it is."""
  if value in meaning.one_of or plugins.is_own(value):
    return value
  file = pathlib.Path(value)
  is_path = '\n' not in value and len(value) < _LONGEST_PATH
  if not (is_path and file.is_file()):
    if is_path and len(value.split()) == 1 and '{' not in value:
      known = ', '.join(map(str, meaning.one_of))
      raise ConfigError(
          f'{path}={value!r} is no file, none of {known}, and no text.'
      )
    return value
  try:
    text = file.read_text(encoding='utf-8').strip()
  except (OSError, UnicodeDecodeError) as error:
    raise ConfigError(f'{path}={value}: {error}.') from error
  if not text:
    raise ConfigError(f'{path}={value} is an empty file.')
  return text


def _options(values: Mapping[str, Any]) -> dict[str, Any]:
  """Options of the chosen environment, its own defaults included."""
  start = f'{OPTIONS}.'
  options = {
      k[len(start) :]: v for k, v in values.items() if k.startswith(start)
  }
  for name, value in options.items():
    fields.check(start + name, value, OPTION)
  # Those of an environment from elsewhere are its own to check.
  if plugins.is_own(values['env.name']):
    return options
  spec = envs.get(values['env.name'])
  for name, value in options.items():
    if name not in spec.options and value is not None:
      path = start + name
      if others := owners(path):
        field = f'{path}={value!r}'
        raise ConfigError(idle(field, 'env.name', spec.name, others))
  return spec.check_options(options)


def _check_acting(config: Any, section: Any, prefix: str) -> None:
  """Refuses fields that were set although they cannot act (invariant 11)."""
  for item in dataclasses.fields(section):
    path, value = prefix + item.name, getattr(section, item.name)
    if dataclasses.is_dataclass(value):
      _check_acting(config, value, f'{path}.')
    elif value != fields.default(item):
      for act in fields.meaning(item).acts_if:
        if not act.test(config):
          raise ConfigError(f'{path}={value!r} has no effect: {act.reason}.')


def leaves_of(record: Mapping[str, Any]) -> dict[str, Leaf]:
  """The fields of a recorded config, by their paths."""
  section = lambda name: record.get(name) or {}
  return leaves(
      record['mode'],
      section('algo').get('name', ''),
      section('env').get('name') or '',
  )


def usual(record: Mapping[str, Any]) -> dict[str, Any]:
  """The defaults of a recorded config, by their paths, as JSON has them.

  They are what an older record of the same algorithm and environment means by
  a field that it lacks.
  """
  values = {path: leaf.default for path, leaf in leaves_of(record).items()}
  values.pop(MIXTURE, None)  # members have no defaults: the run's own values
  return json.loads(json.dumps(values))
