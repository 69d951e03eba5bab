"""Tests for agentrl.runtime.mappings."""

import mmap

import pytest

from agentrl.runtime import mappings


def own():
  return mappings._OWN.read_bytes().count(b'\n')


@pytest.fixture
def most(tmp_path, monkeypatch):
  """Sets the number of mappings that a process may have."""
  path = tmp_path / 'max_map_count'
  monkeypatch.setattr(mappings, '_MOST', path)
  return lambda number: path.write_text(f'{number}\n')


def test_a_process_with_most_of_its_mappings_is_crowded(most):
  before = own()
  # Room for 200 more; every second page of its own kind, or they are one.
  most(round((before + 200) / 0.75))
  assert not mappings.crowded()
  held = [
      mmap.mmap(-1, mmap.PAGESIZE, prot=prot)
      for _ in range(300)
      for prot in (mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE)
  ]
  assert own() >= before + 400
  assert mappings.crowded()
  for page in held:
    page.close()
  assert not mappings.crowded()


def test_a_system_that_does_not_tell_has_room(most, tmp_path, monkeypatch):
  assert not mappings.crowded()  # there is no such file
  most('many')
  assert not mappings.crowded()
  most(1)
  monkeypatch.setattr(mappings, '_OWN', tmp_path / 'none')
  assert not mappings.crowded()
