"""From a ConfigDict to the dataclass of its mode, checked.

This is the only check of what a config says of one section; `modes` checks what
is about two, and `mixture` what is about members.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import envs, fields
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
    leaves,
    leaves_of,
    unknown,
)
from agentrl.config.modes import MODES
from agentrl.envs import ENVS
from agentrl.envs.options import EnvName
from agentrl.errors import ConfigError

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
  known = leaves(mode, algo.get('name') if isinstance(algo, dict) else '')
  chosen = _flat(values, '', mode, known)
  _bring(chosen, mode, run or {})
  _check_owners(chosen, known)
  made = _make(MODES[mode], chosen, '')
  _check_acting(made, made, '')
  made.check()
  return made


def replace_sections(made: Any, values: Mapping[str, Any]) -> Any:
  """A config that was read, with other sections, checked likewise.

  Args:
    made: by `read`.
    values: all that the new sections have, by their paths.

  Raises:
    ConfigError: names the field, the value and the way out.
  """
  values = dict(values)
  names = {path.partition('.')[0] for path in values}
  _check_owners(values, leaves(made.mode))
  made = dataclasses.replace(
      made,
      **{
          name: _make(type(getattr(made, name)), values, f'{name}.')
          for name in names
      },
  )
  _check_acting(made, made, '')
  made.check()
  return made


def brought(mode: str, run: Mapping[str, Any]) -> dict[str, Any]:
  """Values that a run brings to a config of this mode, by their paths here."""
  found = {}
  for path, source in MODES[mode].BROUGHT.items():
    value: Any = run
    for part in source.split('.'):
      value = value.get(part) if isinstance(value, Mapping) else None
    if value is not None:
      found[path] = value
  return found


def _flat(
    values: Any, section: str, mode: str, known: Mapping[str, Leaf]
) -> dict[str, Any]:
  """Values by their paths; refuses names that the mode lacks."""
  inner = names.children(section, known)
  if not isinstance(values, Mapping):
    raise ConfigError(fields.no_section(section, values, inner))
  start = f'{section}.' if section else ''
  for name in values:
    # Options are checked with their environment.
    if name not in inner and section != OPTIONS:
      raise ConfigError(unknown(start + name, mode))
  found = {}
  for name, value in values.items():
    path, leaf = start + name, known.get(start + name)
    if leaf is None and section == OPTIONS:
      leaf = Leaf(path, Any, None, OPTION)
    if leaf is None:
      found |= _flat(value, path, mode, known)
    elif value is not None or leaf.default is not None:
      found[path] = value  # else the default, which may be an algorithm's own
  return found


def _bring(values: dict[str, Any], mode: str, run: Mapping[str, Any]) -> None:
  """Fills what is open; an empty text stands for an explicit None."""
  found = brought(mode, run)
  if values.get('env.name') not in (None, found.get('env.name')):
    # Another environment than the run's has other servers, options and tasks.
    elsewhere = lambda path: path.startswith('env.') or path == 'eval.task_file'
    found = {path: x for path, x in found.items() if not elsewhere(path)}
  for path in MODES[mode].BROUGHT:
    if path == OPTIONS:
      for name, value in found.get(path, {}).items():
        values.setdefault(f'{path}.{name}', value)
    elif values.get(path) == '':
      values[path] = None
    elif values.get(path) is None:
      values.pop(path, None)
      idle = path in _OF_SERVERS and not values.get('env.url')
      if path in found and not idle:
        values[path] = found[path]


def _check_owners(values: dict[str, Any], known: Mapping[str, Leaf]) -> None:
  """Refuses what another algorithm or environment has, if it was set."""
  algorithm.hyperparams(values.setdefault(NAME, Grpo.name))
  values.setdefault('env.name', EnvName.name)
  for path, value in values.items():
    leaf = known.get(path)
    if leaf is None or not leaf.owners or value == leaf.default:
      continue
    options = path.startswith(OPTIONS)
    chooser = 'env.name' if options else NAME
    name = values[chooser]
    # Options of an environment from elsewhere are its own to check.
    if name not in leaf.owners and (name in ENVS or not options):
      raise ConfigError(
          f'{path}={value!r} has no effect with {chooser}={name!r}; it acts in'
          f' {", ".join(leaf.owners)}.'
      )


def _make(cls: type, values: Mapping[str, Any], prefix: str) -> Any:
  """The dataclass of a section, checked unless it is a whole mode's."""
  made = {}
  for item in dataclasses.fields(cls):
    path, kind = prefix + item.name, item.type
    if dataclasses.is_dataclass(kind):
      kind = algorithm.hyperparams(values[NAME]) if kind is Online else kind
      made[item.name] = _make(kind, values, f'{path}.')
    elif path == OPTIONS:
      made[item.name] = _options(values)
    elif path in values:
      meaning = fields.meaning(item)
      value = fields.convert(path, values[path], kind, meaning)
      fields.check(path, value, meaning)
      made[item.name] = value
  made = cls(**made)
  if hasattr(made, 'check') and prefix:
    made.check()
  return made


def _options(values: Mapping[str, Any]) -> dict[str, Any]:
  """Options of the chosen environment, its own defaults included."""
  start = f'{OPTIONS}.'
  given = {k[len(start) :]: v for k, v in values.items() if k.startswith(start)}
  for name, value in given.items():
    fields.check(start + name, value, OPTION)
  name = values['env.name']
  return envs.get(name).check_options(given) if name in ENVS else given


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


def usual(record: Mapping[str, Any]) -> dict[str, Any]:
  """The defaults of a recorded config, by their paths, as JSON has them.

  They are what an older record of the same algorithm and environment means by
  a field that it lacks.
  """
  found = [leaf for leaf in leaves(record['mode']).values() if not leaf.owners]
  if record['mode'] == 'train':
    cls = algorithm.hyperparams(record['algo']['name'])
    found += leaves_of(cls, 'algo.')
  values = {leaf.path: leaf.default for leaf in found}
  values.pop(MIXTURE, None)  # members have no defaults: the run's own values
  if (env := record.get('env', {}).get('name')) in ENVS:
    options = envs.get(env).options
    values |= {f'{OPTIONS}.{k}': v for k, v in options.items()}
  return json.loads(json.dumps(values))
