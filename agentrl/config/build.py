"""From a mode's dataclasses to a locked ConfigDict; `reading` goes back.

`config.algo` of mode 'train' has the hyperparameters of its algorithm: another
`algo.name` brings others. `config.env.options` has what was chosen; `reading`
checks it by the environment and adds the rest.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict, FieldReference

from agentrl import envs, fields
from agentrl.algos import algorithm
from agentrl.algos.hyperparams import ONLINE, Online
from agentrl.config import names
from agentrl.config.modes import MODES
from agentrl.errors import ConfigError
from agentrl.fields import Meaning

OPTIONS = 'env.options'
NAME = 'algo.name'
MIXTURE = 'mixture'
OPTION = Meaning("an option of the environment; None: the environment's own")

_ALGO = 'algo.'
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
      is_config = isinstance(value, ConfigDict)
      chosen = value.to_dict() if is_config else dict(value)
      old._reset()
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

  def _reset(self) -> None:
    """Sets all fields to their defaults."""
    with self.unlocked():
      for name in [name for name in self if name not in self._defaults]:
        del self[name]
    for name, default in self._defaults.items():
      self[name] = default

  def _unknown(self, key: str) -> str:
    if not _is_section(self):  # it is being made, or a value
      return str(key)
    algo = ''
    if NAME in _ALL[self._mode] and self._prefix.startswith(_ALGO):
      inner = owners(f'{self._prefix}{next(iter(self))}')
      algo = self['name'] if 'name' in self else ''.join(inner[:1])
    return unknown(f'{self._prefix}{key}', self._mode, algo)

  def _mistyped(self, key: str, value: Any) -> str:
    path = f'{self._prefix}{key}'
    tables = (leaves(self._mode, x) for x in owners(path) or ('',))
    leaf = next(tables).get(path)
    if isinstance(value, ConfigDict):
      value = value.to_dict()
    if leaf is None:
      return fields.no_section(path, value, self[key])
    return fields.mistyped(path, value, leaf.kind, leaf.meaning)


class _Algorithm(Section):
  """Hyperparameters of an algorithm; those of another come with its name."""

  def __setitem__(self, key, value):
    if key == 'name' and _is_section(self) and value != self.get('name'):
      choose_algorithm(self, value)
    else:
      super().__setitem__(key, value)

  def update(self, *other, **values):
    values = dict(*other, **values)
    names = sorted(values, key=lambda name: name != 'name')  # it first
    super().update({name: values[name] for name in names})

  def _reset(self) -> None:
    choose_algorithm(self, self._defaults['name'], drop=True)
    super()._reset()


def choose_algorithm(
    section: Section, name: str, *, drop: bool = False
) -> None:
  """Gives `config.algo` the fields of another algorithm.

  Values that differ from the defaults stay where the other has the field.

  Args:
    section: `config.algo`.
    name: of the algorithm, or `module:NAME` of one's own.
    drop: whether values that the other lacks are dropped; else they are refused.

  Raises:
    ConfigError: there is no such algorithm, or it lacks a field that was set.
  """
  old = _leaves_of_algorithm(section['name'])
  new = _leaves_of_algorithm(name)
  values = _flat(section, _ALGO)
  kept = {k: v for k, v in values.items() if v != old[k].default and k != NAME}
  for path in kept.keys() - new.keys():
    if not drop:
      raise ConfigError(
          idle(f'{path}={kept[path]!r}', NAME, name, owners(path))
      )
    del kept[path]
  with section.unlocked():
    for key in list(section):
      ConfigDict.__delitem__(section, key)
    _fill(section, new.values(), _ALGO)
    ConfigDict.__setitem__(section, 'name', name)
  for key, value in section.items():
    if isinstance(value, Section):
      value._settle(section._mode, f'{_ALGO}{key}.')
  for path, value in kept.items():
    *parents, key = path.removeprefix(_ALGO).split('.')
    target = section
    for part in parents:
      target = target[part]
    target[key] = value


def _flat(section: Section, prefix: str) -> dict[str, Any]:
  """The values of a section by their paths."""
  values: dict[str, Any] = {}
  for key, value in section.items():
    if isinstance(value, Section):
      values |= _flat(value, f'{prefix}{key}.')
    else:
      values[prefix + key] = value
  return values


class _Options(Section):
  """Options of an environment, of any type: `reading` asks the environment."""

  def __setitem__(self, key, value):
    if key in self:
      ConfigDict.__delitem__(self, key)
    ConfigDict.__setitem__(self, key, value)

  def lock(self):
    return self


class _Members(_Options):
  """Members of a mixture by name; `config.mixture` checks what they have."""

  def __setitem__(self, key, value):
    if isinstance(value, Mapping | ConfigDict):
      is_config = isinstance(value, ConfigDict)
      value = value.to_dict() if is_config else dict(value)
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
    default: where nothing says otherwise.
    meaning: what it is for.
  """

  path: str
  kind: Any
  default: Any
  meaning: Meaning


