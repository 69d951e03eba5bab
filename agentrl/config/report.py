"""Listings of the command line: modes and files, fields, values and origins."""

import ast
import pathlib
import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import rich.console
import rich.table
from ml_collections import ConfigDict

from agentrl import fields
from agentrl.config import build, mixture, reading
from agentrl.config.build import Leaf
from agentrl.config.modes import MODES, Mode, flat, record
from agentrl.errors import ConfigError

_WIDTH = 80


def overview(folder: pathlib.Path) -> str:
  """The modes, and the config files of a folder, a line each."""
  modes = {
      name: (cls.__doc__ or '').partition(': ')[2].splitlines()[0]
      for name, cls in MODES.items()
  }
  files = {}
  for path in sorted(folder.glob('*.py')):
    tree = ast.parse(path.read_text(encoding='utf-8'))
    defined = [getattr(node, 'name', None) for node in tree.body]
    if 'get_config' in defined:
      summary = (ast.get_docstring(tree) or '').partition('\n')[0]
      files[f'{folder.name}/{path.name}'] = summary
  return f'modes:\n{_listed(modes)}\n\nconfig files:\n{_listed(files)}'


def _listed(meanings: Mapping[str, str]) -> str:
  indent = max(map(len, meanings)) + 4
  return '\n'.join(
      textwrap.fill(
          meaning,
          _WIDTH,
          initial_indent=f'  {name}'.ljust(indent),
          subsequent_indent=' ' * indent,
      )
      for name, meaning in meanings.items()
  )


def show_fields(
    mode: str, section: str = '', algo: str = '', env: str = ''
) -> None:
  """Prints what is known of the fields of a mode, or of one section.

  Args:
    mode: of the config.
    section: prefix of paths; '': all.
    algo: name of the algorithm, whose fields are shown.
    env: name of the environment, whose options are.

  Raises:
    ConfigError: there is no such section.
  """
  leaf_table = build.leaves(mode, algo, env)
  if build.MIXTURE in leaf_table and section.startswith(build.MIXTURE):
    leaf_table = mixture.leaves()
  shown = [
      leaf
      for path, leaf in leaf_table.items()
      if not section or f'{path}.'.startswith(f'{section}.')
  ]
  if not shown:
    raise ConfigError(build.unknown(section, mode))
  console = rich.console.Console(highlight=False, markup=False)
  if not console.is_terminal:
    console.width = 10_000  # one line a field
  table = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
  for name in ('field', 'type', 'default', 'meaning', 'constraint'):
    table.add_column(name, overflow='fold')
  for leaf in shown:
    table.add_row(
        leaf.path,
        fields.describe(leaf.kind).removeprefix('a '),
        _default(leaf, mode),
        leaf.meaning.text,
        leaf.meaning.constraint,
    )
  with console.capture() as capture:
    console.print(table)
  for line in capture.get().splitlines():
    print(line.rstrip())


def _default(leaf: Leaf, mode: str) -> str:
  name = leaf.path.rpartition('.')[2]
  default = leaf.default
  if leaf.path.startswith(f'{build.MIXTURE}.') and name != 'weight':
    return f"the run's {leaf.path.split('.', 2)[2]}"
  run = "the run's, else " if leaf.path in MODES[mode].BROUGHT else ''
  return f'{run}{default!r}'


def show_values(
    config: ConfigDict,
    read: Mode,
    run: Mapping[str, Any] | None,
    flag_paths: Collection[str],
) -> None:
  """Prints every value of a config that was read, and where it is from.

  Args:
    config: as it was read.
    read: the same, as `reading.read` gives it.
    run: the config of the run that it goes on from.
    flag_paths: paths of fields and sections that flags set.
  """
  rows = list(origins(config, read, run, flag_paths))
  wide = max(len(path) for path, _, _ in rows)
  # A long value moves its own origin alone.
  across = min(60, max(len(repr(value)) for _, value, _ in rows))
  for path, value, origin in rows:
    print(f'{path:{wide}}  {value!r:{across}}  {origin}')


def origins(
    config: ConfigDict,
    read: Mode,
    run: Mapping[str, Any] | None,
    flag_paths: Collection[str],
) -> Iterator[tuple[str, Any, str]]:
  """Path, value and origin of every field; see `show_values`.

  Yields:
    origins 'flag', 'config', 'run' (what the config left open) or 'default'.
  """
  recorded = record(read)
  usual = reading.usual(recorded)
  brought = flat(reading.brought(read.mode, run or {}), usual)
  chosen = flat(config.to_dict(), usual)
  for path, value in flat(recorded, usual).items():
    if any(f'{path}.'.startswith(f'{name}.') for name in flag_paths):
      origin = 'flag'
    elif chosen.get(path) is None and brought.get(path, ...) == value:
      origin = 'run'
    elif path in usual and value == usual[path]:
      origin = 'default'
    else:
      origin = 'config'
    yield path, tuple(value) if isinstance(value, list) else value, origin
  if recorded.get(build.MIXTURE) == {}:
    yield build.MIXTURE, {}, 'default'
