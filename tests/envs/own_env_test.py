"""The environment of agentrl/envs/README.md, as it is written there."""

import asyncio
import json
import pathlib
import re
import subprocess
import sys

import pytest

from agentrl import envs
from agentrl.errors import ConfigError
from tests.e2e.running import QUICKSTART
from tests.envs import conformance

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / 'agentrl' / 'envs' / 'README.md'
CASE = conformance.Case(
    env_name='guess:SPEC',
    tasks=range(20),
    actions=('50', '101', 'seven', '7'),
    digest='',
)


@pytest.fixture(scope='module', autouse=True)
def guess(tmp_path_factory):
  """The folder of guess.py, importable here and in children."""
  blocks = re.findall(r'```python\n(.*?)```', PAGE.read_text(), re.DOTALL)
  [code] = [block for block in blocks if 'class Guess' in block]
  assert len(code.splitlines()) < 60
  folder = tmp_path_factory.mktemp('own')
  (folder / 'guess.py').write_text(code)
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(folder))
    patch.setenv('PYTHONPATH', str(folder))
    yield folder


@pytest.mark.parametrize('check', conformance.CHECKS)
def test_it_conforms(check):
  asyncio.run(conformance.CHECKS[check](CASE))


def test_it_is_explained_split_and_served_in_workers():
  spec = envs.get('guess:SPEC')
  assert 'from 1 to 100' in spec.instructions('react', 'full')
  assert spec.tasks('test') == tuple(range(100))
  assert spec.subtasks()(3) == 'guess'

  async def main():
    async with conformance.serving(CASE, workers=2, expert=True) as at:
      number = await at.create(3)
      assert 'Guess my number' in await at.reset(number, 3)

  asyncio.run(main())


@pytest.mark.slow
def test_it_is_learnt_from_the_command_line(guess, tmp_path):
  page = PAGE.read_text().replace('\\\n', '')
  blocks = re.findall(r'```bash\n(.*?)```', page, re.DOTALL)
  lines = [line for block in blocks for line in block.splitlines()]
  [command] = [line for line in lines if 'quickstart' in line]
  assert '--config.env.name=guess:SPEC' in command
  done = subprocess.run(
      [
          sys.executable,
          'launch.py',
          f'--config={QUICKSTART}',  # the page's, with a smaller network
          f'--workdir={tmp_path}',
          '--config.env.name=guess:SPEC',
          '--config.env.options={}',
          '--config.eval.num_tasks=2',
      ],
      cwd=ROOT,
      capture_output=True,
      text=True,
      timeout=900,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert json.loads((tmp_path / 'summary.json').read_text())['steps'] > 0


@pytest.mark.parametrize(
    'name, words',
    [
        ('chess', 'known: textcraft, .*, or module:NAME'),
        ('nowhere:SPEC', "Cannot find environment 'nowhere:SPEC': No module"),
        ('guess:NOTHING', 'has no attribute'),
        ('guess:SPLITS', 'is a dict, not an EnvSpec'),
        (':SPEC', 'known: textcraft'),
    ],
)
def test_what_is_no_environment_is_refused_with_the_reason(name, words):
  with pytest.raises(ConfigError, match=words):
    envs.get(name)
