"""Config files, and the flags that override their fields: `--config.PATH=VALUE`.

A flag is read as its field's type: text as it is, `None` where the field may be
None, a list as Python writes it or its only element. A whole section is a dict
over its defaults, `--config.optim="{'lr': 1e-4}"`; other flags set its fields
further, wherever they stand. What gets two different values is refused, lists
included: one flag has the whole list.

Where a flag chooses another kind (`horizon.kind`, `algo.name`, `env.name`), the
file's values that act with the old one alone are dropped; a flag's are refused.
"""

import ast
import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import ConfigDict

from agentrl import envs, fields, shipped
from agentrl.config import build, mixture, names
from agentrl.config.build import Leaf
from agentrl.errors import ConfigError
from agentrl.fields import Meaning

_FLAG = re.compile(r'-{0,2}(?:no)?config\.([^=]+)(?:=.*)?', re.DOTALL)
_OPTION = re.compile(r'env\.options\.\w+')  # checked with its environment
_ANY = Leaf('', Any, None, Meaning('an option of the environment'))
_MODE = Leaf('', str, None, Meaning('as the config has it'))
_SECTION = Leaf('', dict, None, Meaning('a dict, over the defaults'))
# Names of fields that choose what other fields act with.
_CHOOSERS = ('kind', 'name')
_MEMBER = object()  # in place of a value: a new member of a mixture


def named(argv: Sequence[str]) -> ConfigDict:
  """The config that `--config` names; without it the defaults of mode 'train'.

  Raises:
    ConfigError: it cannot be loaded, or is of no mode.
    flags.Error: it is given no value.
  """
  parser = flags.FlagValues()
  parser.set_gnu_getopt()
  file = flags.DEFINE_string('config', None, 'Its file.', flag_values=parser)
  parser(argv, known_only=True)
  return build.defaults('train') if file.value is None else load(file.value)


def load(argument: str) -> ConfigDict:
  """The config of `FILE` or `FILE:ARGUMENT`, from its `get_config`.

  Raises:
    ConfigError: it cannot be loaded, or is of no mode.
  """
  name, colon, arg = argument.partition(':')
  path = _file(name)
  loader = importlib.machinery.SourceFileLoader('config_file', path)
  spec = importlib.machinery.ModuleSpec(loader.name, loader, origin=path)
  module = importlib.util.module_from_spec(spec)
  # Files that come along share what is in `configs`; so may those of users.
  if (root := str(shipped.ROOT)) not in sys.path:
    sys.path.append(root)
  try:
    loader.exec_module(module)
    config = module.get_config(*([arg] if colon else []))
  except Exception as error:  # whatever a user's file does
    raise ConfigError(f'{_place(path, error)}: {_words(error)}') from error
  build.check_mode(getattr(config, 'mode', None))
  if not isinstance(config, build.Section):
    raise ConfigError(
        f'{path}: get_config() begins with config = defaults({config.mode!r}),'
        ' from agentrl.config, and returns that.'
    )
  return config


def _file(name: str) -> str:
  """The path of a config file: one of the user's, or one that comes along."""
  if pathlib.Path(name).is_file():
    return name
  path = shipped.ROOT / name
  if not path.is_file():
    raise ConfigError(
        f'There is no config file {name!r}; --help lists those of configs/.'
    )
  return str(path)


def _place(path: str, error: Exception) -> str:
  """The file and line of a config that an error came from."""
  lines = [
      frame.lineno
      for frame in traceback.extract_tb(error.__traceback__)
      if frame.filename == path
  ]
  return f'{path}, line {lines[-1]}' if lines else path


def _words(error: Exception) -> str:
  """The last line of an error, without the quotes that a KeyError adds."""
  cause = error.__context__
  if isinstance(error, AttributeError) and isinstance(cause, KeyError):
    error = cause  # ConfigDict's own
  if isinstance(error, KeyError) and ' ' in str(error.args[0]):
    return error.args[0]
  lines = str(error).strip().splitlines() or ['no reason is given']
  kind = (
      '' if type(error) in (ConfigError, ValueError) else type(error).__name__
  )
  return ': '.join(filter(None, (kind, lines[-1])))


