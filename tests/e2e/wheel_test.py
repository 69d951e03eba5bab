"""agentrl as a package: built, installed outside of a clone, and run from there."""

import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]
OWN = ROOT / 'experiments' / '2026-12-own-project'


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


def test_a_project_of_ones_own_trains_with_fewer_than_150_lines(
    python, tmp_path
):
  files = [path for path in OWN.iterdir() if path.name != 'README.md']
  for file in files:
    shutil.copy(file, tmp_path)
  assert sum(len(file.read_text().splitlines()) for file in files) < 150
  said = run(
      python,
      tmp_path,
      '--config=config.py',
      '--workdir=run',
      '--config.num_steps=2',
      '--config.warmstart.episodes=16',
      '--config.warmstart.epochs=1',
      '--config.rollout.tasks_per_step=2',
      '--config.rollout.group_size=2',
      '--config.eval.num_tasks=4',
  )
  assert 'after: success' in said
  lines = (tmp_path / 'run' / 'success.csv').read_text().splitlines()
  assert [line.partition(',')[0] for line in lines] == ['0', '1']


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
