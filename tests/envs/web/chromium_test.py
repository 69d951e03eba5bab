"""Which Chromium is taken."""

import os
import sys

import pytest

from agentrl.envs.web import chromium
from agentrl.errors import EnvError


@pytest.fixture
def machine(tmp_path, monkeypatch):
  """A machine without any; returns how to install one."""
  pytest.importorskip('playwright')
  monkeypatch.setattr(chromium, '_FILES', (str(tmp_path / 'lib' / 'chromium'),))
  monkeypatch.setenv('PATH', str(tmp_path / 'bin'))
  monkeypatch.setenv('PLAYWRIGHT_BROWSERS_PATH', str(tmp_path / 'downloads'))

  def install(name, mode=0o755):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)
    return str(path)

  return install


def test_without_one_it_says_how_to_install_it(machine):
  del machine
  with pytest.raises(EnvError, match='no Chromium.*apt-get install chromium'):
    chromium.find()


def test_the_binary_is_preferred_to_scripts_and_downloads(machine):
  machine('downloads/chromium-1234/chrome')
  assert chromium.find() is None  # Playwright finds its own
  script = machine('bin/chromium')
  assert chromium.find() == script
  binary = machine('lib/chromium')
  assert chromium.find() == binary


def test_downloads_are_where_playwright_has_them(
    machine, monkeypatch, tmp_path
):
  machine('home/.cache/ms-playwright/chromium_headless_shell-1/x')
  monkeypatch.setenv('HOME', str(tmp_path / 'home'))
  with pytest.raises(EnvError):
    chromium.find()
  monkeypatch.delenv('PLAYWRIGHT_BROWSERS_PATH')
  assert chromium.find() is None


def test_a_named_one_must_be_executable(machine, tmp_path):
  named = machine('own/chrome')
  assert chromium.find(named) == named
  for path in (str(tmp_path), str(tmp_path / 'none'), machine('text', 0o644)):
    if path.endswith('text') and os.access(path, os.X_OK):
      continue
    with pytest.raises(EnvError, match='no executable .* .option chromium.'):
      chromium.find(path)


def test_without_playwright_it_says_how_to_install_it(monkeypatch):
  monkeypatch.setitem(sys.modules, 'playwright', None)
  with pytest.raises(EnvError, match='pip install -r third_party/requirements'):
    chromium.find()