def override(
    config: ConfigDict,
    argv: Sequence[str],
    own: flags.FlagValues | None = None,
) -> tuple[list[str], set[str]]:
  """Sets the fields of `config` that flags name.

  Args:
    config: whose fields, and sections, become flags.
    argv: the name of the program and its arguments.
    own: the program's flags, which are parsed as well; gets those of fields.

  Returns:
    What remains of `argv`, and the paths of fields and sections that were set.

  Raises:
    ConfigError: names the field, the value and the way out.
    flags.Error: `argv` is not of these flags.
  """
  own = flags.FlagValues() if own is None else own
  own.set_gnu_getopt()
  argv = own.read_flags_from_files(argv)
  algo = _algorithm(config, argv)
  table = _flag_table(config, argv, algo)
  defined = {path: _define(path, leaf, own) for path, leaf in table.items()}
  try:
    rest = own(argv)  # before any value is looked at: it may be a key
  except flags.UnrecognizedFlagError as error:
    match = _FLAG.fullmatch(error.flagname)
    if match and match[1] not in table:
      raise _unknown(match[1], config.mode, algo) from None
    raise
  flag_texts = {
      path: flag.value or () for path, flag in defined.items() if flag.present
  }
  values: dict[str, Any] = {}
  for path, value in _values(flag_texts, table, config.mode, algo):
    if path in values and values[path] != value:
      raise ConfigError(
          f'{path} is given twice, {values[path]!r} and {value!r}: leave one'
          f' out{", or give the whole list" * isinstance(value, tuple)}.'
      )
    values[path] = value
  mode = values.pop('mode', config.mode)
  build.check_mode(mode)
  if mode != config.mode:
    raise ConfigError(
        f'The config is of mode={config.mode!r}; name one of mode={mode!r}'
        ' instead, as listed by --help.'
    )
  sections = [path for path in flag_texts if table[path].kind is dict]
  # Members of a mixture begin in the dict of a flag.
  sections += [path for path, value in values.items() if value is _MEMBER]
  # The outer ones first; with the name of an algorithm come its fields.
  values = dict.fromkeys(sorted(sections), {}) | {
      path: values[path]
      for path in sorted(values, key=lambda path: path != 'algo.name')
      if values[path] is not _MEMBER
  }
  chosen = {
      path: value
      for path, value in values.items()
      if path.rpartition('.')[2] in _CHOOSERS and _at(config, path) != value
  }
  if build.NAME in chosen and 'algo' not in sections:
    # Values of the file that act with its algorithm alone.
    build.choose_algorithm(config.algo, chosen[build.NAME], drop=True)
  for path, value in values.items():
    *parents, name = path.split('.')
    _section_at(config, parents)[name] = value
  _drop_idle(config, chosen, set(flag_texts))
  return rest, set(flag_texts)


def _at(config: ConfigDict, path: str) -> Any:
  """The value at a path; None: there is none."""
  for name in path.split('.'):
    if not isinstance(config, ConfigDict) or name not in config:
      return None
    config = config[name]
  return config


def _drop_idle(
    config: ConfigDict, chosen: Mapping[str, Any], paths: set[str]
) -> None:
  """Sets values of the file back that another kind leaves without an effect.

  Args:
    config: with the flags.
    chosen: kinds that flags changed, by their paths.
    paths: paths of fields and sections that flags set.
  """
  algo = config.algo.get('name', '') if 'algo' in config else ''
  leaves = build.leaves(config.mode, algo) if chosen else {}
  for name in _at(config, build.OPTIONS) or {} if chosen else ():
    leaves[f'{build.OPTIONS}.{name}'] = _ANY
  for path, leaf in leaves.items():
    set_here = any(f'{path}.'.startswith(f'{name}.') for name in paths)
    idle = _at(config, path) not in (None, leaf.default) and not _acts(
        config, path, leaf, chosen
    )
    if idle and not set_here:
      *parents, name = path.split('.')
      _section_at(config, parents)[name] = leaf.default


def _acts(
    config: ConfigDict, path: str, leaf: Leaf, chosen: Mapping[str, Any]
) -> bool:
  """False for a field that acts with another kind than the chosen one."""
  env = chosen.get('env.name')
  if env is not None and path.startswith(f'{build.OPTIONS}.'):
    name = path.removeprefix(f'{build.OPTIONS}.')
    # Options of an environment from elsewhere are not known here.
    if ';' not in env and (
        env not in envs.ENVS or name not in envs.get(env).options
    ):
      return False
  acts = (x for x in leaf.meaning.acts_if if x.witness.keys() & chosen.keys())
  return all(act.test(config) for act in acts)


def _section_at(config: ConfigDict, parents: Sequence[str]) -> ConfigDict:
  """The section at a path; in a member of a mixture it may be a new one."""
  for depth, name in enumerate(parents):
    if name not in config:
      if depth == 1:
        raise mixture.no_member(name, config)
      config[name] = {}
    config = config[name]
  return config


