"""agentrl as a package: built, installed outside of a clone, and run from there."""

import json
import pathlib
import subprocess
import sys
import sysconfig

import pytest

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]
OWN = """
from agentrl.config import defaults

def get_config():
  config = defaults('train')
  config.num_steps = 7
  return config
"""


@pytest.fixture(scope='module')
def python(tmp_path_factory):
  """The Python of an environment with the wheel, and no clone on its path."""
  folder = tmp_path_factory.mktemp('wheel')
  pip = [sys.executable, '-m', 'pip', '-q']
  subprocess.run(
      [*pip, 'wheel', '--no-deps', '-w', folder, ROOT / 'agentrl'], check=True
  )
  subprocess.run(
      [sys.executable, '-m', 'venv', '--without-pip', folder / 'venv'],
      check=True,
  )
  found = folder / 'venv' / 'bin' / 'python'
  (wheel,) = folder.glob('*.whl')
  subprocess.run(
      [*pip, '--python', found, 'install', '--no-deps', wheel], check=True
  )
  # What it depends on is here already: metadata names it, see below.
  packages = subprocess.check_output(
      [found, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'],
      text=True,
  ).strip()
  (pathlib.Path(packages) / 'here.pth').write_text(
      sysconfig.get_path('purelib') + '\n'
  )
  return found


def run(python, folder, *arguments):
  done = subprocess.run(
      [python, '-m', 'agentrl.launch', *arguments],
      cwd=folder,
      capture_output=True,
      text=True,
      timeout=900,
      env={'PATH': '/usr/bin:/bin', 'HOME': str(pathlib.Path.home())},
  )
  assert not done.returncode, done.stderr
  return done.stdout


def test_a_wheel_trains_the_quickstart(python, tmp_path):
  said = run(
      python,
      tmp_path,
      '--config=configs/quickstart.py:tiny',
      '--workdir=run',
  )
  assert json.loads((tmp_path / 'run/summary.json').read_text())['steps'] == 2
  assert 'python -m agentrl.launch --config=configs/view.py' in said
  assert str(ROOT) not in said


def test_a_config_of_ones_own_is_read(python, tmp_path):
  (tmp_path / 'mine.py').write_text(OWN)
  said = run(python, tmp_path, '--config=mine.py', '--dry_run')
  assert 'num_steps' in said


def test_a_wheel_names_what_it_needs(python):
  code = "import importlib.metadata as m; print(m.requires('agentrl'))"
  said = subprocess.check_output([python, '-c', code], text=True)
  wanted = [
      line.partition('#')[0].strip()
      for line in (ROOT / 'requirements.txt').read_text().splitlines()
  ]
  for name in filter(None, wanted):
    name = name.partition('>')[0].partition('=')[0]
    assert name.lower().replace('_', '-') in said.lower()
