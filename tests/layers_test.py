"""The layers of the design, checked on the source.

A package may import from agentrl only what its row names. Host packages never
import an accelerator library; device packages do no I/O.
"""

import ast
import graphlib
import pathlib
import re
import subprocess
import sys

import pytest

from agentrl import envs

ROOT = pathlib.Path(__file__).parent.parent

# Sections of a config that lie beside what they are about. They are read before
# flags are parsed, and so before jax: module -> what it may import.
OPTIONS = {
    'algos.algorithm': {'algos.hyperparams', 'plugins', 'errors'},
    'algos.hyperparams': {'fields', 'errors'},
    'envs.options': {'fields', 'errors', 'envs'},
    'inference.options': {'fields', 'errors'},
    'models.options': {'fields', 'errors'},
    'rollout.options': {'fields', 'errors', 'envs'},
    'parallel.options': {'fields', 'errors'},
    'training.options': {'fields', 'errors'},
    'serving.options': {'fields', 'errors'},
}
# Packages, and modules, that a package may import besides itself and the
# records and errors that are open to all; from the lowest layer to the highest.
ALLOWED = {
    'errors': set(),
    'types': set(),
    'shipped': set(),
    'files': set(),
    'batch': set(),
    'plugins': set(),
    'fields': {'plugins'},
    'trackers': {'plugins'},
    'metrics': {'trackers'},
    'schedules': {'plugins'},
    'json_files': set(),
    'runtime': set(),
    'http': set(),
    'sites': set(),
    'ops': {'batch'},
    'parallel': {'fields', 'runtime'},
    'envs': {'plugins', 'fields', 'json_files', 'http', 'runtime', 'sites'},
    'text': set(),
    'models': {'batch', 'fields', 'ops', 'parallel'},
    'inference': {'http', 'runtime'},
    'data': {'json_files', 'text'},
    'rollout': {
        'plugins', 'fields', 'metrics', 'schedules', 'envs', 'text', 'inference',
        'data', 'http', 'runtime',
    },
    'weights': {'models', 'parallel', 'runtime'},
    'algos': {'batch', 'fields', 'ops'},
    'evaluation': {
        'metrics', 'envs', 'text', 'inference', 'rollout', 'data', 'http',
        'runtime',
    },
    'engine': {
        'metrics', 'ops', 'parallel', 'text', 'models', 'weights', 'http',
        'runtime',
    },
}  # fmt: skip
ALLOWED['training'] = set(ALLOWED)
ALLOWED['config'] = {
    *OPTIONS, 'plugins', 'fields', 'schedules', 'trackers', 'envs',
    'runtime.workdir',
}  # fmt: skip
ALLOWED['viewer'] = {
    'metrics', 'envs', 'text', 'inference', 'rollout', 'data', 'evaluation',
    'http', 'runtime',
}  # fmt: skip
ALLOWED['serving'] = ALLOWED['training'] | {'training'}
ALLOWED['planning'] = ALLOWED['training'] | {'training', 'serving'}
ALLOWED['modes'] = ALLOWED['training'] | {
    'training', 'config', 'serving', 'planning', 'viewer'
}  # fmt: skip
ALLOWED['launch'] = {'config', 'runtime'}  # the rest late, by name
OPEN = {'errors', 'types', 'shipped', 'files'}

HOST = {
    'errors', 'types', 'shipped', 'files', 'plugins', 'fields', 'metrics', 'trackers', 'schedules',
    'json_files', 'runtime', 'http', 'sites', 'envs', 'text', 'inference',
    'rollout',
    'data', 'evaluation', 'config', 'viewer',
}  # fmt: skip
DEVICE = {'batch', 'ops', 'parallel', 'algos', 'models'}
ACCELERATOR = {'jax', 'jaxlib', 'flax', 'optax', 'chex', 'orbax'}
INPUT_OUTPUT = {
    'absl', 'aiohttp', 'asyncio', 'logging', 'os', 'time', 'pathlib',
    'subprocess', 'threading', 'socket',
}  # fmt: skip
# flax changes a class while it derives another from it, and an engine traces the
# decoder in a thread of its own; ranks, the cache of programs and the waits for
# them are about processes, files and threads, and need jax.
DO_IO = {
    'models.transformer': {'threading'},
    'parallel.ranks': {'pathlib'},
    'parallel.compile_cache': {'absl', 'os', 'pathlib'},
    'parallel.compile_waits': {'threading', 'time'},
}
# The border turns host records into the device world's batch.
BORDER = 'data.collate'
CROSSES = {'training', 'planning', 'modes'}
# A ConfigDict stops in modes/: below it, functions take named values.
KNOWS_CONFIGS = {'config', 'modes', 'launch'}
# Who samples, and servers of environments, are started; training runs in
# processes that it is given.
PROCESSES = {'runtime.children', 'runtime.supervisor'}


def imports(path):
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{path} has a relative import'
      yield from (f'{node.module}.{alias.name}' for alias in node.names)


