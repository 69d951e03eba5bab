"""Config files, and the flags that override their fields: `--config.PATH=VALUE`.

A flag is read as its field's type, wherever it stands: text as it is, `None`
where the field may be None, a list as Python writes it or its only element. A
whole section is a dict over its defaults, `--config.optim="{'lr': 1e-4}"`; other
flags set its fields further. What gets two different values is refused, lists
included: one flag has the whole list.
"""

import ast
import importlib.machinery
import importlib.util
import pathlib
import re
import traceback
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from agentrl import fields
from agentrl.config import build, names
from agentrl.config.modes import MODES
from agentrl.errors import ConfigError
from agentrl.fields import Meaning

# A path, and what was given: a text, or of a bare flag whether it lacks a `no`.
Given = tuple[str, str | bool]

_FLAG = re.compile(r'--?(no)?config\.([^=]+)(?:=(.*))?', re.DOTALL)
_OPTION = re.compile(r'env\.options\.\w+')  # checked with its environment
_BOOLS = {'true': True, 't': True, '1': True}
_BOOLS |= {'false': False, 'f': False, '0': False}


def split(argv: Sequence[str]) -> tuple[list[str], list[Given]]:
  """The arguments that override no field, and the fields that others do."""
  rest, given, words = [], [], list(argv)
  while words:
    word = words.pop(0)
    found = _FLAG.fullmatch(word)
    if word == '--':
      return [*rest, word, *words], given
    no, path, text = found.groups() if found else (None, None, None)
    if path is None or (no and text is not None):
      rest.append(word)
      continue
    if text is not None:
      value = text
    elif no or not words or re.match(r'-\D', words[0]):
      value = not no
    else:
      value = words.pop(0)
    given.append((path, value))
  return rest, given


def load(argument: str) -> ConfigDict:
  """The config of `FILE` or `FILE:ARGUMENT`, from its `get_config`.

  Raises:
    ConfigError: it cannot be loaded, or is of no mode.
  """
  path, colon, arg = argument.partition(':')
  if not pathlib.Path(path).is_file():
    raise ConfigError(
        f'There is no config file {path!r}; --help lists those of configs/.'
    )
  loader = importlib.machinery.SourceFileLoader('config_file', path)
  spec = importlib.util.spec_from_loader(loader.name, loader)
  module = importlib.util.module_from_spec(spec)
  try:
    loader.exec_module(module)
    config = module.get_config(*([arg] if colon else []))
  except Exception as error:  # whatever a user's file does
    raise ConfigError(f'{_place(path, error)}: {_words(error)}') from error
  mode = config.get('mode') if isinstance(config, ConfigDict) else None
  if mode not in MODES:
    raise ConfigError(f'Unknown mode {mode!r}; known: {", ".join(MODES)}.')
  if not isinstance(config, build.Section):
    raise ConfigError(
        f'{path}: get_config() begins with config = defaults({mode!r}), from'
        ' agentrl.config, and returns that.'
    )
  return config


def _place(path: str, error: Exception) -> str:
  """Where in a config file an error came from."""
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


def override(config: ConfigDict, given: Sequence[Given]) -> set[str]:
  """Sets fields of `config`; returns their paths, sections as such.

  Raises:
    ConfigError: names the field, the value and the way out.
  """
  mode = config.mode
  known = build.leaves(mode)
  for path, _ in given:  # before any value: it may be a key
    if path != 'mode' and not _is_section(path, known):
      _check_name(path, mode, known)
  values: dict[str, Any] = {}
  sections = set()
  for path, text in given:
    if path == 'mode':
      _check_mode(text, mode)
      continue
    if _is_section(path, known):
      sections.add(path)
    for name, value in _values(path, text, mode, known):
      if name in values and values[name] != value:
        raise ConfigError(
            f'{name} is given twice, {values[name]!r} and {value!r}: leave one'
            f' out{", or give the whole list" * isinstance(value, tuple)}.'
        )
      values[name] = value
  for path in sorted(sections):  # the outer ones first
    _set(config, path, {})
  for path, value in values.items():
    _set(config, path, value)
  return {path for path, _ in given}


def _is_section(path: str, known: Mapping[str, build.Leaf]) -> bool:
  return any(name.startswith(f'{path}.') for name in known)


