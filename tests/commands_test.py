"""Every command of README, guides and docstrings is one that its program takes."""

import ast
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from experiments.benchmarks import gpu
from tests import own_files

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = ('launch.py', 'agentrl', 'configs', 'experiments')
PAGES = [
    ROOT / 'README.md',
    ROOT / 'experiments' / 'coming_from_agentgym_rl.md',
] + [
    page
    for folder in ('agentrl', 'experiments', 'third_party')
    for page in sorted((ROOT / folder).rglob('README.md'))
]
PROGRAM = re.compile(
    r'(?:python|PYTHON) (launch\.py .*|-m (?:agentrl|experiments)\..*)'
)
# What a page leaves to its reader, where a flag wants more than a word.
PLACEHOLDERS = {'SEED': '0', '$rank': '0', '$length': '4096', '$segments': '1'}


def texts():
  """(file, text) of every page and docstring that may hold commands."""
  for path in PAGES:
    yield path, path.read_text()
  for source in SOURCES:
    for path in sorted((ROOT / source).rglob('*.py')) or [ROOT / source]:
      yield path, ast.get_docstring(ast.parse(path.read_text())) or ''


def code(path, text):
  """The code in a text: fenced or inline, or indented in a docstring."""
  if path.suffix == '.md':
    found = re.findall(r'^```\w*\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    found += re.findall(r'`(python [^`]+)`', text)
  else:
    found = re.findall(r'^ {4}.*\n?', text, re.MULTILINE)
  return '\n'.join(part.rstrip('\n') for part in found)


def commands(text):
  """The argument vectors, after the interpreter, of our programs."""
  text = re.sub(r'\\\n', ' ', text)
  variable = r'^([A-Z]+)="(.*?)"$'
  defined = re.findall(variable, text, re.DOTALL | re.MULTILINE)
  text = re.sub(variable, '', text, flags=re.DOTALL | re.MULTILINE)
  for name, value in defined:
    text = text.replace(f'${name}', value.replace('\n', ' '))
  text = re.sub(r'\$\(\([^)]*\)\)', '1', text)
  text = re.sub(r'\$\([^)]*\)', 'PYTHON', text)
  for name, value in PLACEHOLDERS.items():
    text = text.replace(name, value)
  for line in text.splitlines():
    for part in re.split(r'&&|;(?= )|;$', line):
      found = PROGRAM.search(part)
      if found and '...' not in part:
        yield tuple(shlex.split(part[found.start(1) :], comments=True))


COMMANDS = {}  # argument vector -> file in which it stands first
for _path, _text in texts():
  for _argv in commands(code(_path, _text)):
    COMMANDS.setdefault(_argv, str(_path.relative_to(ROOT)))
for _case in gpu.make_cases(True, 'qwen2.5-1.5b', 'PYTHON', pathlib.Path('x')):
  COMMANDS.setdefault(tuple(_case.command), 'experiments/benchmarks/gpu.py')

WRONG = {
    (
        'launch.py',
        '--config=configs/quickstart.py',
        '--config.optim.ir=1',
    ): 'lr',
    ('launch.py', '--config=configs/evaluate.py:n=-1'): 'at least 1',
    ('launch.py', '--config=configs/export.py', 'run=x'): "['run=x']",
    ('-m', 'agentrl.envs.server', '--port=many'): 'many',
    ('-m', 'experiments.benchmarks.bench_start', '--molde=x'): 'molde',
    ('-m', 'experiments.benchmarks.bench_none'): 'bench_none',
}


@pytest.fixture(scope='module')
def said(tmp_path_factory):
  """The complaint of its program about each command."""
  own = tmp_path_factory.mktemp('own')
  for package in ('algos', 'envs'):
    own_files.write(ROOT / 'agentrl' / package / 'README.md', own)
  process = subprocess.run(
      [sys.executable, '-m', 'tests.commands'],
      input=json.dumps([*COMMANDS, *WRONG]),
      stdout=subprocess.PIPE,
      text=True,
      check=True,
      cwd=ROOT,
      env=os.environ | {'PYTHONPATH': str(own)},
  )
  return dict(zip([*COMMANDS, *WRONG], json.loads(process.stdout), strict=True))


def test_pages_and_configs_have_commands():
  found = set(COMMANDS.values())
  assert {'README.md', 'experiments/README.md'} <= found
  for path in (ROOT / 'configs').glob('*_*.py'):
    assert any(str(path.relative_to(ROOT)) in argv[1] for argv in COMMANDS)


@pytest.mark.parametrize(
    'argv', COMMANDS, ids=lambda argv: ' '.join(argv).encode('ascii', 'replace')
)
def test_a_command_is_one_that_its_program_takes(argv, said):
  assert said[argv] == '', COMMANDS[argv]


@pytest.mark.parametrize('argv, word', WRONG.items())
def test_a_command_that_could_not_run_is_found(argv, word, said):
  assert word in said[argv]


def test_readme_is_short_names_every_package_and_links_each_guide_once():
  readme = (ROOT / 'README.md').read_text()
  assert len(readme.splitlines()) <= 200
  for path in PAGES:
    text = path.read_text()
    for target in re.findall(r'\]\(([^)#:]+)(?:#[^)]*)?\)', text):
      assert (path.parent / target).exists(), (path, target)
    if path.is_relative_to(ROOT / 'agentrl'):
      assert readme.count(f'({path.relative_to(ROOT)})') == 1, path
  for package in (ROOT / 'agentrl').glob('*/__init__.py'):
    assert f'{package.parent.name}/`' in readme, package
  for file in re.findall(r'-r (third_party/\S+\.txt)', readme):
    assert (ROOT / file).is_file(), file