def sources(package):
  base = ROOT / 'agentrl' / package
  return (
      sorted(base.rglob('*.py')) if base.is_dir() else [base.with_suffix('.py')]
  )


def test_every_package_has_a_row():
  found = {
      path.stem
      for path in (ROOT / 'agentrl').iterdir()
      if (path.is_dir() and path.name != '__pycache__')
      or (path.suffix == '.py' and path.stem != '__init__')
  }
  assert found == set(ALLOWED)


def test_no_row_points_up_or_in_a_circle():
  order = tuple(graphlib.TopologicalSorter(ALLOWED).static_order())
  assert order.index('training') < order.index('modes')
  rows = list(ALLOWED)
  for package, allowed in ALLOWED.items():
    whole = {name for name in allowed if '.' not in name}
    assert whole <= set(rows[: rows.index(package)]), package
    # So no jax can come in from below either.
    assert package not in HOST or whole <= HOST, package


def module(path):
  """The module of a file by its name below agentrl."""
  parts = path.relative_to(ROOT / 'agentrl').with_suffix('').parts
  return '.'.join(part for part in parts if part != '__init__')


@pytest.mark.parametrize('package', ALLOWED)
def test_imports_point_down(package):
  for path in sources(package):
    name = module(path)
    allowed = ALLOWED[package] | OPEN | {package}
    forbidden = set()
    if package in HOST:
      forbidden = ACCELERATOR
    if package in DEVICE:
      forbidden = INPUT_OUTPUT - DO_IO.get(name, set())
    if name in OPTIONS:
      allowed, forbidden = OPTIONS[name], ACCELERATOR | INPUT_OUTPUT
    if name == BORDER:
      allowed, forbidden = allowed | {'batch'}, forbidden - {'jax'}
    if package not in KNOWS_CONFIGS:
      forbidden = forbidden | {'ml_collections'}
    for imported in imports(path):
      top, *rest = imported.split('.')
      where = f'{name} imports {imported}'
      names = {'.'.join(rest[:1]), '.'.join(rest[:2])}
      assert top != 'agentrl' or names & allowed, where
      assert top not in forbidden, where
      assert BORDER not in names or package in CROSSES, where
      assert package != 'training' or not names & PROCESSES, where


def test_only_its_own_folder_names_an_environment():
  """Code alone: docstrings and comments may give one as an example."""
  outside = (*envs.ADAPTERS, *envs.AGENTGYM)
  folders = [name for name in envs.ENVS if name not in outside]
  names = '|'.join(folders)
  named = re.compile(rf'(?i)(?<!configs/)(?<![a-z])({names})(?![a-z])')
  for path in (ROOT / 'agentrl').rglob('*.py'):
    name = module(path)
    if name == 'envs' or name.split('.')[1:2] in (
        [x] for x in (*folders, 'web')
    ):
      continue
    tree = ast.parse(path.read_text())
    docs = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(
            node,
            ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
        )
        and ast.get_docstring(node) is not None
    }
    for node in ast.walk(tree):
      words = [str(x) for _, x in ast.iter_fields(node) if isinstance(x, str)]
      if node not in docs:
        assert not any(map(named.search, words)), f'{path}:{node.lineno}'


def test_the_engines_core_knows_no_http():
  for path in (ROOT / 'agentrl/engine').glob('*.py'):
    if path.stem == 'server':  # composes the core and HTTP
      continue
    for imported in imports(path):
      assert not imported.startswith(
          ('agentrl.engine.http', 'agentrl.engine.openai', 'aiohttp', 'asyncio')
      ), f'{path.name} imports {imported}'


# As launch.py does, before it knows the flags.
DEFAULTS = """
import sys
from agentrl import config
from agentrl.config import commandline

for mode in config.MODES:
  config.defaults(mode)
assert 'jax' not in sys.modules
"""
CONFIG = """
import importlib, sys

for name in sys.argv[1:]:
  importlib.import_module(f'configs.{name}').get_config()
  assert 'jax' not in sys.modules, name
"""
# Of packages that join the worlds, what is imported before jax, or without it.
WITHOUT_JAX = (
    'modes.early',
    'modes.preflight',
    'modes.reading',
    'modes.serve_env',
    'modes.source',
    'modes.told',
    'modes.view',
    'serving.remote',
    'weights.finding',
)
IMPORT = """
import importlib, sys

for name in sys.argv[1:]:
  importlib.import_module(f'agentrl.{name}')
  assert 'jax' not in sys.modules, name
"""


def run(code, *arguments):
  command = [sys.executable, '-c', code, *arguments]
  subprocess.run(command, cwd=ROOT, check=True)


def test_defaults_are_built_without_jax():
  run(DEFAULTS)


def test_configs_are_built_without_jax():
  files = sorted((ROOT / 'configs').glob('*.py'))
  names = [file.stem for file in files if 'def get_config' in file.read_text()]
  assert 'quickstart' in names
  run(CONFIG, *names)


def test_what_reads_a_config_imports_no_jax():
  run(IMPORT, *WITHOUT_JAX)
