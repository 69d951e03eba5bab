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

from agentrl import fields, own
from agentrl.algos import algorithm
from agentrl.algos.hyperparams import ONLINE, Grpo, Online
from agentrl.config import names
from agentrl.config.modes import MODES
from agentrl.envs import ENVS
from agentrl.envs.options import EnvName
from agentrl.errors import ConfigError
from agentrl.fields import Meaning

_OPTIONS = 'env.options'
_NAME = 'algo.name'
MIXTURE = 'mixture'
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
      with old.unlocked():
        for name in [name for name in old if name not in old._defaults]:
          del old[name]
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


class _Algorithm(Section):
  """Hyperparameters; those of an algorithm from elsewhere join by its name."""

  def __setitem__(self, key, value):
    super().__setitem__(key, value)
    if key == 'name' and _is_section(self) and own.is_own(value):
      known, start = leaves(self._mode), self._prefix
      for path, leaf in leaves(self._mode, value).items():
        name = path.removeprefix(start)
        if path.startswith(start) and '.' not in name:
          old = known.get(path)
          # A default that it changes is open until it is set.
          if old is None or (self[name], leaf.default) == (old.default, None):
            self._open(name, leaf)

  def update(self, *other, **values):
    values = dict(*other, **values)
    names = sorted(values, key=lambda name: name != 'name')  # it first
    super().update({name: values[name] for name in names})

  def _open(self, name: str, leaf: 'Leaf') -> None:
    with self.unlocked():
      if name in self:
        del self[name]
      kind = fields.base_type(leaf.kind)
      kind = object if leaf.default is None and kind is not str else kind
      ConfigDict.__setitem__(
          self, name, FieldReference(leaf.default, field_type=kind)
      )


class _Options(Section):
  """Options of an environment; those of one from elsewhere are not known here."""

  def lock(self):
    return self


class _Members(_Options):
  """Members of a mixture by name; `config.mixture` checks what they have."""

  def __setitem__(self, key, value):
    if isinstance(value, Mapping | ConfigDict):
      known = isinstance(value, ConfigDict)
      value = value.to_dict() if known else dict(value)
      value = ConfigDict(value, type_safe=False)
    elif _is_section(self):
      raise KeyError(f'Unknown field {MIXTURE}.{key}: a member is a dict.')
    ConfigDict.__setitem__(self, key, value)


def _is_section(value: Any) -> bool:
  """True for a section of a config, not a dict that is a value."""
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


def leaves(mode: str, algo: str = '') -> dict[str, Leaf]:
  """Every field that a config of this mode has, by its dotted path.

  Args:
    mode: of the config.
    algo: name of the algorithm; one from elsewhere has fields of its own.

  Raises:
    ConfigError: there is no algorithm of this name.
  """
  found = dict(_ALL[mode])
  if not (own.is_own(algo) and _NAME in found):
    return found
  for leaf in _leaves(algorithm.hyperparams(algo), 'algo.'):
    old = found.get(leaf.path, dataclasses.replace(leaf, owners=()))
    if leaf.path not in found or old.owners:
      leaf = dataclasses.replace(leaf, owners=(*old.owners, algo))
    if old.default != leaf.default:
      leaf = dataclasses.replace(leaf, kind=leaf.kind | None, default=None)
    found[leaf.path] = leaf
  return found


def unknown(path: str, mode: str) -> str:
  """The message about a path that is no field of this mode."""
  section = path.rpartition('.')[0]
  if section in _ALL[mode]:
    kind = fields.describe(_ALL[mode][section].kind)
    return f'Unknown field {path}: {section} is {kind}, not a section.'
  return names.unknown(path, mode, _ALL)


def _leaves(cls: type, prefix: str) -> Iterator[Leaf]:
  for item in dataclasses.fields(cls):
    path = prefix + item.name
    if item.type is Online:
      yield from _algorithms(path)
    elif dataclasses.is_dataclass(item.type):
      yield from _leaves(item.type, f'{path}.')
    elif path == _OPTIONS:
      for name in dict.fromkeys(
          x for spec in ENVS.values() for x in spec.options
      ):
        owners = tuple(x for x, spec in ENVS.items() if name in spec.options)
        yield Leaf(f'{path}.{name}', Any, None, _OPTION, owners)
    else:
      yield Leaf(path, item.type, fields.default(item), fields.meaning(item))