def _flag_table(
    config: ConfigDict, argv: Sequence[str], algo: str
) -> dict[str, Leaf]:
  """The flags, by their paths: fields, sections and options that are given."""
  table = {'mode': _MODE}
  for path, leaf in build.leaves(config.mode, algo).items():
    table.setdefault(path.rpartition('.')[0], _SECTION)
    table[path] = leaf
  table.pop('', None)
  if 'env.name' in table:
    table[build.OPTIONS] = _SECTION
  if build.MIXTURE in table:
    whole = table[build.MIXTURE]
    table[build.MIXTURE] = dataclasses.replace(whole, kind=dict)
  for match in filter(None, map(_FLAG.fullmatch, argv)):
    if (flag := _find(match[1], table)) is not None:
      table.setdefault(match[1], flag)
  return table


def _algorithm(config: ConfigDict, argv: Sequence[str]) -> str:
  """The name of the algorithm that the flags, or else the config, choose."""
  name = config.algo.get('name', '') if 'algo' in config else ''
  for i, word in enumerate(argv):
    if (match := _FLAG.fullmatch(word)) and match[1] in ('algo', 'algo.name'):
      _, has_value, text = word.partition('=')
      text = text if has_value else ''.join(argv[i + 1 : i + 2])
      section = _literal(text) if match[1] == 'algo' else {'name': text}
      if isinstance(section, Mapping):
        name = section.get('name', name)
  return name


def _find(path: str, table: Mapping[str, Leaf]) -> Leaf | None:
  """The field or section at a path; of those known, an option, a member's."""
  if path in table:
    return table[path]
  if 'env.options' in table and _OPTION.fullmatch(path):
    return _ANY
  return mixture.leaf_at(path) if build.MIXTURE in table else None


def _unknown(path: str, mode: str, algo: str) -> ConfigError:
  if path.startswith(f'{build.MIXTURE}.') and mode == 'train':
    return mixture.refuse(path)
  return ConfigError(build.unknown(path, mode, algo))


def _define(path: str, leaf: Leaf, own: flags.FlagValues) -> flags.Flag:
  """A flag that keeps the texts that it is given."""
  name, boolean = f'config.{path}', leaf.kind is bool
  parser: flags.ArgumentParser[str] = flags.ArgumentParser()
  flag: flags.MultiFlag[str] = flags.MultiFlag(
      parser, None, name, None, '', boolean=boolean
  )
  words = (leaf.meaning.text, leaf.meaning.constraint)
  flag.help = '; '.join(filter(None, words))
  flags.DEFINE_flag(flag, own)
  return flag


def _values(
    flag_texts: Mapping[str, Sequence[str]],
    table: Mapping[str, Leaf],
    mode: str,
    algo: str,
) -> Iterator[tuple[str, Any]]:
  """Fields and their values, of the texts of flags."""
  for path, texts in flag_texts.items():
    for text in texts:
      if text.startswith('-') and _FLAG.match(text):  # which may be a key's
        raise ConfigError(f'{path} has no value: write --config.{path}=VALUE.')
      if table[path].kind is dict:
        yield from _of_section(path, _literal(text), table, mode, algo)
      else:
        yield path, _value(path, text, table[path])


def _of_section(
    path: str, section: Any, table: Mapping[str, Leaf], mode: str, algo: str
) -> Iterator[tuple[str, Any]]:
  if isinstance(section, str) and section.startswith('{'):  # it may hold a key
    raise ConfigError(f'{path} is a section: a dict as Python writes it.')
  if not isinstance(section, Mapping):
    inner = names.children(path, table)
    raise ConfigError(fields.no_section(path, section, inner))
  leaves = {}
  for key in section:
    name = f'{path}.{key}'
    if (leaf := _find(name, table)) is None:
      raise _unknown(name, mode, algo)
    leaves[name] = leaf
  for (name, leaf), value in zip(leaves.items(), section.values(), strict=True):
    if leaf.kind is dict:
      if path == build.MIXTURE:
        yield name, _MEMBER
      yield from _of_section(name, value, table, mode, algo)
    else:
      yield name, fields.convert(name, value, leaf.kind, leaf.meaning)


def _value(path: str, text: str, leaf: Leaf) -> Any:
  """The value that a text means, of the type of its field."""
  literal = _literal(text)
  forms = [literal] if leaf.kind is Any or not isinstance(literal, str) else []
  for read in (flags.BooleanParser().parse, float):
    with contextlib.suppress(ValueError):
      forms.append(read(text))
  forms.append(text)
  if not text.startswith(('(', '[', '{')):
    forms += [(literal,), (text,)]  # the only element of a list
  for form in forms:
    with contextlib.suppress(ConfigError):
      return fields.convert(path, form, leaf.kind, leaf.meaning)
  raise ConfigError(fields.mistyped(path, text, leaf.kind, leaf.meaning))


def _literal(text: str) -> Any:
  """The value of a Python literal; any other text is its own value."""
  if text in ('true', 'false'):
    return text == 'true'
  try:
    return ast.literal_eval(text)
  except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError):
    return text
