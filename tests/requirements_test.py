"""What agentrl imports is in its requirement files, by name."""

import ast
import functools
import importlib.metadata
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FILES = [ROOT / 'requirements.txt', *ROOT.glob('third_party/requirements/*')]
# Only in SGLang's environment, or in that of a peer that is compared.
ELSEWHERE = {'sglang', 'torch', 'sglang_on_cpu'}
NAME = re.compile(r'[A-Za-z0-9._-]+')


def normalised(name):
  return re.sub(r'[-_.]+', '-', name).lower()


@functools.cache
def required():
  """Names of all distributions in the files."""
  found = set()
  for file in FILES:
    for line in file.read_text(encoding='utf-8').splitlines():
      text = line.partition('#')[0].strip()
      if text and not text.startswith('-'):
        found.add(normalised(NAME.match(text)[0]))
  return found


@functools.cache
def imported():
  """Top-level names of other packages -> the first file that imports them."""
  found = {}
  files = [*sorted((ROOT / 'agentrl').rglob('*.py')), ROOT / 'launch.py']
  for path in files:
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
      names = []
      if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
      elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module]
      for name in names:
        found.setdefault(name.partition('.')[0], path.relative_to(ROOT))
  own = {'agentrl', 'configs', 'experiments', *sys.stdlib_module_names}
  return {k: v for k, v in found.items() if k not in own | ELSEWHERE}


@functools.cache
def distributions():
  """Top-level names of packages -> the distributions that have them."""
  return importlib.metadata.packages_distributions()


@pytest.mark.parametrize('name', sorted(imported()))
def test_every_import_is_of_a_package_in_a_requirement_file(name):
  owners = distributions().get(name)
  if owners is None:
    pytest.skip(f'{name} is not installed here')
  wanted = {normalised(owner) for owner in owners}
  assert wanted & required(), f'{imported()[name]} imports {name}'
