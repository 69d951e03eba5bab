"""Tests for tests.passed: only what has passed as it is now is left out."""

import types

import pytest

from tests import passed

NAMES = [f'tests/sites/x_test.py::test_{i}' for i in range(4)]


class Hook:

  def pytest_deselected(self, items):
    self.items = items


def session(**worker):
  """The plugin, and the tests that it leaves of all."""
  config = types.SimpleNamespace(hook=Hook(), **worker)
  plugin = passed.Passed(config)
  items = [types.SimpleNamespace(nodeid=name) for name in NAMES]
  plugin.pytest_collection_modifyitems(config, items)
  return plugin, [item.nodeid for item in items]


def report(name, when='call', passed=True):
  return types.SimpleNamespace(nodeid=name, when=when, passed=passed)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path))
  monkeypatch.setenv('AGENTRL_SKIP_PASSED', '1')


def test_what_has_passed_as_a_whole_is_left_out_where_it_is_asked_for(
    monkeypatch,
):
  plugin, left = session()
  assert left == NAMES
  for some in (
      report(NAMES[0], 'setup'),
      report(NAMES[0]),
      report(NAMES[1], passed=False),
      report(NAMES[2]),
      report(NAMES[2], 'teardown', passed=False),
      report('tests/algos/x_test.py::test_a'),
  ):
    plugin.pytest_runtest_logreport(some)
  plugin.pytest_sessionfinish()
  plugin, left = session()
  assert left == NAMES[1:]
  assert plugin.before == {NAMES[0]}
  monkeypatch.delenv('AGENTRL_SKIP_PASSED')
  assert session()[1] == NAMES


def test_workers_leave_out_what_they_are_told(monkeypatch):
  node = types.SimpleNamespace(workerinput={})
  plugin, _ = session()
  plugin.pytest_runtest_logreport(report(NAMES[3]))
  plugin.pytest_sessionfinish()
  session()[0].pytest_configure_node(node)
  assert session(workerinput=node.workerinput)[1] == NAMES[:3]


def test_any_byte_of_what_is_tested_makes_it_another(tmp_path, monkeypatch):
  monkeypatch.setattr(passed, 'ROOT', tmp_path)
  file = tmp_path / 'agentrl' / 'sites' / 'shop' / 'a.sql'
  file.parent.mkdir(parents=True)
  digests = []
  for text in ('a', 'b', 'a'):
    file.write_text(text)
    digests.append(passed.digest())
  file.rename(file.with_name('b.sql'))
  digests.append(passed.digest())
  assert digests[0] == digests[2] and len(set(digests)) == 3


def test_packages_and_settings_count(monkeypatch):
  first = passed.digest()
  monkeypatch.setenv('AGENTRL_WEBARENA_TASKS', '2')
  assert passed.digest() != first


def test_without_a_folder_all_run(tmp_path, monkeypatch):
  (tmp_path / 'file').touch()
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path / 'file'))
  plugin, left = session()
  plugin.pytest_runtest_logreport(report(NAMES[0]))
  plugin.pytest_sessionfinish()
  assert left == NAMES