def _check_name(path: str, mode: str, known: Mapping[str, Any]) -> None:
  if path in known:
    return
  if _OPTION.fullmatch(path) and _is_section('env.options', known):
    return
  above = path.rpartition('.')[0]
  if above in known:
    raise ConfigError(
        f'Unknown field {path}: {above} is'
        f' {fields.describe(known[above].kind)}, not a section.'
    )
  everything = {mode: build.leaves(mode) for mode in MODES}
  raise ConfigError(names.unknown(path, mode, everything))


def _check_mode(text: str | bool, mode: str) -> None:
  if text not in MODES:
    raise ConfigError(f'Unknown mode {text!r}; known: {", ".join(MODES)}.')
  if text != mode:
    raise ConfigError(
        f'The config is of mode={mode!r}; name one of mode={text!r} instead,'
        ' as listed by --help.'
    )


def _values(
    path: str, text: str | bool, mode: str, known: Mapping[str, build.Leaf]
) -> Iterator[tuple[str, Any]]:
  """Fields and their values, several of a section."""
  if _is_section(path, known):
    yield from _of_section(path, _literal(text), mode, known)
  else:
    yield path, _value(text, _leaf(path, known))


def _of_section(
    path: str, section: Any, mode: str, known: Mapping[str, build.Leaf]
) -> Iterator[tuple[str, Any]]:
  if not isinstance(section, Mapping):
    raise ConfigError(_no_section(path, section, known))
  for key in section:
    if not _is_section(f'{path}.{key}', known):
      _check_name(f'{path}.{key}', mode, known)
  for key, value in section.items():
    name = f'{path}.{key}'
    if _is_section(name, known):
      yield from _of_section(name, value, mode, known)
    else:
      leaf = _leaf(name, known)
      yield name, fields.convert(name, value, leaf.kind, leaf.meaning)


def _no_section(path: str, value: Any, known: Mapping[str, build.Leaf]) -> str:
  start = f'{path}.'
  names = dict.fromkeys(
      name.removeprefix(start).partition('.')[0]
      for name in known
      if name.startswith(start)
  )
  if isinstance(value, str) and value.startswith('{'):  # it may hold a key
    return f'{path} is a section: a dict as Python writes it.'
  return fields.no_section(path, value, names)


def _leaf(path: str, known: Mapping[str, build.Leaf]) -> build.Leaf:
  """The field there; options of an environment elsewhere may be anything."""
  return known.get(path) or build.Leaf(path, Any, None, Meaning('an option'))


def _value(text: str | bool, leaf: build.Leaf) -> Any:
  """The value that the text of a flag means."""
  path, kind, meaning = leaf.path, leaf.kind, leaf.meaning
  try:
    return fields.convert(path, _parse(text, kind), kind, meaning)
  except ConfigError:
    if isinstance(text, bool):
      what = fields.describe(kind)
      text = f'{path} is {what}: write --config.{path}=VALUE.'
    else:
      text = fields.mistyped(path, text, kind, meaning)
  raise ConfigError(text)


def _parse(text: str | bool, kind: Any) -> Any:
  """A text as one of its field's types; as it is where it is of none."""
  kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else [kind]
  lists = [kind for kind in kinds if typing.get_origin(kind) is tuple]
  if not isinstance(text, str):
    return text
  if text == 'None' and types.NoneType in kinds:
    return None
  if bool in kinds:
    return _BOOLS.get(text.lower(), text)
  for number in (int, float):
    if number in kinds:
      try:
        return number(text)
      except ValueError:
        pass
  literal = _literal(text)
  if Any in kinds or (lists and isinstance(literal, (tuple, list, dict))):
    return literal
  if not lists or str in kinds or text.startswith(('(', '[', '{')):
    return text
  of_texts = typing.get_args(lists[0])[0] is str
  return (text if of_texts and not isinstance(literal, str) else literal,)


def _literal(text: str | bool) -> Any:
  """What Python reads in a text; the text itself where that is nothing."""
  if text in ('true', 'false'):
    return text == 'true'
  try:
    return ast.literal_eval(text) if isinstance(text, str) else text
  except (SyntaxError, ValueError, MemoryError, RecursionError):
    return text


def _set(config: ConfigDict, path: str, value: Any) -> None:
  *parents, name = path.split('.')
  for part in parents:
    config = config[part]
  config[name] = value
