"""From a mode's dataclasses to a locked ConfigDict, and back.

`config.algo` of mode 'train' has the hyperparameters of all online algorithms,
and `config.env.options` the options of all environments, so that each is a flag
whatever is chosen; one that the chosen one lacks is refused.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict, FieldReference

from agentrl import fields
from agentrl.algos.hyperparams import ONLINE, Online
from agentrl.config import names
from agentrl.config.modes import MODES, Mode
from agentrl.envs import ENVS
from agentrl.errors import ConfigError
from agentrl.fields import Meaning

_OPTIONS = 'env.options'
# They come along with a URL, the run's or another.
_OF_SERVERS = ('env.token_file', 'env.retry_s')
_OPTION = Meaning("an option of the environment; None: the environment's own")

_OWN = ('_defaults', '_mode', '_prefix')  # attributes of a section


class Section(ConfigDict):
  """A section of a config: what is assigned to one is over its defaults.

  `config.optim = dict(lr=1e-3)` is the default optimizer with this rate. A name
  that the section lacks is refused, with the one that may be meant.
  """

  def __getitem__(self, key):
    if key not in self and '.' not in str(key):
      raise KeyError(self._unknown(key))
    return super().__getitem__(key)

  def __setitem__(self, key, value):
    if key not in self and self.is_locked:
      raise KeyError(self._unknown(key))
    old = self[key] if key in self else None
    if _is_section(old) and isinstance(value, Mapping | ConfigDict):
      known = isinstance(value, ConfigDict)
      chosen = value.to_dict() if known else dict(value)
      for name, default in old._defaults.items():
        old[name] = default
      old.update(chosen)
      return
    try:
      super().__setitem__(key, value)
    except TypeError as error:
      raise TypeError(self._mistyped(key, value)) from error

  def update(self, *other, **values):
    for key, value in dict(*other, **values).items():
      old = self.get(key)
      if _is_section(old) and isinstance(value, Mapping | ConfigDict):
        old.update(value)
      else:
        self[key] = value

  def __setstate__(self, state):
    super().__setstate__(state)
    for name in _OWN:
      if name in state:
        object.__setattr__(self, name, state[name])

  def _settle(self, mode: str, prefix: str) -> None:
    """Takes the present values for the defaults."""
    for name, value in self.items():
      if isinstance(value, Section):
        value._settle(mode, f'{prefix}{name}.')
    for name, value in zip(_OWN, (self.to_dict(), mode, prefix), strict=True):
      object.__setattr__(self, name, value)

  def _unknown(self, key: str) -> str:
    if not _is_section(self):  # it is being made, or a value
      return str(key)
    return unknown(f'{self._prefix}{key}', self._mode)

  def _mistyped(self, key: str, value: Any) -> str:
    path = f'{self._prefix}{key}'
    leaf = _ALL[self._mode].get(path)
    if isinstance(value, ConfigDict):
      value = value.to_dict()
    if leaf is None:
      return fields.no_section(path, value, self[key])
    return fields.mistyped(path, value, leaf.kind, leaf.meaning)


class _Options(Section):
  """Of an environment: those of one from elsewhere are not known here."""

  def lock(self):
    return self


def _is_section(value: Any) -> bool:
  """Whether it is a section of a config, not a dict that is a value."""
  return isinstance(value, Section) and '_mode' in value.__dict__


@dataclasses.dataclass(frozen=True)
class Leaf:
  """A field that is no section.

  Attributes:
    path: dotted, from the config.
    kind: its type.
    default: where nothing says otherwise; None where algorithms differ in it.
    meaning: what it is for.
    owners: the algorithms or environments that have it; empty: all.
  """

  path: str
  kind: Any
  default: Any
  meaning: Meaning
  owners: tuple[str, ...] = ()


def leaves(mode: str) -> dict[str, Leaf]:
  """Every field that a config of this mode has, by its dotted path."""
  return {leaf.path: leaf for leaf in _leaves(MODES[mode], '')}


def unknown(path: str, mode: str) -> str:
  """What is said of a path that is no field of this mode."""
  section = path.rpartition('.')[0]
  if section in _ALL[mode]:
    kind = fields.describe(_ALL[mode][section].kind)
    return f'Unknown field {path}: {section} is {kind}, not a section.'
  return names.unknown(path, mode, _ALL)


def _leaves(cls: type, prefix: str) -> Iterator[Leaf]:
  for item in dataclasses.fields(cls):
    path, meaning = prefix + item.name, fields.meaning(item)
    if item.type is Online:
      yield from _algorithms(path)
    elif dataclasses.is_dataclass(item.type):
      yield from _leaves(item.type, f'{path}.')
    elif path == _OPTIONS:
      for env_name, spec in ENVS.items():
        for name in spec.options:
          yield Leaf(f'{path}.{name}', Any, None, _OPTION, (env_name,))
    else:
      yield Leaf(path, item.type, fields.default(item), meaning)


def _algorithms(path: str) -> Iterator[Leaf]:
  meaning = Meaning('which', one_of=tuple(ONLINE))
  yield Leaf(f'{path}.name', str, next(iter(ONLINE)), meaning)
  found: dict[str, list[tuple[str, Leaf]]] = {}
  for name, cls in ONLINE.items():
    for leaf in _leaves(cls, f'{path}.'):
      found.setdefault(leaf.path, []).append((name, leaf))
  for same in found.values():
    owners = tuple(name for name, _ in same)
    leaf = same[0][1]
    if any(other.default != leaf.default for _, other in same):
      leaf = dataclasses.replace(leaf, kind=leaf.kind | None, default=None)
    everywhere = len(owners) == len(ONLINE)
    yield dataclasses.replace(leaf, owners=() if everywhere else owners)


def defaults(mode: str) -> ConfigDict:
  """The config of a mode before anything was chosen: locked, typed, complete.

  What a run brings is None until the run is known, see `read`.

  Raises:
    ConfigError: there is no such mode.
  """
  if mode not in MODES:
    raise ConfigError(f'Unknown mode {mode!r}; known: {", ".join(MODES)}.')
  config, brought = Section({'mode': mode}), MODES[mode].BROUGHT
  for leaf in leaves(mode).values():
    *path, name = leaf.path.split('.')
    target = config
    for part in path:
      if part not in target:
        target[part] = (_Options if part == 'options' else Section)()
      target = target[part]
    kind = fields.base_type(leaf.kind)
    if leaf.path in brought:
      target[name] = FieldReference(None, field_type=kind)
    elif fields.is_optional(leaf.kind):
      # Numbers that may be None are literals on the command line.
      kind = str if kind is str else object
      target[name] = FieldReference(leaf.default, field_type=kind)
    elif kind is object:
      target[name] = FieldReference(leaf.default, field_type=object)
    else:
      target[name] = leaf.default
  config._settle(mode, '')
  config.lock()
  return config


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
  if mode not in MODES:
    raise ConfigError(f'Unknown mode {mode!r}; known: {", ".join(MODES)}.')
  _bring(values, MODES[mode], run or {})
  made = _make(MODES[mode], values, '', mode)
  _check_acting(made, mode)
  made.check()
  return made


def brought(mode: str, run: Mapping[str, Any]) -> dict[str, Any]:
  """What a run brings to a config of this mode: values by their paths here."""
  found = {}
  for path, source in MODES[mode].BROUGHT.items():
    value: Any = run
    for part in source.split('.'):
      value = value.get(part) if isinstance(value, Mapping) else None
    if value is not None:
      found[path] = value
  return found


def _bring(
    values: dict[str, Any], cls: type[Mode], run: Mapping[str, Any]
) -> None:
  """Fills what is open; an empty text says that nothing is wanted."""
  found = brought(cls.mode, run)
  for path in cls.BROUGHT:
    *parents, name = path.split('.')
    section = values
    for part in parents:
      section = section.setdefault(part, {})
    if not isinstance(section, dict):
      continue  # `_make` refuses it
    if path == _OPTIONS:
      _bring_options(section, found)
    elif section.get(name) is None:
      section.pop(name, None)
      idle = path in _OF_SERVERS and not section.get('url')
      if path in found and not idle:
        section[name] = found[path]
    elif section[name] == '':
      section[name] = None


def _bring_options(env: dict[str, Any], found: Mapping[str, Any]) -> None:
  """Options of the run's environment, where that is the one chosen."""
  options = env.get('options', {})
  same = env.get('name') in (None, found.get('env.name'))
  if same and isinstance(options, Mapping):
    given = {name: x for name, x in options.items() if x is not None}
    env['options'] = {**found.get(_OPTIONS, {}), **given}


