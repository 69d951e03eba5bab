"""Tests for agentrl.plugins: parts by their file; those by module are tested with
environments and algorithms."""

import dataclasses
import pickle
import sys

import pytest

from agentrl import plugins
from agentrl.errors import ConfigError

PART = """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Thing:
  size: int

THING = Thing({size})
NUMBER = {size}
"""


def write(folder, size=3, code=PART):
  folder.mkdir(exist_ok=True)
  path = folder / 'mine.py'
  path.write_text(code.format(size=size))
  return path


def test_a_part_is_named_by_its_file(tmp_path, monkeypatch):
  path = write(tmp_path)
  assert plugins.get(f'{path}:NUMBER', {}, int, 'part ') == 3
  monkeypatch.chdir(tmp_path)
  assert plugins.get('mine.py:NUMBER', {}, int, 'part ') == 3
  thing = plugins.get('mine.py:THING', {}, object, 'part ')
  assert dataclasses.astuple(thing) == (3,)
  assert pickle.loads(pickle.dumps(thing)) == thing


def test_a_file_is_read_once_and_two_of_one_name_are_two(tmp_path):
  one, two = write(tmp_path / 'a', 1), write(tmp_path / 'b', 2)
  get = lambda path: plugins.get(f'{path}:THING', {}, object, 'part ')
  assert get(one) is get(one)
  assert (get(one).size, get(two).size) == (1, 2)


@pytest.mark.parametrize(
    'code, name, said',
    [
        ('1 / 0', 'X', 'ZeroDivisionError: division by zero'),
        ('import nonesuch', 'X', "No module named 'nonesuch'"),
        ('X = 1', 'Y', "has no attribute 'Y'"),
        ('X = 1', 'X', 'X is an int, not a str'),
    ],
)
def test_what_is_wrong_with_a_file_is_said(code, name, said, tmp_path):
  path = write(tmp_path, code=code)
  for _ in range(2):  # what broke is not taken for whole the next time
    with pytest.raises(ConfigError, match=said):
      plugins.get(f'{path}:{name}', {}, str, 'part ')
  assert not any(
      module.startswith('own_mine') and code != 'X = 1'
      for module in sys.modules
      if str(path) == getattr(sys.modules[module], '__file__', None)
  )


def test_a_file_that_is_not_there_is_named(tmp_path):
  with pytest.raises(ConfigError, match='none.py'):
    plugins.get(f'{tmp_path}/none.py:X', {}, str, 'part ')