def leaves(mode: str, algo: str = '', env: str = '') -> dict[str, Leaf]:
  """The fields of a config of this mode, by their dotted paths.

  Args:
    mode: of the config.
    algo: name of the algorithm; '': the default one.
    env: name of the environment, for its options; those of one from elsewhere
      are not known here.

  Raises:
    ConfigError: there is no algorithm of this name.
  """
  table = {
      path: leaf
      for path, leaf in _ALL[mode].items()
      if NAME not in _ALL[mode] or not path.startswith(_ALGO)
  }
  if NAME in _ALL[mode]:
    table |= _leaves_of_algorithm(algo)
  if env in envs.ENVS and 'env.name' in table:
    table |= _leaves_of_options(env)
  return table


def _leaves_of_algorithm(name: str = '') -> dict[str, Leaf]:
  """The fields of `config.algo` in mode 'train'; '': of the default one."""
  first = next(iter(ONLINE))
  cls = algorithm.hyperparams(first if name == '' else name)
  meaning = Meaning('which', one_of=tuple(ONLINE), own=True)
  own_leaves = [Leaf(NAME, str, first, meaning), *leaves_of(cls, _ALGO)]
  return {leaf.path: leaf for leaf in own_leaves}


def _leaves_of_options(env: str) -> dict[str, Leaf]:
  spec = envs.get(env)
  table = {}
  for name, default in spec.options.items():
    path = f'{OPTIONS}.{name}'
    meaning = Meaning(spec.meanings.get(name, OPTION.text))
    table[path] = Leaf(path, Any, default, meaning)
  return table


def owners(path: str) -> tuple[str, ...]:
  """The algorithms, or the environments, that have a field."""
  if path.startswith(f'{OPTIONS}.'):
    name = path.removeprefix(f'{OPTIONS}.')
    return tuple(spec.name for spec in envs.every() if name in spec.options)
  return tuple(
      name
      for name in ONLINE
      if any(f'{x}.'.startswith(f'{path}.') for x in _leaves_of_algorithm(name))
  )


def unknown(path: str, mode: str, algo: str = '') -> str:
  """The message about a path that is no field of this mode.

  Args:
    path: dotted.
    mode: of the config.
    algo: name of its algorithm.
  """
  section = path.rpartition('.')[0]
  if section == OPTIONS:
    return (
        f"{path} is not set: the environment's own is added when the config is"
        ' read.'
    )
  if NAME in _ALL[mode] and (others := owners(path)):
    return idle(path, NAME, algo or _ALL[mode][NAME].default, others)
  if section in _ALL[mode]:
    kind = fields.describe(_ALL[mode][section].kind)
    return f'Unknown field {path}: {section} is {kind}, not a section.'
  return names.unknown(path, mode, {name: _of_all(name) for name in MODES})


def _of_all(mode: str) -> dict[str, Leaf]:
  """The fields that configs of this mode have with any algorithm."""
  table: dict[str, Leaf] = {}
  for path, leaf in _ALL[mode].items():
    table[path] = leaf
    if path == NAME:
      for name in ONLINE:
        table |= _leaves_of_algorithm(name)
  return table


def idle(field: str, chooser: str, chosen: str, holders: Iterable[str]) -> str:
  """The message about a field that others have.

  Args:
    field: its path, maybe with the value.
    chooser: path of the name that decides.
    chosen: its value.
    holders: names that have the field.
  """
  return (
      f'{field} has no effect with {chooser}={chosen!r}; it acts in'
      f' {", ".join(holders)}.'
  )


def leaves_of(cls: type, prefix: str) -> Iterator[Leaf]:
  """The fields of a dataclass and of the sections in it; paths begin alike.

  An algorithm's are the default's, and an environment's options are left out.
  """
  for item in dataclasses.fields(cls):
    path, kind = prefix + item.name, item.type
    if kind is Online:
      yield from _leaves_of_algorithm().values()
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
      yield from leaves_of(kind, f'{path}.')
    elif path != OPTIONS:
      yield Leaf(path, kind, fields.default(item), fields.meaning(item))


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
  config = Section({'mode': mode})
  table = leaves(mode)
  _fill(config, table.values(), '', MODES[mode].BROUGHT)
  if 'env.name' in table:
    config['env']['options'] = _Options()
  config._settle(mode, '')
  config.lock()
  return config


def _fill(
    section: Section,
    items: Iterable[Leaf],
    prefix: str,
    brought: Collection[str] = (),
) -> None:
  """Adds these fields with their defaults; paths begin with `prefix`."""
  items = list(items)
  online = any(leaf.path == NAME for leaf in items)
  for leaf in items:
    *parents, name = leaf.path.removeprefix(prefix).split('.')
    target = section
    for part in parents:
      if part not in target:
        target[part] = _Algorithm() if online and part == 'algo' else Section()
      target = target[part]
    default, kind = leaf.default, fields.base_type(leaf.kind)
    if leaf.path == MIXTURE:
      section[MIXTURE] = _Members(type_safe=False)
      continue
    if leaf.path in brought:
      default = None
    elif fields.is_optional(leaf.kind) and kind is not str:
      kind = object  # literals on the command line
    field = FieldReference(default, field_type=kind)
    ConfigDict.__setitem__(target, name, field)


_ALL = {
    mode: {leaf.path: leaf for leaf in leaves_of(cls, '')}
    for mode, cls in MODES.items()
}