def _make(cls: type, values: Any, prefix: str, mode: str) -> Any:
  """The dataclass of a section."""
  if not isinstance(values, Mapping):
    known = [item.name for item in dataclasses.fields(cls)]
    raise ConfigError(fields.no_section(prefix[:-1], values, known))
  known = {item.name: item for item in dataclasses.fields(cls)}
  for name in values:
    if name not in known:
      raise ConfigError(unknown(prefix + name, mode))
  made = {}
  for name, item in known.items():
    path = prefix + name
    if item.type is Online:
      made[name] = _make_algorithm(values.get(name, {}), path, mode)
    elif dataclasses.is_dataclass(item.type):
      made[name] = _make(item.type, values.get(name, {}), f'{path}.', mode)
    elif path == _OPTIONS:
      made[name] = _options(
          values.get('name', 'textcraft'), values.get(name, {})
      )
    elif name in values:
      meaning = fields.meaning(item)
      value = fields.convert(path, values[name], item.type, meaning)
      fields.check(path, value, meaning)
      made[name] = value
  made = cls(**made)
  check = getattr(made, 'check', None)
  if check is not None and not isinstance(made, Mode):
    check()
  return made


def _make_algorithm(values: Any, path: str, mode: str) -> Online:
  """The hyperparameters of the algorithm that is named."""
  if not isinstance(values, Mapping):
    raise ConfigError(fields.no_section(path, values, ('name', '...')))
  values = dict(values)
  name = values.pop('name', next(iter(ONLINE)))
  if name not in ONLINE:
    raise ConfigError(
        f'Unknown {path}.name={name!r}; known: {", ".join(ONLINE)}.'
    )
  own = {item.name: item for item in dataclasses.fields(ONLINE[name])}
  for key in list(values):
    if key not in own:
      _refuse_elsewhere(name, values.pop(key), f'{path}.{key}', mode)
    elif values[key] is None and not fields.is_optional(own[key].type):
      del values[key]  # the algorithm's own default
  return _make(ONLINE[name], values, f'{path}.', mode)