def _algorithms(path: str) -> Iterator[Leaf]:
  meaning = Meaning('which', one_of=tuple(ONLINE), own=True)
  yield Leaf(f'{path}.name', str, meaning.one_of[0], meaning)
  found: dict[str, dict[str, Leaf]] = {}
  for name, cls in ONLINE.items():
    for leaf in _leaves(cls, f'{path}.'):
      found.setdefault(leaf.path, {})[name] = leaf
  for same in found.values():
    leaf = next(iter(same.values()))
    if any(other.default != leaf.default for other in same.values()):
      leaf = dataclasses.replace(leaf, kind=leaf.kind | None, default=None)
    owners = () if len(same) == len(ONLINE) else tuple(same)
    yield dataclasses.replace(leaf, owners=owners)


def check_mode(mode: Any) -> None:
  """Refuses what is no mode's name.

  Raises:
    ConfigError: there is no such mode.
  """
  if mode not in MODES:
    raise ConfigError(f'Unknown mode {mode!r}; known: {", ".join(MODES)}.')


def defaults(mode: str) -> ConfigDict:
  """The config of a mode before anything was chosen: locked, typed, complete.

  What a run brings is None until the run is known, see `read`.

  Raises:
    ConfigError: there is no such mode.
  """
  check_mode(mode)
  config, brought = Section({'mode': mode}), MODES[mode].BROUGHT
  for leaf in leaves(mode).values():
    *parents, name = leaf.path.split('.')
    target = config
    for part in parents:
      if part not in target:
        kinds = {'options': _Options, 'algo': _Algorithm}
        target[part] = kinds.get(part, Section)()
      target = target[part]
    default, kind = leaf.default, fields.base_type(leaf.kind)
    if leaf.path == MIXTURE:
      config[MIXTURE] = _Members(type_safe=False)
      continue
    if leaf.path in brought:
      default = None
    elif fields.is_optional(leaf.kind) and kind is not str:
      kind = object  # literals on the command line
    target[name] = FieldReference(default, field_type=kind)
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
  _check_owners(values, _ALL[made.mode])
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
    if name not in inner and section != _OPTIONS:
      raise ConfigError(unknown(start + name, mode))
  found = {}
  for name, value in values.items():
    path, leaf = start + name, known.get(start + name)
    if leaf is None and section == _OPTIONS:
      leaf = Leaf(path, Any, None, _OPTION)
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
    if path == _OPTIONS:
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
  algorithm.hyperparams(values.setdefault(_NAME, Grpo.name))
  values.setdefault('env.name', EnvName.name)
  for path, value in values.items():
    leaf = known.get(path)
    if leaf is None or not leaf.owners or value == leaf.default:
      continue
    options = path.startswith(_OPTIONS)
    chooser = 'env.name' if options else _NAME
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
      kind = algorithm.hyperparams(values[_NAME]) if kind is Online else kind
      made[item.name] = _make(kind, values, f'{path}.')
    elif path == _OPTIONS:
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
  start = f'{_OPTIONS}.'
  given = {k[len(start) :]: v for k, v in values.items() if k.startswith(start)}
  spec = ENVS.get(values['env.name'])
  return given if spec is None else spec.check_options(given)


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
  found = [leaf for leaf in _ALL[record['mode']].values() if not leaf.owners]
  if record['mode'] == 'train':
    cls = algorithm.hyperparams(record['algo']['name'])
    found += _leaves(cls, 'algo.')
  values = {leaf.path: leaf.default for leaf in found}
  values.pop(MIXTURE, None)  # members have no defaults: the run's own values
  if spec := ENVS.get(record.get('env', {}).get('name')):
    values |= {f'{_OPTIONS}.{k}': v for k, v in spec.options.items()}
  return json.loads(json.dumps(values))


_ALL = {
    mode: {leaf.path: leaf for leaf in _leaves(cls, '')}
    for mode, cls in MODES.items()
}
