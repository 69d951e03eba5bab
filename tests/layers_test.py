"""The import rules of the design, checked on the source.

A package may import from agentrl only what its row names. Host packages never
import an accelerator library; device packages do no I/O.
"""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent

# package -> the agentrl packages, or modules, that it may import besides itself.
ALLOWED = {
    'types': set(),
    'errors': set(),
    'batch': set(),
    'ops': set(),
    'parallel': set(),
    'schedules': set(),
    'fields': {'errors'},
    'metrics': {'errors'},
    'http': {'errors'},
    'envs': {'http', 'types', 'errors'},
    'text': {'types', 'errors'},
    'models': {'ops', 'parallel', 'batch', 'fields'},
    'rollout': {'envs', 'text', 'types', 'errors'},
    'data': {'text', 'types', 'errors'},
    'weights': {'models', 'parallel', 'errors'},
    'algos': {'ops', 'batch', 'fields', 'errors'},
    'evaluation': {
        'rollout', 'data', 'envs', 'text', 'metrics', 'types', 'errors'
    },
    'engine': {
        'text', 'models', 'weights', 'ops', 'parallel', 'types', 'errors',
        'http', 'metrics',
    },
}  # fmt: skip
BELOW_TRAINING = set(ALLOWED)
ALLOWED['training'] = BELOW_TRAINING
# Modules that say what a config may say of their packages: they are read before
# flags are parsed, and so before jax.
OF_CONFIGS = {'algos.hyperparams', 'models.options', 'training.options'}
ALLOWED['config'] = OF_CONFIGS | {'envs', 'schedules', 'fields', 'errors'}
ALLOWED['modes'] = BELOW_TRAINING | {'training', 'config'}

HOST = {
    'types', 'errors', 'envs', 'text', 'rollout', 'data', 'evaluation',
    'metrics', 'schedules', 'fields', 'config', 'http',
}  # fmt: skip
DEVICE = {'batch', 'ops', 'parallel', 'algos', 'models'}
ACCELERATOR = {'jax', 'jaxlib', 'flax', 'optax', 'chex', 'orbax'}
INPUT_OUTPUT = {
    'absl', 'aiohttp', 'asyncio', 'logging', 'os', 'time', 'pathlib',
    'subprocess', 'threading', 'socket',
}  # fmt: skip
# The border turns host records into the device world's batch.
BORDER = 'agentrl/data/collate.py'
# A ConfigDict stops in modes/: below it, functions take named values.
KNOWS_CONFIGS = {'config', 'modes'}


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


@pytest.mark.parametrize('package', ALLOWED)
def test_imports_point_down(package):
  for path in sources(package):
    name = str(path.relative_to(ROOT))
    allowed = ALLOWED[package] | {package}
    forbidden = set()
    if package in HOST:
      forbidden = ACCELERATOR
    if package in DEVICE:
      forbidden = INPUT_OUTPUT
    if f'{package}.{path.stem}' in OF_CONFIGS:
      allowed, forbidden = {'fields', 'errors'}, ACCELERATOR | INPUT_OUTPUT
    if name == BORDER:
      allowed, forbidden = allowed | {'batch'}, forbidden - {'jax'}
    if package not in KNOWS_CONFIGS:
      forbidden = forbidden | {'ml_collections'}
    for imported in imports(path):
      top, _, rest = imported.partition('.')
      where = f'{name} imports {imported}'
      package_and_module = rest.split('.')[:2]
      names = {package_and_module[0], '.'.join(package_and_module)}
      assert top != 'agentrl' or names & allowed, where
      assert top not in forbidden, where
      # Nobody but the border (and evaluation never) may cross it.
      crosses = imported.startswith('agentrl.data.collate') or (
          imported == 'agentrl.data.collate'
      )
      if crosses:
        assert package in ('training', 'modes'), where


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
