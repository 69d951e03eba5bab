"""From a mode's dataclasses to a locked ConfigDict; `reading` goes back.

`config.algo` of mode 'train' has the hyperparameters of all online algorithms,
and `config.env.options` the options of all environments, so that each is a flag
whatever is chosen; one that the chosen one lacks is refused.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict, FieldReference

from agentrl import envs, fields, own
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
  if not (own.is_own(algo) and NAME in found):
    return found
  for leaf in leaves_of(algorithm.hyperparams(algo), 'algo.'):
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


def leaves_of(cls: type, prefix: str) -> Iterator[Leaf]:
  """The fields of a dataclass and of the sections in it; paths begin alike."""
  for item in dataclasses.fields(cls):
    path = prefix + item.name
    if item.type is Online:
      yield from _algorithms(path)
    elif dataclasses.is_dataclass(item.type):
      yield from leaves_of(item.type, f'{path}.')
    elif path == OPTIONS:
      yield from _options(path)
    else:
      yield Leaf(path, item.type, fields.default(item), fields.meaning(item))


def _options(path: str) -> Iterator[Leaf]:
  found: dict[str, dict[str, str]] = {}  # meanings by environment
  for spec in envs.every():
    for name in spec.options:
      found.setdefault(name, {})[spec.name] = spec.meanings[name]
  for name, meanings in found.items():
    meaning = Meaning('; or '.join(dict.fromkeys(meanings.values())))
    yield Leaf(f'{path}.{name}', Any, None, meaning, tuple(meanings))


def _algorithms(path: str) -> Iterator[Leaf]:
  meaning = Meaning('which', one_of=tuple(ONLINE), own=True)
  yield Leaf(f'{path}.name', str, meaning.one_of[0], meaning)
  found: dict[str, dict[str, Leaf]] = {}
  for name, cls in ONLINE.items():
    for leaf in leaves_of(cls, f'{path}.'):
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


_ALL = {
    mode: {leaf.path: leaf for leaf in leaves_of(cls, '')}
    for mode, cls in MODES.items()
}