def _refuse_elsewhere(name: str, value: Any, path: str, mode: str) -> None:
  """Refuses what another algorithm has, if it was set."""
  known = _ALL[mode]
  inner = [x[len(path) + 1 :] for x in known if x.startswith(f'{path}.')]
  if inner and not isinstance(value, Mapping):
    raise ConfigError(fields.no_section(path, value, inner))
  if inner:
    for key in value:
      _refuse_elsewhere(name, value[key], f'{path}.{key}', mode)
  elif path not in known:
    raise ConfigError(unknown(path, mode))
  elif value != known[path].default:
    raise ConfigError(
        f'{path}={value!r} has no effect with algo.name={name!r}; it acts in'
        f' {", ".join(known[path].owners)}.'
    )


def _options(env_name: Any, values: Any) -> dict[str, Any]:
  """Options of the chosen environment, its own defaults included."""
  if not isinstance(values, Mapping):
    known = ENVS[env_name].options if env_name in ENVS else ('...',)
    raise ConfigError(fields.no_section(_OPTIONS, values, known))
  given = {k: v for k, v in values.items() if v is not None}
  if env_name not in ENVS:
    return given
  own = ENVS[env_name].options
  for name, value in given.items():
    owners = [other for other, spec in ENVS.items() if name in spec.options]
    if name not in own and owners:
      raise ConfigError(
          f'{_OPTIONS}.{name}={value!r} has no effect with'
          f' env.name={env_name!r}; it acts in {", ".join(owners)}.'
      )
  return ENVS[env_name].check_options(given)


def _check_acting(made: Any, mode: str) -> None:
  """Refuses fields that were set although they cannot act (invariant 11)."""

  def visit(section: Any, prefix: str) -> None:
    for item in dataclasses.fields(section):
      path, value = prefix + item.name, getattr(section, item.name)
      if dataclasses.is_dataclass(value):
        visit(value, f'{path}.')
      elif value != fields.default(item):
        for act in fields.meaning(item).acts_if:
          if not act.test(made):
            raise ConfigError(f'{path}={value!r} has no effect: {act.reason}.')

  visit(made, '')


def usual(record: Mapping[str, Any]) -> dict[str, Any]:
  """The defaults of a recorded config, by their paths, as JSON has them.

  They are what an older record of the same algorithm and environment means by
  a field that it lacks.
  """
  found = [
      leaf for leaf in _leaves(MODES[record['mode']], '') if not leaf.owners
  ]
  if record['mode'] == 'train':
    found += _leaves(ONLINE[record['algo']['name']], 'algo.')
  values = {leaf.path: leaf.default for leaf in found}
  spec = ENVS.get(record.get('env', {}).get('name'))
  if spec is not None:
    values |= {f'{_OPTIONS}.{k}': v for k, v in spec.options.items()}
  return json.loads(json.dumps(values))


_ALL = {mode: leaves(mode) for mode in MODES}
