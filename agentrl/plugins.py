"""Parts of a user's own, where a config takes a name: `module:NAME`, `FILE.py:NAME`."""

import importlib
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import sysconfig
import traceback
import types
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agentrl.errors import AgentrlError, ConfigError, one_line

T = TypeVar('T')
_OWN = re.compile(r'(\w+(\.\w+)*|[^\n:]+\.py):\w+')
_MOST_CHARS = 500  # of an error's own words
_LIBRARIES = tuple(
    sysconfig.get_paths()[name]
    for name in ('stdlib', 'platstdlib', 'purelib', 'platlib')
)
# Code that calls a user's own: no place to look for the fault.
_HERE = pathlib.Path(__file__).parent
_CALLERS = (__file__,) + tuple(
    str(_HERE / 'envs' / f'{name}.py')
    for name in ('live_episodes', 'routes', 'spec', 'workers')
)


def is_own(name: Any) -> bool:
  """True for a name of the form `module:NAME` or `FILE.py:NAME`."""
  return isinstance(name, str) and _OWN.fullmatch(name) is not None


def get(name: str, parts: Mapping[str, T | str], kind: type[T], what: str) -> T:
  """The part called `name`.

  Args:
    name: a key of `parts`, or `module:NAME`, such as `my_package.mine:PART`, or
      `FILE.py:NAME`.
    parts: the parts that come along, or where they are: `module:NAME`, which
      is imported when it is asked for.
    kind: type of one's own.
    what: in messages before the name, such as 'environment ' or 'algo.name='.

  Raises:
    ConfigError: no part has this name, or its module cannot be imported.
  """
  place: Any = name
  if name in parts:
    part = parts[name]
    if not isinstance(part, str):
      return part
    place = part
  wanted = _with_article(kind.__name__)
  if not is_own(place):
    raise ConfigError(
        f'Unknown {what}{name!r}; known: {", ".join(parts)}, or module:NAME'
        f' or FILE.py:NAME of {wanted} of your own.'
    )
  module, _, attribute = place.partition(':')
  try:
    imported = _imported(module)
  except Exception as error:  # whatever a user's module does
    missing = getattr(error, 'name', None)
    if isinstance(error, ModuleNotFoundError) and (
        f'{module}.'.startswith(f'{missing}.')
    ):
      raise ConfigError(
          f'Cannot find {what}{name!r}: No module named {missing!r}. Python'
          ' looks in the folder of launch.py (with -m agentrl.launch: in this'
          ' one) and in those of PYTHONPATH: put PYTHONPATH=FOLDER before the'
          ' command, or name its file, FILE.py:NAME.'
      ) from error
    raise ConfigError(f'Cannot find {what}{name!r}: {words(error)}') from error
  try:
    plugin = getattr(imported, attribute)
  except AttributeError as error:
    raise ConfigError(f'Cannot find {what}{name!r}: {error}') from error
  if not isinstance(plugin, kind):
    raise ConfigError(
        f'{what}{name} is {_with_article(type(plugin).__name__)}, not {wanted}.'
    )
  return plugin


def function(
    name: str, parts: Mapping[str, Callable[..., Any]], what: str
) -> Callable[..., Any]:
  """The function called `name`; errors of one's own say where they are from.

  Args:
    name: as `get` has it.
    parts: as `get` has them.
    what: as `get` has it.

  Raises:
    ConfigError: as `get`; when it is called: one's own fails.
  """
  found: Callable[..., Any] = get(name, parts, Callable, what)  # type: ignore[arg-type]  # a class, but not in typeshed
  return found if name in parts else named(found, f'{what}{name}')


def named(
    function: Callable[..., Any], name: str, *meant: type[Exception]
) -> Callable[..., Any]:
  """A function of a user's, whose errors say where they are from.

  Args:
    function: of the user.
    name: of it, in messages.
    *meant: errors that it may raise, beside `AgentrlError`.

  Raises:
    ConfigError: when it is called: it fails.
  """

  def call(*args: Any, **kwargs: Any) -> Any:
    try:
      return function(*args, **kwargs)
    except Exception as error:  # whatever a user's function does
      if isinstance(error, (AgentrlError, *meant)):
        raise
      raise ConfigError(f'{name}: {words(error)}') from error

  return call


def _imported(place: str) -> types.ModuleType:
  """A module by its name, or by its file."""
  if not place.endswith('.py'):
    return importlib.import_module(place)
  path = pathlib.Path(place).absolute()
  # By its path: two files of one name are two modules. In sys.modules, where
  # dataclasses and pickle look for what it defines.
  name = f'own_{path.stem}_{zlib.crc32(str(path).encode()):08x}'
  if name in sys.modules:
    return sys.modules[name]
  loader = importlib.machinery.SourceFileLoader(name, str(path))
  spec = importlib.util.spec_from_loader(name, loader)
  assert spec is not None  # of a loader that was given
  module = importlib.util.module_from_spec(spec)
  sys.modules[name] = module
  try:
    loader.exec_module(module)
  except BaseException:
    del sys.modules[name]
    raise
  return module


def words(error: Exception) -> str:
  """An error of a user's code in one line: type, words, and where it is from.

  The place is the innermost line outside of libraries, if there is one.
  """
  message = one_line(error, _MOST_CHARS)
  summary = (
      f'{type(error).__name__}: {message}' if message else type(error).__name__
  )
  if isinstance(error, SyntaxError):  # whose words have its place
    return summary
  frames = [
      frame
      for frame in traceback.extract_tb(error.__traceback__)
      if not frame.filename.startswith(('<', *_LIBRARIES, *_CALLERS))
  ]
  if not frames:
    return summary
  last = frames[-1]
  return f'{summary} ({last.filename}, line {last.lineno}, in {last.name})'


def _with_article(name: str) -> str:
  return f'{"an" if name[0] in "AEIOUaeiou" else "a"} {name}'
