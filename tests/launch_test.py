"""Tests for launch.py: what it refuses, and how; and that no field is idle."""

import ast
import dataclasses
import pathlib
import subprocess
import sys

import pytest

from agentrl.modes import settings

ROOT = pathlib.Path(__file__).parent.parent
QUICKSTART = '--config=configs/quickstart.py:tiny'


def launch(*flags):
  return subprocess.run(
      [sys.executable, 'launch.py', *flags],
      capture_output=True,
      text=True,
      cwd=ROOT,
      timeout=120,
  )


@pytest.mark.parametrize(
    'flags, said',
    [
        ((), '--config=configs/quickstart.py'),
        (('--config=configs/none.py',), 'none.py'),
        ((QUICKSTART, '--config.mode=fly'), "'fly'; known: train, "),
        ((QUICKSTART, '--workdir=runs/x', 'extra'), "arguments ['extra']"),
        ((QUICKSTART, '--config.num_steps=many'), 'many'),
        ((QUICKSTART, '--config.algo.kl=1'), 'kl'),
        ((QUICKSTART, '--wrokdir=x'), 'wrokdir'),
        ((QUICKSTART.replace('tiny', 'tiny=maybe'),), "'maybe'"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_exit_code_two(flags, said):
  result = launch(*flags)
  assert result.returncode == 2, result.stderr
  assert 'Traceback' not in result.stderr
  (line,) = result.stderr.strip().splitlines()
  assert line.startswith('ConfigError: ') and said in line
  assert result.stdout == ''


SECTIONS = [
    value
    for value in vars(settings).values()
    if dataclasses.is_dataclass(value)
]


def attributes_read():
  """Names read from any object but self's, in the modes."""
  for path in (ROOT / 'agentrl' / 'modes').glob('*.py'):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        checks_itself = path.name == 'settings.py' and (
            isinstance(node.value, ast.Name) and node.value.id == 'self'
        )
        if not checks_itself:
          yield node.attr


@pytest.mark.parametrize('section', SECTIONS, ids=lambda s: s.__name__)
def test_every_field_that_a_config_may_have_is_read(section):
  fields = {field.name for field in dataclasses.fields(section)}
  if section is settings.Mesh:
    fields = set()  # read as a whole: the axes of the mesh
  if section is settings.Rollout:
    # Named so that another value can be refused with its reason.
    fields -= {'top_p', 'top_k'}
  assert fields <= set(attributes_read())
